/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tm_info --measure: latency and bandwidth of the ways between two processes of this host; and the
 * same between two hosts, tm_info --serve and --ping.
 */
#ifndef TM_INFO_MEASURE_H
#define TM_INFO_MEASURE_H

enum { TM_INFO_PORT = 24500 };

/* Each returns the exit status: 0, or 1 if no provider works, or the other host does not answer. */
int tm_info_measure(void);
int tm_info_serve(const char *port);
int tm_info_ping(const char *host, const char *port);

#endif /* TM_INFO_MEASURE_H */
