/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Probes for bpftrace, perf and gdb (USDT): a nop in the code, and a note in the file that says
 * where it is and where its arguments are.  Where <sys/sdt.h> (systemtap-sdt-dev) is missing there
 * are none.
 */
#ifndef FAB_USDT_H
#define FAB_USDT_H

#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#define FAB_PROBE5(name, a, b, c, d, e) STAP_PROBE5(pml_tm, name, a, b, c, d, e)
#else
#define FAB_PROBE5(name, a, b, c, d, e) ((void) 0)
#endif

#endif /* FAB_USDT_H */
