#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120 needs=podman short=launchers ompi=4.1
#
# Podman, with its own seccomp profile.  A job in one container, and ranks in a container each that
# share the host's process ids: shared memory, and long messages are read by the receiver.  Ranks
# with process ids of their own: TCP.
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/lib/image.sh"

image=$TM_WORK/image
tm_image "$image"
# By default its locks stay in /dev/shm, and its limits are above what some virtual machines allow.
export CONTAINERS_CONF=$TM_WORK/containers.conf
printf '[engine]\nlock_type = "file"\n' >"$CONTAINERS_CONF"
container=(podman --root "$TM_WORK/storage" --runroot "$TM_WORK/run" run --rm --env-host
    --network host --ulimit nofile=1024:1024 --ulimit nproc=4096:4096
    -v /usr:/usr -v "$TM_SRC:$TM_SRC" -v /tmp:/tmp)
"${container[@]}" --rootfs "$image" /bin/true || skip "podman can run no container here"

export OMPI_MCA_pml_tm_verbose=10
program=("$(tm_mpi_program basic)" 300000)
copy='read by the receiver: one copy (CMA'

echo "== a job in one container"
"${container[@]}" --rootfs "$image" mpirun -np 2 --oversubscribe --mca pml tm "${program[@]}" \
    >"$TM_WORK/out" 2>"$TM_WORK/err" || fail "exit status $?"
require 'errors=0'
require "$copy"
forbid 'not to 1 process'

echo "== ranks in a container each"
tm_mpirun 2 "${container[@]}" --pid host --ipc host --rootfs "$image" "${program[@]}"
require 'errors=0'
require "$copy"
forbid 'not to 1 process'

echo "== and with process ids of their own"
tm_mpirun 2 "${container[@]}" --rootfs "$image" "${program[@]}"
require 'errors=0'
require 'not to 1 process: it is on another host, or in a container with process ids of its own'
