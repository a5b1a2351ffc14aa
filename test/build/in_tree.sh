#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=2400 short=no cores=2 needs=dpkg-source,pkg-config
#
# pml_tm as a part of Open MPI: the source package of the installed Open MPI, with this tree put in
# by packaging/into_openmpi, builds, installs, and runs a program over pml tm and over btl_fabric.
# What the two do not need is left out, as it takes time.  Without them it is an Open MPI that was
# configured --without-ucx: pml_tm is built for it by itself, too.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/lib/build.sh"
. "$TM_SRC/test/build/openmpi.bash"

here=$TM_SRC/build/openmpi-$TM_OMPI_SERIES
mkdir -p "$here"
cd "$here"
rm -rf source build inst

# step NAME COMMAND...: run it; what it prints goes to the file NAME.log.
step()
{
    local log=$here/$1.log
    "${@:2}" >"$log" 2>&1 </dev/null && return
    tail -n 40 "$log"
    fail "${*:2} (all that it said is in $log)"
}

openmpi_source "$here"
step unpack dpkg-source -x archives/openmpi_"$TM_OMPI_SERIES".*.dsc source
step copy "$TM_SRC/packaging/into_openmpi" source

left_out=(btl-uct btl-usnic coll-adapt coll-han coll-monitoring common-monitoring common-ompio fbtl
    fcoll fs io-ompio mtl osc-monitoring pml-monitoring sharedfp topo-treematch vprotocol)
if [[ $TM_OMPI_SERIES == 4.1 ]]; then
    autogen=(--no-oshmem --exclude "io-romio321,event-libevent2022,pmix-pmix3x")
    left_out+=(btl-openib common-verbs crcp filem snapc sstore)
    options=(--with-pmix="$(pkg-config --variable=prefix pmix)" --disable-io-romio
        --disable-libompitrace --without-psm)
else
    autogen=(--exclude io-romio341)
    options=(--with-pmix=external)
fi
step autogen env -C source ./autogen.pl --force "${autogen[@]}"
mkdir build
step configure env -C build ../source/configure --prefix="$here/inst" CFLAGS=-O1 \
    --disable-dependency-tracking --disable-mpi-fortran --disable-oshmem --disable-io-ompio \
    --with-devel-headers --without-cuda --without-ofi --without-psm2 --without-slurm --without-ucx \
    --with-hwloc=external --with-libevent=external "${options[@]}" \
    --enable-mca-no-build="$(IFS=, && echo "${left_out[*]}")"
step make make -C build -j"$(nproc)"
step install make -C build install

# What runs from here on is the Open MPI built here, with its own components alone.
# shellcheck disable=SC2031 # the libraries' subshells keep their settings to themselves
PATH=$here/inst/bin:$PATH
export OMPI_MCA_mca_base_component_path=SYS_DEFAULT
[[ $(command -v mpirun) == "$here/inst/bin/mpirun" ]] || fail "no mpirun was installed"
ompi_info --all >info
require 'MCA pml: tm (' info
require 'MCA btl: fabric (' info
commit=$(sed -n 's/^.*pml_tm_commit" (current value: "\([^"]*\)".*/\1/p' info)
[[ $commit == "$(cat source/ompi/mca/pml/tm/.commit)" ]] ||
    fail "ompi_info says that pml tm was built from commit $commit"

mpicc -std=gnu11 -D_GNU_SOURCE -I"$TM_SRC/test/mpi" -I"$TM_SRC/common" -o hello \
    "$TM_SRC/test/mpi/hello.c"
for np in 1 2 4; do
    tm_mpirun "$np" ./hello
    require 'hello: errors=0'
    require_quiet
done
TM_TEST_PML=ob1
for TM_TEST_BTL in fabric,self fabric; do
    tm_mpirun 2 ./hello
    require 'hello: errors=0'
    require_quiet
done

find "$here/inst/lib" '(' -name 'mca_pml_tm.*' -o -name 'mca_btl_fabric.*' -o \
    -name 'libmca_common_tm*' ')' -delete
cd "$TM_WORK"
unset TM_TEST_BTL
TM_TEST_PML=tm
run_without_ucx "$here/inst"
cd "$here"
rm -rf source build inst
