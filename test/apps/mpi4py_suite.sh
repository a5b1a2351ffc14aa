#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=1200 quick=no short=turns
#
# mpi4py's own tests on 1, 2 and 4 ranks over this PML. Where one fails, they are run over ob1, too:
# whatever passes there must pass.
: "${TM_SRC:=$(cd "$(dirname "$0")/../.." && pwd)}"
# shellcheck source-path=SCRIPTDIR source=app.bash
. "$TM_SRC/test/apps/app.bash"
# shellcheck source-path=SCRIPTDIR source=mpi4py_suite.bash
. "$TM_SRC/test/apps/mpi4py_suite.bash"

# suite PML NP: run it; results.PML.NP gets a line "test ... result" for each test of each rank.
suite()
{
    local pml=$1 np=$2 rc=0 words
    suite_words "$np"
    rm -f stderr.*
    tm_mpirun_flags "$np"
    # each rank's in a file of its own, by the shell, since mpirun's option differs between versions
    # shellcheck disable=SC2016
    OMPI_MCA_mpi_yield_when_idle=1 timeout "$((300 * ${TM_TEST_TIMEOUT_SCALE:-1}))" mpirun \
        "${tm_mpirun_flags[@]}" --mca pml "$pml" \
        sh -c 'exec "$@" 2>"stderr.$OMPI_COMM_WORLD_RANK"' sh "${words[@]}" \
        </dev/null >"log.$pml.$np" 2>&1 || rc=$?
    suite_results stderr.* >"results.$pml.$np"
    echo "pml $pml, $np ranks: exit status $rc, $(grep -c ' ok$' "results.$pml.$np") ok," \
        "$(grep -c ' skipped$' "results.$pml.$np") skipped," \
        "$(grep -cE ' (FAIL|ERROR)$' "results.$pml.$np") failed, $SECONDS s"
    ((rc != 124)) || grep -a '\.\.\.' stderr.0 | tail -n 1
    return "$rc"
}

suite_fetch
failed=
for np in 1 2 4; do
    rc=0
    suite "$TM_TEST_PML" "$np" || rc=$?
    (($(grep -c ' ok$' "results.$TM_TEST_PML.$np") >= 1000 * np)) ||
        fail "with $np ranks only a part of the tests has run"
    if ((rc == 0)) && ! grep -qE ' (FAIL|ERROR)$' "results.$TM_TEST_PML.$np"; then
        continue
    fi
    suite ob1 "$np" || true
    # What is only over this PML (>), or only over ob1 (<).
    diff "results.ob1.$np" "results.$TM_TEST_PML.$np" >"diff.$np" || true
    cat "diff.$np"
    if ((rc != 0)) || grep -qE '^> .* (FAIL|ERROR)$|^< .* ok$' "diff.$np"; then
        failed+=" $np"
    fi
done
[[ -z $failed ]] || fail "not as over ob1, or not done, with these numbers of ranks:$failed"
