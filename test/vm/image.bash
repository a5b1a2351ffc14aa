# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 # the variables are test/vm/run's
# What a machine boots: Debian's kernel and a small initramfs, made below $vm_cache on first use and
# kept there.
#
#     vmlinux       the kernel, unpacked here once: under emulation it would take longer to unpack
#                   itself than to boot
#     initramfs     busybox, the modules that vm_modules needs in the order in which they load, and
#                   guest/init.sh as /init
#     kernel        its release and the version of its package, for siw.bash
#     made-from     what they were made from; another value means that they are made again
#
# Nothing is installed: the package is unpacked below $vm_cache, and all but these files is removed
# again.

# Modules are named as the kernel source names them; those that they depend on come along.
vm_modules=(
    virtio_pci 9pnet_virtio 9p overlay virtio_console virtio_net crc32_generic crc32c_generic
    libcrc32c rdma_rxe ib_uverbs rdma_ucm
    sch_netem
)

# vm_missing: print what a machine needs and this host does not have, with the Debian packages.
vm_missing()
{
    local pair
    [[ $(uname -m) == x86_64 ]] || echo "an x86_64 host"
    for pair in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static dpkg-deb:dpkg \
        apt-get:apt rdma:iproute2 ibv_devinfo:ibverbs-utils xz:xz-utils; do
        command -v "${pair%%:*}" >/dev/null || echo "${pair%%:*} (package ${pair#*:})"
    done
    if command -v busybox >/dev/null && ldd "$(command -v busybox)" >/dev/null 2>&1; then
        echo "a busybox without libraries (package busybox-static)"
    fi
}

# vm_image: make sure that the kernel and the initramfs are there.  Returns 1 and says why if they
# cannot be had.
vm_image()
{
    mkdir -p "$vm_cache"
    (
        flock 9
        made_from=$(vm_made_from)
        if [[ -s $vm_cache/vmlinux && -s $vm_cache/initramfs &&
            $(cat "$vm_cache/made-from" 2>/dev/null) == "$made_from" ]]; then
            exit 0
        fi
        rm -rf "$vm_cache/made-from" "$vm_cache/new"
        mkdir "$vm_cache/new"
        trap 'rm -rf "$vm_cache/new"' EXIT
        cd "$vm_cache/new" || exit 1
        vm_download && vm_unpack_kernel && vm_initramfs || exit 1
        mv vmlinux initramfs kernel "$vm_cache"
        echo "$made_from" >"$vm_cache/made-from"
    ) 9>"$vm_cache/lock"
}

vm_made_from()
{
    cat "$vm_dir/image.bash" "$vm_dir/guest/init.sh" "$(command -v busybox)" | sha256sum
}

# vm_download: fetch the package of the kernel that linux-image-amd64 stands for, and unpack it into
# ./root.  The host's lists of packages may be missing or name one that is gone from the archive;
# then fresh ones are fetched, for here alone.
vm_download()
{
    local short=(-o Acquire::http::Timeout=20)
    local lists=("${short[@]}" -o "Dir::State::Lists=$PWD/lists" -o "Dir::Cache=$PWD/cache")
    echo "test/vm: fetching Debian's kernel" >&2
    if ! vm_download_with "${short[@]}" >log 2>&1; then
        mkdir -p lists/partial cache
        if ! { apt-get "${lists[@]}" update && vm_download_with "${lists[@]}"; } >>log 2>&1; then
            tail -n 5 log | sed 's/^/    /' >&2
            echo "test/vm: Debian's kernel (linux-image-amd64) cannot be fetched with apt-get" >&2
            return 1
        fi
    fi
    dpkg-deb -x ./*.deb root
    echo "$(basename root/lib/modules/*) $(dpkg-deb -f ./*.deb Version)" >kernel
}

# vm_download_with [APT-OPTION...]
vm_download_with()
{
    local package
    package=$(apt-cache "$@" depends linux-image-amd64 |
        sed -nE 's/^ *Depends: (linux-image-[0-9].*)$/\1/p' | sed -n 1p)
    [[ -n $package ]] && apt-get "$@" download "$package-unsigned"
}

# vm_unpack_kernel: make ./vmlinux, an ELF file that qemu starts by its PVH entry, from what the
# bzImage holds. (Linux, Documentation/x86/boot.rst: setup_sects, payload_offset and
# payload_length.)
vm_unpack_kernel()
{
    local image sectors offset length
    image=$(echo root/boot/vmlinuz-*)
    sectors=$(vm_field "$image" 0x1f1 1)
    offset=$(vm_field "$image" 0x248 4)
    length=$(vm_field "$image" 0x24c 4)
    # The last four bytes of the payload are its size, no part of the compressed stream.
    dd if="$image" of=payload bs=1M iflag=skip_bytes,count_bytes status=none \
        skip=$(((sectors + 1) * 512 + offset)) count=$((length - 4))
    if ! { xz -dc <payload || zstd -dcq <payload || gzip -dc <payload; } >vmlinux 2>/dev/null ||
        [[ $(head -c 4 vmlinux) != $'\x7fELF' ]]; then
        echo "test/vm: $image is compressed in a way not known here (xz, zstd, gzip)" >&2
        return 1
    fi
}

# vm_field FILE OFFSET BYTES: print this little-endian number.
vm_field()
{
    od -An -v -tu"$3" -j $(($2)) -N "$3" "$1" | tr -d ' '
}

# vm_initramfs: make ./initramfs from ./root and what is in guest/.
vm_initramfs()
{
    local release
    release=$(basename root/lib/modules/*)
    busybox depmod -b root "$release"
    mkdir -p tree/{dev,proc,sys,modules,host,top,root}
    cp "$(command -v busybox)" tree/busybox
    cp "$vm_dir/guest/init.sh" tree/init
    chmod +x tree/init
    vm_load_order "root/lib/modules/$release/modules.dep" "${vm_modules[@]}" >order || return 1
    sed 's@.*/@@' order >tree/modules/order
    sed "s@^@root/lib/modules/$release/@" order | xargs cp -t tree/modules
    (cd tree && find . | busybox cpio -o -H newc) >initramfs 2>/dev/null
}

# vm_load_order FILE MODULE...: print the files of these modules, each after those that it depends
# on.
vm_load_order()
{
    awk '
        function load(file, i, n, list) {
            if (done[file]++)
                return
            n = split(needs[file], list, " ")
            for (i = 1; i <= n; i++)
                load(list[i])
            print file
        }
        FNR == NR {
            file = $1
            sub(/:$/, "", file)
            name = file
            gsub(/.*\/|\.ko.*/, "", name)
            path[name] = file
            $1 = ""
            needs[file] = $0
            next
        }
        !($1 in path) {
            print "test/vm: the kernel has no module " $1 > "/dev/stderr"
            exit 1
        }
        { load(path[$1]) }' "$1" <(shift && printf '%s\n' "$@")
}
