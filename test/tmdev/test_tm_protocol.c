/* SPDX-License-Identifier: BSD-3-Clause */
/* Tag matching of tmdev: the whole protocol, with a client as it should be. See test_tm.h. */
#include "test_tm.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>
/* ---- the whole protocol -------------------------------------------------- */

/*
 * A client as it should be: every receive is in a software list, some are listed on the device,
 * too; some are cancelled. Messages carry a number; those of one tag must be received in order,
 * each once. Two queue pairs of the sender would not be ordered, so there is one.
 */
enum {
    PROTOCOL_OF_TAG = 1000,
    PROTOCOL_TAGS = 3,
    PROTOCOL_MESSAGES = PROTOCOL_TAGS * PROTOCOL_OF_TAG,
    PROTOCOL_RECEIVES = 24,
    PROTOCOL_BUFFER = 4096,
    PROTOCOL_KEPT = 4096,
    PROTOCOL_CANCEL = 1 << 20,
    PROTOCOL_LIST = 8, /* length of the device's list */
    PROTOCOL_OPS = 32  /* operations that may be under way */
};

typedef struct receive {
    bool is_used;
    uint64_t posted; /* order */
    int tag;
    bool is_listed, is_cancelling;
    uint32_t handle;
} receive_t;

typedef struct protocol {
    side_t t;
    receive_t receives[PROTOCOL_RECEIVES];
    uint64_t posted;
    uint32_t kept[PROTOCOL_KEPT]; /* numbers of unexpected messages, by arrival */
    int kept_tag[PROTOCOL_KEPT], kept_count;
    uint32_t next[PROTOCOL_TAGS]; /* expected of each tag */
    uint32_t sent_before[PROTOCOL_TAGS];
    /* receives that were not cancelled; those waiting */
    int posted_of[PROTOCOL_TAGS], waiting_of[PROTOCOL_TAGS];
    int done, listed, unlisted, unsignaled, cancelled, too_late, matched;
    uint16_t reported;
    /* operations posted, and known to be executed; the numbers of those whose completion is due */
    uint32_t ops, ops_done, signaled[PROTOCOL_OPS], signaled_head, signaled_tail;
    uint64_t random;
} protocol_t;

typedef struct payload {
    uint32_t number, tag, length, pad;
} payload_t;

static void take_payload(protocol_t *p, const uint8_t *at, uint32_t length, int tag)
{
    payload_t m;
    memcpy(&m, at, sizeof(m));
    CHECK_EQUAL(m.tag, tag);
    CHECK_EQUAL(m.length, length);
    CHECK(is_filled(at + sizeof(m), length - sizeof(m), m.number));
    CHECK_EQUAL(m.number, p->next[tag]);
    p->next[tag]++;
    p->done++;
}

/*
 * Is there room for an operation, other than the removal that an unexpected message needs? Those
 * must not be refused, and there is one at most for each listed receive.
 */
static bool protocol_has_room(const protocol_t *p)
{
    return p->ops - p->ops_done < PROTOCOL_OPS - PROTOCOL_LIST;
}

/* Enough of the operations must be signaled. */
static int protocol_op_flags(const protocol_t *p)
{
    return IBV_OPS_TM_SYNC | (p->unsignaled >= 8 ? IBV_OPS_SIGNALED : 0);
}

/* An operation that carried the count was posted, or was not. */
static bool protocol_posted(protocol_t *p, int rc, int flags)
{
    CHECK(0 == rc || ENOMEM == rc);
    if (0 != rc) {
        return false;
    }
    if (0 != (flags & IBV_OPS_TM_SYNC)) {
        p->reported = p->t.count;
    }
    p->unsignaled++;
    if (0 != (flags & IBV_OPS_SIGNALED)) {
        p->unsignaled = 0;
        p->signaled[p->signaled_tail++ % PROTOCOL_OPS] = p->ops;
    }
    p->ops++;
    return true;
}

/* A signaled operation completed: all before it are executed, too. */
static void protocol_op_done(protocol_t *p)
{
    p->ops_done = p->signaled[p->signaled_head++ % PROTOCOL_OPS] + 1;
}

static void protocol_list(protocol_t *p, int i)
{
    receive_t *r = &p->receives[i];
    int flags = protocol_op_flags(p);
    if (protocol_has_room(p) &&
        protocol_posted(p,
                        tm_add(&p->t, (uint64_t) r->tag, 0xff, (size_t) i * PROTOCOL_BUFFER,
                               PROTOCOL_BUFFER, flags),
                        flags)) {
        r->is_listed = true;
        r->handle = p->t.handle;
        p->listed++;
    }
}

/*
 * Post a receive: from the kept messages, or into the list and, if all earlier ones of the tag are
 * listed, on the device.
 */
static void protocol_post(protocol_t *p, int i)
{
    receive_t *r = &p->receives[i];
    int tag = (int) (test_random(&p->random) % PROTOCOL_TAGS);
    if (PROTOCOL_OF_TAG == p->posted_of[tag] ||
        PROTOCOL_RECEIVES / PROTOCOL_TAGS == p->waiting_of[tag]) {
        return;
    }
    *r = (receive_t){.is_used = true, .posted = p->posted++, .tag = tag};
    p->posted_of[tag]++;
    for (int k = 0; k < p->kept_count; k++) {
        if (p->kept_tag[k] == r->tag) {
            CHECK_EQUAL(p->kept[k], p->next[r->tag]);
            p->next[r->tag]++;
            p->done++;
            r->is_used = false;
            memmove(&p->kept[k], &p->kept[k + 1],
                    (size_t) (p->kept_count - k - 1) * sizeof(p->kept[0]));
            memmove(&p->kept_tag[k], &p->kept_tag[k + 1],
                    (size_t) (p->kept_count - k - 1) * sizeof(p->kept_tag[0]));
            p->kept_count--;
            return;
        }
    }
    p->waiting_of[tag]++;
    for (int k = 0; k < PROTOCOL_RECEIVES; k++) {
        if (k != i && p->receives[k].is_used && p->receives[k].tag == r->tag &&
            !p->receives[k].is_listed) {
            return;
        }
    }
    if (0 != test_random(&p->random) % 4) {
        protocol_list(p, i);
    }
}

/*
 * An unexpected message: the oldest receive that fits has it; if that is listed, it must leave the
 * device.
 */
static void protocol_unexpected(protocol_t *p, const completion_t *c)
{
    const uint8_t *at = p->t.w.memory + SRQ_AT + c->wr_id * SLOT;
    struct ibv_tmh tmh;
    payload_t m;
    receive_t *oldest = NULL;
    memcpy(&tmh, at, sizeof(tmh));
    memcpy(&m, at + TMH, sizeof(m));
    for (int i = 0; i < PROTOCOL_RECEIVES; i++) {
        receive_t *r = &p->receives[i];
        if (r->is_used && !r->is_cancelling && (uint64_t) r->tag == be64toh(tmh.tag) &&
            (NULL == oldest || r->posted < oldest->posted)) {
            oldest = r;
        }
    }
    if (NULL == oldest) {
        p->kept[p->kept_count] = m.number;
        p->kept_tag[p->kept_count++] = (int) m.tag;
        CHECK(p->kept_count < PROTOCOL_KEPT);
    } else {
        if (oldest->is_listed) {
            p->t.handle = oldest->handle; /* out of phase, so it cannot match: unsignaled */
            CHECK(protocol_posted(p, tm_op(&p->t, IBV_WR_TAG_DEL, 0, 0), 0));
            p->unlisted++;
        }
        take_payload(p, at + TMH, c->byte_len - TMH, oldest->tag);
        p->waiting_of[oldest->tag]--;
        oldest->is_used = false;
    }
    p->t.count++; /* only now */
    CHECK_EQUAL(post_srq_recv(&p->t.w, c->wr_id, SRQ_AT + c->wr_id * SLOT, SLOT), 0);
}

static void protocol_cancel(protocol_t *p, int i)
{
    receive_t *r = &p->receives[i];
    const int flags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC;
    p->t.handle = r->handle;
    if (p->matched > 0 && protocol_has_room(p) && r->is_used && r->is_listed && !r->is_cancelling &&
        protocol_posted(p, tm_op(&p->t, IBV_WR_TAG_DEL, flags, PROTOCOL_CANCEL + (uint64_t) i),
                        flags)) {
        r->is_cancelling = true;
    }
}

/* A removal: done, or the match was ahead of it. */
static void protocol_cancelled(protocol_t *p, const completion_t *c)
{
    receive_t *r = &p->receives[c->wr_id - PROTOCOL_CANCEL];
    CHECK(r->is_cancelling);
    protocol_op_done(p);
    r->is_cancelling = false;
    p->cancelled += IBV_WC_SUCCESS == c->status;
    p->too_late += IBV_WC_TM_ERR == c->status;
    if (IBV_WC_SUCCESS == c->status) {
        CHECK(r->is_used);
        p->posted_of[r->tag]--;
        p->waiting_of[r->tag]--;
        r->is_used = false;
    }
}

static void protocol_completion(protocol_t *p, const completion_t *c)
{
    if (c->wr_id >= PROTOCOL_CANCEL) {
        protocol_cancelled(p, c);
        return;
    }
    CHECK_EQUAL(c->status, IBV_WC_SUCCESS);
    if (IBV_WC_TM_ADD == c->opcode || IBV_WC_TM_SYNC == c->opcode) {
        protocol_op_done(p);
        return;
    }
    CHECK_EQUAL(c->opcode, IBV_WC_TM_RECV);
    if (0 == (c->flags & (IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID))) {
        protocol_unexpected(p, c);
    } else if (0 != (c->flags & IBV_WC_TM_DATA_VALID)) {
        int i = (int) (c->wr_id / PROTOCOL_BUFFER);
        CHECK(p->receives[i].is_used && p->receives[i].is_listed);
        take_payload(p, p->t.w.memory + c->wr_id, c->byte_len, p->receives[i].tag);
        p->waiting_of[p->receives[i].tag]--;
        p->receives[i].is_used = false;
        p->matched++;
    }
}

/* What a client does when there is no completion: report, post, cancel. */
static void protocol_idle(protocol_t *p)
{
    if (p->reported != p->t.count && protocol_has_room(p)) {
        int flags = protocol_op_flags(p);
        (void) protocol_posted(p, tm_op(&p->t, IBV_WR_TAG_SYNC, flags, 0), flags);
    }
    for (int i = 0; i < PROTOCOL_RECEIVES; i++) {
        uint64_t choice = test_random(&p->random) % 2048;
        if (!p->receives[i].is_used && !p->receives[i].is_cancelling && choice < 512) {
            protocol_post(p, i);
        } else if (2047 == choice) {
            protocol_cancel(p, i);
        }
    }
}

/* A receive is on the list before anything is sent: so the device matches, however fast all are. */
static void protocol_begin(protocol_t *p)
{
    const int flags = IBV_OPS_TM_SYNC | IBV_OPS_SIGNALED;
    p->receives[0] = (receive_t){.is_used = true, .posted = p->posted++, .tag = 0};
    p->posted_of[0] = p->waiting_of[0] = 1;
    protocol_list(p, 0);
    CHECK_EQUAL(p->listed, 1);
    CHECK(protocol_posted(p, tm_op(&p->t, IBV_WR_TAG_SYNC, flags, 0), flags));
    while (p->ops_done < p->ops) {
        completion_t c = get(&p->t.w);
        protocol_completion(p, &c);
    }
    test_barrier();
}

static void protocol_receive(protocol_t *p)
{
    completion_t c;
    protocol_begin(p);
    while (p->done < PROTOCOL_MESSAGES) {
        if (try_get(&p->t.w, &c)) {
            protocol_completion(p, &c);
        } else {
            protocol_idle(p);
        }
    }
    printf("    %d receives, %d listed: %d matched by the device, %d removed, %d cancelled, %d too "
           "late\n",
           (int) p->posted, p->listed, p->matched, p->unlisted, p->cancelled, p->too_late);
    CHECK(p->matched > 0);
}

static void protocol_send(protocol_t *p)
{
    side_t *t = &p->t;
    test_barrier();
    for (uint32_t i = 0; i < PROTOCOL_MESSAGES; i++) {
        int tag = (int) (test_random(&p->random) % PROTOCOL_TAGS);
        while (PROTOCOL_OF_TAG == p->sent_before[tag]) {
            tag = (tag + 1) % PROTOCOL_TAGS;
        }
        size_t at = (i % 128) * SLOT;
        payload_t m = {.number = p->sent_before[tag]++,
                       .tag = (uint32_t) tag,
                       .length = (uint32_t) (sizeof(m) + test_random(&p->random) % 1000)};
        struct ibv_tmh tmh = {.opcode = IBV_TMH_EAGER, .tag = htobe64((uint64_t) tag)};
        memcpy(t->w.memory + at, &tmh, sizeof(tmh));
        memcpy(t->w.memory + at + TMH, &m, sizeof(m));
        fill(t->w.memory + at + TMH + sizeof(m), m.length - sizeof(m), m.number);
        CHECK_EQUAL(
            post_send(&t->w, t->qp, 1, at, TMH + m.length, 63 == i % 64 ? IBV_SEND_SIGNALED : 0),
            0);
        if (63 == i % 64) {
            get_ok(&t->w, 1, IBV_WC_SEND);
        }
    }
}

static void whole_protocol(void)
{
    protocol_t *p = calloc(1, sizeof(*p));
    tm_open(&p->t, PROTOCOL_LIST, PROTOCOL_OPS);
    const char *start = getenv("TMDEV_TM_START");
    p->t.count = p->reported = (uint16_t) (NULL == start ? 0 : atoi(start));
    p->random = 88172645463325252u + (uint64_t) test_rank;
    if (0 == test_rank) {
        protocol_receive(p);
    } else {
        protocol_send(p);
    }
    test_barrier();
    /* Listed receives that nobody will match any more end with the SRQ. */
    CHECK_EQUAL(ibv_destroy_qp(p->t.qp), 0);
    CHECK(0 != test_rank || 0 == ibv_destroy_srq(p->t.w.srq));
    p->t.w.srq = NULL;
    world_close(&p->t.w);
    free(p);
}

int main(int argc, char **argv)
{
    static const test_case_t cases[] = {
        {.name = "protocol", .run = whole_protocol, .ranks = 2},
        {.name = "protocol_held",
         .run = whole_protocol,
         .ranks = 2,
         .env = "TMDEV_HOLD_US=200 TMDEV_DELAY_US=50 TMDEV_TM_START=65000 TMDEV_SEED=7"},
        {.name = "protocol_faults",
         .run = whole_protocol,
         .ranks = 2,
         .env = "TMDEV_MTU=256 TMDEV_RNR=50 TMDEV_SEED=3"},
    };
    return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
