#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=60 quick=yes needs=zsh
#
# env.sh in bash, dash and zsh: sourced once or twice, beside what the user set, after the
# installation was moved, in a path with spaces; and where it cannot help, it says so and sets
# nothing.
. "$TM_SRC/test/lib/script.sh"

unset OMPI_MCA_mca_base_component_path PML_TM_PREFIX
mkdir "with space"
cp -R "$TM_PREFIX" "with space/moved"
cp -R "$TM_PREFIX" "with:colon"
env_sh=share/pml_tm/env.sh
moved="$PWD/with space/moved"

# value SHELL COMMANDS: the component path after the commands; everything else that they print
# shows, too.
value()
{
    # shellcheck disable=SC2016 # for that shell to expand
    "$1" -euc "$2"'; echo "$OMPI_MCA_mca_base_component_path"' 2>&1
}

# expect WANTED GOT
expect()
{
    [[ $1 == "$2" ]] || fail "expected \"$1\", got \"$2\""
}

for sh in bash dash zsh; do
    command -v $sh >/dev/null || fail "$sh is not installed"
    echo "== $sh"
    here=$(cd "$TM_PREFIX" && pwd -P)/lib/openmpi
    expect "$here:SYS_DEFAULT:USER_DEFAULT" "$(value $sh ". '$TM_PREFIX/$env_sh'")"
    expect "$here:SYS_DEFAULT:USER_DEFAULT" \
        "$(value $sh ". '$TM_PREFIX/$env_sh'; . '$TM_PREFIX/$env_sh'")"
    expect "$here:/x:SYS_DEFAULT" \
        "$(OMPI_MCA_mca_base_component_path=/x:SYS_DEFAULT value $sh ". '$TM_PREFIX/$env_sh'; . '$TM_PREFIX/$env_sh'")"
    $sh -euc ". '$TM_PREFIX/$env_sh'; . '$TM_PREFIX/$env_sh'; tm_info --help; echo :\$PATH:" >said
    require 'Usage: tm_info' said
    expect 1 "$(grep -o ":${here%/lib/openmpi}/bin:" said | wc -l)"
    # No helper of its own stays behind.
    expect "" \
        "$($sh -c ". '$TM_PREFIX/$env_sh'; set; typeset -f 2>/dev/null" | grep -v EXECUTION_STRING |
            grep _pml_tm || true)"

    # dash does not say where a sourced file is.
    if [[ $sh == dash ]]; then
        export PML_TM_PREFIX=$moved
    fi
    expect "$moved/lib/openmpi:SYS_DEFAULT:USER_DEFAULT" "$(value $sh ". '$moved/$env_sh'")"
    unset PML_TM_PREFIX

    (cd "with space" && $sh -c '. ./moved/share/pml_tm/env.sh') || fail "$sh: relative path"
    for bad in "$PWD/nowhere" "$PWD/with:colon"; do
        out=$(PML_TM_PREFIX=$bad $sh -c ". '$TM_PREFIX/$env_sh' || echo status \$?; echo path \${OMPI_MCA_mca_base_component_path-none}" 2>&1)
        for text in '^env.sh: ' '^status 1$' '^path none$'; do
            grep -q "$text" <<<"$out" || fail "$sh: $bad: $out"
        done
    done
done

# The moved copy works, with the library that was moved with it.
# shellcheck source=/dev/null
. "$moved/$env_sh"
program=$(tm_mpi_program hello)
tm_mpirun 2 "$program"
require "hello: errors=0"
require_quiet
ompi_info --param pml tm --level 9 | grep 'pml_tm_' >/dev/null ||
    fail "ompi_info does not see the moved component"
loaded=$(LD_DEBUG=libs ompi_info --param pml tm 2>&1 |
    grep -oE 'calling init: .*libmca_common_tm-[0-9.]*.so' | sort -u)
grep -qF "with space/moved/lib/openmpi/../libmca_common_tm-" <<<"$loaded" ||
    fail "the moved component uses another copy's library: $loaded"
