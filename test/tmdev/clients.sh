#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=180 quick=yes needs=ibv_devinfo
# Programs of others on the verbs device: rdma-core's tools, and its tag matching tests, by all ways
# of loading.
. "$TM_SRC/test/tmdev/tmdev.bash"

out=$(tm_build_tmdev)
library=$out/libibverbs.so.1

# on_device WAY COMMAND...
on_device()
{
    local way=$1
    shift
    case $way in
        path) LD_LIBRARY_PATH=$out timeout 60 "$@" ;;
        preload) LD_PRELOAD=$library timeout 60 "$@" ;;
    esac
}

# pingpong COMMAND...: both sides of one of rdma-core's examples.
pingpong()
{
    local port=$((20000 + RANDOM % 10000)) server
    on_device path "$@" -p "$port" >server.out 2>&1 &
    server=$!
    for ((i = 0; i < 50; i++)); do # until it listens
        sleep 0.1
        ! grep -qi ":$(printf %04x "$port") " /proc/net/tcp /proc/net/tcp6 || break
    done
    on_device path "$@" -p "$port" 127.0.0.1 >client.out 2>&1 || {
        cat client.out server.out
        fail "$* (client)"
    }
    wait "$server" || fail "$* (server)"
    grep -q iters client.out || fail "$* says nothing"
    echo "$*: $(tail -n 1 client.out)"
}

for way in path preload; do
    on_device "$way" ibv_devinfo -v >devinfo
    for text in 'hca_id:[[:space:]]tmdev0' 'max_num_tags:[[:space:]]*127' IBV_TM_CAP_RC \
        PORT_ACTIVE; do
        grep -q "$text" devinfo || fail "ibv_devinfo does not show $text ($way)"
    done
done
TMDEV_DEVICES=2 TMDEV_PORTS=2 on_device path ibv_devinfo >devinfo
(($(grep -cE 'hca_id:.*tmdev[01]$|port_lid:[[:space:]]*[1-4]$|state:[[:space:]]*PORT_ACTIVE' devinfo) == 10)) || {
    cat devinfo
    fail "ibv_devinfo does not show two devices with two ports"
}
pingpong ibv_rc_pingpong -n 1000
TMDEV_DEVICES=3 TMDEV_PORTS=2 pingpong ibv_rc_pingpong -d tmdev2 -i 2 -n 100
pingpong ibv_rc_pingpong -n 1000 -e
pingpong ibv_rc_pingpong -n 100 -s 3000000
pingpong ibv_srq_pingpong -n 1000 -q 4
pingpong ibv_srq_pingpong -n 1000 -q 4 -e

# rdma-core's tests, as Debian packs them. Without a device they are "OK (skipped=4)", so what ran
# is counted.
tests=/usr/share/doc/rdma-core/tests
if [[ ! -e $tests/test_tag_matching.py.gz ]] ||
    ! /usr/bin/python3 -c 'import pyverbs' 2>/dev/null; then
    skip "rdma-core's Python tests are not installed (Debian: rdma-core, python3-pyverbs); all else passed"
fi
mkdir tests
cp "$tests"/*.py* tests
gunzip tests/*.gz
for way in path preload; do
    (cd tests &&
        on_device "$way" /usr/bin/python3 run_tests.py -v -k tag_matching) >python.out 2>&1 || {
        cat python.out
        fail "rdma-core's tag matching tests ($way)"
    }
    if (($(grep -c '\.\.\. ok$' python.out) != 4)); then
        cat python.out
        fail "not all of rdma-core's 4 tag matching tests ran ($way)"
    fi
done
echo "rdma-core's tag matching tests: 4 of 4"
# Queue pairs made with named operations are used by ibv_wr_*, which the device has not.
(cd tests && TMDEV_QP_OPS=0 on_device path /usr/bin/python3 run_tests.py -v) >python.out 2>&1 || {
    cat python.out
    fail "rdma-core's Python tests"
}
ok=$(grep -c '\.\.\. ok$' python.out)
((ok >= 34)) || fail "only $ok of rdma-core's Python tests ran"
echo "all of rdma-core's Python tests: $ok passed, $(tail -n 1 python.out)"
