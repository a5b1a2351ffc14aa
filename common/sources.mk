# SPDX-License-Identifier: BSD-3-Clause
# The files of libmca_common_tm, which knows no MPI object. One line each: the build, the archive and the tests follow.
common_tm_sources = \
	common/fabric/fab.c \
	common/fabric/fab.h \
	common/fabric/fab_core.h \
	common/fabric/fab_counters.h \
	common/fabric/fab_params.c \
	common/fabric/fab_params.h \
	common/fabric/fab_params_check.c \
	common/fabric/fab_peer.c \
	common/fabric/fab_provider.h \
	common/fabric/fab_queue.c \
	common/fabric/fab_wire.h \
	common/self/self_domain.c \
	common/shm/shm_ring_inl.h \
	common/shm/shm_wire.h
