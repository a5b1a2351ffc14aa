#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 quick=no needs=lmp short=turns
#
# LAMMPS: a Lennard-Jones melt of 4000 atoms, 100 steps.  For a given number of ranks the
# computation is deterministic: every line of thermodynamic output, and the positions at the end,
# must be those over ob1.
: "${TM_SRC:=$(cd "$(dirname "$0")/../.." && pwd)}"
# shellcheck source-path=SCRIPTDIR source=app.bash
. "$TM_SRC/test/apps/app.bash"
app_need lmp lammps

cat >in.melt <<'END'
units           lj
atom_style      atomic
lattice         fcc 0.8442
region          box block 0 10 0 10 0 10
create_box      1 box
create_atoms    1 box
mass            1 1.0
velocity        all create 3.0 87287 loop geom
pair_style      lj/cut 2.5
pair_coeff      1 1 1.0 1.0 2.5
neighbor        0.3 bin
neigh_modify    every 5 delay 0 check yes
fix             1 all nve
compute         msd all msd
thermo_style    custom step temp epair emol etotal press c_msd[4]
thermo_modify   format float %.15g
thermo          5
run             100
write_dump      all custom positions.txt id x y z modify sort id format float %.15g
END

# melt PML NP: leaves the lines to compare in PML.NP.
melt()
{
    app_over "$1" "$2" lmp -in in.melt -log none
    forbid 'ERROR|WARNING'
    require 'Created 4000 atoms'
    sed -n '/^ *Step /,/^Loop time/{/^Loop time/d;p}' "$TM_WORK/out" >"$1.$2"
    cat positions.txt >>"$1.$2"
    rm positions.txt
    # 21 lines of values and their heading, the atoms and theirs
    (($(wc -l <"$1.$2") == 22 + 4009)) || fail "not the output that was expected: $1, $2 ranks"
}

for np in 1 2 4; do
    melt ob1 "$np"
    melt "$TM_TEST_PML" "$np"
    [[ $TM_TEST_PML != ob1 ]] || continue
    diff "ob1.$np" "$TM_TEST_PML.$np" ||
        fail "over $TM_TEST_PML the atoms move otherwise than over ob1, with $np ranks"
done
