/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a provider is to the fabric: one constant table.  Data path operations per peer are
 * fab_ops_t (fab.h); this is the control side, called rarely, with the lock held.  A provider has a
 * directory, with <name>.h, and <name>_wire.h for what other processes see.
 */
#ifndef FAB_PROVIDER_H
#define FAB_PROVIDER_H

#include "fabric/fab.h"
#include "fabric/fab_counters.h"
#include "fabric/fab_tm.h"

/* May a peer leave its provider, if it asks by a later one? */
typedef enum fab_moves {
    FAB_MOVES,       /* nothing is on its way */
    FAB_STAYS,       /* something is, or was */
    FAB_MOVES_LATER, /* ask again */
} fab_moves_t;

enum { FAB_AWAKE = -2 }; /* see fab_provider_t.wake_fd */

/* a provider's state in this process; each defines its own, cast at the edge */
typedef struct fab_domain fab_domain_t;

typedef struct fab_provider {
    const char *name;
    uint16_t id;        /* of its section in an address, FAB_WIRE_* (fab_wire.h) */
    bool reaches_hosts; /* not only processes of this host */
    const fab_ops_t *ops;

    uint64_t abi;  /* of its structures that users of the fabric know; 0: there are none */
    bool is_apart; /* in an object of its own: what else it has is known when that is loaded */

    /*
     * Make the provider usable in this process.  Errors: OPAL_ERR_*; then *why says what failed,
     * where, and what to do (fab_sentence()).
     */
    int (*open)(fab_t *fab, fab_domain_t **dom, const char **why);
    void (*close)(fab_domain_t *dom);

    /* This process's address for this provider. NULL: there is none, address_len is 0. */
    const void *(*address)(const fab_domain_t *dom);
    size_t address_len; /* bytes */

    /*
     * Can the process with this address, of address_len bytes, be reached?  OPAL_SUCCESS: the peer
     * is this provider's from now on; eager_max and caps are set, and ep if that costs little.
     * Otherwise OPAL_ERR_UNREACH, or OPAL_ERR_OUT_OF_RESOURCE, with *why. Makes no system call that
     * can block.
     */
    int (*attach)(fab_domain_t *dom, fab_peer_t *peer, const void *address, const char **why);

    /*
     * No more is sent to the peer: release what serves sending.  If nothing can come from the peer
     * any more, then all, and ep = NULL; else ep stays until the peer has left too, which the
     * provider reports by fab_peer_left().
     */
    void (*detach)(fab_domain_t *dom, fab_peer_t *peer);

    /*
     * The peer failed: release all, complete its RMA with OPAL_ERR_UNREACH, ep = NULL, and return
     * true.  False: a device is not done with it; it is called again in each fab_progress() until
     * it is.  Never called from within another function of the provider.
     * Also if the peer moves to another provider (it is UP then): its RMA ends with
     * OPAL_ERR_NOT_SUPPORTED.
     */
    bool (*drop)(fab_domain_t *dom, fab_peer_t *peer);

    /*
     * Where the fabric keeps what it needs to give the peer to another provider (malloc(), or
     * NULL), from attach() on: the provider frees it when no move is possible any more, or with ep.
     * NULL: the peer stays for good. NULL as a pointer: peers always stay.
     */
    void **(*spare)(const fab_peer_t *peer);
    /*
     * The peer, which has an ep, asks for a connection by a later provider: it has let go of this
     * one.  If something was on its way, the peer fails.  NULL: it moves as long as spare() returns
     * something.
     */
    fab_moves_t (*asked_by_later)(fab_peer_t *peer);
    /*
     * The peer has moved here, and waits for this process to ask for a connection, though nothing
     * may be queued, and the peer may be closed (FAB_PEER_CLOSED: end it in order then).  NULL: it
     * asks when something is sent.
     */
    void (*ask_owed)(fab_peer_t *peer);

    /*
     * Poll once: deliver what arrived with fab_deliver(), move RMA on.  Returns the number of
     * events.
     */
    int (*progress)(fab_domain_t *dom);

    /*
     * The same for a caller that polls often (fab_poll()), without what may wait for some calls.
     * NULL: there is nothing to leave out.
     */
    int (*poll)(void *dom);

    /*
     * Of a provider with RMA: give the peer, which this provider reaches, or any (NULL) access to
     * memory, and write this provider's part of the key, which has one for shm and one for other
     * hosts.  False: the memory cannot be reached by RMA.  NULL: no key is needed.  What a peer has
     * been given ends with unexpose(), or with the peer.
     */
    bool (*expose)(fab_domain_t *dom, fab_peer_t *peer, const void *buf, size_t len,
                   unsigned access, fab_rkey_t *rkey);
    void (*unexpose)(fab_domain_t *dom, fab_peer_t *peer, const fab_rkey_t *rkey);

    /*
     * True while messages can come only by connections that are still to be made: fab_poll() then
     * leaves the provider out.  Call fab_idle_changed() when this changes.  NULL: never.
     */
    bool (*is_idle)(const fab_domain_t *dom);

    /*
     * Before each sleep (fab_sleep()): a descriptor that is readable from now on when there is
     * something to do here; -1: there is none; FAB_AWAKE: something is there already.  After
     * is_awake() the next progress() looks what.  NULL: there never is one.
     */
    int (*wake_fd)(fab_domain_t *dom);
    void (*is_awake)(fab_domain_t *dom);

    /*
     * Has it messages, of those that it has taken for peers that live, which would be lost if this
     * process ended?  NULL: never.
     */
    bool (*is_holding)(const fab_domain_t *dom);

    /* fab_tm_use(); NULL: no hardware of this kind matches tags. */
    bool (*tm_use)(fab_domain_t *dom, const fab_tm_user_t *user, void *ctx,
                   fab_tm_device_t *device);

    /* One or several lines for fab_describe(). Returns bytes written, as snprintf. */
    int (*describe)(fab_domain_t *dom, char *buf, size_t size);
} fab_provider_t;

extern const fab_provider_t fab_self_provider;
extern const fab_provider_t fab_shm_provider;
extern const fab_provider_t fab_tcp_provider;

/*
 * Providers in order of preference, those that are not in this build, too; one changes when it is
 * loaded.
 */
extern const fab_provider_t *fab_providers[FAB_NUM_PROVIDERS];

/* Are all names in this list, which ^ may begin, those of providers? */
bool fab_provider_is_list(const char *list);

/*
 * Is the provider in this list, or, if that begins with ^, not in it?  An empty list, or NULL,
 * holds all; self is always used.
 */
bool fab_provider_is_in(const fab_provider_t *provider, const char *list);

/*
 * The peer of a name that a message brought, made for this provider if it is new.  It has an
 * endpoint of this provider's, whose address is to be compared.  NULL: the message is refused, as
 * the peer is this process, has failed or is reached by another provider, or there is no memory;
 * but with *is_later ask again after the next fab_progress(): the peer was to be reached by another
 * provider, had not used that, and moves to this one.
 */
FAB_EXPORT fab_peer_t *fab_peer_from_wire(fab_t *fab, const fab_provider_t *provider, uint64_t name,
                                          const void *address, size_t len, bool *is_later);

/* The peer fails: it sent a malformed message.  what is wrong, without a full stop; copied. */
FAB_EXPORT void fab_peer_bad_message(fab_peer_t *peer, const char *what) __attribute__((cold));

/*
 * No connection to the peer can be made, and it is not bound to this provider. It moves to the
 * next provider that reaches it, with all that is queued; if there is none, it fails, as by
 * fab_peer_fail().
 */
FAB_EXPORT void fab_peer_cannot_connect(fab_peer_t *peer, int rc, const char *why);
/* The same, and the peer waits until this process asks it by the next one: even if it is closed. */
FAB_EXPORT void fab_peer_owes(fab_peer_t *peer, int rc, const char *why);

/*
 * Its provider is about to drop it, and another one to take it, or a new record: refuse connections
 * by the former, and look again later at those by others.
 */
FAB_EXPORT bool fab_peer_is_moving(const fab_peer_t *peer);

/* The provider that reaches the peer, failed or closed ones too. */
FAB_EXPORT const fab_provider_t *fab_peer_provider(const fab_peer_t *peer);

/* A message is complete: hand it to its handler. */
static inline void fab_deliver(fab_t *fab, fab_peer_t *peer, fab_hdr_t hdr, const void *data,
                               size_t len)
{
    const struct fab_handler *handler = &fab->handlers[hdr.id & (FAB_AM_MAX - 1)];
    handler->fn(handler->ctx, peer, hdr, data, len);
}

/* Where the message's payload is to go; NULL: anywhere. */
static inline void *fab_place(fab_t *fab, fab_peer_t *peer, fab_hdr_t hdr, size_t len)
{
    const struct fab_placer *placer = &fab->placers[hdr.id & (FAB_AM_MAX - 1)];

    return NULL != placer->fn ? placer->fn(placer->ctx, peer, hdr, len) : NULL;
}

/*
 * The peer has left the job and what it sent was delivered: it is failed if a user still needs it
 * (fab_config_t.peer_left).  May be called again: something may be sent to it yet.
 */
FAB_EXPORT void fab_peer_has_left(fab_peer_t *peer);

/* A provider's is_idle() has changed. */
FAB_EXPORT void fab_idle_changed(fab_t *fab);

/* A peer that this process had closed (FAB_PEER_CLOSED) has left, ep is NULL: its record goes. */
FAB_EXPORT void fab_peer_left(fab_peer_t *peer);

/* Format a sentence for *why; valid until the next call. Returns it. */
FAB_EXPORT const char *fab_sentence(fab_t *fab, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Tell the user something (fab_config_t.log); warn: at level 0, by one process of the host. */
FAB_EXPORT void fab_warn(fab_t *fab, const char *format, ...) __attribute__((format(printf, 2, 3)));
FAB_EXPORT void fab_log(fab_t *fab, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif /* FAB_PROVIDER_H */
