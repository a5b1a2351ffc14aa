# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For scripts that run test/mpi/ft.c; sourced after script.sh.

# ft_run COMMAND...: in the files out and err; done when it ends, 3 seconds after it has said its
# result, or after 40.  What comes after that is not judged: with a process killed, the runtime's
# fence in MPI_Finalize does not end now and then, over every PML.
ft_run()
{
    local i left=400 pid
    "$@" >out 2>err </dev/null &
    pid=$!
    for ((i = 0; i < left; i++)); do
        kill -0 "$pid" 2>/dev/null || break
        if ((left == 400)) && grep -aq 'ft: errors=' out; then
            left=$((i + 30))
        fi
        sleep 0.1
    done
    kill -TERM "$pid" 2>/dev/null || true
    for ((i = 0; i < 50; i++)); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" || true
}

# ft_check NP NAME=VALUE WHAT...
ft_check()
{
    local np=$1 setting=$2 what ft
    shift 2
    ft=$(tm_mpi_program ft)
    for what in "$@"; do
        echo "== $what, $np ranks, $setting"
        ft_run env "$setting" TMDEV_FABRIC=$$.$RANDOM mpirun -np "$np" --bind-to none \
            --with-ft ulfm --mca pml "$TM_TEST_PML" --mca mpi_yield_when_idle 1 "$ft" "$what"
        cat out err
        require 'ft: errors=0' out
        forbid 'Segmentation|Signal: |lost a process|tmdev: ' err
    done
}
