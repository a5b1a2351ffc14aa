# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2054,SC2154 # qemu likes commas; the variables are test/vm/run's
# Start the machines, wait for the command's end, and clear everything away.  Wants the vm_*
# variables of test/vm/run.

# vm_run_command COMMAND [ARGUMENT...]: run it in the machines; exits with its status.
vm_run_command()
{
    local i ended=0 status=0
    vm_temp=$(mktemp -d "${TMPDIR:-/tmp}/tm-vm.XXXXXX")
    vm_pids=() vm_readers=()
    trap vm_clear EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    vm_orders "$@"

    mkfifo "$vm_temp/out" "$vm_temp/err"
    cat "$vm_temp/out" &
    vm_readers+=($!)
    cat "$vm_temp/err" >&2 &
    vm_readers+=($!)
    for ((i = 0; i < vm_hosts; i++)); do
        vm_boot "$i"
    done
    sleep "$vm_timeout" &
    vm_alarm=$!
    wait -n -p ended "${vm_pids[@]}" "$vm_alarm" || status=$?
    vm_outcome "$ended" "$status"
}

# vm_outcome PID STATUS: this process was the first to end; exit with what it means.
vm_outcome()
{
    local outcome
    outcome=$(cat "$vm_temp/status" 2>/dev/null || true)
    if [[ $outcome =~ ^[0-9]+$ && $1 == "${vm_pids[0]}" ]]; then
        wait "${vm_readers[@]}"
        if [[ $vm_console == yes ]]; then
            vm_show_consoles 100000
        fi
        vm_complaints
        exit "$outcome"
    fi
    # What was written until now is in the pipes; the readers end with the last writer.
    vm_stop
    wait "${vm_readers[@]}" 2>/dev/null || true
    vm_show_consoles 40
    if [[ $1 == "$vm_alarm" ]]; then
        echo "test/vm/run: not done after $vm_timeout seconds: switched off (--timeout)" >&2
        exit 124
    fi
    echo "test/vm/run: a machine ended before the command did (qemu: exit status $2); its console is above" >&2
    exit 125
}

# vm_orders COMMAND [ARGUMENT...]: write what the machines are to do, for guest/main.bash.
vm_orders()
{
    local name
    cp "$vm_dir/guest/main.bash" "$vm_temp/main"
    echo "hosts=$vm_hosts rdma=$vm_rdma links=$vm_links siw=${vm_cache@Q}/siw.ko mtu=$vm_mtu share=${vm_share@Q} agent=${vm_dir@Q}/guest/agent" >"$vm_temp/settings"
    {
        for name in $(compgen -e); do
            echo "export $name=${!name@Q}"
        done
        echo "cd -- ${PWD@Q}"
    } >"$vm_temp/environment"
    echo "exec ${*@Q}" >"$vm_temp/command"
}

# vm_boot HOST: start the machine of this number; its pid goes into vm_pids.
vm_boot()
{
    local qemu other=$((1 - $1)) link
    qemu=(qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot
        -accel tcg,thread=multi
        -smp "$vm_cpus" -m "$vm_memory" -kernel "$vm_cache/vmlinux" -initrd "$vm_cache/initramfs"
        -append "console=ttyS0 quiet loglevel=5 lsm= cryptomgr.notests no_timer_check init_on_alloc=0 nowatchdog panic=-1 oops=panic mitigations=off norandmaps vm.host=$1 vm.dir=$vm_temp"
        -serial "file:$vm_temp/console.$1"
        -fsdev "local,id=root,path=/,security_model=none,multidevs=remap,readonly=on"
        -device virtio-9p-pci,fsdev=root,mount_tag=host)
    if [[ -n $vm_share ]]; then
        qemu+=(-fsdev "local,id=share,path=${vm_share//,/,,},security_model=none,multidevs=remap"
            -device virtio-9p-pci,fsdev=share,mount_tag=share)
    fi
    for ((link = 0; link < vm_links; link++)); do
        if ((vm_hosts == 1)); then
            qemu+=(-netdev "hubport,id=net$link,hubid=$link")
        else
            qemu+=(-netdev
                "dgram,id=net$link,local.type=unix,local.path=$vm_temp/net.$link.$1,remote.type=unix,remote.path=$vm_temp/net.$link.$other")
        fi
        qemu+=(-device
            "virtio-net-pci,netdev=net$link,host_mtu=$vm_mtu,mac=52:54:00:4d:0$link:0$1,romfile=")
    done
    if (($1 == 0)); then
        qemu+=(-device virtio-serial-pci
            -chardev "file,id=out,path=$vm_temp/out" -device virtserialport,chardev=out,name=out
            -chardev "file,id=err,path=$vm_temp/err" -device virtserialport,chardev=err,name=err
            -chardev "file,id=status,path=$vm_temp/status"
            -device virtserialport,chardev=status,name=status)
    fi
    "${qemu[@]}" </dev/null >"$vm_temp/qemu.$1" 2>&1 &
    vm_pids+=($!)
}

# vm_stop: switch all machines off.
vm_stop()
{
    kill -KILL "${vm_pids[@]}" "${vm_alarm-}" 2>/dev/null || true
    wait "${vm_pids[@]}" "${vm_alarm-}" 2>/dev/null || true
    # A reader whose pipe no machine has opened waits for one.
    : <>"$vm_temp/out" <>"$vm_temp/err"
}

vm_clear()
{
    vm_stop
    kill "${vm_readers[@]}" 2>/dev/null || true
    rm -rf "$vm_temp"
}

# vm_show_consoles LINES: the last lines of each machine's console, and what its qemu said.
vm_show_consoles()
{
    local i
    for ((i = 0; i < vm_hosts; i++)); do
        echo "--- console of vm$i:"
        tail -n "$1" "$vm_temp/console.$i" | tr -d '\r'
        tail -n "$1" "$vm_temp/qemu.$i"
    done >&2
}

# vm_complaints: say so when the kernel met a fault of its own, which the command need not have
# noticed.
vm_complaints()
{
    local i
    for ((i = 0; i < vm_hosts; i++)); do
        if grep -aqE 'BUG:|WARNING: |Oops|Call Trace' "$vm_temp/console.$i"; then
            echo "test/vm/run: the kernel of vm$i complains:" >&2
            tr -d '\r' <"$vm_temp/console.$i" | grep -aE -A 20 'BUG:|WARNING: |Oops|Call Trace' |
                sed -n 1,40p >&2
        fi
    done
}
