#!/busybox sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=dash
# The first process of a machine, in its initramfs: load the modules, lay a tmpfs over the host's
# root, go on there with main.bash.
#
# The kernel's command line says
#     vm.host=N           which of the machines this is
#     vm.dir=DIR          where, in the host's file system, test/vm/run has left what there is to do

say()
{
    echo "vm: $*" >/dev/console
}

die()
{
    say "$*"
    sleep 0.2
    poweroff -f
}

/busybox mkdir /bin
/busybox --install -s /bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys

while read -r module; do
    insmod "/modules/$module" || die "module $module does not load"
done </modules/order

host=
dir=
read -r line </proc/cmdline
for word in $line; do
    case $word in
        vm.host=*) host=${word#*=} ;;
        vm.dir=*) dir=${word#*=} ;;
    esac
done

options=trans=virtio,version=9p2000.L,msize=524288
mount -t 9p -o "ro,cache=loose,$options" host /host || die "the host's root does not mount"
mount -t tmpfs -o size=75%,mode=755 top /top
mkdir /top/upper /top/work
mount -t overlay -o lowerdir=/host,upperdir=/top/upper,workdir=/top/work root /root ||
    die "no overlay"
mount --move /dev /root/dev
mount --move /proc /root/proc
mount --move /sys /root/sys
exec chroot /root /bin/bash "$dir/main" "$host" "$dir" </root/dev/null >/root/dev/console 2>&1
