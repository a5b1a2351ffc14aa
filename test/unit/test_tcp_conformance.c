/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The conformance test of the fabric with all processes communicating by TCP.
 *
 * TEST: sources=@fabric,test/unit/conform.c,test/unit/conform_messages.c,test/unit/conform_peers.c,test/unit/conform_rma.c,test/unit/conform_users.c variants=asan,tsan timeout=600 quick=no
 */
#include "conform.h"

int main(int argc, char **argv)
{
    return conform_main(argc, argv, "tcp");
}
