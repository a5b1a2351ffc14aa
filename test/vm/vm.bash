# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2030,SC2031 # a subshell keeps its settings to itself
# For test scripts that run in machines with an RDMA device in software.  They source it first, with
# a limit that leaves room for the boot:
#
#     # TEST: timeout=300 quick=no
#     . "$TM_SRC/test/vm/vm.bash"
#     vm_run hosts=2 'tm_mpirun 2 --host vm0,vm1 "$(tm_binary mpi/hello)"'
#     require "hello: errors=0"
#
# Programs are compiled before, here: tm_mpi_program hello >/dev/null.

# shellcheck source-path=SCRIPTDIR source=../lib/script.sh
. "$TM_SRC/test/lib/script.sh"

# vm_run [hosts=N] [rdma=siw] [links=2] [timeout=S] [cpus=N] [memory=MIB] [mtu=BYTES] COMMANDS
# Boot machines and run the commands, a bash script, on the first one, with what test/lib/script.sh
# and guest/lib.bash offer, in the directory $TM_WORK/vm, which all machines may write to and which
# stays.  The first command that fails ends it.  Shows the output and keeps it in $TM_WORK/out and
# $TM_WORK/err, for require and forbid.  Skips the test where there can be no machine, fails it if
# the commands fail.
vm_run()
{
    local options=(--timeout $((200 * ${TM_TEST_TIMEOUT_SCALE:-1}))) status=0
    while [[ $1 =~ ^(hosts|rdma|links|timeout|cpus|memory|mtu)=([0-9a-z]+)$ ]]; do
        options+=("--${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}")
        shift
    done
    mkdir -p "$TM_WORK/vm"
    (
        TM_WORK=$TM_WORK/vm
        export TM_SRC TM_BUILD TM_PREFIX TM_BIN TM_WORK TM_TEST_PML
        cd "$TM_WORK"
        # shellcheck disable=SC2016 # expanded in the machine
        exec "$TM_SRC/test/vm/run" "${options[@]}" --share "$TM_WORK" -- bash -c '
            . "$TM_SRC/test/lib/script.sh"
            . "$TM_SRC/test/vm/guest/lib.bash"
            eval "$1"' vm_run "$1"
    ) >"$TM_WORK/out" 2>"$TM_WORK/err" || status=$?
    cat "$TM_WORK/out"
    cat "$TM_WORK/err" >&2
    case $status in
        0) ;;
        77) skip_without "$([[ " ${options[*]} " == *" siw "* ]] && echo siw || echo vm)" \
            "$(tail -n 1 "$TM_WORK/err")" ;;
        124) fail "the machines were not done in time" ;;
        *) fail "exit status $status in the machine" ;;
    esac
}
