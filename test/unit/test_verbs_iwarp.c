/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs provider over an iWARP device whose kernel takes long to connect: test/tmdev, which is
 * said to be one, and an rdma_cm that the test plays.  Its connections are the device's queue
 * pairs; what one process asks of another is in memory that they share.
 *
 * TEST: sources=@fabric,@verbs,common/verbs/verbs_cm_rdma.c variants=asan,tsan cflags="-DFAB_HAVE_VERBS=1 -DFAB_HAVE_RDMACM=1" ldflags="-libverbs -Wl,--wrap=ibv_get_device_list,--wrap=ibv_modify_qp,--wrap=getifaddrs" device=tmdev timeout=300 quick=no
 */
#include "test_fab_jobs.h"
#include "test_verbs_world.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <rdma/rdma_cma.h>

/* ---- the device --------------------------------------------------------- */

static struct ibv_context context; /* of what rdma_cm finds */

struct ibv_device **__real_ibv_get_device_list(int *num);
struct ibv_device **__wrap_ibv_get_device_list(int *num);
int __real_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int __real_getifaddrs(struct ifaddrs **all);
int __wrap_getifaddrs(struct ifaddrs **all);

struct ibv_device **__wrap_ibv_get_device_list(int *num)
{
    struct ibv_device **list = __real_ibv_get_device_list(num);

    for (int i = 0; NULL != list && NULL != list[i]; i++) {
        list[i]->transport_type = IBV_TRANSPORT_IWARP;
        context.device = list[0];
    }
    return list;
}

/* iWARP sets less in INIT than the device in software wants. */
int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    struct ibv_qp_attr all = *attr;

    if (0 != (mask & IBV_QP_STATE) && IBV_QPS_INIT == attr->qp_state) {
        all.port_num = 1;
        mask |= IBV_QP_PORT | IBV_QP_PKEY_INDEX;
    }
    return __real_ibv_modify_qp(qp, &all, mask);
}

/* The interface of the device, where there may be no other. */
int __wrap_getifaddrs(struct ifaddrs **all)
{
    int rc = __real_getifaddrs(all);

    for (struct ifaddrs *at = *all; 0 == rc && NULL != at; at = at->ifa_next) {
        at->ifa_flags &= ~(unsigned) IFF_LOOPBACK;
    }
    return rc;
}

/* ---- rdma_cm ------------------------------------------------------------ */

enum { ASKER = 0, NEAR = 1, ASKED = 2 };

/* Words of world->shared->scratch: what the kernels of both sides know. */
enum { ASKER_QPN, ASKED_QPN, HELLO };

typedef struct event {
    struct rdma_cm_event cm; /* first */
    fab_verbs_cm_hello_t hello;
    struct event *next;
} event_t;

static world_t *here;
static event_t *events;
static struct rdma_cm_id *listener;
static struct rdma_cm_id *_Atomic connecting; /* in rdma_connect() */
static struct rdma_cm_id *_Atomic asking;     /* and not connected yet */
static atomic_bool is_slow;                   /* rdma_connect() takes until this is false */
static bool is_lost;                          /* and fails then */

static event_t *push(struct rdma_cm_id *id, enum rdma_cm_event_type type)
{
    event_t *event = calloc(1, sizeof(*event)), **at = &events;

    event->cm.id = id;
    event->cm.event = type;
    while (NULL != *at) {
        at = &(*at)->next;
    }
    *at = event;
    return event;
}

static void connect_qp(struct rdma_cm_id *id, uint64_t remote_qpn)
{
    const fab_verbs_conn_t *conn = id->context;
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = (uint32_t) remote_qpn,
        .max_dest_rd_atomic = 1,
        .max_rd_atomic = 1,
        .min_rnr_timer = 12,
        .timeout = 14,
        .retry_cnt = 7,
        .rnr_retry = 7,
        .ah_attr = {.dlid = conn->ep->addr.ports[0].lid, .port_num = 1},
    };

    assert_int_equal(ibv_modify_qp(conn->qp, &attr,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                       IBV_QP_MIN_RNR_TIMER),
                     0);
    attr.qp_state = IBV_QPS_RTS;
    assert_int_equal(ibv_modify_qp(conn->qp, &attr,
                                   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
                     0);
}

/* What comes from the other side. */
static void look(void)
{
    uint64_t qpn = 0;
    event_t *event;

    if (NULL == here) {
        return;
    }
    if (ASKED == here->rank && 0 != atomic_load(&here->shared->scratch[ASKER_QPN]) &&
        atomic_compare_exchange_strong(&here->shared->scratch[ASKED_QPN], &qpn, UINT64_MAX)) {
        event = push(calloc(1, sizeof(struct rdma_cm_id)), RDMA_CM_EVENT_CONNECT_REQUEST);
        memcpy(&event->hello, (void *) &here->shared->scratch[HELLO], sizeof(event->hello));
        event->cm.param.conn.private_data = &event->hello;
        event->cm.param.conn.private_data_len = sizeof(event->hello);
    }
    if (ASKER == here->rank && NULL != atomic_load(&asking)) {
        qpn = atomic_load(&here->shared->scratch[ASKED_QPN]);
        if (0 != qpn && UINT64_MAX != qpn) {
            struct rdma_cm_id *id = atomic_exchange(&asking, NULL);
            connect_qp(id, qpn);
            push(id, RDMA_CM_EVENT_ESTABLISHED);
        }
    }
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
    struct rdma_event_channel *channel = calloc(1, sizeof(*channel));

    channel->fd = eventfd(0, EFD_CLOEXEC);
    return channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    close(channel->fd);
    free(channel);
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *ctx,
                   enum rdma_port_space ps)
{
    *id = calloc(1, sizeof(**id));
    (*id)->channel = channel;
    (*id)->context = ctx;
    (*id)->ps = ps;
    return 0;
}

/* While rdma_connect() uses it, that may not be. */
int rdma_destroy_id(struct rdma_cm_id *id)
{
    assert_true(id != atomic_load(&connecting));
    for (event_t **at = &events; NULL != *at;) {
        event_t *event = *at;
        if (event->cm.id == id) {
            *at = event->next;
            free(event);
        } else {
            at = &event->next;
        }
    }
    free(id);
    return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
    (void) addr;
    id->verbs = &context;
    id->port_num = 1;
    return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    (void) backlog;
    listener = id;
    return 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
    (void) id;
    return htons(4711);
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms)
{
    (void) from, (void) to, (void) ms;
    push(id, RDMA_CM_EVENT_ADDR_RESOLVED);
    return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int ms)
{
    (void) ms;
    push(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
    return 0;
}

static void leave_connect(void *arg)
{
    (void) arg;
    atomic_store(&connecting, NULL);
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    pthread_cleanup_push(leave_connect, NULL);
    if (!is_lost) {
        memcpy((void *) &here->shared->scratch[HELLO], param->private_data,
               param->private_data_len);
        atomic_store(&here->shared->scratch[ASKER_QPN], param->qp_num);
        atomic_store(&asking, id);
    }
    atomic_store(&connecting, id);
    while (atomic_load(&is_slow)) {
        usleep(1000);
    }
    pthread_cleanup_pop(1);
    errno = ETIMEDOUT;
    return is_lost ? -1 : 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    connect_qp(id, atomic_load(&here->shared->scratch[ASKER_QPN]));
    atomic_store(&here->shared->scratch[ASKED_QPN], param->qp_num);
    push(id, RDMA_CM_EVENT_ESTABLISHED);
    return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
    (void) id, (void) data, (void) len;
    return 0;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    event_t *first;

    (void) channel;
    look();
    first = events;
    if (NULL == first) {
        errno = EAGAIN;
        return -1;
    }
    events = first->next;
    *event = &first->cm;
    return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    free(event);
    return 0;
}

const char *rdma_event_str(enum rdma_cm_event_type type)
{
    (void) type;
    return "an event";
}

/* ---- the tests ---------------------------------------------------------- */

enum {
    CONNECTED, /* the event comes before the call has returned */
    LOST,      /* no connection: the peer is reached over tcp */
    GIVEN_UP,  /* while the call goes on */
    CLOSED     /* the same for all; it does not end by itself */
};

static unsigned way;

/* The asker exchanges messages with its neighbour while its kernel connects to another process. */
static void ask(world_t *world, const uint64_t *got)
{
    fab_peer_t *near = world_peer(world, NEAR), *far = world_peer(world, ASKED);

    atomic_store(&is_slow, true);
    post(world, far);
    WORLD_UNTIL(NULL != atomic_load(&connecting));
    for (uint64_t i = 0; i < 200; i++) {
        post(world, near);
        WORLD_UNTIL(*got > i);
    }
    WORLD_UNTIL(CONNECTED != way || NULL == atomic_load(&asking));
    CHECK(FAB_SES_TRYING == ep_of(far)->ses.state && NULL != atomic_load(&connecting));
    if (GIVEN_UP == way) {
        fab_peer_fail(far, OPAL_ERR_UNREACH, "This is a test.");
        WORLD_UNTIL(1 == world->failures);
        CHECK(NULL != far->ep && NULL != atomic_load(&connecting));
    }
    atomic_store(&is_slow, CLOSED == way);
    if (GIVEN_UP == way) {
        WORLD_UNTIL(NULL == far->ep);
    } else if (CONNECTED == way) {
        WORLD_UNTIL(FAB_SES_UP == ep_of(far)->ses.state && 201 == *got);
    } else if (LOST == way) {
        WORLD_UNTIL(201 == *got);
        CHECK(0 == verbs_domain(world)->num_conns);
    }
}

static void iwarp_body(world_t *world)
{
    fab_verbs_domain_t *dom = verbs_domain(world);

    here = world;
    is_lost = LOST == way || GIVEN_UP == way || CLOSED == way;
    CHECK(0 != (dom->addr.flags & FAB_VERBS_ADDR_CM));
    dom->addr.link_layer = IBV_LINK_LAYER_ETHERNET;
    if (NEAR == world->rank) {
        dom->addr.flags &= (uint8_t) ~FAB_VERBS_ADDR_CM; /* reached over tcp */
    }
    world->shared->len[world->rank] = fab_address(world->fab, world->shared->address[world->rank],
                                                  FAB_ADDRESS_MAX);
    world_barrier(world);
    if (ASKER == world->rank) {
        ask(world, &world->got);
    } else if (NEAR == world->rank) {
        for (uint64_t i = 0; i < 200; i++) {
            WORLD_UNTIL(world->got > i);
            post(world, world_peer(world, ASKER));
        }
    } else if (CONNECTED == way || LOST == way) {
        WORLD_UNTIL(1 == world->got);
        post(world, world_peer(world, ASKER));
    }
    CHECK((GIVEN_UP == way && ASKER == world->rank ? 1 : 0) == world->failures);
    world_barrier(world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        WORLD_JOB("test_connected", iwarp_body, .ranks = 3, .number = {{&way, CONNECTED}}),
        WORLD_JOB("test_lost", iwarp_body, .ranks = 3, .number = {{&way, LOST}}),
        WORLD_JOB("test_given_up", iwarp_body, .ranks = 3, .number = {{&way, GIVEN_UP}}),
        WORLD_JOB("test_closed", iwarp_body, .ranks = 3, .number = {{&way, CLOSED}}),
    };

    fab_params.verbs_tm = (char *) (uintptr_t) "none"; /* no iWARP device has it */
    world_use_providers("verbs,tcp");
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
