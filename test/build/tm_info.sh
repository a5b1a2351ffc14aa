#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=60
#
# tm_info says on one page whether pml tm can be used, and with --check by its exit status: where
# everything is well, where Open MPI does not find the component, where the component does not load,
# where a limit bites, and for arguments that it does not know.
. "$TM_SRC/test/lib/script.sh"

tm_info=$TM_PREFIX/bin/tm_info
version=$(ompi_info --version | sed -n 's/^Open MPI v//p')
pml=$(find "$TM_PREFIX" -name mca_pml_tm.so)

# info STATUS ARGUMENT...: what it says is then in the files said and err.
info()
{
    local rc=0 want=$1
    shift
    "$tm_info" "$@" >said 2>err || rc=$?
    cat said err
    ((rc == want)) || fail "tm_info $* ended with $rc, not $want"
}

info 0
require "built for          Open MPI $version" said
require "Open MPI here      $version (" said
require "fits               yes" said
require "component          $pml" said
require "loads              yes" said
require "found by mpirun    yes" said
require "this process   self " said
require "this host      shm " said
require "process_vm_readv   " said
require "parameters         all have their defaults" said
(($(wc -l <said) <= 40)) || fail "it is more than a page"
info 0 --check
[[ ! -s said && ! -s err ]] || fail "--check says something where all is well"
info 0 --help
require "Usage: tm_info" said
info 2 --no-such-option
info 2 something

# Messages: each says what to do, and a line of one that was seen leads to it.
info 0 --errors
topics=$(cat "$TM_SRC"/{pml_tm/base/pml_tm_help,btl_fabric/btl_fabric_help}.c \
    "$TM_SRC"/common/fabric/fab_fit.c | grep -cE '^    \{"[a-z-]+",')
(($(grep -c '^\[' said) == topics)) || fail "--errors does not have all"
(($(grep -c '^doc/troubleshooting.md: ' said) == topics)) ||
    fail "a message has no section in doc/troubleshooting.md"
while read -r section; do
    require "## $section" "$TM_SRC/doc/troubleshooting.md"
done < <(sed -n 's@^doc/troubleshooting.md: @@p' said)
require '[several-hosts]' said
forbid '%[a-z]' said
info 0 --errors 'PML "tm" cannot reach a process
of this job'
[[ $(grep '^\[' said) == '[unreachable]' ]] || fail "--errors does not find the one message"
info 0 --errors PEER-failed
require 'lost a process that this job needs' said
info 1 --errors 'no such words'
info 0 --errors lost a process that this job needs
(($(grep -c '^\[' said) == 1)) || fail "--errors does not take several words"

info 0 --errors 'built for another Open MPI'
require '[misfit]' said
info 0 --errors 'The BTL "fabric" is not used because one of its parameters has an invalid'
[[ $(grep '^\[' said) == '[bad-value]' ]] || fail "--errors does not know btl fabric's"
# Of Open MPI: the section alone.
info 0 --errors 'A requested component was not found, or was unable to be opened'
require "$TM_PREFIX/share/doc/pml_tm/troubleshooting.md: " said

# Parameters: what is set and where, what cannot be, what there is not.
OMPI_MCA_pml_tm_wait=spin OMPI_MCA_pml_tm_shm_ring_size=8K info 0
require 'pml_tm_wait        spin   (environment)' said
require 'pml_tm_shm_ring_size 8192   (environment)' said
OMPI_MCA_pml_tm_wait=fast info 1 --check
require 'tm_info: parameters: pml_tm_wait is "fast"; allowed: auto, spin, yield, sleep.' said
(($(wc -l <said) == 1)) || fail "--check says more than the problem"
OMPI_MCA_pml_tm_tcp_ports=7-5 info 1 --check
require 'pml_tm_tcp_ports is "7-5"' said
OMPI_MCA_pml_tm_report_after=5s info 1 --check
require 'pml_tm_report_after is "5s"' said
OMPI_MCA_pml_tm_eager_limt=5 OMPI_MCA_pml_tm_tcp_if_include=lo,nosuch0 info 0
require 'no parameter       pml_tm_eager_limt (perhaps pml_tm_eager_limit): it has no effect' said
require 'pml_tm_tcp_if_include names nosuch0; this host has lo' said

# The same for programs.
for wait in spin 'not "a\word'; do
    OMPI_MCA_pml_tm_wait=$wait "$tm_info" --json >"said.${wait%% *}" || [[ $wait != spin ]]
done
python3 - "$version" "$pml" <<'END' || fail "--json: $(cat said.spin said.not)"
import json, sys

good = json.load(open("said.spin"))
assert good["usable"] and good["Open MPI here"].startswith(sys.argv[1]), good
assert good["component"] == sys.argv[2] and good["pml_tm_wait"] == "spin   (environment)", good
assert any(line.startswith("this host      shm ") for line in good["paths"]), good
bad = json.load(open("said.not"))
assert not bad["usable"] and 'pml_tm_wait is "not "a\\word"' in bad["parameters: problem"], bad
END
info 2 --json --check
require 'exclude each other' err
for tool in "$TM_PREFIX"/bin/tm_{info,look}; do
    [[ $("$tool" --version) == "${tool##*/} (pml_tm) "[0-9]* ]] ||
        fail "${tool##*/} --version says: $("$tool" --version)"
done

# A limit.
(
    ulimit -n 512
    info 0
    require "open files         512   few for TCP" said
) || exit 1

# Not in a directory where Open MPI looks.
OMPI_MCA_mca_base_component_path=SYS_DEFAULT info 1
require "found by mpirun    NO: Open MPI does not look there: source env.sh" said
OMPI_MCA_mca_base_component_path=SYS_DEFAULT info 1 --check
require "tm_info: found by mpirun: Open MPI does not look there" said
(($(wc -l <said) == 1)) || fail "--check says more than the problem"

# An installation that was moved, and one that is damaged.
cp -R "$TM_PREFIX" moved
tm_info=$PWD/moved/bin/tm_info
pml=$(find "$PWD/moved" -name mca_pml_tm.so)
OMPI_MCA_mca_base_component_path=${pml%/*}:SYS_DEFAULT info 0
require "component          $pml" said
echo damaged >"$pml"
OMPI_MCA_mca_base_component_path=${pml%/*}:SYS_DEFAULT info 1 --check
require "tm_info: loads: " said
