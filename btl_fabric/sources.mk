# SPDX-License-Identifier: BSD-3-Clause
# The files of mca_btl_fabric. One line for each: the build and the archive follow.
btl_fabric_sources = \
	btl_fabric/btl_fabric.c \
	btl_fabric/btl_fabric.h \
	btl_fabric/btl_fabric_compat.h \
	btl_fabric/btl_fabric_component.c \
	btl_fabric/btl_fabric_entry.h \
	btl_fabric/btl_fabric_help.c \
	btl_fabric/btl_fabric_help.h \
	btl_fabric/btl_fabric_mem.c \
	btl_fabric/btl_fabric_mem.h \
	btl_fabric/btl_fabric_module.c \
	btl_fabric/btl_fabric_op.c \
	btl_fabric/btl_fabric_op.h \
	btl_fabric/btl_fabric_progress.c \
	btl_fabric/btl_fabric_rma.c \
	btl_fabric/btl_fabric_send.c \
	btl_fabric/btl_fabric_staged.c \
	btl_fabric/btl_fabric_target.c \
	btl_fabric/btl_fabric_up.c \
	btl_fabric/btl_fabric_up.h \
	btl_fabric/btl_fabric_ways.c \
	btl_fabric/btl_fabric_wire.h
