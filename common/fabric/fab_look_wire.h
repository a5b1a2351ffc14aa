/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a process shows of itself to others of its user on this host, and after a crash: what it is,
 * what waits in it, and a ring of the last events.
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
 * fab_wait_t is the one account of what waits: tm_look shows it, a process sends it to others that
 * wait (pml_tm_wire.h), and a debugger has it printed (pml_dump).
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
    FAB_LOOK_VERSION = 5,
    FAB_LOOK_HEAD = 4096, /* bytes before the events */
    FAB_LOOK_LIST = 64,   /* things that wait and are shown, at most */
    FAB_LOOK_EVENTS = 512,
    FAB_LOOK_TEXT = 32, /* bytes of a text, with the 0 at its end */
    FAB_LOOK_HOST = 64,
};

/* Why something waits. */
typedef enum {
    FAB_LOOK_NOTHING = 0,  /* the process has not waited yet */
    FAB_LOOK_RECV = 1,     /* a receive: no message fits */
    FAB_LOOK_PROBE = 2,    /* a probe: no message fits */
    FAB_LOOK_ROOM = 3,     /* a send: there is no room towards the receiver */
    FAB_LOOK_HELD = 4,     /* a send: the receiver is short of memory for unexpected messages */
    FAB_LOOK_MATCH = 5,    /* a send: the receiver knows of it, no receive fits */
    FAB_LOOK_SENDING = 6,  /* a send: its data is on the way */
    FAB_LOOK_ARRIVING = 7, /* a receive: its data is on the way */
    FAB_LOOK_OTHER = 8,    /* a wait or test of Open MPI's own: any of its requests */
    FAB_LOOK_MESSAGE = 9,  /* a message that has arrived: no receive fits */
    FAB_LOOK_EARLY = 10,   /* a message whose communicator does not exist here yet */
    FAB_LOOK_WAITS,        /* number of these */
} fab_look_wait_t;

/* The one thing in which a message differs from what a receive or probe waits for. */
typedef enum {
    FAB_NEAR_NOT, /* it differs in more, or nothing was compared */
    FAB_NEAR_TAG,
    FAB_NEAR_COLLECTIVE, /* both belong to collective operations, of different kinds */
    FAB_NEAR_SOURCE,
    FAB_NEAR_COMM,
    FAB_NEARS, /* number of these */
} fab_near_t;

#define FAB_LOOK_ANY UINT64_MAX /* instead of a process's name: any */

/* One thing that waits. */
typedef struct fab_wait {
    uint64_t peer;  /* name of the other process, or FAB_LOOK_ANY */
    uint64_t bytes; /* of the message; of a receive that no message fits: it takes up to so many */
    int32_t tag;
    uint32_t context; /* id of the communicator in this process */
    uint8_t what;     /* fab_look_wait_t */
    uint8_t near;     /* fab_near_t, of a message */
    uint8_t reserved[6];
    char comm[24]; /* the communicator's name, or the beginning of it; ends with a 0 */
} fab_wait_t;

_Static_assert(56 == sizeof(fab_wait_t), "wire format");

/*
 * When `wait` and `waits` were written.  While the process waits, what the call waits for is
 * written now and then, and the list of all that waits less often.  After the wait they stay as
 * they are: a process that waits no more is known by `seen_ns`, which stands still.
 */
typedef struct fab_look_status {
    _Atomic uint32_t number; /* odd: it is being written; another one: it was written meanwhile */
    uint32_t polls;          /* of the fabric, so far */
    uint64_t seen_ns;        /* CLOCK_MONOTONIC, when `wait` was written; 0: never */
    uint64_t since_ns;       /* when the beginning of the wait was noticed */
    uint64_t listed_ns;      /* when `waits` were written; 0: never */
    uint32_t count;          /* of `waits` */
    uint32_t has_more;       /* 1: there are more, which are not in `waits` */
    uint8_t reserved[24];
} fab_look_status_t;

_Static_assert(64 == sizeof(fab_look_status_t), "the next line is another's");

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

/* A struct of counters of 64 bits each in the process's own memory, if that may be read. */
typedef struct fab_look_counters {
    uint64_t at; /* its address; 0: there is none */
    uint64_t count;
    uint64_t names; /* fab_look_hash() of the names, to tell if the reader has the same */
} fab_look_counters_t;

/* The last one has no names: it is read to see whether messages are sent. */
enum {
    FAB_LOOK_FABRIC,
    FAB_LOOK_PML,
    FAB_LOOK_OFFLOAD,
    FAB_LOOK_SENT,
    FAB_LOOK_COUNTERS,
};

/* The head. All but status, next, counters and waits is constant. */
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
    fab_wait_t wait;                 /* what the call waits for */
    fab_wait_t waits[FAB_LOOK_LIST]; /* all that waits; status.count of these are valid */
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
_Static_assert(128 == offsetof(fab_look_t, next), "a line of its own");
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
