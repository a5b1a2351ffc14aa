/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes that try a provider: see tm_info_pair.h.
 *
 * They tell each other their addresses in a record by the stream; all else goes by the fabric.
 * What the other sends is not trusted: it may be anybody.
 */
#include "tm_info_pair.h"

#include "fabric/fab_abi.h"
#include "fabric/fab_clock.h"
#include "fabric/fab_look_read.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define MAGIC "tm_info"

enum {
    VERSION = 1,
    READ_LEN = 1 << 20,   /* bytes of one read */
    COPIED_MAX = 65536,   /* bytes of one message */
    TRIP_BATCH = 100,     /* round trips between two looks at the clock */
    SEND_BATCH = 64,      /* messages between two looks at the clock */
    PART_NS = 300000000,  /* for each of the four numbers */
    FILES_MAX = 1024,     /* descriptors that are looked at for sockets */
    EMPTY_POLLS = 1000,   /* in a row, then others may have the processor */
    AM_PING = FAB_AM_PML, /* answered by AM_PONG */
    AM_PONG,
    AM_DATA,     /* not answered */
    AM_WANT_KEY, /* answered by AM_KEY */
    AM_KEY,      /* payload: target_t */
};

const char *const tm_pair_providers[TM_PAIR_PROVIDERS] = {"shm", "ofi", "verbs", "tcp"};

/* What both send each other by the stream. */
typedef struct record {
    char magic[8];
    uint32_t version;
    uint32_t address_len;
    char release[32]; /* of pml_tm */
    char host[64];
    char provider[16];
    char why_not[512]; /* of an answer; empty: it is open there */
    unsigned char address[FAB_ADDRESS_MAX];
} record_t;

_Static_assert(8 + 4 + 4 + 32 + 64 + 16 + 512 + FAB_ADDRESS_MAX == sizeof(record_t),
               "record_t is a wire format");

/* Memory that the other may read. */
typedef struct target {
    uint64_t addr;
    fab_rkey_t rkey;
} target_t;

typedef struct pair {
    fab_t *fab;
    fab_peer_t *peer;
    bool is_asking;
    record_t own, other;
    uint64_t pongs;
    bool has_key, has_failed, is_read;
    int read_status;
    unsigned empty;        /* polls that found nothing, in a row */
    uint64_t silent_since; /* ns, a little after the first of these; 0: not known yet */
    target_t target;
    char *buf;     /* READ_LEN bytes */
    char why[512]; /* not open, or failed */
} pair_t;

/* ---- the fabric --------------------------------------------------------- */

static void on_failed(void *ctx, fab_peer_t *peer, int rc, const char *why)
{
    pair_t *pair = ctx;

    (void) peer, (void) rc;
    pair->has_failed = true;
    snprintf(pair->why, sizeof(pair->why), "%s", why);
}

/* "provider tcp is not used: why" */
static void on_log(void *ctx, int level, const char *text)
{
    pair_t *pair = ctx;
    const char *colon = strstr(text, "is not used: ");

    if (1 == level && NULL != colon) {
        snprintf(pair->why, sizeof(pair->why), "%s", strchr(colon, ':') + 2);
    }
}

static void on_ping(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    (void) ctx;
    (void) fab_post(peer, fab_hdr(AM_PONG, hdr.tag, 0), data, len < 8 ? len : 8);
}

static void on_pong(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    (void) peer, (void) hdr, (void) data, (void) len;
    ((pair_t *) ctx)->pongs++;
}

static void on_data(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    (void) ctx, (void) peer, (void) hdr, (void) data, (void) len;
}

static void on_want_key(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    pair_t *pair = ctx;

    (void) data, (void) len;
    if (!pair->has_key && OPAL_SUCCESS == fab_expose(peer, pair->buf, READ_LEN, FAB_ACCESS_READ,
                                                     &pair->target.rkey)) {
        pair->target.addr = (uintptr_t) pair->buf;
        pair->has_key = true;
    }
    (void) fab_post(peer, fab_hdr(AM_KEY, hdr.tag, 0), &pair->target,
                    pair->has_key ? sizeof(pair->target) : 0);
}

static void on_key(void *ctx, fab_peer_t *peer, fab_hdr_t hdr, const void *data, size_t len)
{
    pair_t *pair = ctx;

    (void) peer, (void) hdr;
    if (sizeof(pair->target) == len) {
        memcpy(&pair->target, data, len);
        pair->has_key = true;
    }
    pair->pongs++;
}

/* Nothing has come for some polls: others may have the processor, or nobody answers. */
static void be_patient(pair_t *pair)
{
    const uint64_t now = fab_now_ns();

    sched_yield();
    pair->empty = 0;
    if (0 == pair->silent_since) {
        pair->silent_since = now;
    } else if (now - pair->silent_since > UINT64_C(1000000000) * TM_PAIR_WAIT_S) {
        pair->has_failed = true;
        snprintf(pair->why, sizeof(pair->why), "no answer for %d s", TM_PAIR_WAIT_S);
    }
}

static void poll_once(pair_t *pair)
{
    if (0 != fab_progress(pair->fab)) {
        pair->empty = 0;
        pair->silent_since = 0;
    } else if (++pair->empty >= EMPTY_POLLS) {
        be_patient(pair);
    }
}

static bool is_known(const char *provider)
{
    for (int i = 0; i < TM_PAIR_PROVIDERS; i++) {
        if (0 == strcmp(tm_pair_providers[i], provider)) {
            return true;
        }
    }
    return false;
}

/* False: this provider cannot be used here, for the reason pair->why. */
static bool open_fabric(pair_t *pair, const char *provider)
{
    static char list[32];
    const char *why = "";
    const fab_config_t config = {.user = FAB_USER_PML,
                                 .name = fab_name(1, pair->is_asking ? 0 : 1),
                                 .num_local = 2,
                                 .local_rank = pair->is_asking ? 0 : 1,
                                 .is_tool = true,
                                 .ctx = pair,
                                 .peer_failed = on_failed,
                                 .log = on_log};

    snprintf(list, sizeof(list), "self,%s", provider);
    fab_params.providers = list;
    pair->buf = calloc(1, READ_LEN);
    if (NULL == pair->buf) {
        snprintf(pair->why, sizeof(pair->why), "there is no memory");
        return false;
    }
    if (OPAL_SUCCESS != fab_open(&config, &pair->fab, &why)) {
        if ('\0' == pair->why[0]) {
            snprintf(pair->why, sizeof(pair->why), "%s", why);
        }
        return false;
    }
    fab_set_handler(pair->fab, AM_PING, on_ping, pair);
    fab_set_handler(pair->fab, AM_PONG, on_pong, pair);
    fab_set_handler(pair->fab, AM_DATA, on_data, pair);
    fab_set_handler(pair->fab, AM_WANT_KEY, on_want_key, pair);
    fab_set_handler(pair->fab, AM_KEY, on_key, pair);
    fab_start(pair->fab, FAB_USER_PML);
    return true;
}

static void fill_record(pair_t *pair, const char *provider)
{
    record_t *own = &pair->own;

    *own = (record_t){.magic = MAGIC, .version = VERSION, .release = TM_VERSION};
    snprintf(own->provider, sizeof(own->provider), "%s", provider);
    gethostname(own->host, sizeof(own->host) - 1);
    if (NULL == pair->fab) {
        snprintf(own->why_not, sizeof(own->why_not), "%s", pair->why);
        return;
    }
    own->address_len = (uint32_t) fab_address(pair->fab, own->address, sizeof(own->address));
}

/* ---- the stream --------------------------------------------------------- */

/* NULL: the other's record is there; otherwise why not. */
static const char *receive_record(int fd, record_t *record)
{
    const struct timeval limit = {.tv_sec = TM_PAIR_WAIT_S};

    (void) setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if ((ssize_t) sizeof(*record) != recv(fd, record, sizeof(*record), MSG_WAITALL)) {
        return "the other process has not answered";
    }
    fab_look_clean(record->release, sizeof(record->release));
    fab_look_clean(record->host, sizeof(record->host));
    fab_look_clean(record->provider, sizeof(record->provider));
    fab_look_clean(record->why_not, sizeof(record->why_not));
    if (0 != memcmp(record->magic, MAGIC, sizeof(MAGIC)) || VERSION != record->version ||
        record->address_len > sizeof(record->address)) {
        return "that is no tm_info, or one of another release";
    }
    return 0 == strcmp(record->release, TM_VERSION) ? NULL
                                                    : "its pml_tm is of another release than here";
}

static bool send_record(int fd, const record_t *record)
{
    return (ssize_t) sizeof(*record) == send(fd, record, sizeof(*record), MSG_NOSIGNAL);
}

/* Has the other said something more, or gone? */
static bool is_over(int fd)
{
    struct pollfd at = {.fd = fd, .events = POLLIN};

    return 0 != poll(&at, 1, 0);
}

bool tm_pair_answer(int fd)
{
    static pair_t pair;
    const char *why = receive_record(fd, &pair.other);
    bool is_open;

    if (NULL != why && 0 != memcmp(pair.other.magic, MAGIC, sizeof(MAGIC))) {
        return false; /* it does not even speak of this */
    }
    if (NULL != why || !is_known(pair.other.provider)) {
        snprintf(pair.why, sizeof(pair.why), "%s", NULL != why ? why : "there is no such provider");
        is_open = false;
    } else {
        is_open = open_fabric(&pair, pair.other.provider);
    }
    fill_record(&pair, pair.other.provider);
    if (is_open &&
        OPAL_SUCCESS != fab_peer_open(pair.fab, FAB_USER_PML, fab_name(1, 0), pair.other.address,
                                      pair.other.address_len, &pair.peer, &why)) {
        snprintf(pair.own.why_not, sizeof(pair.own.why_not), "%s", why);
    }
    if (!send_record(fd, &pair.own)) {
        return false;
    }
    while (is_open && !pair.has_failed && !is_over(fd)) {
        for (int i = 0; i < EMPTY_POLLS; i++) {
            poll_once(&pair);
        }
    }
    return true;
}

/* ---- measuring ---------------------------------------------------------- */

/* One more message.  False: it cannot be sent. */
static bool put(pair_t *pair, uint8_t id, size_t len)
{
    int rc;

    do {
        rc = fab_send(pair->peer, fab_hdr(id, 0, 0), pair->buf, len);
        if (OPAL_ERR_RESOURCE_BUSY == rc) {
            poll_once(pair);
        }
    } while (OPAL_ERR_RESOURCE_BUSY == rc && !pair->has_failed);
    return OPAL_SUCCESS == rc && !pair->has_failed;
}

/* A question and its answer.  False: there is none. */
static bool round_trip(pair_t *pair, uint8_t id)
{
    const uint64_t pongs = pair->pongs;

    if (!put(pair, id, AM_PING == id ? 8 : 0)) {
        return false;
    }
    while (pongs == pair->pongs && !pair->has_failed) {
        poll_once(pair);
    }
    return !pair->has_failed;
}

/* The best of batches, since others may use the processors, too. */
static bool measure_latency(pair_t *pair, double *us)
{
    const uint64_t begun = fab_now_ns();
    uint64_t best = UINT64_MAX;

    for (uint64_t from = begun; from - begun < PART_NS;) {
        uint64_t to;
        for (int i = 0; i < TRIP_BATCH; i++) {
            if (!round_trip(pair, AM_PING)) {
                return false;
            }
        }
        to = fab_now_ns();
        best = to - from < best ? to - from : best;
        from = to;
    }
    *us = (double) best / (2.0 * TRIP_BATCH) / 1e3;
    return true;
}

/* Messages of this length, one after another, until the last has come; 1/s. */
static bool measure_rate(pair_t *pair, size_t len, double *rate)
{
    const uint64_t begun = fab_now_ns();
    uint64_t num = 0;

    while (fab_now_ns() - begun < PART_NS) {
        for (int i = 0; i < SEND_BATCH; i++, num++) {
            if (!put(pair, AM_DATA, len)) {
                return false;
            }
        }
        poll_once(pair);
    }
    if (!round_trip(pair, AM_PING)) {
        return false;
    }
    *rate = (double) num * 1e9 / (double) (fab_now_ns() - begun);
    return true;
}

static pair_t *reading; /* complete() has no other way to it */

static void on_read(fab_rma_t *op, int status)
{
    (void) op;
    reading->is_read = true;
    reading->read_status = status;
}

/* Reads of READ_LEN bytes; a provider that cannot is no failure: 0. */
static bool measure_read(pair_t *pair, double *bytes_per_s)
{
    fab_rma_t op = {.peer = pair->peer, .local = pair->buf, .len = READ_LEN, .complete = on_read};
    const uint64_t begun = fab_now_ns();
    uint64_t num = 0;

    *bytes_per_s = 0;
    reading = pair;
    if (0 == (pair->peer->caps & FAB_CAP_GET)) {
        return true;
    }
    if (!round_trip(pair, AM_WANT_KEY)) {
        return false;
    }
    op.remote = pair->target.addr;
    op.rkey = pair->target.rkey;
    for (; pair->has_key && fab_now_ns() - begun < PART_NS; num++) {
        pair->is_read = false;
        if (OPAL_SUCCESS != fab_get(&op)) {
            return !pair->has_failed;
        }
        while (!pair->is_read && !pair->has_failed) {
            poll_once(pair);
        }
        if (!pair->is_read || OPAL_SUCCESS != pair->read_status) {
            return !pair->has_failed;
        }
    }
    *bytes_per_s = (double) num * READ_LEN * 1e9 / (double) (fab_now_ns() - begun);
    return true;
}

/* The IP addresses that this process has connections to, but by the stream. */
static void find_addresses(int stream, char *text, size_t size)
{
    size_t len = 0;

    text[0] = '\0';
    for (int fd = 3; fd < FILES_MAX; fd++) {
        struct sockaddr_storage to;
        socklen_t to_len = sizeof(to);
        char name[INET6_ADDRSTRLEN] = "";
        if (fd == stream || 0 != getpeername(fd, (struct sockaddr *) &to, &to_len)) {
            continue;
        }
        if (AF_INET == to.ss_family) {
            inet_ntop(AF_INET, &((struct sockaddr_in *) &to)->sin_addr, name, sizeof(name));
        } else if (AF_INET6 == to.ss_family) {
            inet_ntop(AF_INET6, &((struct sockaddr_in6 *) &to)->sin6_addr, name, sizeof(name));
        }
        if ('\0' != name[0] && NULL == strstr(text, name) && len < size) {
            len += (size_t) snprintf(text + len, size - len, "%s%s", 0 == len ? "" : " ", name);
        }
    }
}

static bool measure(pair_t *pair, tm_pair_result_t *result)
{
    const size_t max = pair->peer->eager_max;

    result->copied_len = max < COPIED_MAX ? max : COPIED_MAX;
    if (!round_trip(pair, AM_PING) || !measure_latency(pair, &result->latency_us) ||
        !measure_rate(pair, 8, &result->rate) ||
        !measure_rate(pair, result->copied_len, &result->copied) ||
        !measure_read(pair, &result->read)) {
        return false;
    }
    result->copied *= (double) result->copied_len;
    return true;
}

void tm_pair_ask(int fd, const char *provider, tm_pair_result_t *result)
{
    static pair_t pair = {.is_asking = true};
    const size_t size = sizeof(result->why_not);
    const char *why = NULL;

    *result = (tm_pair_result_t){.why_not = ""};
    if (!open_fabric(&pair, provider)) {
        snprintf(result->why_not, size, "%s", pair.why);
        return;
    }
    fill_record(&pair, provider);
    why = send_record(fd, &pair.own) ? receive_record(fd, &pair.other)
                                     : "the other process has gone";
    if (NULL != why) {
        snprintf(result->why_not, size, "%s", why);
    } else if ('\0' != pair.other.why_not[0]) {
        snprintf(result->why_not, size, "on %s: %s", pair.other.host, pair.other.why_not);
    } else if (OPAL_SUCCESS != fab_peer_open(pair.fab, FAB_USER_PML, fab_name(1, 1),
                                             pair.other.address, pair.other.address_len, &pair.peer,
                                             &why)) {
        snprintf(result->why_not, size, "%s", why);
    } else if (!measure(&pair, result)) {
        snprintf(result->why_not, size, "%s", pair.why);
    }
    find_addresses(fd, result->by, sizeof(result->by));
}
