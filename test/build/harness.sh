#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120 needs=python3
#
# test/run itself, on a tree of small tests: what it must report, leave out, record and refuse.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/lib/job.sh"
. "$TM_SRC/test/lib/due.sh"

mkdir -p tree/test/mpi tree/test/unit build/test
cp -R "$TM_SRC/test/lib" "$TM_SRC/test/run" tree/test/
cp "$TM_BUILD/test/config.sh" build/test/
echo 'void nothing(void);' >tree/depended.h

# add NAME DIRECTIVE COMMAND: a test
add()
{
    printf '#!/usr/bin/env bash\n# %s\n%s\n' "$2" "$3" >"tree/test/mpi/$1.sh"
}

# runs STATUS ARGUMENT...: test/run must end with this status; its output is in the file log.
runs()
{
    local wanted=$1 rc=0
    shift
    TM_TEST_BUILD=$PWD/build tree/test/run --no-build "$@" >log 2>&1 || rc=$?
    cat log
    ((rc == wanted)) || fail "exit status $rc, not $wanted: test/run $*"
}

unset TM_REQUIRE TM_TEST_PART TM_TEST_CHOICE TM_TEST_RANDOM # of the run that this test belongs to
add good 'TEST: timeout=20' true
add leaves_file 'TEST: timeout=20' 'touch /dev/shm/tm-harness'
add leaves_process 'TEST: timeout=20' 'sleep 1000 >/dev/null 2>&1 &'
add hangs 'TEST: timeout=1' 'sleep 1000'
add needs 'TEST: needs=valgrind,no_such_program' true
add same 'TEST: depends=depended.h' true
add seldom 'TEST: short=no' true
runs 1
rm -f /dev/shm/tm-harness
grep -qE '^PASS +mpi/good ' log || fail 'good did not pass'
grep -qE '^FAIL +mpi/leaves_file .*file left behind: /dev/shm/tm-harness' log ||
    fail 'the file was not seen'
grep -qE '^FAIL +mpi/leaves_process .*process left behind: ' log || fail 'the process was not seen'
grep -qE '^FAIL +mpi/hangs .*timeout' log || fail 'the time limit was not seen'
grep -qE '^SKIP +mpi/needs .*no_such_program missing' log || fail 'a missing program is not said'
grep -qE '^Missing here.*no_such_program' log || fail 'a missing program is not said at the start'
require '3 passed, 3 failed, 1 skipped' log
(($(wc -l <build/times.tsv) == 8)) || fail 'times.tsv has not all cases'
grep -qE '<testsuite name="test" tests="7" failures="3" skipped="1"' build/junit.xml ||
    fail 'junit.xml has not all cases'
python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' build/junit.xml ||
    fail 'junit.xml is not XML'

TM_REQUIRE=programs runs 1 mpi/needs
require '0 passed, 1 failed' log

# What an MPI program prints counts, whatever its exit status.
# says NAME DIRECTIVE STATEMENT: a program
says()
{
    printf '/* TEST: np=1 pml=none %s */\n#include <stdio.h>\n#include <stdlib.h>\n\nint main(void)\n{\n    %s;\n    return 0;\n}\n' \
        "$2" "$3" >"tree/test/mpi/$1.c"
}
says quiet '' 'puts("errors=0")'
says complains '' 'fputs("something is wrong\n", stderr)'
says announced 'stderr=wrong' 'fputs("something is wrong\n", stderr)'
says filled '' 'if (NULL == getenv("MALLOC_PERTURB_")) return 1'
runs 1 mpi/quiet mpi/complains mpi/announced mpi/filled
grep -qE '^FAIL +mpi/complains/1/np1 .*unexpected on standard error' log ||
    fail 'standard error was not looked at'
require '3 passed, 1 failed' log
rm tree/test/mpi/*.c

# Of a group one is in a short run, each by some choice.
for name in one two; do
    add $name 'TEST: short=group' true
done
chosen=
for choice in 0 1; do
    TM_TEST_CHOICE=$choice runs 0 --short mpi/one mpi/two
    require '1 passed, 0 failed' log
    chosen+=$(grep -oE '^PASS +mpi/(one|two)' log)
done
[[ $chosen == *one* && $chosen == *two* ]] || fail "a test of a group has no turn: $chosen"

# What takes minutes gives way to Debian 13.
add long 'TEST: short=minutes' true
TM_TEST_CHOICE=0 runs 0 --short --list
forbid mpi/long log
TM_TEST_CHOICE=20 runs 0 --short --list
require mpi/long log
rm tree/test/mpi/long.sh

# So are unit tests with or without ThreadSanitizer, all of a run the same; plain ones come without.
for name in both too; do
    echo '/* TEST: variants=asan,tsan */' >tree/test/unit/test_$name.c
done
echo '/* TEST: variants=plain */' >tree/test/unit/test_fast.c
echo '/* TEST: variants=plain depends=depended.h */' >tree/test/unit/test_same.c
declare -A chosen_by=(
    [0]='both/asan fast/plain same/plain too/asan' [10]='both/tsan same/plain too/tsan'
)
for choice in 0 10; do
    TM_TEST_CHOICE=$choice runs 0 --short --list unit
    [[ $(sed 's@unit/test_@@' log | sort | paste -sd ' ') == "${chosen_by[$choice]}" ]] ||
        fail "the variants of choice $choice"
done
rm tree/test/unit/*.c

# Linters look at what has changed, or is new, and at each other file by turns.
if command -v git >/dev/null; then
    git -C tree init -q
    for ((i = 0; i < 32; i++)); do
        git -C tree add -A
        git -C tree -c user.name=test -c user.email=test commit -q --allow-empty -m "$i"
    done
    echo '# changed' >>tree/test/mpi/good.sh
    add new 'TEST: timeout=20' true
    seen=
    for choice in 0 10 20 30 40; do
        due=$(TM_SRC=$PWD/tree TM_TEST_SHORT=yes TM_TEST_CHOICE=$choice tm_due \
            test/mpi/{good,hangs,needs,new,same,seldom}.sh)
        [[ $due == *good*new* ]] || fail "what has changed is not due: $due"
        (($(wc -l <<<"$due") <= 4)) || fail "too much is due: $due"
        seen+=$due
    done
    for name in hangs needs same seldom; do
        [[ $seen == *$name* ]] || fail "$name has no turn"
    done
    rm -rf tree/.git tree/test/mpi/new.sh
fi

# What is deterministic runs again when what it depends on has changed.
runs 0 --record mpi/same
runs 0 --short mpi/same mpi/good mpi/seldom
grep -qE '^SKIP +mpi/same .*as when it passed' log || fail 'what has not changed runs again'
require 'left to other turns: mpi/seldom' log
require '1 passed, 0 failed, 1 skipped' log
echo 'void nothing(void); // a comment' >tree/depended.h
runs 0 --short mpi/same
require '0 passed, 0 failed, 1 skipped' log
for text in 'void other(void);' '// TEST: timeout=20'; do
    runs 0 --record mpi/same
    echo "$text" >>tree/depended.h
    runs 0 --short mpi/same
    require '1 passed, 0 failed' log
done

# Directives that would be ignored.
for text in $'TEST: timeout=20\n# quick=yes' 'TEST timeout=20' 'TEST: unknown=1' \
    'TEST: timeout 20'; do
    add bad "$text" true
    runs 2 --list
done
rm tree/test/mpi/bad.sh

# A time-out is a fault of Open MPI only if nothing waits in the component.
stacks()
{
    printf '%s\n' 'TIMEOUT: not done after 60 s; where it was:' '--- process 1: mpirun' \
        '#0 poll ()' "$@" >stacks.txt
}
fence=('--- process 2: program' '#1  PMIx_Fence (procs=0x0) from libpmix.so'
    '#2  ompi_mpi_finalize () from libmpi.so')
stacks "${fence[@]}"
tm_is_upstream 'PMIx_Fence' stacks.txt || fail 'a time-out in Open MPI is not known'
stacks "${fence[@]}" '--- process 3: program' \
    '#1  mca_pml_tm_recv (addr=0x1) at pml_tm/calls/pml_tm_recv.c:10' '#2  PMPI_Recv () from libmpi.so'
! tm_is_upstream 'PMIx_Fence' stacks.txt ||
    fail 'a receive that does not end is taken for a fault of Open MPI'
stacks "${fence[@]}" '--- process 3: program' \
    '#1  fab_progress (dom=0x1) at common/fabric/fab_progress.c:10' '#2  PMPI_Wait () from libmpi.so'
! tm_is_upstream 'PMIx_Fence' stacks.txt ||
    fail 'a wait that does not end is taken for a fault of Open MPI'
stacks "${fence[@]}" '--- process 3: program' \
    '#1  mca_pml_tm_recv (addr=0x1) at pml_tm/calls/pml_tm_recv.c:10' \
    '#2  PMPI_Comm_spawn () from libmpi.so'
tm_is_upstream 'PMIx_Fence' stacks.txt ||
    fail 'a rank that waits for the one that spawns counts against Open MPI'

# A crash is a fault of Open MPI only after the program is done, and outside of the component.
# A script's job then runs once more.
crashed()
{
    printf '%s\n' "$1" >out.txt
    printf '%s\n' 'Signal: Segmentation fault (11)' "[ 2] libopen-rte.so.40(orte_finalize+0x6c)" \
        "${@:2}" >err.txt
}
crashed 'errors=0'
tm_crashed_upstream out.txt err.txt || fail 'a crash in orte_finalize() is not known'
crashed 'errors=0' '[ 1] mca_pml_tm.so(mca_pml_tm_finalize+0x10)'
! tm_crashed_upstream out.txt err.txt ||
    fail 'a crash in the component is taken for a fault of Open MPI'
echo '[vm:1] Signal: Segmentation fault (11)' >err.txt
tm_crashed_upstream out.txt err.txt || fail 'a crash without a stack is not known'
echo '[vm:1] [ 1] /lib/x86_64-linux-gnu/libpmix.so.2(+0x3b60d)[0x7f89c2e3b60d]' >>err.txt
tm_crashed_upstream out.txt err.txt || fail "a crash of PMIx's thread is not known"
echo '[vm:1] [ 2] program(+0x1160)[0x55f5ac06d160]' >>err.txt
! tm_crashed_upstream out.txt err.txt ||
    fail 'a crash in a program is taken for a fault of Open MPI'
crashed '' '[vm:1] [ 6] mpirun(+0x13ea)[0x55d97f4c73ea]'
tm_mpirun_crashed err.txt || fail "a crash of mpirun itself is not known"
echo 'Signal: Segmentation fault (11)' >>err.txt
! tm_mpirun_crashed err.txt || fail "a rank's crash is taken for mpirun's"
for words in '' 'errors=3'; do
    crashed "$words"
    ! tm_crashed_upstream out.txt err.txt ||
        fail "a crash of a program that said '$words' is taken for a fault of Open MPI"
done
mpirun()
{
    echo errors=0
    runs=$((runs + 1))
    ((runs > crashes)) || { echo 'libopen-rte.so.40(orte_finalize+0x6c)' >&2 && return 139; }
}
for crashes in 0 1 2; do
    runs=0 rc=0
    tm_mpirun 1 program >/dev/null 2>&1 || rc=$?
    ((rc == (crashes == 2 ? 139 : 0) && runs == (crashes == 0 ? 1 : 2))) ||
        fail "$crashes crashes: tm_mpirun's status is $rc, after $runs runs"
done
