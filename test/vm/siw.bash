# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 # the variables are test/vm/run's
# Soft-iWARP for the machines: Debian's kernel comes without the module, its source has it.
#
#     $vm_cache/siw.ko          compiled on first use for the kernel that is in $vm_cache, with the
#                               headers of that kernel's package
#     $vm_cache/siw-made-from   what it was made from; another value means that it is made again
#
# Nothing is installed: the packages are unpacked below $vm_cache, and removed again.

# vm_siw: make sure that siw.ko is there, after vm_image.  Returns 1 and says why if it cannot be
# had.
vm_siw()
{
    (
        flock 9
        made_from=$(cat "$vm_dir/siw.bash" "$vm_cache/kernel" "$vm_cache/made-from" | sha256sum)
        if [[ -s $vm_cache/siw.ko &&
            $(cat "$vm_cache/siw-made-from" 2>/dev/null) == "$made_from" ]]; then
            exit 0
        fi
        read -r release version <"$vm_cache/kernel"
        rm -rf "$vm_cache/new"
        mkdir "$vm_cache/new"
        trap 'rm -rf "$vm_cache/new"' EXIT
        cd "$vm_cache/new" || exit 1
        echo "test/vm: fetching and compiling Debian's Soft-iWARP" >&2
        if ! vm_siw_make "$release" "$version" >log 2>&1; then
            tail -n 5 log | sed 's/^/    /' >&2
            echo "test/vm: Soft-iWARP (siw.ko) cannot be made for the kernel $release ($version)" >&2
            exit 1
        fi
        mv siw.ko "$vm_cache"
        echo "$made_from" >"$vm_cache/siw-made-from"
    ) 9>"$vm_cache/lock"
}

# vm_siw_make RELEASE VERSION: leave ./siw.ko here, compiled for this kernel.
vm_siw_make()
{
    local headers=linux-headers-$1 package series options=(-o Acquire::http::Timeout=20)
    local depends
    series=$(sed -nE 's/^([0-9]+\.[0-9]+).*/\1/p' <<<"$2")
    if ! apt-cache show "$headers=$2" >/dev/null; then
        mkdir -p lists/partial cache
        options+=(-o "Dir::State::Lists=$PWD/lists" -o "Dir::Cache=$PWD/cache")
        apt-get "${options[@]}" update || return 1
    fi
    apt-get "${options[@]}" download "$headers=$2" "linux-source-$series=$2" || return 1
    mapfile -t depends < <(dpkg-deb -f "$headers"_*.deb Depends |
        grep -oE 'linux-(headers|kbuild)-[^ ,]+')
    apt-get "${options[@]}" download "${depends[@]}" || return 1
    for package in linux-headers-*.deb linux-kbuild-*.deb; do
        dpkg-deb -x "$package" root || return 1
    done
    sed -i "s@/usr/src@$PWD/root&@" "root/usr/src/$headers/Makefile"
    dpkg-deb --fsys-tarfile linux-source-*.deb | tar -xO "./usr/src/linux-source-$series.tar.xz" |
        xz -dc |
        tar -x --strip-components=4 --wildcards '*/drivers/infiniband/sw/siw/*' || return 1
    make -C "root/usr/src/$headers" CC=gcc "M=$PWD/siw" CONFIG_RDMA_SIW=m modules || return 1
    strip -g siw/siw.ko -o siw.ko
}
