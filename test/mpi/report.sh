#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=240 quick=no needs=python3 short=said
#
# The table that MPI_Finalize prints for the job (pml_tm_report), and advice where it is due, and
# not where it is not (report.c). All ranks are in it, however many.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source-path=SCRIPTDIR source=documented.bash
. "$TM_SRC/test/mpi/documented.bash"
report=$(tm_mpi_program report)
refused=$(tm_mpi_program refused)
nocma=("$refused" EPERM process_vm_readv "$refused" EPERM process_vm_writev)

# page NP [OPTION...] PROGRAM [ARGUMENT...]
page()
{
    local np=$1
    shift
    tm_mpirun "$np" --mca pml_tm_report 1 "$@" || fail "exit status $?: $*"
    require 'report: errors=0'
    require "pml tm: $np ranks, "
    forbid 'did not send their numbers'
}

for by in shm tcp; do
    page 2 --mca pml_tm_providers "$by,self" "$report" expected
    forbid 'came before|held back|found no room|leave pml_tm_wait'
    require "  ${by}_messages "
    page 2 --mca pml_tm_providers "$by,self" "$report" unexpected
    require 'more than a fifth of the messages came before their receive'
    forbid 'held back|found no room'
done
page 2 --mca pml_tm_unexpected_max 65536 "$report" held
require 'senders were held back'
page 2 "$report" queued
require 'more than one send in twenty found no room'
forbid 'held back|more than a fifth'

page 2 "$report" large
forbid 'came before|held back|copied twice|leave pml_tm_wait'
grep -qaE '^  announced +4 +4  \(rank 1\)$' "$TM_WORK/err" || fail 'not 4 were announced'
if "${nocma[@]}" true; then
    page 2 --mca pml_tm_stream_limit 65536 "${nocma[@]}" "$report" large
    require "the kernel does not let ranks of a host read each other's memory"
    documented 'A slow path' '_ms|rank|to  +by'
fi

# Messages and bytes by provider: 16000, of 157.5 MB. Besides those of report.c there are some of
# Open MPI.
for by in shm tcp; do
    page 2 --mca pml_tm_providers "$by,self" "$report" sizes
    grep -qaE "^  ${by}_messages +160[0-9]{2} " "$TM_WORK/err" || fail 'not 16000 messages'
    grep -qaE "^  ${by}_bytes +1577[0-9]{5} " "$TM_WORK/err" || fail 'other bytes'
done

# The rank for which all others wait.  That there is none cannot be required: on a machine that does
# other work one rank may well be late.
page 4 "$report" late
require 'one rank computes for far longer than the others'
grep -qaE '^  computing_ms +[0-9]+ +[0-9]+  \(rank 3\)$' "$TM_WORK/err" ||
    fail 'another rank computes most'

# Processes that poll although they share processors. With --host Open MPI 5.0 does not know that
# they do: it would make them yield, whatever the parameter says.
cat >no_yield <<'END'
#!/bin/sh
OMPI_MCA_mpi_yield_when_idle=0 exec "$@"
END
chmod +x no_yield
page $(($(nproc) + 1)) --host "localhost:$(($(nproc) + 1))" --mca pml_tm_wait spin \
    "$PWD/no_yield" "$report" large
require 'leave pml_tm_wait at auto'
page $(($(nproc) + 1)) "$report" large
forbid 'leave pml_tm_wait'

# The table of paths, as it is at the end: no rank is gone whose memory could not be tried.
page 4 --mca pml_tm_providers shm,self "$report" late
require '  The paths of rank 0, on '
require '-              tcp    not used: '
forbid 'Bad address'

# The same for programs: one document.
page 4 --mca pml_tm_report_file "$PWD/job" "$report" late
page 2 --mca pml_tm_report_file "$PWD/sizes" "$report" sizes
[[ $(echo ./*.json*) == './job.end.json ./sizes.end.json' ]] || fail "files: $(echo ./*.json*)"
python3 - <<'END' || fail 'the documents are not what was printed'
import json
late = json.load(open("job.end.json"))
sizes = json.load(open("sizes.end.json"))
assert late["report"] == "end" and late["ranks"] == late["ranks_in_it"] == 4, late
assert late["computing_ms"]["rank"] == 3 and late["waiting_ms"]["sum"] > 1000, late
assert any("one rank computes" in advice for advice in late["to_do"]), late
assert 16000 <= sizes["shm_messages"]["sum"] < 16100, sizes
END
tm_mpirun 2 --mca pml_tm_report 1 --mca pml_tm_report_file "$PWD/none/job" "$report" expected ||
    fail "exit status $?"
require "none/job.end.json cannot be written: No such file or directory"

for np in 1 3 7; do
    page "$np" "$report" expected
done

# Without the parameter there is none.
tm_mpirun 2 "$report" expected || fail "exit status $?"
require_quiet
forbid 'pml tm:'
