# SPDX-License-Identifier: BSD-3-Clause
# The files of mca_pml_tm. One line for each: the build and the archive follow.
pml_tm_sources = \
	pml_tm/pml_tm.c \
	pml_tm/pml_tm.h \
	pml_tm/pml_tm_blocks.c \
	pml_tm/pml_tm_blocks.h \
	pml_tm/pml_tm_cancel.c \
	pml_tm/pml_tm_cancel.h \
	pml_tm/pml_tm_comm.c \
	pml_tm/pml_tm_comm.h \
	pml_tm/pml_tm_compat.h \
	pml_tm/pml_tm_component.c \
	pml_tm/pml_tm_counters.h \
	pml_tm/pml_tm_excid.c \
	pml_tm/pml_tm_excid.h \
	pml_tm/pml_tm_failure.c \
	pml_tm/pml_tm_failure.h \
	pml_tm/pml_tm_flow.c \
	pml_tm/pml_tm_flow.h \
	pml_tm/pml_tm_help.c \
	pml_tm/pml_tm_msg.c \
	pml_tm/pml_tm_msg.h \
	pml_tm/pml_tm_offload.c \
	pml_tm/pml_tm_offload.h \
	pml_tm/pml_tm_params.c \
	pml_tm/pml_tm_params.h \
	pml_tm/pml_tm_peer.c \
	pml_tm/pml_tm_peer.h \
	pml_tm/pml_tm_probe.c \
	pml_tm/pml_tm_recv.c \
	pml_tm/pml_tm_recv.h \
	pml_tm/pml_tm_request.c \
	pml_tm/pml_tm_request.h \
	pml_tm/pml_tm_rndv.c \
	pml_tm/pml_tm_send.c \
	pml_tm/pml_tm_send.h \
	pml_tm/pml_tm_start.c \
	pml_tm/pml_tm_stream.c \
	pml_tm/pml_tm_stream.h \
	pml_tm/pml_tm_thread.c \
	pml_tm/pml_tm_wait.c \
	pml_tm/pml_tm_wire.h
