#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=300 quick=no short=turns
#
# mpi4py: its own benchmarks and futures, and a script of pickled objects, numpy arrays and
# collectives (mpi4py_objects.py).
: "${TM_SRC:=$(cd "$(dirname "$0")/../.." && pwd)}"
# shellcheck source-path=SCRIPTDIR source=app.bash
. "$TM_SRC/test/apps/app.bash"
python=/usr/bin/python3
[[ -x $python ]] || skip "$python is not installed"
"$python" -c 'import mpi4py' 2>/dev/null || skip 'mpi4py (package python3-mpi4py) is not installed'
"$python" -c 'import numpy' 2>/dev/null || skip 'numpy (package python3-numpy) is not installed'

# bench NP COMMAND...
bench()
{
    local np=$1
    shift
    app_over "$TM_TEST_PML" "$np" "$python" -m mpi4py.bench "$@"
    forbid 'Traceback|Error'
}

for np in 1 2 5; do
    bench "$np" helloworld
    (($(grep -c "^Hello, World! I am process  *[0-9]* of $np on" "$TM_WORK/out") == np)) ||
        fail "helloworld, $np ranks"
    bench "$np" ringtest --size 1048576 --loop 20 --skip 2
    grep -Eq "^time for 20 loops = [0-9.e+-]+ seconds \($np processes, 1048576 bytes\)$" \
        "$TM_WORK/out" ||
        fail "ringtest, $np ranks"
done
bench 3 --threads ringtest --size 64 --loop 200

# The executor of mpi4py.futures: a server thread that receives from any source with any tag.
cat >primes.py <<'END'
from mpi4py.futures import MPIPoolExecutor


def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


if __name__ == '__main__':
    with MPIPoolExecutor() as executor:
        print('primes:', sum(executor.map(is_prime, range(2000), chunksize=7)))
END
app_over "$TM_TEST_PML" 4 "$python" -m mpi4py.futures primes.py
require 'primes: 303'

for np in 1 2 3 4; do
    app_over "$TM_TEST_PML" "$np" "$python" "$TM_SRC/test/apps/mpi4py_objects.py"
    require "$np ranks: all right"
    forbid 'Traceback'
done
