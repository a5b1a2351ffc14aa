# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For the tests that run MPI programs under valgrind: no error and no lost memory with pml_tm in its
# stack. What others do is theirs.
# shellcheck source-path=SCRIPTDIR source=../lib/script.sh
. "$TM_SRC/test/lib/script.sh"

# ours FILE...: print the reports that name one of our source files.
ours()
{
    sed -E 's/^==[0-9]+== ?//' "$@" |
        awk -v RS= \
            '/\((pml_tm[a-z_]*|fab[a-z_]*|shm_[a-z_]*|verbs_[a-z_]*|self_domain|match|offload)\.[ch]:[0-9]+\)/ { print $0 "\n" }'
}

# check PROGRAM NP [ARGUMENT...]
check()
{
    local program=$1 np=$2 compiled
    shift 2
    echo "== $program, $np ranks, $*"
    compiled=$(tm_mpi_program "$program")
    rm -f log.*
    tm_mpirun "$np" valgrind -q --suppressions="$TM_SRC/test/mpi/valgrind.supp" --leak-check=full \
        --show-leak-kinds=definite --log-file="$TM_WORK/log.%p" "$compiled" "$@" ||
        fail "$program: exit status $?"
    require "errors=0" out
    [[ -z $(ours log.*) ]] || {
        ours log.* | sed -n 1,60p
        fail "valgrind reports errors of pml_tm in $program"
    }
}
