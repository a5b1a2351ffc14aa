/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The address of a process, as fab_address() writes it and fab_peer_open() reads it: a head, then
 * one section per open provider, without the zeros at its end, padded to 8 bytes.  Byte order and
 * sizes are those of the host; a host with another byte order reads a wrong magic.
 *
 *       0 magic  4 version  6 sections  8 name          16 len     20 reserved
 *      24 provider  26 len  28 reserved  32 bytes ...                              first section
 *       …                                                                          next section
 *
 * Sections of providers that the reader does not know are skipped, so providers may be added
 * without a new version.
 */
#ifndef FAB_WIRE_H
#define FAB_WIRE_H

#include <stdint.h>

#define FAB_WIRE_MAGIC   0x41424146u /* "FABA", little endian */
#define FAB_WIRE_VERSION 2

enum {
    FAB_WIRE_SELF = 1,
    FAB_WIRE_SHM = 2,
    FAB_WIRE_TCP = 3,
    FAB_WIRE_VERBS = 4,
    FAB_WIRE_OFI = 5,
};

typedef struct fab_wire_head {
    uint32_t magic;
    uint16_t version;
    uint16_t sections;
    uint64_t name; /* fab_config_t.name of the process */
    uint32_t len;  /* bytes, of all */
    uint32_t reserved;
} fab_wire_head_t;

typedef struct fab_wire_section {
    uint16_t provider; /* FAB_WIRE_* */
    uint16_t len;      /* bytes that follow, without padding */
    uint32_t reserved;
} fab_wire_section_t;

_Static_assert(24 == sizeof(fab_wire_head_t), "fab_wire_head_t is a wire format");
_Static_assert(8 == sizeof(fab_wire_section_t), "fab_wire_section_t is a wire format");

#endif /* FAB_WIRE_H */
