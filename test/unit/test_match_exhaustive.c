/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The matcher against the reference lists: every sequence of operations up to a length over a small
 * alphabet.
 *
 * Operations that can do nothing (cancel where too few are posted, matched probe that finds
 * nothing) are left out, since the rest of the sequence is then a shorter one. So are sequences
 * that differ from another in the names of the two sources or of the two tags only. Each sequence
 * runs with the few entries that a domain holds outside its index (the short list of receives,
 * unfiled messages) none, nearly full and full, so that the same operations happen there, across
 * the limit, and in the index; after it, everything left is asked for and drained.
 *
 * TM_TEST_DEPTH lengthens or shortens the sequences by that many operations (-1, 1, ...).
 *
 * TEST: sources=common/match/match.c,test/unit/match_ref.c cflags=-DFAB_MATCH_SHORT_LEN=8 timeout=120 quick=no depends=common/match,test/unit/match_ref.c,test/unit/match_ref.h
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "match_check.h"
#include "match_ref.h"

#define ANY           FAB_MATCH_ANY
#define NEG           (-2)
#define FILLER_SOURCE 77
#define FILLER_TAG    (-77) /* of messages, so that ANY does not see them */
#define MAX_LEN       12
#define ARRAY_LEN(a)  (sizeof(a) / sizeof((a)[0]))

typedef enum op_kind {
    OP_POST,   /* post a receive */
    OP_ARRIVE, /* a message arrives, and is queued where it fits no receive */
    OP_CANCEL, /* cancel the receive that is number `source` by age */
    OP_MPROBE  /* probe, and take the message out */
} op_kind_t;

typedef struct op {
    op_kind_t kind;
    int32_t source;
    int32_t tag;
} op_t;

static const char *const op_name[] = {"post", "arrive", "cancel", "mprobe"};

/* Keys and patterns of the full alphabet. */
static const int32_t sources[] = {0, 1, ANY};
static const int32_t tags[] = {0, 1, NEG, ANY};

static const op_t full_alphabet[] = {
    {OP_POST, 0, 0},       {OP_POST, 0, 1},     {OP_POST, 0, NEG},   {OP_POST, 0, ANY},
    {OP_POST, 1, 0},       {OP_POST, 1, 1},     {OP_POST, 1, NEG},   {OP_POST, 1, ANY},
    {OP_POST, ANY, 0},     {OP_POST, ANY, 1},   {OP_POST, ANY, NEG}, {OP_POST, ANY, ANY},
    {OP_ARRIVE, 0, 0},     {OP_ARRIVE, 0, 1},   {OP_ARRIVE, 0, NEG}, {OP_ARRIVE, 1, 0},
    {OP_ARRIVE, 1, 1},     {OP_ARRIVE, 1, NEG}, {OP_CANCEL, 0, 0},   {OP_CANCEL, 1, 0},
    {OP_CANCEL, 2, 0},     {OP_MPROBE, 0, 0},   {OP_MPROBE, 0, 1},   {OP_MPROBE, 0, NEG},
    {OP_MPROBE, 0, ANY},   {OP_MPROBE, 1, 0},   {OP_MPROBE, 1, 1},   {OP_MPROBE, 1, NEG},
    {OP_MPROBE, 1, ANY},   {OP_MPROBE, ANY, 0}, {OP_MPROBE, ANY, 1}, {OP_MPROBE, ANY, NEG},
    {OP_MPROBE, ANY, ANY},
};

/* Receives that all fit one message, and what takes them out elsewhere than in front. */
static const op_t posted_alphabet[] = {
    {OP_POST, 0, 0},   {OP_POST, 0, ANY},   {OP_POST, ANY, 0}, {OP_POST, ANY, ANY},
    {OP_ARRIVE, 0, 0}, {OP_ARRIVE, 0, NEG}, {OP_CANCEL, 0, 0}, {OP_CANCEL, 1, 0},
};

/* Messages of few keys, taken by every pattern. */
static const op_t unexp_alphabet[] = {
    {OP_ARRIVE, 0, 0},   {OP_ARRIVE, 0, 1},   {OP_ARRIVE, 1, 0},
    {OP_ARRIVE, 0, NEG}, {OP_MPROBE, 0, 0},   {OP_MPROBE, 0, ANY},
    {OP_MPROBE, ANY, 0}, {OP_POST, ANY, ANY}, {OP_MPROBE, ANY, NEG},
};

/* One run: the domain, its reference (which knows nothing of the fillers), the nodes. */
typedef struct run {
    fab_match_dom_t dom;
    match_ref_t ref;
    fab_match_recv_t filler[FAB_MATCH_SHORT_LEN];
    fab_match_msg_t msg_filler[FAB_MATCH_UNFILED_MAX];
    fab_match_recv_t recv[MAX_LEN];
    fab_match_msg_t msg[MAX_LEN];
    size_t nfiller; /* of recv */
    size_t nmsg_filler;
    const op_t *op[MAX_LEN];
    size_t len;
} run_t;

static void run_fail(const run_t *r, size_t at, const void *got, const void *want)
{
    for (size_t i = 0; i < r->len; i++) {
        print_error("  %2zu %s %d %d\n", i, op_name[r->op[i]->kind], r->op[i]->source,
                    r->op[i]->tag);
    }
    fail_msg("with %zu receives posted and %zu messages before, operation %zu (%zu: the final "
             "checks): got %p, reference %p",
             r->nfiller, r->nmsg_filler, at, r->len, got, want);
}

static void run_expect(const run_t *r, size_t at, const void *got, const void *want)
{
    if (got != want) {
        run_fail(r, at, got, want);
    }
}

static void run_start(run_t *r)
{
    fab_match_init(&r->dom);
    match_ref_init(&r->ref);
    for (size_t i = 0; i < r->nfiller; i++) {
        match_post(&r->dom, &r->filler[i], FILLER_SOURCE, (int32_t) i);
    }
    for (size_t i = 0; i < r->nmsg_filler; i++) {
        fab_match_add_msg(&r->dom, &r->msg_filler[i], FILLER_SOURCE, FILLER_TAG);
    }
}

/* False: the operation can do nothing here. */
static bool run_op(run_t *r, size_t at)
{
    const op_t *op = r->op[at];
    void *want;

    switch (op->kind) {
    case OP_POST:
        want = match_ref_post(&r->ref, &r->recv[at], op->source, op->tag);
        run_expect(r, at, match_post(&r->dom, &r->recv[at], op->source, op->tag), want);
        return true;
    case OP_ARRIVE:
        want = match_ref_arrive(&r->ref, op->source, op->tag);
        run_expect(r, at, fab_match_arrive(&r->dom, op->source, op->tag), want);
        if (NULL == want) {
            match_ref_add_msg(&r->ref, &r->msg[at], op->source, op->tag);
            fab_match_add_msg(&r->dom, &r->msg[at], op->source, op->tag);
        } else if (fab_match_cancel(&r->dom, want)) {
            run_fail(r, at, want, NULL);
        }
        return true;
    case OP_CANCEL:
        if ((size_t) op->source >= r->ref.posted.count) {
            return false;
        }
        want = r->ref.posted.entry[op->source].id;
        match_ref_cancel(&r->ref, want);
        if (!fab_match_cancel(&r->dom, want) || fab_match_cancel(&r->dom, want)) {
            run_fail(r, at, NULL, want);
        }
        return true;
    case OP_MPROBE:
        want = match_ref_probe(&r->ref, op->source, op->tag);
        if (NULL == want) {
            return false;
        }
        run_expect(r, at, fab_match_probe(&r->dom, op->source, op->tag), want);
        match_ref_remove_msg(&r->ref, want);
        fab_match_remove_msg(&r->dom, want);
        return true;
    }
    return false;
}

/* Ask for everything that is left, then take it out. */
static void run_end(run_t *r)
{
    fab_match_msg_t *msg;

    for (size_t s = 0; s < ARRAY_LEN(sources); s++) {
        for (size_t t = 0; t < ARRAY_LEN(tags); t++) {
            run_expect(r, r->len, fab_match_probe(&r->dom, sources[s], tags[t]),
                       match_ref_probe(&r->ref, sources[s], tags[t]));
        }
    }
    for (size_t i = 0; i < r->nmsg_filler; i++) {
        run_expect(r, r->len, fab_match_first_msg(&r->dom), &r->msg_filler[i]);
        fab_match_remove_msg(&r->dom, &r->msg_filler[i]);
    }
    while (NULL != (msg = fab_match_first_msg(&r->dom))) {
        run_expect(r, r->len, msg, match_ref_first_msg(&r->ref));
        match_ref_remove_msg(&r->ref, msg);
        fab_match_remove_msg(&r->dom, msg);
    }
    for (size_t s = 0; s < ARRAY_LEN(sources) - 1; s++) {
        for (size_t t = 0; t < ARRAY_LEN(tags) - 1; t++) {
            void *want;

            do {
                want = match_ref_arrive(&r->ref, sources[s], tags[t]);
                run_expect(r, r->len, fab_match_arrive(&r->dom, sources[s], tags[t]), want);
            } while (NULL != want);
        }
    }
    if (r->dom.posted_count != r->nfiller || 0 != r->dom.unexp_count || 0 != r->ref.unexp.count) {
        run_fail(r, r->len, NULL, NULL);
    }
    run_expect(r, r->len, match_first_recv(&r->dom), r->nfiller > 0 ? &r->filler[0] : NULL);
}

/* Run the sequence.  Returns the place of the first operation that can do nothing, or len. */
static size_t run_sequence(run_t *r)
{
    size_t at = 0;

    run_start(r);
    while (at < r->len && run_op(r, at)) {
        at++;
    }
    if (at == r->len) {
        run_end(r);
    }
    fab_match_fini(&r->dom);
    return at;
}

/*
 * The place of the first operation that names source or tag 1 where none named 0 before, or len: 0
 * comes first.
 */
static size_t first_renamed(const run_t *r)
{
    bool has_source = false;
    bool has_tag = false;

    for (size_t i = 0; i < r->len; i++) {
        const op_t *op = r->op[i];

        if (OP_CANCEL == op->kind) {
            continue;
        }
        if ((1 == op->source && !has_source) || (1 == op->tag && !has_tag)) {
            return i;
        }
        has_source = has_source || 0 == op->source;
        has_tag = has_tag || 0 == op->tag;
    }
    return r->len;
}

/* All sequences of one length, as the digits of a number that is counted up. */
static size_t run_all(run_t *r, const op_t *alphabet, size_t nletters, size_t len)
{
    size_t digit[MAX_LEN] = {0};
    size_t nruns = 0;

    r->len = len;
    for (;;) {
        size_t at;

        for (size_t i = 0; i < len; i++) {
            r->op[i] = &alphabet[digit[i]];
        }
        at = first_renamed(r);
        if (at == len) {
            at = run_sequence(r);
            nruns += at == len;
        }
        /*
         * Count up at the operation that was of no use, so that everything which begins like this
         * is passed over.
         */
        at = at == len ? len - 1 : at;
        memset(&digit[at + 1], 0, (MAX_LEN - at - 1) * sizeof(digit[0]));
        while (++digit[at] == nletters) {
            digit[at] = 0;
            if (0 == at--) {
                return nruns;
            }
        }
    }
}

static void run_lengths(const op_t *alphabet, size_t nletters, int max_len)
{
    static const size_t nfiller[] = {0, FAB_MATCH_SHORT_LEN - 2, FAB_MATCH_SHORT_LEN};
    static const size_t nmsg_filler[] = {0, FAB_MATCH_UNFILED_MAX - 2, FAB_MATCH_UNFILED_MAX};
    const char *more = getenv("TM_TEST_DEPTH");
    static run_t r;
    size_t nruns = 0;

    max_len += NULL != more ? atoi(more) : 0;
    max_len = max_len < 1 ? 1 : max_len > MAX_LEN ? MAX_LEN : max_len;
    for (size_t f = 0; f < ARRAY_LEN(nfiller); f++) {
        r.nfiller = nfiller[f];
        r.nmsg_filler = nmsg_filler[f];
        nruns += run_all(&r, alphabet, nletters, (size_t) max_len);
    }
    print_message("%zu sequences of %d operations\n", nruns, max_len);
}

static void test_full_alphabet(void **state)
{
    (void) state;
    run_lengths(full_alphabet, ARRAY_LEN(full_alphabet), 5);
}

static void test_posted_side(void **state)
{
    (void) state;
    run_lengths(posted_alphabet, ARRAY_LEN(posted_alphabet), 7);
}

static void test_unexpected_side(void **state)
{
    (void) state;
    run_lengths(unexp_alphabet, ARRAY_LEN(unexp_alphabet), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_alphabet),
        cmocka_unit_test(test_posted_side),
        cmocka_unit_test(test_unexpected_side),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
