/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The conformance test of the fabric with all processes talking by TCP.
 *
 * TEST: sources=@fabric variants=asan,tsan timeout=600 quick=no
 */
#define WORLD_PROVIDERS "tcp"

#include "test_fab_conformance.c"
