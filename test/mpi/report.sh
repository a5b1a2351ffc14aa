#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=240 quick=no needs=python3
#
# The page that MPI_Finalize prints for the job (pml_tm_report): each of its advices where it is
# due, and where it is not (report.c). All ranks are in it, however many.
. "$TM_SRC/test/lib/script.sh"
# shellcheck source-path=SCRIPTDIR source=documented.bash
. "$TM_SRC/test/mpi/documented.bash"
report=$(tm_mpi_program report)
nocma=$(tm_mpi_program nocma)

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

nothing='  Advice         none'
for by in shm tcp; do
    page 2 --mca pml_tm_providers "$by,self" "$report" expected
    require "$nothing"
    require "  by $by "
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
require "$nothing"
require '33 % announced'
if "$nocma" true; then
    page 2 --mca pml_tm_stream_limit 65536 "$nocma" "$report" large
    require "the kernel does not let ranks of a host read each other's memory"
    documented 'A slow path' 'waiting|at least|at most|to  +by'
fi

# Messages and bytes by size class. Besides those of report.c there are some of Open MPI.
for by in shm tcp; do
    page 2 --mca pml_tm_providers "$by,self" "$report" sizes
    grep -aE "^  by $by +160[0-9]{2} \(100 %\), 0\.15[78] GB: 50 % below 64 bytes, 25 % 1 KiB, 19 % 16 KiB, 6 % 256 KiB$" \
        "$TM_WORK/err" || fail "messages by size are not 8000, 4000, 3000 and 1000"
done

# The rank that all wait for, and that there is none.
page 4 "$report" late
require 'ranks waited for rank 3 in at least '
page 4 "$report" expected
forbid 'ranks waited for'

# The depth of a queue in a communicator that is gone.
page 2 "$report" unexpected
grep -aE ' at most [12][0-9]{3} unexpected messages at once \(rank 0\)' "$TM_WORK/err" ||
    fail 'the depth of the queue is not there'

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
assert late["waited_for_ms"]["rank"] == 3 and late["waited_for_ms"]["number"] > 1000, late
assert any("ranks waited for rank 3" in advice for advice in late["to_do"]), late
shm = sizes["by"]["shm"]
assert 8000 <= shm["below_64"] < 8100 and shm["below_1_KiB"] == 4000, sizes
assert shm["below_16_KiB"] == 3000 and shm["below_256_KiB"] == 1000, sizes
assert 0 <= shm["bytes"] - (8000 * 8 + 4000 * 512 + (3000 * 8 + 1000 * 128) * 1024) < 4000, sizes
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
