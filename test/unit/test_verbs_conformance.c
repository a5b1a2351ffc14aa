/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The conformance test of the fabric with all processes talking by verbs. Skipped where there is no
 * RDMA device.
 *
 * TEST: sources=common/fabric/fab.c,common/fabric/fab_params_check.c,common/fabric/fab_peer.c,common/fabric/fab_queue.c,common/self/self_domain.c,common/shm/shm_alive.c,common/shm/shm_cma.c,common/shm/shm_coop.c,common/shm/shm_domain.c,common/shm/shm_ep.c,common/shm/shm_host.c,common/shm/shm_in.c,common/shm/shm_progress.c,common/shm/shm_segment.c,common/sock/sha256.c,common/sock/sock.c,common/sock/sock_ip.c,common/sock/sock_proof.c,common/tcp/tcp_connect.c,common/tcp/tcp_domain.c,common/tcp/tcp_ep.c,common/tcp/tcp_progress.c,common/tcp/tcp_stream.c,common/verbs/verbs_alive.c,common/verbs/verbs_conn.c,common/verbs/verbs_connect.c,common/verbs/verbs_device.c,common/verbs/verbs_domain.c,common/verbs/verbs_ep.c,common/verbs/verbs_oob.c,common/verbs/verbs_pool.c,common/verbs/verbs_progress.c,common/verbs/verbs_reg.c,common/verbs/verbs_rma.c,common/verbs/verbs_srq.c,common/verbs/verbs_tm.c variants=asan,tsan cflags=-DFAB_HAVE_VERBS=1 ldflags=-libverbs device=tmdev timeout=600 quick=no
 */
#define WORLD_PROVIDERS "verbs"

#include "test_fab_conformance.c"
