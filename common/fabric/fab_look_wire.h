/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a process shows of itself to others of its user on this host, and after a crash: who it is,
 * what it waits for, and a ring of the last events.
 *
 * The memory is a memfd named "tm_look", which others find among the descriptors of the process in
 * /proc.  In a core dump it is the memory of that mapping.  Only the owner writes it; a reader
 * trusts nothing of it (fab_look_read.h).
 *
 *      0                   FAB_LOOK_HEAD
 *      ┌───────────────────┬─────────────────────────────────┐
 *      │ fab_look_t        │ events[FAB_LOOK_EVENTS]         │
 *      └───────────────────┴─────────────────────────────────┘
 *
 * This file and fab_look_read.* need nothing but the C library: tools that run without Open MPI
 * use them.
 */
#ifndef FAB_LOOK_WIRE_H
#define FAB_LOOK_WIRE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define FAB_LOOK_MAGIC UINT64_C(0x314b4f4f4c4d5450) /* "PTMLOOK1", little endian */
#define FAB_LOOK_NAME  "tm_look"                    /* of the memfd */

enum {
    FAB_LOOK_VERSION = 4,
    FAB_LOOK_HEAD = 4096, /* bytes before the events */
    FAB_LOOK_EVENTS = 512,
    FAB_LOOK_TEXT = 32, /* bytes of a text, with the 0 at its end */
    FAB_LOOK_HOST = 64,
};

/* What a call waits for. */
typedef enum {
    FAB_LOOK_NOTHING = 0,  /* it has not waited yet */
    FAB_LOOK_RECV = 1,     /* a message that fits a receive */
    FAB_LOOK_PROBE = 2,    /* a message that fits a probe */
    FAB_LOOK_ROOM = 3,     /* room towards the receiver of a message */
    FAB_LOOK_HELD = 4,     /* memory for unexpected messages at the receiver */
    FAB_LOOK_MATCH = 5,    /* the receive for a message that it knows of */
    FAB_LOOK_SENDING = 6,  /* the rest of a send, whose data is on the way */
    FAB_LOOK_ARRIVING = 7, /* the rest of a message, whose data is on the way */
    FAB_LOOK_OTHER = 8,    /* in a wait or test of Open MPI's own: for any of its requests */
    FAB_LOOK_WAITS,        /* number of these */
} fab_look_wait_t;

#define FAB_LOOK_ANY UINT64_MAX /* instead of a process's name: any */

/*
 * What the process waits for, written now and then while it waits.  After the wait it stays as it
 * is: a process that waits no more is known by `seen_ns`, which stands still.
 */
typedef struct fab_look_status {
    _Atomic uint32_t number; /* odd: it is being written; another one: it was written meanwhile */
    uint32_t polls;          /* of the fabric, so far */
    uint64_t seen_ns;        /* CLOCK_MONOTONIC, when this was written; 0: never */
    uint64_t since_ns;       /* when the wait began, as far as was noticed */
    uint64_t peer;           /* name of the process that it waits for, or FAB_LOOK_ANY */
    uint64_t bytes;
    int32_t tag;
    uint32_t context; /* id of the communicator in this process */
    uint8_t what;     /* fab_look_wait_t */
    uint8_t reserved[15];
    char comm[FAB_LOOK_TEXT]; /* the communicator's name, or the beginning of it */
    uint8_t reserved2[32];
} fab_look_status_t;

_Static_assert(64 == offsetof(fab_look_status_t, comm), "a line, and a name");
_Static_assert(128 == sizeof(fab_look_status_t), "the next line is another's");

/* Kinds of events, and what their members say where it is not plain. */
typedef enum {
    FAB_EVENT_NONE = 0,
    FAB_EVENT_WAITED,      /* a wait for `what` has ended; ns is its end, bytes how long, ns */
    FAB_EVENT_ANNOUNCED,   /* the peer has announced a message */
    FAB_EVENT_QUEUED,      /* a send to the peer found no room, and no other send waited there */
    FAB_EVENT_HOLD,        /* the peer was asked to hold its messages back */
    FAB_EVENT_GO_ON,       /* ... to go on */
    FAB_EVENT_TOLD_HOLD,   /* the peer asked this process to hold its messages back */
    FAB_EVENT_TOLD_GO_ON,  /* ... to go on */
    FAB_EVENT_PEER_OPENED, /* the peer was opened */
    FAB_EVENT_PEER_MOVED,  /* the peer is reached by another provider */
    FAB_EVENT_PEER_FAILED, /* the peer has failed */
    FAB_EVENT_KINDS,
} fab_event_kind_t;

/* One thing that happened. */
typedef struct fab_event {
    uint64_t ns;   /* CLOCK_MONOTONIC */
    uint64_t peer; /* name of the other process, or FAB_LOOK_ANY */
    uint64_t bytes;
    int32_t tag;
    uint8_t kind; /* fab_event_kind_t */
    uint8_t what; /* fab_look_wait_t */
    uint8_t reserved[2];
} fab_event_t;

_Static_assert(32 == sizeof(fab_event_t), "two in a line");

/* A struct of counters of 64 bits each in the process's own memory, for who may read that. */
typedef struct fab_look_counters {
    uint64_t at; /* its address; 0: there is none */
    uint64_t count;
    uint64_t names; /* fab_look_hash() of the names, to tell if the reader has the same */
} fab_look_counters_t;

enum { FAB_LOOK_FABRIC, FAB_LOOK_PML, FAB_LOOK_OFFLOAD, FAB_LOOK_COUNTERS };

/* The head. All but status, next and counters is constant. */
typedef struct fab_look {
    uint64_t magic; /* written last */
    uint32_t version;
    uint32_t pid;       /* in its own pid namespace */
    uint64_t name;      /* the process's, fab_config_t.name */
    uint64_t opened_ns; /* CLOCK_MONOTONIC */
    uint32_t num_procs; /* of the job; 0: not known */
    uint8_t reserved[28];
    fab_look_status_t status;
    _Atomic uint64_t next; /* events recorded so far: the next goes to next % FAB_LOOK_EVENTS */
    uint8_t reserved2[56];
    fab_look_counters_t counters[FAB_LOOK_COUNTERS];
    char program[FAB_LOOK_TEXT]; /* the program's name */
    char host[FAB_LOOK_HOST];
} fab_look_t;

/* All of the memory. */
typedef union fab_look_memory {
    fab_look_t look;
    struct {
        char head[FAB_LOOK_HEAD];
        fab_event_t events[FAB_LOOK_EVENTS];
    };
} fab_look_memory_t;

_Static_assert(64 == offsetof(fab_look_t, status), "lines of its own");
_Static_assert(192 == offsetof(fab_look_t, next), "a line of its own");
_Static_assert(sizeof(fab_look_t) <= FAB_LOOK_HEAD, "it fits");

/* FNV-1a */
static inline uint64_t fab_look_hash(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; '\0' != *text; text++) {
        hash = (hash ^ (unsigned char) *text) * UINT64_C(0x100000001b3);
    }
    return hash;
}

#endif /* FAB_LOOK_WIRE_H */
