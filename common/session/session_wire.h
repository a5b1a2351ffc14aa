/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of a session (session.h): what two processes say to each other before, beside and after
 * the messages of users.  All integers are in the byte order of the host.
 *
 *      HELLO    asking side   I want a session; this is my HELLO number `serial`.
 *      WELCOME  asked side    You have it, by your HELLO `serial`; `other` is my number for this.
 *      REFUSE   either        HELLO, or WELCOME, number `serial` leads to nothing; `reason` why.
 *      CREDIT   either        I have taken so much of what you sent.
 *      BYE      either        I send no more: `fab_ses_bye_t` says why.
 *
 * How HELLO, WELCOME and REFUSE travel, and how they are proved to be of the job, is the provider's
 * matter; CREDIT and BYE are messages of the provider without payload, behind all that was sent
 * before.  KNOCK and CHALLENGE, by which a process proves that it belongs to the job, come before
 * HELLO (sock_wire.h: greeting and challenge).
 *
 * Serial numbers.  A process numbers its HELLOs and WELCOMEs to all processes upwards, so the
 * larger one is the later one.  `other` of WELCOME tells the receiver which of the sender's HELLOs
 * are void: all before it.
 *
 * `other` of HELLO names the session between the two that its sender has ended in order last: the
 * serial by which it was asked for, with FAB_SES_YOU_ASKED if the receiver of this HELLO had asked;
 * 0: none, or it does not remember.
 */
#ifndef FAB_SESSION_WIRE_H
#define FAB_SESSION_WIRE_H

#include <stdint.h>

#define FAB_SES_YOU_ASKED (UINT64_C(1) << 63)

typedef enum fab_ses_kind {
    FAB_SES_HELLO = 1,
    FAB_SES_WELCOME = 2,
    FAB_SES_REFUSE = 3,
} fab_ses_kind_t;

typedef enum fab_ses_reason {
    FAB_SES_REASON_PEER = 1, /* the receiver has failed for the sender, or is not known there */
    FAB_SES_REASON_WAY = 2,  /* the sender reaches the receiver by a later provider */
    FAB_SES_REASON_RESOURCES = 3, /* the sender lacks memory, or a descriptor */
    FAB_SES_REASON_GAVE_UP = 4,   /* WELCOME came, and the sender had given up its HELLO */
} fab_ses_reason_t;

/* All but STAY, and a PAUSE that is declined, are the sender's last word in the session. */
typedef enum fab_ses_bye {
    FAB_SES_BYE_NONE = 0,
    FAB_SES_BYE_PAUSE = 1,  /* the sender does not need the session now */
    FAB_SES_BYE_CLOSE = 2,  /* its user has closed the peer, or it agrees to a BYE */
    FAB_SES_BYE_LEAVE = 3,  /* its process leaves the job and takes no more at all */
    FAB_SES_BYE_REFUSE = 4, /* the receiver has failed for it */
    FAB_SES_BYE_STAY = 5,   /* no: the receiver's PAUSE is declined, go on */
} fab_ses_bye_t;

enum { FAB_SES_BYES = 6 };

typedef struct fab_ses_msg {
    uint8_t kind;   /* fab_ses_kind_t */
    uint8_t reason; /* fab_ses_reason_t of REFUSE */
    uint16_t reserved;
    uint32_t window; /* of HELLO and WELCOME: what the sender takes before it gives credit */
    uint64_t serial; /* of HELLO: its own; else that of the message that is answered */
    uint64_t other;  /* above */
} fab_ses_msg_t;

_Static_assert(24 == sizeof(fab_ses_msg_t), "fab_ses_msg_t is a wire format");

#endif /* FAB_SESSION_WIRE_H */
