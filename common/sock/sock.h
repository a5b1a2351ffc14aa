/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets of a provider: one that listens, and one for each pending connection, until the provider
 * takes it over or releases it.
 *
 * All sockets are nonblocking and stand in one epoll set.  The IP addresses of a peer race
 * (sock_race.h), until a process proves to be the intended one: a private address (of a bridge, of
 * a container) may lead to another host.  Then frames of fixed size go both ways; sock_wire.h has
 * their form, and how the two processes prove that they belong to the job.
 *
 * Strangers.  A connection that was accepted and did not prove itself yet is a stranger: there are
 * FAB_SOCK_STRANGERS at most.  Time alone ends none, since the active process, or this one, may be
 * computing.  All that waits is accepted.  If there is no room for a further stranger, one goes of
 * the address that has most of them; if the new one's address has as many, only one that has been
 * silent for FAB_SOCK_STRANGER_US; or else the new one.  A process whose connection was dropped in
 * this way connects again.
 *
 * Descriptors.  Strangers take what the process may have, and one in reserve; only when one of them
 * has proved to belong to the job, or this process connects itself, does it raise its limit.
 *
 * Nothing here blocks.  No time limit applies while the peer's program may be computing: TCP
 * reports a peer that is gone.  All under the fabric's lock.
 */
#ifndef FAB_SOCK_H
#define FAB_SOCK_H

#include <sys/queue.h>
#include <sys/socket.h>

#include "fabric/fab.h"
#include "session/session_wire.h"
#include "sock/sock_ip.h"
#include "sock/sock_proof.h"
#include "sock/sock_race.h"

enum {
    FAB_SOCK_STRANGERS = 128,
    FAB_SOCK_STRANGER_US = 3000000, /* a process of the job that is in MPI answers at once */
    FAB_SOCK_CHECKS = 8,            /* probes of a silent host in timeout_s */
};

typedef struct fab_sock_set fab_sock_set_t;
typedef struct fab_sock fab_sock_t;

/* What a provider is to its sockets. */
typedef struct fab_sock_user {
    fab_t *fab;
    void *dom;          /* the provider's own */
    uint16_t protocol;  /* FAB_WIRE_* */
    uint16_t frame_len; /* bytes of its frames, FAB_SOCK_FRAME_MAX at most */
    const uint8_t *key; /* of this process, FAB_SOCK_KEY bytes: in its address */
    uint16_t port_min;  /* it listens on one of these ports; 0: on any */
    uint16_t port_max;
    uint32_t timeout_s;       /* until a host that does not answer is given up */
    const fab_sock_ip_t *ips; /* it listens at these addresses only, during the call */
    int num_ips;              /* 0: at all addresses of the host */
    /*
     * A process proved to be the one meant: its first frame follows, and may be changed.  It may be
     * sent again by another connection, if this one breaks before the answer.  NULL: nothing to do.
     */
    void (*on_proven)(fab_sock_t *sock, void *frame);
    /* A frame came.  May release the socket. */
    void (*on_frame)(fab_sock_t *sock, const void *frame);
    /*
     * All addresses failed, or the other side closed it; why is a sentence.  The provider releases
     * the socket.
     */
    void (*on_broken)(fab_sock_t *sock, const char *why);
    unsigned long long
        *strangers; /* counter: connections that did not prove to belong to the job */
} fab_sock_user_t;

typedef enum fab_sock_state {
    FAB_SOCK_RACING,     /* asking: has attempts */
    FAB_SOCK_CONNECTING, /* attempt: waits for TCP */
    FAB_SOCK_GREETED,    /* attempt: waits for the challenge */
    FAB_SOCK_ACCEPTED,   /* answering: waits for the greeting */
    FAB_SOCK_CHALLENGED, /* answering: waits for the first frame */
    FAB_SOCK_OPEN,       /* this side has the proofs that it needs of belonging to the job */
} fab_sock_state_t;

struct fab_sock {
    fab_sock_set_t *set;
    void *owner; /* the provider's: whom it is for; NULL: accepted, not known yet */
    int fd;      /* -1: of an asking one while it races */
    fab_sock_state_t state;
    bool is_asking;      /* made by fab_sock_connect() */
    bool has_answer;     /* of an asking one: a frame came, no other address is tried */
    bool is_closing;     /* goes when all is written */
    bool is_dead;        /* to be freed */
    bool is_deferred;    /* its frame is to be handed over again */
    bool is_silent;      /* a stranger that has said nothing for FAB_SOCK_STRANGER_US */
    bool has_complained; /* that it waits for a host that lives */
    uint32_t watched;    /* what epoll tells of it; 0: nothing */
    uint8_t num_drops;   /* closed before the first answer came */
    uint8_t num_ips;
    uint8_t ip_at; /* of an attempt: its address; of an asking one: the last that failed, or won */
    fab_sock_ip_t ips[FAB_SOCK_IPS];
    fab_sock_race_t race;               /* of an asking one */
    fab_sock_t *attempts[FAB_SOCK_IPS]; /* of an asking one; NULL: not connecting */
    int probe;                          /* of an asking one: socket of a datagram; -1: none */
    fab_sock_t *ask;                    /* of an attempt: whose; NULL: it is none */
    uint8_t from[16];                   /* of a stranger: its address */
    uint64_t begun;                     /* us, of an asking one */
    int error;                          /* errno of the last attempt; 0: closed */
    /*
     * us: of an asking one until when its probe may be answered; of a stranger, until when it may
     * be silent
     */
    uint64_t deadline;
    fab_sock_greeting_t greeting;
    fab_sock_session_t session;
    uint8_t key[FAB_SOCK_KEY]; /* of the process that answers */
    uint8_t nonce[FAB_SOCK_NONCE];
    uint32_t num_in; /* frames */
    uint32_t num_out;
    size_t out_len;
    size_t out_done;
    size_t in_len;
    union {
        fab_sock_greeting_t greeting;
        fab_sock_challenge_t challenge;
        fab_sock_sealed_t sealed;
    } out, in;
    uint8_t frame[FAB_SOCK_FRAME_MAX]; /* asking: the first; answering: the one that came last */
    LIST_ENTRY(fab_sock) link;         /* in set->socks */
};

/* Listen.  Returns OPAL codes, with *why. */
FAB_EXPORT int fab_sock_set_open(const fab_sock_user_t *user, fab_sock_set_t **set,
                                 const char **why);
FAB_EXPORT void fab_sock_set_close(fab_sock_set_t *set);

FAB_EXPORT uint16_t fab_sock_set_port(const fab_sock_set_t *set);
FAB_EXPORT void *fab_sock_set_dom(const fab_sock_set_t *set);

/* A descriptor that is readable when fab_sock_set_poll() has something to do (but time limits). */
FAB_EXPORT int fab_sock_set_fd(const fab_sock_set_t *set);

/* Are there sockets whose time limits must be looked after by polling? */
FAB_EXPORT bool fab_sock_set_is_busy(const fab_sock_set_t *set);

/* Returns the number of events. */
FAB_EXPORT int fab_sock_set_poll(fab_sock_set_t *set);

/* How many files this process may have open now. */
unsigned long fab_sock_max_files(void);

/*
 * Connect to the process with this name and key, which listens at the num addresses (best first),
 * and send it the frame.  NULL: no memory now.
 */
FAB_EXPORT fab_sock_t *fab_sock_connect(fab_sock_set_t *set, void *owner, uint64_t name,
                                        const uint8_t *key, const fab_sock_ip_t *ips, int num,
                                        const void *frame);

/* Send a frame; what was sent before on this socket has been answered. */
FAB_EXPORT void fab_sock_send(fab_sock_t *sock, const void *frame);

/* Release the socket; pending data is still written. */
FAB_EXPORT void fab_sock_release(fab_sock_t *sock);

/*
 * The connection is the caller's: returns its descriptor.  What is not written yet of the last
 * frame is copied to left (sizeof(fab_sock_sealed_t) bytes), *left_len bytes.
 */
int fab_sock_take(fab_sock_t *sock, void *left, size_t *left_len);

/*
 * The socket as what the HELLO of a session came by: the via of fab_ses_ops_t (session.h).  For
 * providers whose frames begin with fab_ses_msg_t.
 */
FAB_EXPORT const fab_ses_msg_t *fab_sock_via_hello(const void *via);
/* Does the other side still wait for an answer? */
FAB_EXPORT bool fab_sock_via_is_open(const void *via);
FAB_EXPORT void fab_sock_via_free(void *via);
/* Deliver it again, in the next poll. */
FAB_EXPORT void fab_sock_via_again(void *via);

/* The socket counts as broken, as its answer is invalid: on_broken(). */
FAB_EXPORT void fab_sock_broken(fab_sock_t *sock);

#endif /* FAB_SOCK_H */
