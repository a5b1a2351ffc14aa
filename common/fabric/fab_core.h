/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric's own structure, for the files of common/fabric/ only.
 *
 * Peer records live in chunks that never move, so a fab_peer_t pointer stays valid until its record
 * is released.  The hash table holds record numbers (4 bytes), not pointers: a million peers cost
 * 64 MB of records, 8 MB of table and 8 MB for the list of those with items.
 *
 * All of it is covered by the fabric's lock.
 */
#ifndef FAB_CORE_H
#define FAB_CORE_H

#include "fabric/fab.h"
#include "fabric/fab_file.h"
#include "fabric/fab_provider.h"
#include "fabric/fab_wire.h"

enum {
    FAB_CHUNK_PEERS = 256,   /* peer records per chunk: 16 KiB */
    FAB_SENTENCE_MAX = 512,  /* bytes of a sentence for the user */
    FAB_ITEMS_PER_PASS = 64, /* items of one peer run in one fab_progress(): bounds its time */
    /* peers whose items one fab_progress() considers, for the same reason */
    FAB_PEERS_PER_PASS = 64,
    FAB_POST_MAX = 256, /* bytes of payload of fab_post() */
    /*
     * Bytes kept for a user that has not started. It starts soon after others know its address, so
     * they have no time to send much.
     */
    FAB_KEEP_MAX = 16 << 20,
};

#define FAB_NO_RECORD UINT32_MAX /* no record number */

typedef struct fab_slot {
    fab_domain_t *dom; /* NULL: not open */
    char why_not[FAB_SENTENCE_MAX];
    unsigned num_moved; /* peers that it could not connect to and that another one reaches */
    char why_moved[FAB_SENTENCE_MAX]; /* the last of them */
} fab_slot_t;

/*
 * A peer that its provider is to let go of: it has failed (fab_failed.c), or is to move to another
 * provider (fab_move.c), and may fail while it does.  One of these for each such peer.
 */
typedef struct fab_drop {
    LIST_ENTRY(fab_drop) link;
    fab_peer_t *peer;
    int rc;
    void *address; /* of a move: sections of the providers that may take it; malloc(); else NULL */
    bool is_owed;  /* the peer waits for this process's request: fab_peer_owes() */
    bool is_reported; /* by peer_failed(); the provider may still use the peer */
    char why[FAB_SENTENCE_MAX];
} fab_drop_t;

/* A message kept by fab_post(). */
typedef struct fab_post {
    fab_item_t item;
    fab_hdr_t hdr;
    size_t len;
    unsigned char data[];
} fab_post_t;

/* A message for a user that has not started. */
typedef struct fab_kept {
    STAILQ_ENTRY(fab_kept) link;
    fab_peer_t *peer;
    fab_hdr_t hdr;
    size_t len;
    uint64_t data[]; /* messages are 8-byte aligned */
} fab_kept_t;

typedef struct fab_user_state {
    fab_config_t config;
    bool is_open;
    STAILQ_HEAD(, fab_kept) kept; /* oldest first */
    size_t kept_bytes;
} fab_user_state_t;

typedef struct fab_core {
    fab_t fab; /* first member: others see only fab_t */
    fab_user_state_t users[FAB_NUM_USERS];
    /* copied to fab.handlers once the user has started */
    struct fab_handler handlers[FAB_AM_MAX];

    fab_slot_t slots[FAB_NUM_PROVIDERS];
    /* what fab_progress() calls: of those that are open, in their order */
    struct {
        int (*progress)(fab_domain_t *dom);
        fab_domain_t *dom;
    } open[FAB_NUM_PROVIDERS];
    unsigned num_open;
    int (*poll_all)(void *fab); /* fab_progress(): what fab_poll() calls if it has to do it all */

    /* Peer records (fab_record.c). */
    fab_peer_t **chunks;
    uint32_t num_chunks;
    uint32_t max_chunks;
    uint32_t free_record; /* first free record's number; the next one's is in its name */
    uint32_t num_peers;   /* in the table */
    uint32_t *table;      /* record number + 1; 0: empty. Open addressing, at most 3/4 full. */
    uint32_t table_shift; /* 64 - log2 of its size */

    bool has_work; /* some of the following is not empty: fab_progress() must process them */

    /* Items (fab_queue.c). */
    fab_peer_t **busy; /* peers with items, in the order in which they are served; room for all */
    uint32_t num_busy;
    uint32_t next_busy;  /* whose turn it is */
    fab_peer_t *running; /* its items are being run: it is in busy, whatever its pending says */

    LIST_HEAD(, fab_drop) drops; /* until their provider is done with them */
    fab_drop_t reserve;          /* one of them, if there was no memory; peer is NULL: unused */
    bool is_failure_lost;        /* no memory to keep one: look for it */

    /* What this process shows of itself (fab_look.c); look is NULL: nothing. */
    union fab_look_memory *look;
    fab_file_t look_file;

    char sentence[FAB_SENTENCE_MAX];      /* fab_sentence() */
    char open_sentence[FAB_SENTENCE_MAX]; /* *why of fab_peer_open() */
} fab_core_t;

static inline fab_core_t *fab_core(fab_t *fab)
{
    return (fab_core_t *) fab;
}

static inline fab_peer_t *fab_core_record(const fab_core_t *core, uint32_t number)
{
    return &core->chunks[number / FAB_CHUNK_PEERS][number % FAB_CHUNK_PEERS];
}

/* Bits of fab_peer_t.users. */
static inline uint8_t fab_peer_open_bit(fab_user_t user)
{
    return (uint8_t) (1u << user);
}

static inline uint8_t fab_peer_closed_bit(fab_user_t user)
{
    return (uint8_t) (16u << user);
}

/* fab_core.c */
/* Of a peer that cannot be sent to: it moves to another provider (UP), failed, or was closed. */
extern const fab_ops_t fab_no_ops;
void fab_core_set_work(fab_core_t *core, bool has_work);
/* NULL: the provider is not to let go of the peer. */
fab_drop_t *fab_drop_of(const fab_core_t *core, const fab_peer_t *peer);

/* fab_record.c */
/* A record with the name, not in the table yet; FAB_NO_RECORD: no memory. */
uint32_t fab_record_new(fab_core_t *core, uint64_t name);
/* Into the table with it. */
fab_peer_t *fab_record_enter(fab_core_t *core, uint32_t number);
/* It does not come into the table. */
void fab_record_release(fab_core_t *core, uint32_t number);
/* Release the peer's record, if no user needs it any more. */
void fab_record_try_release(fab_peer_t *peer);
void fab_record_free(fab_core_t *core);

/* fab_address.c */
/* Is it an address, and of the process with this name?  Afterwards every section lies within it. */
int fab_address_check(fab_core_t *core, uint64_t name, const void *address, size_t len,
                      const char **why);
/* What provider (FAB_WIRE_*) has to say in a checked address; NULL: nothing. */
const void *fab_address_section(const void *address, uint16_t provider, size_t *section_len);
/* Append a section to an address, which has room for it; zeros at its end are left out. */
void fab_address_add(fab_wire_head_t *to, uint16_t provider, const void *section, size_t len);
/* Let provider i take the peer. */
int fab_choose_this(fab_core_t *core, fab_peer_t *peer, int i, const void *section, size_t len,
                    const char **why);
/*
 * Offer the peer to the providers from the first on, in order; why collects their answers.  If one
 * has no memory for it, that ends the choice with OPAL_ERR_OUT_OF_RESOURCE: both processes must
 * come to the same one.
 */
int fab_choose(fab_core_t *core, fab_peer_t *peer, const void *address, int first, char *why,
               size_t size);

/* fab_failed.c */
/* A new one, for this peer. NULL: there is no memory. */
fab_drop_t *fab_drop_add(fab_core_t *core, fab_peer_t *peer, int rc, const char *why);
void fab_drop_end(fab_core_t *core, fab_drop_t *drop);
/* Release what the provider holds. False: later. */
bool fab_drop_try(fab_core_t *core, fab_peer_t *peer);
/* Report the failure, once; callbacks may add others.  False: the provider is not done with it. */
bool fab_failed_report(fab_core_t *core, fab_drop_t *drop, int *events);
/*
 * No memory once to keep a failure: those that failed and still have their provider's state were
 * not reported.
 */
void fab_failed_find(fab_core_t *core);
void fab_drop_free(fab_core_t *core);

/* fab_load.c: the provider; loaded once, and never unloaded.  NULL: *why, a sentence. */
const fab_provider_t *fab_load_verbs(fab_t *fab, const char **why);
const fab_provider_t *fab_load_ofi(fab_t *fab, const char **why);

/* fab_queue.c */
/* Run items that have room. Returns how many went on. */
int fab_queue_run(fab_core_t *core);
/* Items of the user are not run any more; their memory goes with it. */
void fab_queue_forget(fab_core_t *core, fab_user_t user);
void fab_queue_free(fab_core_t *core);

/* fab_move.c */
/* The peer was opened with this address: keep what it takes to move to another provider. */
void fab_move_keep_address(fab_core_t *core, fab_peer_t *peer, const void *address);
/*
 * The peer asks for a connection by another provider than its own.  True: look at that later: it
 * moves, or may.
 */
bool fab_move_asked_by(fab_core_t *core, fab_peer_t *peer, int provider, const void *section,
                       size_t len);
/* Report failures, and move peers on.  Returns how many were reported or moved. */
int fab_drop_run(fab_core_t *core);

/* fab_peer.c */
void fab_peer_close_all(fab_core_t *core, fab_user_t user);

/* fab_user.c */
void fab_user_init(fab_core_t *core);
void fab_user_add(fab_core_t *core, const fab_config_t *config);
/* Its handlers go, and what is kept for it. */
void fab_user_remove(fab_core_t *core, fab_user_t user);
void fab_user_free(fab_core_t *core);

#endif /* FAB_CORE_H */
