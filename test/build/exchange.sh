#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=900 short=no
#
# Two releases of Open MPI of the same series, TM_OMPI_EXCHANGE=PREFIX:PREFIX: each loads the pml_tm
# that was built for the other.  Where their structures are the same (doc/versions.md) programs run,
# else it is refused, with a message that names both.  Both need the headers of components.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/lib/build.sh"
. "$TM_SRC/test/build/openmpi.bash"
[[ ${TM_OMPI_EXCHANGE-} == /*:/* ]] ||
    skip "TM_OMPI_EXCHANGE does not name two installations of Open MPI, PREFIX:PREFIX"
IFS=: read -r one other <<<"$TM_OMPI_EXCHANGE"

# release PREFIX
release()
{
    "$1/bin/ompi_info" --parsable | sed -n 's/^ompi:version:full://p'
}

# structures RELEASE: the first release that has its structures.
structures()
{
    case $1 in
        5.0.[0-6] | 5.0.[0-6][!0-9]*) echo 5.0.0 ;;
        5.0.*) echo 5.0.7 ;;
        *) echo "${1%.*}" ;;
    esac
}

one_release=$(release "$one") other_release=$(release "$other")
[[ ${one_release%.*} == "${other_release%.*}" ]] ||
    fail "$one_release and $other_release are of two series"

# load PREFIX RELEASE BUILT BUILT-FOR: the Open MPI there loads the pml_tm in BUILT.
load()
(
    echo "== $2 loads a build for $4"
    use_openmpi "$1" "$3"
    if [[ $(structures "$2") == "$(structures "$4")" ]]; then
        run_programs "$1"
    else
        compile_for "$1" hello
        expect_refused ./hello "$4" "$2"
    fi
)
build_for "$one" "$TM_WORK/one"
build_for "$other" "$TM_WORK/other"
load "$one" "$one_release" "$TM_WORK/other" "$other_release"
load "$other" "$other_release" "$TM_WORK/one" "$one_release"
