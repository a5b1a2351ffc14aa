# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For the tests with real programs.  They run under test/run, or by hand with the installation's
# env.sh sourced, then in a scratch directory of their own.  Source it with TM_SRC set.

if [[ -z ${TM_WORK-} ]]; then
    TM_WORK=$(mktemp -d)
    trap 'cd / && rm -rf "$TM_WORK"' EXIT
fi
: "${TM_TEST_PML:=tm}"
# shellcheck source-path=SCRIPTDIR source=../lib/script.sh
. "$TM_SRC/test/lib/script.sh"
cd "$TM_WORK"

# app_need PROGRAM PACKAGE
app_need()
{
    command -v "$1" >/dev/null || skip "$1 (package $2) is not installed"
}

# app_over PML NP [MPIRUN-OPTION...] PROGRAM [ARGUMENT...]: tm_mpirun over this PML; the program
# must succeed.
app_over()
{
    local TM_TEST_PML=$1
    shift
    tm_mpirun "$@" || fail "over $TM_TEST_PML: exit status $?: $*"
}
