# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034 # the variables are for the caller
# How MPI programs are started here.  For test/run, its scripts and quickstart.

# tm_mpi_environment: an environment in which only what the caller sets decides, also as root and in
# a container.
tm_mpi_environment()
{
    local name
    for name in $(compgen -e); do
        case $name in
            OMPI_MCA_* | PMIX_* | PRTE_*) unset "$name" ;;
        esac
    done
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    # Open MPI 5.0 and later: as many processes as a test wants, also those it spawns.  PRRTE 5 has
    # another name for it, and warns of the old one.
    if [[ $(prte_info --version 2>/dev/null) == *"(PRRTE) "[5-9].* ]]; then
        export PRTE_MCA_mapby=:oversubscribe
    else
        export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    fi
}

# tm_mpirun_flags NP: sets the array of that name to the options that NP ranks need on this machine.
# Ranks are not bound (but to TM_BIND_TO): other work may go on here, and a container may forbid it.
# Where they are not alone (TM_TEST_BESIDE=yes), they yield.
tm_mpirun_flags()
{
    tm_mpirun_flags=(-np "$1" --bind-to "${TM_BIND_TO:-none}")
    if (($1 > 2 || $1 > $(nproc))) || [[ ${TM_TEST_BESIDE-} == yes ]]; then
        tm_mpirun_flags+=(--oversubscribe --mca mpi_yield_when_idle 1)
    fi
}

# What Open MPI prints when something is wrong: an extended regular expression.
tm_noise='WARNING|mca_base_component_repository_open|[Ss]orry!|^-{30,}$|PML .* cannot be selected|Open MPI has detected'

# tm_crashed_upstream OUT ERR: Open MPI 4.1's orte_finalize() calls, once in hundreds of runs, into
# a library that it has unloaded: after the program has said that all is well, with nothing of pml
# tm on the stack.  Where an event thread of it or of PMIx does, there is little or nothing on it.
tm_crashed_upstream()
{
    grep -aqE 'errors=0' "$1" && ! grep -aqE 'errors=[1-9]' "$1" && ! grep -aq mca_pml_tm "$2" &&
        { grep -aq 'orte_finalize+0x' "$2" || { grep -aq 'Signal: Segmentation' "$2" &&
            ! grep -aE '\] \[ ?[0-9]+\] ' "$2" |
            grep -avE '/lib(c|pmix|event_core[-0-9.]*)\.so' >/dev/null; }; }
}

# tm_mpirun_crashed ERR: mpirun itself has crashed there, when the job was over.
tm_mpirun_crashed()
{
    grep -aq 'orte_finalize+0x' "$1" && grep -aqE '\] mpirun\(\+0x' "$1" &&
        (($(grep -ac 'Signal: ' "$1") == 1))
}

# tm_await_mpirun PID SECONDS: until this mpirun, a child, has ended, or hangs; then it and its
# ranks are killed.  Returns its status; 125: all of its ranks had ended for 10 s, so it hung
# itself, in PMIx_server_finalize(); 124: the ranks hang.
tm_await_mpirun()
{
    local pid=$1 i ended=0 states rc=0
    for ((i = 0; i < 5 * $2 && ended < 50; i++)); do
        kill -0 "$pid" 2>/dev/null || break
        states=$(ps -o stat= --ppid "$pid" || true)
        if [[ -n $states ]] && ! grep -qv '^Z' <<<"$states"; then
            ended=$((ended + 1))
        fi
        sleep 0.2
    done
    if kill -0 "$pid" 2>/dev/null; then
        rc=$((ended < 50 ? 124 : 125))
        pkill -KILL -P "$pid" || true
        kill -KILL "$pid" || true
        wait "$pid" || true
        return "$rc"
    fi
    wait "$pid" || rc=$?
    return "$rc"
}

# tm_lost_message ERR: mpirun of Open MPI 4.1 says that it has lost what a process told the user.
tm_lost_message()
{
    grep -aqE 'Data unpack (would read past end of buffer|had inadequate space) in file .*show_help' \
        "$1"
}

# tm_seed N: a number for random traffic, of this run and of N.
tm_seed()
{
    echo $((${TM_TEST_RANDOM:-0} * 1000 + $1))
}

# tm_seconds N: so many of random traffic, in a short run a quarter.
tm_seconds()
{
    [[ ${TM_TEST_SHORT-} != yes ]] || set -- $((($1 + 3) / 4))
    echo "$1"
}

# tm_turn N: in a short run a number below N, by turns, in another order than that of the groups of
# tests; else nothing.
tm_turn()
{
    local sum
    [[ ${TM_TEST_SHORT-} == yes ]] || return 0
    sum=$(cksum <<<"turn ${TM_TEST_CHOICE-}")
    echo $((${sum%% *} % $1))
}

# tm_is_required WHAT: does TM_REQUIRE forbid that this is missing?
tm_is_required()
{
    [[ ,${TM_REQUIRE-}, == *",$1,"* ]]
}
