/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sizes at which a message's way changes, all in bytes; doc/design.md has the picture.  Others
 * are parameters (pml_tm_params.c), or belong to a provider (fab_peer_t.eager_max,
 * FAB_SHORT_MAX: a slot of a ring).
 */
#ifndef PML_TM_SIZES_H
#define PML_TM_SIZES_H

enum {
    /*
     * Default of parameter eager_limit: longer messages are announced; those above STREAM_MIN, too,
     * inside a host, once the receiver has found that to be faster.
     */
    PML_TM_EAGER_LIMIT = 16384,

    /*
     * Longer messages to a process of this host are streamed; a fragment is 128 cache lines with
     * its header.
     */
    PML_TM_STREAM_MIN = 8192,
    PML_TM_STREAM_FRAGMENT = 8168,

    /* Default of parameter stream_limit. */
    PML_TM_STREAM_LIMIT = 131072,

    /*
     * Longer messages over a network send data with their announcement.  Below, the extra copy
     * costs as much as the round trip: over TCP 128 KiB took 52 us with data, 48 without, and lost
     * a quarter of the bandwidth; 256 KiB takes 79 us with data and 81 without, 1 MiB 302 and 347.
     */
    PML_TM_FIRST_PART_MIN = 262144,

    /*
     * The convertor packs only whole elements of basic types, so it may leave this many bytes of
     * its room unused.  The longest element is long double complex.
     */
    PML_TM_ELEMENT_MAX = 32,
};

/* Over tcp, a message to a peer that answers goes with its data up to so many eager limits. */
#define PML_TM_WHOLE 4

#endif /* PML_TM_SIZES_H */
