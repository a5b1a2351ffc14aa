# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For commands that run in a machine.

# on HOST COMMAND...: run it on that machine, as ssh would, with this one's environment at the start
# of test/vm/run.
on()
{
    "$VM_AGENT" "$@"
}

# listens HOST PORT: wait until a TCP server is there, without connecting to it.  Returns 1 if it is
# not after a while.
listens()
{
    local line
    line=$(printf ' [0-9A-F]*:%04X [0-9A-F]*:0000 0A ' "$2")
    # shellcheck disable=SC2016 # expanded there
    on "$1" "for ((i = 0; i < 300; i++)); do grep -q '$line' /proc/net/tcp /proc/net/tcp6 && exit 0; sleep 0.1; done; exit 1"
}

# ibv_pingpong_with HOST [OPTION...]: ibv_rc_pingpong between this machine and that one, which may
# be this one, too.
ibv_pingpong_with()
{
    local host=$1 server status=0
    shift
    on "$host" "ibv_rc_pingpong -d rxe0 -g 1 $*" >"$TM_WORK/pingpong.server" &
    server=$!
    listens "$host" 18515 || status=1
    ((status != 0)) || ibv_rc_pingpong -d rxe0 -g 1 "$@" "$host" || status=1
    wait "$server" || status=1
    ((status == 0)) || cat "$TM_WORK/pingpong.server"
    return $status
}
