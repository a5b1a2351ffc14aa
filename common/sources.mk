# SPDX-License-Identifier: BSD-3-Clause
# What knows no MPI object. One line for each file: the build and the archive follow.

# libmca_common_tm: the fabric and its providers, one instance for all components of a process.
common_tm_sources = \
	common/fabric/fab.h \
	common/fabric/fab_abi.h \
	common/fabric/fab_address.c \
	common/fabric/fab_claim.h \
	common/fabric/fab_clock.h \
	common/fabric/fab_copy.h \
	common/fabric/fab_core.c \
	common/fabric/fab_core.h \
	common/fabric/fab_counters.h \
	common/fabric/fab_copy.c \
	common/fabric/fab_cpus.c \
	common/fabric/fab_cpus.h \
	common/fabric/fab_cuda.c \
	common/fabric/fab_cuda.h \
	common/fabric/fab_export.h \
	common/fabric/fab_failed.c \
	common/fabric/fab_file.c \
	common/fabric/fab_file.h \
	common/fabric/fab_fit.c \
	common/fabric/fab_fit.h \
	common/fabric/fab_help.c \
	common/fabric/fab_help.h \
	common/fabric/fab_host.c \
	common/fabric/fab_host.h \
	common/fabric/fab_load.c \
	common/fabric/fab_lock.c \
	common/fabric/fab_lock.h \
	common/fabric/fab_look.c \
	common/fabric/fab_look.h \
	common/fabric/fab_look_read.c \
	common/fabric/fab_look_read.h \
	common/fabric/fab_look_wire.h \
	common/fabric/fab_move.c \
	common/fabric/fab_ompi.h \
	common/fabric/fab_open.c \
	common/fabric/fab_param.c \
	common/fabric/fab_param.h \
	common/fabric/fab_param_mca.c \
	common/fabric/fab_param_names.c \
	common/fabric/fab_params.c \
	common/fabric/fab_params.h \
	common/fabric/fab_peer.c \
	common/fabric/fab_progress.c \
	common/fabric/fab_provider.c \
	common/fabric/fab_provider.h \
	common/fabric/fab_queue.c \
	common/fabric/fab_record.c \
	common/fabric/fab_reg.c \
	common/fabric/fab_reg.h \
	common/fabric/fab_reg_rcache.c \
	common/fabric/fab_region.c \
	common/fabric/fab_spares.c \
	common/fabric/fab_spares.h \
	common/fabric/fab_tm.h \
	common/fabric/fab_user.c \
	common/fabric/fab_wire.h \
	common/idmap/idmap.c \
	common/idmap/idmap.h \
	common/ofi/ofi_params.c \
	common/ofi/ofi_wire.h \
	common/self/self_domain.c \
	common/session/session.c \
	common/session/session.h \
	common/session/session_wire.h \
	common/shm/shm.h \
	common/shm/shm_access.c \
	common/shm/shm_connect.c \
	common/shm/shm_coop.c \
	common/shm/shm_copy.c \
	common/shm/shm_copy.h \
	common/shm/shm_domain.c \
	common/shm/shm_ep.c \
	common/shm/shm_in.c \
	common/shm/shm_inl.h \
	common/shm/shm_map.c \
	common/shm/shm_params.c \
	common/shm/shm_pass.c \
	common/shm/shm_progress.c \
	common/shm/shm_ring_inl.h \
	common/shm/shm_rma.c \
	common/shm/shm_segment.c \
	common/shm/shm_types.h \
	common/shm/shm_ways.c \
	common/shm/shm_ways.h \
	common/shm/shm_wire.h \
	common/shm/shm_xpmem.c \
	common/sock/sha256.c \
	common/sock/sha256.h \
	common/sock/sock.h \
	common/sock/sock_ask.c \
	common/sock/sock_base.c \
	common/sock/sock_ip.c \
	common/sock/sock_ip.h \
	common/sock/sock_listen.c \
	common/sock/sock_proof.c \
	common/sock/sock_proof.h \
	common/sock/sock_race.c \
	common/sock/sock_race.h \
	common/sock/sock_set.c \
	common/sock/sock_stranger.c \
	common/sock/sock_types.h \
	common/sock/sock_wire.h \
	common/tcp/tcp.h \
	common/tcp/tcp_buf.c \
	common/tcp/tcp_connect.c \
	common/tcp/tcp_domain.c \
	common/tcp/tcp_ep.c \
	common/tcp/tcp_link.c \
	common/tcp/tcp_params.c \
	common/tcp/tcp_peer.c \
	common/tcp/tcp_progress.c \
	common/tcp/tcp_stream.c \
	common/tcp/tcp_stream_read.c \
	common/tcp/tcp_stream_write.c \
	common/tcp/tcp_stripe.c \
	common/tcp/tcp_types.h \
	common/tcp/tcp_watch.c \
	common/tcp/tcp_wire.h \
	common/verbs/verbs_params.c \
	common/verbs/verbs_wire.h

# libmca_common_tm_ofi: the provider ofi, where there is libfabric.
common_ofi_sources = \
	common/idmap/idmap.c \
	common/idmap/idmap.h \
	common/ofi/ofi.h \
	common/ofi/ofi_alive.c \
	common/ofi/ofi_connect.c \
	common/ofi/ofi_device.c \
	common/ofi/ofi_domain.h \
	common/ofi/ofi_early.c \
	common/ofi/ofi_ep.h \
	common/ofi/ofi_expose.c \
	common/ofi/ofi_fail.c \
	common/ofi/ofi_hooks.c \
	common/ofi/ofi_object.c \
	common/ofi/ofi_peer.c \
	common/ofi/ofi_pool.c \
	common/ofi/ofi_pool.h \
	common/ofi/ofi_progress.c \
	common/ofi/ofi_provider.c \
	common/ofi/ofi_recv.c \
	common/ofi/ofi_rma.c \
	common/ofi/ofi_send.c \
	common/ofi/ofi_sleep.c \
	common/ofi/ofi_types.h

# libmca_common_tm_verbs: the provider verbs, where there is libibverbs.
common_verbs_sources = \
	common/verbs/verbs.h \
	common/verbs/verbs_alive.c \
	common/verbs/verbs_answer.c \
	common/verbs/verbs_cm.h \
	common/verbs/verbs_cm_rdma.c \
	common/verbs/verbs_conn.c \
	common/verbs/verbs_connect.c \
	common/verbs/verbs_device.c \
	common/verbs/verbs_ep.c \
	common/verbs/verbs_evict.c \
	common/verbs/verbs_expose.c \
	common/verbs/verbs_fail.c \
	common/verbs/verbs_gid.c \
	common/verbs/verbs_move.c \
	common/verbs/verbs_near.c \
	common/verbs/verbs_near.h \
	common/verbs/verbs_object.c \
	common/verbs/verbs_oob.c \
	common/verbs/verbs_op.c \
	common/verbs/verbs_path.c \
	common/verbs/verbs_pool.c \
	common/verbs/verbs_pool.h \
	common/verbs/verbs_port.c \
	common/verbs/verbs_ports.c \
	common/verbs/verbs_rails.c \
	common/verbs/verbs_post.c \
	common/verbs/verbs_progress.c \
	common/verbs/verbs_provider.c \
	common/verbs/verbs_qp.c \
	common/verbs/verbs_domain.c \
	common/verbs/verbs_recv.c \
	common/verbs/verbs_reg.c \
	common/verbs/verbs_reg.h \
	common/verbs/verbs_resolve.c \
	common/verbs/verbs_rma.c \
	common/verbs/verbs_srq.c \
	common/verbs/verbs_tm.c \
	common/verbs/verbs_tm_poll.c \
	common/verbs/verbs_tm_test.c \
	common/verbs/verbs_tm_wc.h \
	common/verbs/verbs_types.h

# Headers that an installed Open MPI 5.0 lacks (configure.m4, TM_CHECK_OMPI_HEADERS).
common_ompi5_headers = \
	common/ompi5_headers/opal/mca/threads/pthreads/threads_pthreads_mutex.h \
	common/ompi5_headers/opal/mca/threads/pthreads/threads_pthreads_threads.h \
	common/ompi5_headers/opal/mca/threads/pthreads/threads_pthreads_tsd.h

# The matcher has no state of its own and is linked into the component that matches: its calls cost
# no PLT.
common_match_sources = \
	common/match/match.c \
	common/match/match.h \
	common/match/match_inl.h \
	common/match/match_list.h \
	common/match/match_types.h

# The engine that lists receives on matching hardware, for the same reason.
common_offload_sources = \
	common/offload/offload.c \
	common/offload/offload.h \
	common/offload/offload_types.h

# In each component, since it calls PMIx, which libmca_common_tm is not linked with.
common_modex_sources = \
	common/fabric/fab_help_first.c

# Ids of pending operations, in the library and in each component: the calls cost no PLT.
common_idmap_sources = \
	common/idmap/idmap.c \
	common/idmap/idmap.h
