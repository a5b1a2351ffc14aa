#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=1200 quick=no short=turns
#
# mpi4py's own tests, from the source of the version that is installed, on 1, 2 and 4 ranks over
# this PML. Where one fails, they are run over ob1, too: whatever passes there must pass. The source
# is that of $TM_MPI4PY_SOURCE (a directory with test/runtests.py), or apt's, which needs no more
# than a mirror that has sources.
: "${TM_SRC:=$(cd "$(dirname "$0")/../.." && pwd)}"
# shellcheck source-path=SCRIPTDIR source=app.bash
. "$TM_SRC/test/apps/app.bash"
python=/usr/bin/python3
[[ -x $python ]] || skip "$python is not installed"
"$python" -c 'import mpi4py' 2>/dev/null || skip 'mpi4py (package python3-mpi4py) is not installed'

# Left out, over every PML:
#   test_spawn    children hang in PMIx_Init now and then, and one test spawns more processes than fit a small machine (mpi/dynamic
#                 has spawn)
#   test_doc      reads the documentation, not MPI
# And with more than one rank:
#   test_util_dtlib   the same on each rank, about types only: a minute of processor time
left_out=(test_spawn test_doc)

# fetch: the source of the package that is installed, in ./source.
fetch()
{
    local version apt
    if [[ -n ${TM_MPI4PY_SOURCE-} ]]; then
        ln -s "$TM_MPI4PY_SOURCE" source
        return
    fi
    command -v apt-get >/dev/null || skip 'no apt-get to fetch the source of mpi4py with; TM_MPI4PY_SOURCE may name it'
    version=$(dpkg-query -W -f='${source:Version}' python3-mpi4py 2>/dev/null) || skip 'python3-mpi4py is not a package here'
    # shellcheck source=/dev/null
    . /etc/os-release
    mkdir -p apt/parts apt/lists/partial apt/cache
    cat >apt/parts/source.sources <<END
Types: deb-src
URIs: http://deb.debian.org/debian
Suites: $VERSION_CODENAME
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END
    apt=(-q -o Dir::Etc::sourcelist=/nonexistent -o "Dir::Etc::sourceparts=$PWD/apt/parts" -o "Dir::State::Lists=$PWD/apt/lists"
        -o "Dir::Cache=$PWD/apt/cache" -o Acquire::http::Timeout=30 -o Acquire::Retries=0)
    if ! timeout 120 apt-get "${apt[@]}" update >apt.log 2>&1 ||
        ! timeout 120 apt-get "${apt[@]}" source --download-only "mpi4py=$version" >>apt.log 2>&1; then
        grep '^E:' apt.log || true
        skip "apt has no source of mpi4py $version here; TM_MPI4PY_SOURCE may name a directory with it"
    fi
    mkdir source
    tar -xf mpi4py_*.orig.tar.* -C source --strip-components=1
}

# suite PML NP: run it; results.PML.NP gets a line "test ... result" for each test of each rank.
suite()
{
    local pml=$1 np=$2 exclude=() name rc=0
    for name in "${left_out[@]}"; do
        exclude+=(-e "$name")
    done
    if ((np > 1)); then
        exclude+=(-e test_util_dtlib)
    fi
    rm -rf output
    tm_mpirun_flags "$np"
    OMPI_MCA_mpi_yield_when_idle=1 timeout "$((300 * ${TM_TEST_TIMEOUT_SCALE:-1}))" mpirun "${tm_mpirun_flags[@]}" --mca pml "$pml" --output-filename "$PWD/output" \
        "$python" "$PWD/source/test/runtests.py" --no-builddir -v "${exclude[@]}" </dev/null >"log.$pml.$np" 2>&1 || rc=$?
    # A test's name and its result may stand on two lines, and what a test prints between them.
    cat output/1/rank.*/stderr | "$python" -c '
import re, sys
name = None
for line in sys.stdin:
    m = re.match(r"(test\w+ \([\w.]+\))", line)
    name = m.group(1) if m else name
    m = re.search(r"(?:^|\.\.\. ?)(ok|FAIL|ERROR|skipped .*|expected failure)\s*$", line)
    if m and name:
        print(name, "...", m.group(1).split(" ")[0])
        name = None
' | sort >"results.$pml.$np"
    echo "pml $pml, $np ranks: exit status $rc, $(grep -c ' ok$' "results.$pml.$np") ok," \
        "$(grep -c ' skipped$' "results.$pml.$np") skipped, $(grep -cE ' (FAIL|ERROR)$' "results.$pml.$np") failed, $SECONDS s"
    ((rc != 124)) || grep -a '\.\.\.' output/1/rank.0/stderr | tail -n 1
    return "$rc"
}

fetch
[[ -r source/test/runtests.py ]] || fail 'the source of mpi4py has no test/runtests.py'
failed=
for np in 1 2 4; do
    rc=0
    suite "$TM_TEST_PML" "$np" || rc=$?
    (($(grep -c ' ok$' "results.$TM_TEST_PML.$np") >= 1000 * np)) || fail "with $np ranks only a part of the tests has run"
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
