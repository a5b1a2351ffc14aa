#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=60
#
# The environment module does what env.sh does, and unloading it leaves nothing.
. "$TM_SRC/test/lib/script.sh"

version=$(sed -n 's/^Version: *//p' "$TM_SRC/packaging/pml-tm.spec")
# It is installed over an older installation, too, which had a file where its directory is.
old=$TM_WORK/old$TM_PREFIX/share/pml_tm/modulefiles
mkdir -p "$old"
touch "$old/pml_tm"
make -C "$TM_BUILD" install-data-local DESTDIR="$TM_WORK/old" || fail "make install"
[[ -f $old/pml_tm/$version ]] || fail "over an older installation: no $old/pml_tm/$version"

command -v modulecmd >/dev/null || [[ -x /usr/lib/x86_64-linux-gnu/modulecmd.tcl ]] ||
    skip "environment-modules is not installed"
# shellcheck source=/dev/null
. /usr/share/modules/init/bash
module use "$TM_PREFIX/share/pml_tm/modulefiles"
wanted=$OMPI_MCA_mca_base_component_path
unset OMPI_MCA_mca_base_component_path PMIX_MCA_mca_base_component_path
module load pml_tm
[[ $OMPI_MCA_mca_base_component_path == "$wanted" ]] ||
    fail "the path is $OMPI_MCA_mca_base_component_path, env.sh makes it $wanted"
ompi_info --param pml tm --level 9 | grep pml_tm_ >/dev/null ||
    fail "ompi_info does not see the component"
[[ $(module list 2>&1) == *"pml_tm/$version"* ]] || fail "its name has no version"
module unload pml_tm
[[ -z ${OMPI_MCA_mca_base_component_path-} ]] ||
    fail "unloaded, $OMPI_MCA_mca_base_component_path stays"

# A path of the user's stays.
export OMPI_MCA_mca_base_component_path=/of/the/user:SYS_DEFAULT
module load pml_tm
[[ $OMPI_MCA_mca_base_component_path == */openmpi:/of/the/user:SYS_DEFAULT ]] ||
    fail "before a path of the user's: $OMPI_MCA_mca_base_component_path"
module unload pml_tm
[[ $OMPI_MCA_mca_base_component_path == /of/the/user:SYS_DEFAULT ]] ||
    fail "of a path of the user's there is left: $OMPI_MCA_mca_base_component_path"
module unload pml_tm

# MANPATH is added to where there is one; a second pml_tm is refused.
[[ -z ${MANPATH-} ]] || fail "MANPATH is set without being there before"
export MANPATH=/of/the/user
module load pml_tm
[[ $MANPATH == "/of/the/user:$TM_PREFIX/share/man" ]] || fail "MANPATH is $MANPATH"
cp -R "$TM_PREFIX/share/pml_tm/modulefiles/pml_tm" other
mkdir more
mv other more/pml_tm
mv "more/pml_tm/$version" more/pml_tm/9.9
module use more
module load pml_tm/9.9 >/dev/null 2>&1 || true
[[ $(module list 2>&1) != *pml_tm/9.9*pml_tm/"$version"* &&
    $(module list 2>&1) != *pml_tm/"$version"*pml_tm/9.9* ]] || fail "two are loaded at once"
