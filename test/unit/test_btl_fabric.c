/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of btl fabric as the layer above calls them, in two processes without MPI, by
 * shared memory.
 *
 * TEST: sources=@fabric,@btl ldflags=-Wl,--wrap=realloc timeout=120 quick=no
 */
#include "btl_fabric/btl_fabric_entry.h"
#include "btl_fabric/btl_fabric_mem.h"
#include "btl_fabric/btl_fabric_op.h"
#include "test_fab_jobs.h"

#include "opal/datatype/opal_datatype.h"
#include "shm/shm_types.h"
#include "test/lib/opal.h"

#if OPAL_MAJOR_VERSION < 5
orte_proc_info_t orte_process_info; /* instead of libopen-rte, which makes it known */
#endif

enum { TAG = 65, LARGE = 8 << 20 };

static const uint32_t access_any = MCA_BTL_REG_FLAG_REMOTE_READ | MCA_BTL_REG_FLAG_REMOTE_WRITE |
                                   MCA_BTL_REG_FLAG_REMOTE_ATOMIC;

/* As the component does, but for what needs Open MPI. */
static void open_btl(world_t *world)
{
    fab_config_t config = {.user = FAB_USER_BTL,
                           .name = world_name(world->rank),
                           .num_local = (uint32_t) world->size,
                           .is_threaded = &world->is_threaded,
                           .peer_failed = mca_btl_fabric_peer_failed,
                           .peer_left = mca_btl_fabric_peer_left};
    const char *why = "";
    fab_t *fab;

    CHECK(OPAL_SUCCESS == fab_open(&config, &fab, &why));
    mca_btl_fabric.fab = fab;
    mca_btl_fabric_module_init(NULL);
    fab_idmap_init(&mca_btl_fabric.mems);
    CHECK(OPAL_SUCCESS == mca_btl_fabric_ops_init());
    CHECK(OPAL_SUCCESS == mca_btl_fabric_frags_init());
    fab_set_handler(fab, BTL_FABRIC_AM_SEND, mca_btl_fabric_on_send, NULL);
    fab_set_handler(fab, BTL_FABRIC_AM_PUT, mca_btl_fabric_on_put, NULL);
    fab_set_handler(fab, BTL_FABRIC_AM_GET, mca_btl_fabric_on_get, NULL);
    fab_set_handler(fab, BTL_FABRIC_AM_DATA, mca_btl_fabric_on_data, NULL);
    fab_set_place(fab, BTL_FABRIC_AM_DATA, mca_btl_fabric_place_data, NULL);
    fab_set_handler(fab, BTL_FABRIC_AM_ATOMIC, mca_btl_fabric_on_atomic, NULL);
    fab_set_handler(fab, BTL_FABRIC_AM_DONE, mca_btl_fabric_on_done, NULL);
    fab_set_handler(fab, BTL_FABRIC_AM_COUNT, mca_btl_fabric_on_count, NULL);
    fab_start(fab, FAB_USER_BTL);
}

static mca_btl_fabric_ep_t *open_ep_of(world_t *world, int other)
{
    fab_peer_t *peer = NULL;
    const char *why = "";

    CHECK(OPAL_SUCCESS == fab_peer_open(world->fab, FAB_USER_BTL, world_name(other),
                                        world->shared->address[other], world->shared->len[other],
                                        &peer, &why));
    return mca_btl_fabric_ep_of(peer);
}

static mca_btl_fabric_ep_t *open_ep(world_t *world)
{
    return open_ep_of(world, 1 - world->rank);
}

/* Open MPI's, which is not initialized here; a flush calls it. */
void opal_progress(void)
{
    (void) mca_btl_fabric_progress();
}

static void btl_progress(void)
{
    (void) mca_btl_fabric_progress();
    sched_yield();
}

/* What rank 1 needs to access rank 0's memory. */
typedef struct remote {
    mca_btl_fabric_ep_t *ep;
    struct mca_btl_base_registration_handle_t handle;
    struct mca_btl_base_registration_handle_t *own; /* rank 0's; NULL in rank 1 */
} remote_t;

/* Both open the BTL; rank 1 gets the handle of this memory of rank 0, so many bytes. */
static remote_t open_memory(world_t *world, void *memory, size_t size)
{
    unsigned char *shared = (unsigned char *) (uintptr_t) world->shared->scratch;
    remote_t remote = {.ep = NULL};

    open_btl(world);
    remote.ep = open_ep(world);
    if (0 == world->rank) {
        remote.own = mca_btl_fabric_register_mem(NULL, MCA_BTL_ENDPOINT_ANY, memory, size,
                                                 access_any);
        CHECK(NULL != remote.own);
        memcpy(shared, remote.own, sizeof(*remote.own));
    }
    world_barrier_idle(world);
    memcpy(&remote.handle, shared, sizeof(remote.handle));
    return remote;
}

/* All poll until rank 1 has come here. */
static void poll_for_rank_1(world_t *world)
{
    _Atomic uint64_t *is_here = &world->shared->scratch[WORLD_SCRATCH - 1];

    if (1 == world->rank) {
        *is_here = 1;
    }
    while (0 == *is_here) {
        btl_progress();
    }
}

/* The end of most bodies: nobody leaves before all are here. */
static void leave(world_t *world)
{
    world_barrier_idle(world);
    (void) mca_btl_fabric_finalize(NULL);
}

static unsigned gives_up; /* does rank 1 give rank 0 up? */

/* ---- a get of memory that is deregistered before all of it was sent ------- */

/* Rank 0 does not see that this memory is asked for before it polls. */
static void get_raw(world_t *world, const remote_t *remote)
{
    btl_fabric_get_t get = {.len = LARGE};

    get.claim = fab_claim_word((uint32_t) remote->handle.key) | BTL_FABRIC_ORDERED;
    CHECK(OPAL_SUCCESS == fab_send(remote->ep->peer,
                                   fab_hdr(BTL_FABRIC_AM_GET, remote->handle.base, 1), &get,
                                   sizeof(get)));
    world_barrier_idle(world);
}

/* Rank 1 does not poll, so most of the data stays here. */
static void answer_some(const fab_peer_t *peer)
{
    while (NULL == peer->pending) {
        btl_progress();
    }
}

static void deregistered_body(world_t *world)
{
    void *memory = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    remote_t remote = open_memory(world, memory, LARGE);

    if (0 == world->rank) {
        answer_some(remote.ep->peer);
        CHECK(OPAL_SUCCESS == mca_btl_fabric_deregister_mem(NULL, remote.own));
        CHECK(0 == munmap(memory, LARGE));
        WORLD_UNTIL(1 == world->failures);
        CHECK(NULL != strstr(world->failed_why, "memory that is not registered"));
        WORLD_UNTIL(NULL == remote.ep->peer->pending);
        world_barrier_idle(world);
    } else {
        get_raw(world, &remote);
    }
    (void) mca_btl_fabric_finalize(NULL);
}

/* Memory for one peer is registered with its provider alone; a window is not given. */
static void registered_body(world_t *world)
{
    static uint64_t memory[LARGE / 8];
    struct mca_btl_base_registration_handle_t *window, *message;
    mca_btl_fabric_ep_t *ep;
    fab_shm_domain_t *dom;

    open_btl(world);
    ep = open_ep(world);
    dom = ((fab_shm_ep_t *) ep->peer->ep)->dom;
    window = mca_btl_fabric_register_mem(NULL, MCA_BTL_ENDPOINT_ANY, memory, LARGE, access_any);
    CHECK(__builtin_popcount(window->region.providers) > 1);
    CHECK(0 == dom->exposures.used);
    message = mca_btl_fabric_register_mem(NULL, ep, memory, LARGE, MCA_BTL_REG_FLAG_REMOTE_READ);
    CHECK(1 == __builtin_popcount(message->region.providers));
    CHECK(fab_region_is_reachable(&message->region, ep->peer));
    CHECK(1 == dom->exposures.used);
    CHECK(OPAL_SUCCESS == mca_btl_fabric_deregister_mem(NULL, message));
    CHECK(OPAL_SUCCESS == mca_btl_fabric_deregister_mem(NULL, window));
    CHECK(0 == dom->exposures.used);
    leave(world);
}

/* Rank 0 leaves with most of the data still here. */
static void unsent_body(world_t *world)
{
    static uint64_t memory[LARGE / 8];
    remote_t remote = open_memory(world, memory, LARGE);

    if (0 == world->rank) {
        answer_some(remote.ep->peer);
        CHECK(!LIST_EMPTY(&mca_btl_fabric.replies));
        (void) mca_btl_fabric_finalize(NULL);
        CHECK(LIST_EMPTY(&mca_btl_fabric.replies));
        world_barrier_idle(world);
    } else {
        CHECK(OPAL_ERR_NOT_AVAILABLE ==
              mca_btl_fabric_put(NULL, remote.ep, NULL, 0, NULL, NULL, 8, 0, 0, NULL, NULL, NULL));
        CHECK(OPAL_ERR_NOT_SUPPORTED == mca_btl_fabric_atomic_op(NULL, remote.ep, 0, NULL,
                                                                 MCA_BTL_ATOMIC_ADD, 1, 0, 0, NULL,
                                                                 NULL, NULL));
        get_raw(world, &remote);
        (void) mca_btl_fabric_finalize(NULL);
    }
}

/* ---- sendi packs all or nothing ------------------------------------------ */

/* A type of 12 bytes with a gap. */
static opal_datatype_t *gappy_type(world_t *world)
{
    opal_datatype_t *type = opal_datatype_create(2);

    CHECK(0 == opal_datatype_add(type, &opal_datatype_int4, 1, 0, -1));
    CHECK(0 == opal_datatype_add(type, &opal_datatype_float8, 1, 8, -1));
    CHECK(0 == opal_datatype_commit(type));
    return type;
}

static void sendi_body(world_t *world)
{
    char buf[64] = {0}, header[8] = {0};
    mca_btl_fabric_ep_t *ep;
    mca_btl_base_descriptor_t *des = NULL;
    opal_convertor_t *convertor;
    opal_datatype_t *type;

    CHECK(OPAL_SUCCESS == test_opal_init());
    open_btl(world);
    ep = open_ep(world);
    type = gappy_type(world);
    convertor = opal_convertor_create(opal_local_arch, 0);
    CHECK(0 == opal_convertor_prepare_for_send(convertor, type, 4, buf));
    /* 15 bytes end within an element, which would not be packed */
    CHECK(OPAL_ERR_RESOURCE_BUSY ==
          mca_btl_fabric_sendi(NULL, ep, convertor, header, 8, 15, MCA_BTL_NO_ORDER, 0, TAG, &des));
    CHECK(NULL != des && 0 == mca_btl_fabric.counters.sends);
    (void) mca_btl_fabric_free(NULL, des);
    CHECK(OPAL_SUCCESS ==
          mca_btl_fabric_sendi(NULL, ep, convertor, header, 8, 48, MCA_BTL_NO_ORDER, 0, TAG, &des));
    CHECK(1 == mca_btl_fabric.counters.sends);
    while (NULL == atomic_load(&mca_btl_fabric.up)) { /* nothing takes what arrives */
        btl_progress();
    }
    OBJ_RELEASE(convertor);
    (void) opal_datatype_destroy(&type);
    leave(world);
}

/* ---- a message in place --------------------------------------------------- */

enum {
    MESSAGES = 3000,
    NESTED = 20, /* messages that come while one is used */
    PLACE_RING = 8192,
};

static unsigned num_given, num_wrong, depth;

/* Message number n has a length of its own, and is n in each word. */
static size_t message_len(uint64_t n)
{
    return 8 * (1 + n % 40);
}

static bool has_number(const uint64_t *data, size_t len, uint64_t n)
{
    for (size_t i = 0; i < len / 8; i++) {
        if (n != data[i]) {
            return false;
        }
    }
    return message_len(n) == len;
}

/* In each hundredth message wait for later ones, which must not change it. */
static void on_message(const uint64_t *data, size_t len)
{
    unsigned n = num_given++;

    num_wrong += !has_number(data, len, n);
    if (0 == n % 100 && 0 == depth) {
        depth++;
        while (num_given < n + NESTED) {
            btl_progress();
        }
        depth--;
        num_wrong += !has_number(data, len, n);
    }
}

#if OPAL_MAJOR_VERSION < 5
static void on_btl_message(mca_btl_base_module_t *btl, mca_btl_base_tag_t tag,
                           mca_btl_base_descriptor_t *message, void *data)
{
    (void) btl, (void) tag, (void) data;
    on_message(message->des_segments->seg_addr.pval, message->des_segments->seg_len);
}
#else
static void on_btl_message(mca_btl_base_module_t *btl,
                           const mca_btl_base_receive_descriptor_t *message)
{
    (void) btl;
    on_message(message->des_segments->seg_addr.pval, message->des_segments->seg_len);
}
#endif

static void send_numbers(mca_btl_fabric_ep_t *ep)
{
    uint64_t words[40];

    for (uint64_t n = 0; n < MESSAGES; n++) {
        for (int i = 0; i < 40; i++) {
            words[i] = n;
        }
        while (OPAL_SUCCESS != mca_btl_fabric_sendi(NULL, ep, NULL, words, message_len(n), 0,
                                                    MCA_BTL_NO_ORDER, 0, TAG, NULL)) {
            btl_progress();
        }
    }
}

static void in_place_body(world_t *world)
{
    mca_btl_fabric_ep_t *ep;

    CHECK(OPAL_SUCCESS == test_opal_init());
    open_btl(world);
    ep = open_ep(world);
    ep->proc = OBJ_NEW(opal_proc_t);
    mca_btl_base_active_message_trigger[TAG].cbfunc = on_btl_message;
    world_barrier_idle(world);
    if (0 == world->rank) {
        send_numbers(ep);
    } else {
        while (num_given < MESSAGES) {
            btl_progress();
        }
        CHECK(0 == num_wrong);
        CHECK(MESSAGES == num_given);
        CHECK(world->is_threaded == (0 == mca_btl_fabric.counters.in_place));
    }
    CHECK(0 == world->failures);
    leave(world);
}

/* ---- the error callback may delete the process ---------------------------- */

static mca_btl_fabric_ep_t *failed_ep;
static uint32_t failed_name;

static void on_error(mca_btl_base_module_t *btl, int32_t flags, opal_proc_t *proc, char *text)
{
    (void) flags, (void) text;
    (void) mca_btl_fabric_del_procs(btl, 1, &proc, &failed_ep);
    failed_name = proc->proc_name.vpid;
}

static void error_callback_body(world_t *world)
{
    CHECK(OPAL_SUCCESS == test_opal_init());
    open_btl(world);
    failed_ep = open_ep(world);
    failed_ep->proc = OBJ_NEW(opal_proc_t); /* the endpoint's is the only reference */
    failed_ep->proc->proc_name.vpid = 77;
    (void) mca_btl_fabric_register_error(NULL, on_error);
    fab_peer_fail(failed_ep->peer, OPAL_ERR_UNREACH, "It was given up.");
    while (0 == failed_name) {
        btl_progress();
    }
    CHECK(77 == failed_name && NULL == failed_ep->proc);
    leave(world);
}

/* ---- a process that failed before it was added ---------------------------- */

static void failed_before_body(world_t *world)
{
    fab_peer_t *peer = world_peer(world, 1 - world->rank);
    unsigned char blob[sizeof(btl_fabric_address_t) + FAB_ADDRESS_MAX];
    btl_fabric_address_t head = {.magic = BTL_FABRIC_ADDRESS_MAGIC,
                                 .version = BTL_FABRIC_WIRE_VERSION};
    size_t len = world->shared->len[1 - world->rank];
    const char *why = "";
    opal_proc_t *proc;

    CHECK(OPAL_SUCCESS == test_opal_init());
    open_btl(world);
    (void) mca_btl_fabric_register_error(NULL, on_error);
    fab_peer_fail(peer, OPAL_ERR_UNREACH, "It was given up.");
    WORLD_UNTIL(1 == world->failures);
    btl_progress();
    proc = OBJ_NEW(opal_proc_t);
    proc->proc_name.jobid = (uint32_t) (peer->name >> 32);
    proc->proc_name.vpid = (uint32_t) peer->name;
    memcpy(blob, &head, sizeof(head));
    memcpy(blob + sizeof(head), world->shared->address[1 - world->rank], len);
    failed_name = 77;
    failed_ep = mca_btl_fabric_ep_open(proc, blob, sizeof(head) + len, &why);
    CHECK(NULL != failed_ep && peer == failed_ep->peer);
    CHECK(77 == failed_name);
    while (77 == failed_name) {
        btl_progress();
    }
    CHECK(proc->proc_name.vpid == failed_name && NULL == failed_ep->proc);
    OBJ_RELEASE(proc);
    leave(world);
}

/* ---- offers --------------------------------------------------------------- */

enum {
    WORDS = 1024, /* of rank 0's memory */
    RING = 4096,  /* bytes: several laps for the offers that may be under way */
    OFFERS = 20000,
    FEW = 200,
};

static unsigned num_done, num_lost;

static void ended(mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep, void *local,
                  struct mca_btl_base_registration_handle_t *handle, void *context, void *data,
                  int status)
{
    (void) btl, (void) ep, (void) local, (void) handle, (void) context, (void) data;
    num_done += OPAL_SUCCESS == status;
    num_lost += OPAL_SUCCESS != status;
}

static remote_t open_both(world_t *world, uint64_t *words)
{
    return open_memory(world, words, WORDS * sizeof(*words));
}

/* Put a value; the callback may be NULL. */
static void put_then(world_t *world, remote_t *remote, unsigned at, uint64_t *value,
                     mca_btl_base_rdma_completion_fn_t callback, void *context)
{
    CHECK(OPAL_SUCCESS ==
          mca_btl_fabric_put(NULL, remote->ep, value, remote->handle.base + at * sizeof(*value),
                             NULL, &remote->handle, sizeof(*value), 0, 0, callback, context, NULL));
}

static void put(world_t *world, remote_t *remote, unsigned at, uint64_t *value)
{
    put_then(world, remote, at, value, ended, NULL);
}

static void get(world_t *world, remote_t *remote, unsigned at, uint64_t *value)
{
    CHECK(OPAL_SUCCESS ==
          mca_btl_fabric_get(NULL, remote->ep, value, remote->handle.base + at * sizeof(*value),
                             NULL, &remote->handle, sizeof(*value), 0, 0, ended, NULL, NULL));
}

/* Until the first message has gone there are no offers. */
static void send_one(world_t *world, remote_t *remote)
{
    CHECK(OPAL_SUCCESS == mca_btl_fabric_sendi(NULL, remote->ep, NULL, (char[8]){0}, 8, 0,
                                               MCA_BTL_NO_ORDER, 0, TAG, NULL));
}

/*
 * Rank 0 polls only after rank 1 has put a value by an offer, which it had to withdraw, and another
 * one by system calls: the first must not come back.
 */
static void withdrawn_body(world_t *world)
{
    static uint64_t words[WORDS];
    remote_t remote = open_both(world, words);
    uint64_t value = 0;

    if (1 == world->rank) {
        send_one(world, &remote);
        for (uint64_t i = 1; i <= FEW; i++) {
            put(world, &remote, 0, &i);
            (void) mca_btl_fabric_flush(NULL, NULL);
            get(world, &remote, 0, &value);
            (void) mca_btl_fabric_flush(NULL, NULL);
            CHECK(i == value && 2 * i == num_done);
        }
        CHECK(mca_btl_fabric.counters.offered > 2);
        CHECK(mca_btl_fabric.counters.offered < FEW);
        CHECK(mca_btl_fabric.counters.offered == mca_btl_fabric.counters.withdrawn);
    }
    world_barrier_idle(world);
    for (int i = 0; i < 1000; i++) {
        btl_progress();
    }
    CHECK(1 == world->rank || FEW == words[0]);
    CHECK(0 == world->failures);
    leave(world);
}

/* Words that rank 1 has put, all under way at once. */
static void put_many(world_t *world, remote_t *remote, uint64_t seed)
{
    static uint64_t values[WORDS];
    unsigned before = num_done;

    for (unsigned at = 1; at < WORDS; at++) {
        values[at] = seed + at;
        put(world, remote, at, &values[at]);
    }
    (void) mca_btl_fabric_flush(NULL, remote->ep);
    CHECK(before + WORDS - 1 == num_done);
    memset(values, 0, sizeof(values));
    for (unsigned at = 1; at < WORDS; at++) {
        get(world, remote, at, &values[at]);
    }
    (void) mca_btl_fabric_flush(NULL, remote->ep);
    for (unsigned at = 1; at < WORDS; at++) {
        CHECK(seed + at == values[at]);
    }
}

/* Rank 0 polls now and then, so some offers are taken and some withdrawn, in several laps. */
static void offered_body(world_t *world)
{
    static uint64_t words[WORDS];
    remote_t remote = open_both(world, words);
    _Atomic uint64_t *is_over = &world->shared->scratch[WORLD_SCRATCH - 1];

    if (1 == world->rank) {
        send_one(world, &remote);
        for (unsigned round = 0;
             mca_btl_fabric.counters.offered < OFFERS || 0 == mca_btl_fabric.counters.withdrawn;
             round++) {
            put_many(world, &remote, (uint64_t) round << 32);
        }
        CHECK(mca_btl_fabric.counters.withdrawn < mca_btl_fabric.counters.offered);
        *is_over = 1;
    }
    for (unsigned i = 0; 0 == *is_over; i++) {
        for (unsigned poll = 0; poll < (0 == i % 3 ? 10000 : 1) && 0 == *is_over; poll++) {
            (void) mca_btl_fabric_progress();
        }
        usleep(0 == i % 100 ? 1000 : 0);
    }
    CHECK(0 == world->failures);
    leave(world);
}

/* ---- a get that cannot go on for want of memory --------------------------- */

static bool has_no_memory;

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_realloc(void *old, size_t size)
{
    return has_no_memory ? NULL : __real_realloc(old, size);
}

/*
 * The fabric cannot finish the get, since rank 0 has unmapped the memory, and a message needs
 * memory for an id: the peer fails, and the get ends with an error.
 */
static void no_memory_body(world_t *world)
{
    const size_t size = WORDS * sizeof(uint64_t);
    uint64_t value = 0,
             *words = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    remote_t remote = open_both(world, words);

    CHECK(0 == munmap(words, size));
    world_barrier_idle(world);
    if (1 == world->rank) {
        while (mca_btl_fabric.ids.used < mca_btl_fabric.ids.size) {
            CHECK(0 != fab_idmap_add(&mca_btl_fabric.ids, &value));
        }
        has_no_memory = true;
        get(world, &remote, 0, &value);
        while (0 == num_lost) {
            btl_progress();
        }
        has_no_memory = false;
        CHECK(1 == num_lost && 0 == num_done);
        WORLD_UNTIL(1 == world->failures);
        CHECK(NULL != strstr(world->failed_why, "memory"));
        CHECK(1 == mca_btl_fabric.counters.rma_failed);
    }
    leave(world);
}

/* ---- offers of long gets -------------------------------------------------- */

enum {
    BIG = 512 << 10, /* bytes of rank 0's memory, and of the longest get */
    BIG_WORDS = BIG / 8,
    WINDOW = 24, /* gets at a time */
    ROUNDS = 3,
    OFFERED = 8192, /* bytes of the longest get that is offered */
};

static uint64_t big[BIG_WORDS], gotten[BIG_WORDS];

/* The BTL is opened; rank 0's memory is counted through. */
static remote_t open_big(world_t *world)
{
    remote_t remote = open_memory(world, big, BIG);

    for (uint64_t i = 0; i < BIG_WORDS; i++) {
        big[i] = 0 == world->rank ? i : 0;
    }
    world_barrier_idle(world);
    if (1 == world->rank) {
        send_one(world, &remote);
    }
    return remote;
}

/* Start a get of that many bytes, from this word on. */
static void start_get(world_t *world, remote_t *remote, size_t at, size_t len)
{
    remote->ep->ignored = 0; /* on a busy host rank 0 may not have polled */
    CHECK(OPAL_SUCCESS == mca_btl_fabric_get(NULL, remote->ep, &gotten[at],
                                             remote->handle.base + 8 * at, NULL, &remote->handle,
                                             len, 0, 0, ended, NULL, NULL));
}

/* n gets of this length at the same time, of as many places as there are. */
static void get_big(world_t *world, remote_t *remote, size_t len, size_t n)
{
    memset(gotten, 0xff, sizeof(gotten));
    for (size_t i = 0; i < n; i++) {
        start_get(world, remote, i * len % (BIG - len + 1) / 8, len);
    }
    (void) mca_btl_fabric_flush(NULL, remote->ep);
    for (size_t i = 0; i < n * len / 8 && i < BIG_WORDS / len * len; i++) {
        CHECK(i == gotten[i]);
    }
}

static unsigned get_all(world_t *world, remote_t *remote)
{
    static const size_t lens[] = {4096, OFFERED / 2 + 8, OFFERED, OFFERED + 8, BIG};
    unsigned n = 0;

    for (int round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
            get_big(world, remote, lens[i], 1);
            get_big(world, remote, lens[i], 1 + WINDOW % (BIG / lens[i]));
            n += 2 + (unsigned) (WINDOW % (BIG / lens[i]));
        }
    }
    return n;
}

/* Rank 0 polls until rank 1 has done so. */
static void end_big(world_t *world)
{
    poll_for_rank_1(world);
    CHECK(0 == world->failures);
    leave(world);
}

/* Windows of gets, of which a ring has not the room for all data; none longer is offered. */
static void long_offers_body(world_t *world)
{
    remote_t remote = open_big(world);
    const mca_btl_fabric_counters_t *counters = &mca_btl_fabric.counters;

    if (1 == world->rank) {
        unsigned n = get_all(world, &remote);
        const unsigned long long before = counters->offered;
        get_big(world, &remote, OFFERED + 8, 1);
        n++;
        CHECK(before == counters->offered);
        CHECK(n == num_done && 0 == num_lost);
        CHECK(n == counters->offered + counters->rma && 0 == counters->no_rma);
    }
    end_big(world);
}

/* Rank 0 does not poll: all are read by the fabric. */
static void long_withdrawn_body(world_t *world)
{
    remote_t remote = open_big(world);
    const mca_btl_fabric_counters_t *counters = &mca_btl_fabric.counters;

    if (1 == world->rank) {
        for (int i = 0; i < FEW; i++) {
            get_big(world, &remote, OFFERED, 1);
        }
        CHECK(FEW == num_done && FEW == counters->offered && 0 == counters->no_rma);
        CHECK(counters->offered == counters->withdrawn);
    }
    world_barrier_idle(world);
    end_big(world);
}

/* ---- operations that wait for an answer that does not come ---------------- */

/* Rank 1 begins a get, by a message that rank 0 does not see before it leaves. */
static remote_t begin_get(world_t *world)
{
    static uint64_t words[WORDS], value;
    remote_t remote = open_both(world, words);

    if (1 == world->rank) {
        send_one(world, &remote);
        get(world, &remote, 0, &value);
        CHECK(1 == mca_btl_fabric.counters.no_rma && 1 == remote.ep->outstanding);
    }
    return remote;
}

/* Its endpoint is deleted, then the peer fails. */
static void deleted_body(world_t *world)
{
    remote_t remote;
    opal_proc_t *proc;

    CHECK(OPAL_SUCCESS == test_opal_init());
    remote = begin_get(world);
    if (1 == world->rank) {
        fab_peer_t *peer = remote.ep->peer;
        proc = OBJ_NEW(opal_proc_t);
        remote.ep->proc = proc;
        (void) mca_btl_fabric_del_procs(NULL, 1, &proc, &remote.ep);
        btl_progress();
        CHECK(0 == num_lost && remote.ep->is_deleted && remote.ep == peer->user[FAB_USER_BTL]);
        fab_peer_fail(peer, OPAL_ERR_UNREACH, "It was given up.");
        (void) mca_btl_fabric_flush(NULL, remote.ep);
        CHECK(0 == num_done && 1 == num_lost);
        CHECK(!remote.ep->is_deleted);
    }
    leave(world);
}

/* The peer leaves. */
static void left_body(world_t *world)
{
    remote_t remote = begin_get(world);

    world_barrier_idle(world);
    if (1 == world->rank) {
        (void) mca_btl_fabric_flush(NULL, remote.ep);
        CHECK(0 == num_done && 1 == num_lost && FAB_PEER_FAILED == remote.ep->peer->state);
    }
    (void) mca_btl_fabric_finalize(NULL);
}

/* ---- a long get over tcp: from the target's memory to the origin's -------- */

enum { LONG_WORDS = (5 << 20) / 8 + 3 };

static void long_get_body(world_t *world)
{
    static uint64_t words[LONG_WORDS], values[LONG_WORDS + 1];
    remote_t remote = open_memory(world, words, sizeof(words));

    for (uint64_t i = 0; 0 == world->rank && i < LONG_WORDS; i++) {
        words[i] = i * UINT64_C(0x9e3779b97f4a7c15);
    }
    world_barrier_idle(world);
    if (1 == world->rank) {
        values[LONG_WORDS] = 77;
        /* two at once, and the second is part of the first */
        CHECK(OPAL_SUCCESS == mca_btl_fabric_get(NULL, remote.ep, values, remote.handle.base, NULL,
                                                 &remote.handle, sizeof(words), 0, 0, ended, NULL,
                                                 NULL));
        get(world, &remote, LONG_WORDS - 1, &values[LONG_WORDS - 1]);
        (void) mca_btl_fabric_flush(NULL, remote.ep);
        CHECK(2 == num_done && 2 == mca_btl_fabric.counters.no_rma);
        for (uint64_t i = 0; i < LONG_WORDS; i++) {
            CHECK(i * UINT64_C(0x9e3779b97f4a7c15) == values[i]);
        }
        CHECK(77 == values[LONG_WORDS]);
    }
    poll_for_rank_1(world);
    while (mca_btl_fabric.num_rma > 0) { /* may be reported after the data was received */
        btl_progress();
    }
    CHECK(0 == world->failures);
    leave(world);
}

/* Data for no get, or for more than it asked for, has no destination. */
static void no_place_body(world_t *world)
{
    uint64_t value = 0;
    fab_peer_t *peer;
    mca_btl_fabric_op_t op = {.call = {.am = BTL_FABRIC_AM_GET, .local = &value, .len = 8}};
    uint32_t id;

    open_btl(world);
    op.call.ep = open_ep(world);
    peer = op.call.ep->peer;
    id = fab_idmap_add(&mca_btl_fabric.ids, &op);
    CHECK(&value == mca_btl_fabric_place_data(NULL, peer, fab_hdr(BTL_FABRIC_AM_DATA, 0, id), 8));
    CHECK(NULL == mca_btl_fabric_place_data(NULL, peer, fab_hdr(BTL_FABRIC_AM_DATA, 0, id), 9));
    CHECK(NULL == mca_btl_fabric_place_data(NULL, peer, fab_hdr(BTL_FABRIC_AM_DATA, 1, id), 8));
    CHECK(NULL ==
          mca_btl_fabric_place_data(NULL, peer, fab_hdr(BTL_FABRIC_AM_DATA, UINT64_MAX, id), 2));
    CHECK(NULL == mca_btl_fabric_place_data(NULL, peer, fab_hdr(BTL_FABRIC_AM_DATA, 0, id + 1), 8));
    CHECK(NULL == mca_btl_fabric_place_data(NULL, NULL, fab_hdr(BTL_FABRIC_AM_DATA, 0, id), 8));
    op.done = 8;
    CHECK(NULL == mca_btl_fabric_place_data(NULL, peer, fab_hdr(BTL_FABRIC_AM_DATA, 0, id), 8));
    fab_idmap_remove(&mca_btl_fabric.ids, id);
    leave(world);
}

/* ---- counted messages ------------------------------------------------------ */

static void add(world_t *world, remote_t *remote, unsigned at, uint64_t value)
{
    CHECK(OPAL_SUCCESS == mca_btl_fabric_atomic_op(
                              NULL, remote->ep, remote->handle.base + at * sizeof(value),
                              &remote->handle, MCA_BTL_ATOMIC_ADD, value, 0, 0, ended, NULL, NULL));
}

/* Puts with and without callback, and atomic operations, all under way at once. */
static void start_counted(world_t *world, remote_t *remote, uint64_t *values)
{
    for (unsigned at = 0; at < WORDS; at += 2) {
        values[at] = at + 1;
        put(world, remote, at, &values[at]);
        put_then(world, remote, at + 1, &values[at], NULL, NULL);
        add(world, remote, at, 1000);
    }
}

/* A flush waits for the puts alone.  They are answered by few messages. */
static void counted_body(world_t *world)
{
    static uint64_t words[WORDS], values[WORDS];
    remote_t remote = open_both(world, words);
    unsigned long long before = fab_counters.tcp_msgs_sent;

    world_barrier_idle(world);
    if (1 == world->rank) {
        start_counted(world, &remote, values);
        CHECK(WORDS / 2 * 3 == remote.ep->outstanding);
        (void) mca_btl_fabric_flush(NULL, remote.ep);
        CHECK(num_done >= WORDS / 2 && remote.ep->outstanding <= WORDS / 2);
        while (num_done < WORDS) {
            btl_progress();
        }
        CHECK(0 == remote.ep->outstanding && 0 == mca_btl_fabric.outstanding);
        CHECK(LIST_EMPTY(&remote.ep->ops) && STAILQ_EMPTY(&remote.ep->counted));
    }
    world_barrier(world);
    CHECK(1 == world->rank || fab_counters.tcp_msgs_sent - before < WORDS / 2 * 3 / 4);
    for (unsigned at = 0; 0 == world->rank && at < WORDS; at += 2) {
        CHECK(at + 1001 == words[at] && at + 1 == words[at + 1]);
    }
    CHECK(0 == world->failures && 0 == num_lost);
    leave(world);
}

/* Rank 0 does not poll and is given up, or rank 1 leaves with operations under way. */
static void uncounted_body(world_t *world)
{
    static uint64_t words[WORDS], values[WORDS];
    remote_t remote = open_both(world, words);

    if (1 == world->rank) {
        start_counted(world, &remote, values);
        CHECK(remote.ep->outstanding > 0);
    }
    if (1 == world->rank && gives_up) {
        fab_peer_fail(remote.ep->peer, OPAL_ERR_UNREACH, "It was given up.");
        (void) mca_btl_fabric_flush(NULL, remote.ep);
        while (num_lost < WORDS) {
            btl_progress();
        }
        CHECK(0 == num_done && 0 == remote.ep->outstanding && STAILQ_EMPTY(&remote.ep->counted));
    }
    leave(world);
}

/* An answer to an operation that there was not. */
static void miscounted_body(world_t *world)
{
    fab_peer_t *peer;

    open_btl(world);
    peer = open_ep(world)->peer;
    world_barrier_idle(world);
    if (1 == world->rank) {
        CHECK(OPAL_SUCCESS == fab_post(peer, fab_hdr(BTL_FABRIC_AM_COUNT, 0, 1), NULL, 0));
    }
    WORLD_UNTIL(1 == world->failures);
    if (0 == world->rank) {
        CHECK(NULL != strstr(world->failed_why, "more operations than there were"));
    }
    leave(world);
}

/* ---- atomic operations in shared memory ------------------------------------ */

enum { ADDS = 20000, AT_ONCE = 5 };

static void fetch_add(world_t *world, remote_t *remote, unsigned at, uint64_t *old)
{
    CHECK(OPAL_SUCCESS == mca_btl_fabric_atomic_fop(
                              NULL, remote->ep, old, remote->handle.base + at * sizeof(*old), NULL,
                              &remote->handle, MCA_BTL_ATOMIC_ADD, 1, 0, 0, ended, NULL, NULL));
}

/* Both add to rank 0's word, some at once; so each gets values that grow. */
static void add_body(world_t *world)
{
    static uint64_t words[WORDS];
    uint64_t old[AT_ONCE], last = 0;
    remote_t remote = open_both(world, words);

    if (1 == world->rank) {
        send_one(world, &remote);
        for (int i = 0; i < ADDS; i += AT_ONCE) {
            for (int k = 0; k < AT_ONCE; k++) {
                fetch_add(world, &remote, 0, &old[k]);
                add(world, &remote, 1, 1);
            }
            (void) mca_btl_fabric_flush(NULL, remote.ep);
            for (int k = 0; k < AT_ONCE; k++) {
                CHECK(0 == i + k || old[k] > last);
                last = old[k];
            }
        }
        while (num_done < 2 * ADDS) {
            btl_progress();
        }
        CHECK(0 == remote.ep->outstanding && LIST_EMPTY(&remote.ep->ops));
    } else {
        for (int i = 0; i < ADDS; i++) {
            (void) __atomic_fetch_add(&words[0], 1, __ATOMIC_SEQ_CST);
            if (0 == i % 7) {
                btl_progress();
            }
        }
    }
    world_barrier(world);
    CHECK(1 == world->rank || (2 * ADDS == words[0] && ADDS == words[1]));
    CHECK(0 == world->failures && 0 == num_lost);
    leave(world);
}

/* Rank 0 does not poll and is given up, or rank 1 leaves first. */
static void unanswered_body(world_t *world)
{
    static uint64_t words[WORDS], old[AT_ONCE];
    remote_t remote = open_both(world, words);

    if (1 == world->rank) {
        send_one(world, &remote);
        for (int i = 0; i < AT_ONCE; i++) {
            fetch_add(world, &remote, 0, &old[i]);
        }
        CHECK(AT_ONCE == remote.ep->outstanding);
    }
    if (1 == world->rank && gives_up) {
        fab_peer_fail(remote.ep->peer, OPAL_ERR_UNREACH, "It was given up.");
        (void) mca_btl_fabric_flush(NULL, remote.ep);
        CHECK(0 == num_done && AT_ONCE == num_lost);
    }
    leave(world);
}

/* ---- what a flush waits for, with threads ----------------------------------- */

enum {
    LATER_LOOKS = 2000, /* of a callback, for a flush that does not wait for it */
    CHAIN = 3,          /* operations, each started by the callback of the one before */
};

/* Stages of the tests, in order. */
enum { STARTED = 1, IN_CALLBACK, IN_FLUSH, FLUSHED, STOP };

static _Atomic int stage;
static _Atomic bool has_returned;

static void reach(int at)
{
    stage = at;
}

static void await(int at)
{
    while (stage < at) {
        sched_yield();
    }
}

/* A thread that polls, and so runs callbacks. */
static void *poll_always(void *arg)
{
    (void) arg;
    while (stage < STOP) {
        btl_progress();
    }
    return NULL;
}

/* The last operation of a chain: it is not over before the flush has had time to return. */
static void slow_callback(mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep, void *local,
                          struct mca_btl_base_registration_handle_t *handle, void *context,
                          void *data, int status)
{
    (void) btl, (void) ep, (void) local, (void) handle, (void) context, (void) data, (void) status;
    reach(IN_CALLBACK);
    await(IN_FLUSH);
    for (int i = 0; i < LATER_LOOKS && stage < FLUSHED; i++) {
        sched_yield();
    }
    has_returned = true;
}

/* Rank 0 polls until rank 1 has put 5, and all leave. */
static void end_put(world_t *world, const uint64_t *words)
{
    poll_for_rank_1(world);
    CHECK(1 == world->rank || 5 == words[0]);
    leave(world);
}

/* Rank 1's main thread flushes while another thread runs the callback. */
static void callback_body(world_t *world)
{
    static uint64_t words[WORDS], value = 5;
    remote_t remote = open_both(world, words);
    pthread_t thread;

    if (1 == world->rank) {
        CHECK(0 == pthread_create(&thread, NULL, poll_always, NULL));
        put_then(world, &remote, 0, &value, slow_callback, NULL);
        await(IN_CALLBACK);
        reach(IN_FLUSH);
        (void) mca_btl_fabric_flush(NULL, NULL);
        CHECK(has_returned);
        reach(STOP);
        CHECK(0 == pthread_join(thread, NULL));
    }
    end_put(world, words);
}

static void put_next(mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep, void *local,
                     struct mca_btl_base_registration_handle_t *handle, void *context, void *data,
                     int status)
{
    const struct mca_btl_base_registration_handle_t *remote = context;

    (void) handle;
    ended(btl, ep, local, handle, context, data, status);
    if (num_done < CHAIN) {
        (void) mca_btl_fabric_put(btl, ep, local, remote->base, NULL, context, 8, 0, 0, put_next,
                                  context, NULL);
        (void) mca_btl_fabric_put(btl, ep, local, remote->base, NULL, context, 8, 0, 0, NULL, NULL,
                                  NULL);
    } else {
        (void) mca_btl_fabric_flush(NULL, NULL); /* does not wait for its own callback */
    }
}

/* A flush waits for what callbacks start as well.  One inside a callback returns. */
static void chain_body(world_t *world)
{
    static uint64_t words[WORDS], value = 5;
    remote_t remote = open_both(world, words);

    if (1 == world->rank) {
        put_then(world, &remote, 0, &value, put_next, &remote.handle);
        (void) mca_btl_fabric_flush(NULL, NULL);
        CHECK(CHAIN == num_done && 0 == num_lost && 0 == mca_btl_fabric.outstanding);
    }
    end_put(world, words);
}

static void *flush_once(void *arg)
{
    (void) arg;
    reach(IN_FLUSH);
    (void) mca_btl_fabric_flush(NULL, NULL);
    reach(FLUSHED);
    return NULL;
}

static unsigned num_polls(void)
{
    unsigned polls;

    fab_lock(mca_btl_fabric.fab);
    polls = mca_btl_fabric.polls;
    fab_unlock(mca_btl_fabric.fab);
    return polls;
}

/* Ranks 0 and 2 have a word each; they poll once they are told to. */
static void serve(world_t *world, uint64_t *word)
{
    _Atomic uint64_t *scratch = world->shared->scratch;
    struct mca_btl_base_registration_handle_t *mem = mca_btl_fabric_register_mem(
        NULL, MCA_BTL_ENDPOINT_ANY, word, sizeof(*word), access_any);

    memcpy((void *) (uintptr_t) &scratch[WORDS * world->rank], mem, sizeof(*mem));
    world_barrier_idle(world);
    while (0 == scratch[WORLD_SCRATCH - 1 - world->rank]) {
        sched_yield();
    }
    while (0 == scratch[WORLD_SCRATCH - 4]) {
        btl_progress();
    }
    CHECK(0 != *word);
}

/* Rank 1 puts a word to one of them, which is not served yet. */
static void put_to(world_t *world, int rank)
{
    static struct mca_btl_base_registration_handle_t handles[3];
    static uint64_t values[3] = {1, 2, 3};

    memcpy(&handles[rank], (void *) (uintptr_t) &world->shared->scratch[WORDS * rank],
           sizeof(handles[rank]));
    CHECK(OPAL_SUCCESS == mca_btl_fabric_put(NULL, open_ep_of(world, rank), &values[rank],
                                             handles[rank].base, NULL, &handles[rank], 8, 0, 0,
                                             ended, NULL, NULL));
}

/*
 * A thread of rank 1 flushes a put to rank 0; then another put is started, to rank 2, which does
 * not serve it before the flush has ended.
 */
static void later_body(world_t *world)
{
    static uint64_t word;
    _Atomic uint64_t *scratch = world->shared->scratch;
    pthread_t thread;
    unsigned polls;

    open_btl(world);
    if (1 != world->rank) {
        (void) open_ep_of(world, 1);
        serve(world, &word);
    } else {
        world_barrier_idle(world);
        put_to(world, 0);
        polls = num_polls();
        CHECK(0 == pthread_create(&thread, NULL, flush_once, NULL));
        while (num_polls() < polls + 2) { /* the flush's first, and one while it waits */
            sched_yield();
        }
        put_to(world, 2);
        scratch[WORLD_SCRATCH - 1] = 1; /* rank 0 */
        await(FLUSHED);
        CHECK(1 == num_done && 1 == mca_btl_fabric.outstanding);
        CHECK(0 == pthread_join(thread, NULL));
        scratch[WORLD_SCRATCH - 3] = 1; /* rank 2 */
        (void) mca_btl_fabric_flush(NULL, NULL);
        CHECK(2 == num_done && 0 == mca_btl_fabric.outstanding);
        scratch[WORLD_SCRATCH - 4] = 1;
    }
    CHECK(0 == world->failures);
    leave(world);
}

/* A thread that looks at the counter alone: rank 0 may serve once a flush has yielded. */
static void *await_yield(void *arg)
{
    world_t *world = arg;

    while (0 == __atomic_load_n(&mca_btl_fabric.counters.flush_yields, __ATOMIC_RELAXED)) {
        sched_yield();
    }
    world->shared->scratch[WORLD_SCRATCH - 2] = 1;
    return NULL;
}

/* Without threads of MPI, if Open MPI yields. */
static void yield_body(world_t *world)
{
    static uint64_t words[WORDS], value;
    remote_t remote = open_both(world, words);
    pthread_t thread;

    if (1 == world->rank) {
        opal_progress_yield_when_idle = true;
        get(world, &remote, 0, &value);
        CHECK(0 == pthread_create(&thread, NULL, await_yield, world));
        (void) mca_btl_fabric_flush(NULL, NULL);
        CHECK(0 == pthread_join(thread, NULL));
        CHECK(1 == num_done && mca_btl_fabric.fab->is_yielding);
        CHECK(world->woken > 0); /* the PML was told of the callback */
    }
    while (0 == world->shared->scratch[WORLD_SCRATCH - 2]) {
        sched_yield();
    }
    poll_for_rank_1(world);
    leave(world);
}

/* Nothing is offered if Open MPI yields. */
static void no_offer_body(world_t *world)
{
    static uint64_t words[WORDS], values[FEW];
    remote_t remote = open_both(world, words);

    if (1 == world->rank) {
        opal_progress_yield_when_idle = true;
        send_one(world, &remote);
        for (unsigned i = 0; i < FEW; i++) {
            put(world, &remote, i, &values[i]);
        }
        (void) mca_btl_fabric_flush(NULL, NULL);
        CHECK(FEW == num_done && 0 == mca_btl_fabric.counters.offered);
    }
    poll_for_rank_1(world);
    leave(world);
}

/* ---- too many operations ---------------------------------------------------- */

/* Put a word until that is refused; how often it was not. */
static unsigned put_all(remote_t *remote, uint64_t *value)
{
    unsigned n = 0;

    while (n <= BTL_FABRIC_OPS_MAX &&
           OPAL_SUCCESS == mca_btl_fabric_put(NULL, remote->ep, value, remote->handle.base, NULL,
                                              &remote->handle, sizeof(*value), 0, 0, ended, NULL,
                                              NULL)) {
        n++;
    }
    return n;
}

static int rc_in_callback = OPAL_ERROR;

static void put_more(mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep, void *local,
                     struct mca_btl_base_registration_handle_t *handle, void *context, void *data,
                     int status)
{
    remote_t *remote = context;

    ended(btl, ep, local, handle, context, data, status);
    ep->outstanding += BTL_FABRIC_OPS_MAX; /* it may be the last one */
    rc_in_callback = mca_btl_fabric_put(btl, ep, local, remote->handle.base, NULL, &remote->handle,
                                        8, 0, 0, ended, NULL, NULL);
    ep->outstanding -= BTL_FABRIC_OPS_MAX;
}

/* Rank 0 polls only after rank 1 was refused.  In a callback nothing is refused. */
static void full_body(world_t *world)
{
    static uint64_t words[WORDS], value = 5;
    remote_t remote = open_both(world, words);

    if (1 == world->rank) {
        put_then(world, &remote, 0, &value, put_more, &remote);
        CHECK(BTL_FABRIC_OPS_MAX - 1 == put_all(&remote, &value));
        CHECK(1 == mca_btl_fabric.counters.refused);
    }
    world_barrier_idle(world);
    if (1 == world->rank) {
        (void) mca_btl_fabric_flush(NULL, NULL);
        CHECK(OPAL_SUCCESS == rc_in_callback);
        CHECK(BTL_FABRIC_OPS_MAX + 1 == num_done && 0 == num_lost && 0 == remote.ep->outstanding);
    }
    end_put(world, words);
}

/* A program that polls seldom looks at everything in each poll. */
static void seldom_body(world_t *world)
{
    enum { FAR_US = 10000 }; /* more than FAB_FAR_TICKS, also of a slow counter */
    uint32_t passes;

    CHECK(OPAL_SUCCESS == test_opal_init());
    open_btl(world);
    for (int i = 0; i < 20; i++) {
        usleep(FAR_US);
        passes = world->fab->passes;
        (void) mca_btl_fabric_progress();
        CHECK(passes + 1 == world->fab->passes && !world->fab->is_far);
    }
    leave(world);
}

#define THREADS        .is_threaded = true
#define TCP            .text = {&fab_params.providers, "tcp"}
#define NO_COPY        .text = {&fab_params.shm_single_copy, "none"}
#define RING_OF(bytes) .number = {{&fab_params.shm_ring_size, bytes}}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        WORLD_JOB("deregistered", deregistered_body),
        WORLD_JOB("deregistered unsent", unsent_body),
        WORLD_JOB("deregistered exposed", registered_body,
                  .text = {&fab_params.shm_cooperative, "always"}),
        WORLD_JOB("sendi", sendi_body),
        WORLD_JOB("error_callback", error_callback_body),
        WORLD_JOB("withdrawn", withdrawn_body),
        WORLD_JOB("offered", offered_body, RING_OF(RING)),
        WORLD_JOB("in_place", in_place_body, RING_OF(PLACE_RING)),
        WORLD_JOB("in_place threads", in_place_body, RING_OF(PLACE_RING), THREADS),
        WORLD_JOB("failed_before", failed_before_body),
        WORLD_JOB("no_answer deleted", deleted_body, NO_COPY),
        WORLD_JOB("no_answer left", left_body, NO_COPY),
        WORLD_JOB("long_get", long_get_body, TCP),
        WORLD_JOB("long_get threads", long_get_body, TCP, THREADS),
        WORLD_JOB("long_get no place", no_place_body, TCP),
        WORLD_JOB("counted", counted_body, TCP),
        WORLD_JOB("counted threads", counted_body, TCP, THREADS),
        WORLD_JOB("counted given up", uncounted_body, TCP, .number = {{&gives_up, 1}}),
        WORLD_JOB("counted left", uncounted_body, TCP),
        WORLD_JOB("counted too often", miscounted_body, TCP),
        WORLD_JOB("atomics", add_body, RING_OF(RING)),
        WORLD_JOB("atomics threads", add_body, RING_OF(RING), THREADS),
        WORLD_JOB("atomics given up", unanswered_body,
                  .number = {{&fab_params.shm_ring_size, RING}, {&gives_up, 1}}),
        WORLD_JOB("atomics left", unanswered_body, RING_OF(RING)),
        WORLD_JOB("long_offers", long_offers_body),
        WORLD_JOB("long_offers threads", long_offers_body, THREADS),
        WORLD_JOB("long_offers withdrawn", long_withdrawn_body),
        WORLD_JOB("long_offers few", long_offers_body, RING_OF(RING)),
        WORLD_JOB("flushes callback", callback_body, TCP, THREADS),
        WORLD_JOB("flushes chain", chain_body, TCP),
        WORLD_JOB("flushes chain threads", chain_body, TCP, THREADS),
        WORLD_JOB("flushes later", later_body, TCP, THREADS, .ranks = 3),
        WORLD_JOB("flushes yield", yield_body, TCP),
        WORLD_JOB("flushes no offer", no_offer_body),
        WORLD_JOB("full", full_body, TCP),
        WORLD_JOB("full threads", full_body, TCP, THREADS),
        WORLD_JOB("no_memory", no_memory_body),
        WORLD_JOB("seldom", seldom_body),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
