/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random one-sided communication, checked by an oracle.
 *
 * Each rank's window is divided into cells. In each epoch each cell is given an activity: it is put
 * or accumulated by one rank, read by all, or contended for by all with fetch_and_op or
 * compare_and_swap. What is done where follows from the seed alone, so each rank knows what all
 * windows must hold; what depends on the order (who was first) is told by the results: old values
 * must form a chain. All kinds of windows and synchronisations, classes of datatypes; operations
 * with and without requests.
 *
 * Some cells hold only doubles, and some only shorts, small whole numbers all of them: the sum of
 * doubles would else depend on who was first, MPI_MIN and MPI_MAX of what is not a number on
 * whichever argument Open MPI compares with the other, and a sum of shorts that overflows is the
 * largest short with Open MPI's op/avx.
 *
 * args: [epochs] [seed: 0: that of the run] ["vader": without what Open MPI 4.1.4 fails in over btl
 * vader, see doc/btl.md]
 */
/* TEST: np=1,2,4 args="60 1" env="OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric OMPI_MCA_mpi_yield_when_idle=1" timeout=120 */
/* TEST: np=3 args="40 0" pml=ob1 env="OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric,self OMPI_MCA_mpi_yield_when_idle=1" timeout=120 */
/* TEST: np=3 args="40 0" env="OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric OMPI_MCA_pml_tm_shm_single_copy=none OMPI_MCA_pml_tm_shm_ring_size=4096 OMPI_MCA_mpi_yield_when_idle=1" timeout=120 */
/* TEST: np=2 args="40 0" env="OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric OMPI_MCA_pml_tm_providers=tcp OMPI_MCA_mpi_yield_when_idle=1" timeout=120 */
/* TEST: np=2 args="40 0" pml=ob1 env="OMPI_MCA_osc=rdma OMPI_MCA_btl=fabric OMPI_MCA_osc_rdma_acc_single_intrinsic=1 OMPI_MCA_mpi_yield_when_idle=1" timeout=120 */
#include "tm_test.h"

enum { CELLS = 24, CELL = 512, WINDOW = CELLS * CELL, MAX_RANKS = 16, MAX_EVENTS = 4096 };

enum { ALL_RANKS = -1 };

/*
 * osc/rdma of Open MPI 4.1.4 (not 4.1.5) unpacks the result of MPI_Get_accumulate from behind the
 * buffer where it is, if it uses atomic operations and the result has a derived datatype.
 */
enum { OLD_IS_LOST = OMPI_MAJOR_VERSION < 5 };

enum activity { PUT, GET, ACC, FETCH, SWAP, CAS, GET_ACC, ACTIVITIES };
enum sync_kind { FENCE, LOCK, LOCK_ALL, PSCW, REQUESTS, SYNCS };
enum window_kind { CREATED, ALLOCATED, DYNAMIC, WINDOWS };

typedef struct basic {
    MPI_Datatype type;
    int size;
    void (*apply)(unsigned char *to, const unsigned char *from, MPI_Op op);
} basic_t;

/* What happens in a cell; the same in all ranks. */
typedef struct plan {
    enum activity what;
    int writer; /* PUT, ACC, GET_ACC: who; ALL_RANKS: all accumulate */
    basic_t basic;
    MPI_Op op;   /* ACC, GET_ACC */
    int stride;  /* of the target's datatype, in elements: 1 is contiguous */
    int count;   /* elements */
    bool is_two; /* the origin's datatype is like the target's */
} plan_t;

/* An old value that somebody got where all contend. */
typedef struct event {
    int64_t target, cell, old, arg;
} event_t;

/* A get whose result is checked when its epoch has closed. */
typedef struct pending {
    unsigned char *buf;
    int target, cell;
    plan_t plan;
    bool is_old; /* get_accumulate: what was there need not be known */
} pending_t;

static unsigned char model[MAX_RANKS][WINDOW];
static unsigned char *base;
static MPI_Win win;
static MPI_Aint bases[MAX_RANKS];
static enum window_kind kind;
static event_t events[MAX_EVENTS];
static int num_events;
static pending_t pendings[MAX_RANKS * CELLS];
static int num_pendings;
static void *to_free[4 * MAX_RANKS * CELLS];
static int num_to_free;
static MPI_Datatype types[2 * MAX_RANKS * CELLS];
static int num_types;
static MPI_Request requests[MAX_RANKS * CELLS];
static int num_requests;
static plan_t plans[MAX_RANKS][CELLS]; /* of this epoch */
static bool with_requests, for_vader;
static int epoch;

/* ---- windows ------------------------------------------------------------ */

static void window_open(void)
{
    MPI_Aint at = 0;
    MPI_Info info;

    TM_MPI(MPI_Info_create(&info));
    TM_MPI(MPI_Info_set(info, "accumulate_ordering", epoch % 2 ? "none" : "rar,raw,war,waw"));
    base = NULL;
    if (ALLOCATED == kind) {
        TM_MPI(MPI_Win_allocate(WINDOW, 1, info, MPI_COMM_WORLD, &base, &win));
    } else {
        base = tm_alloc(WINDOW);
    }
    if (CREATED == kind) {
        TM_MPI(MPI_Win_create(base, WINDOW, 1, info, MPI_COMM_WORLD, &win));
    } else if (DYNAMIC == kind) {
        TM_MPI(MPI_Win_create_dynamic(info, MPI_COMM_WORLD, &win));
        TM_MPI(MPI_Win_attach(win, base, WINDOW));
        TM_MPI(MPI_Get_address(base, &at));
    }
    TM_MPI(MPI_Info_free(&info));
    TM_MPI(MPI_Allgather(&at, 1, MPI_AINT, bases, 1, MPI_AINT, MPI_COMM_WORLD));
    memset(base, 0, WINDOW);
    memset(model, 0, sizeof(model));
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
}

static void window_close(void)
{
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    if (DYNAMIC == kind) {
        TM_MPI(MPI_Win_detach(win, base));
    }
    TM_MPI(MPI_Win_free(&win));
    if (ALLOCATED != kind) {
        tm_free(base);
    }
}

static MPI_Aint disp(int target, int cell)
{
    return bases[target] + (MPI_Aint) cell * CELL;
}

/* ---- operations of the oracle -------------------------------------------- */

#define APPLY(type)                                                                                \
    static void apply_##type(unsigned char *to, const unsigned char *from, MPI_Op op)              \
    {                                                                                              \
        type a, b;                                                                                 \
        memcpy(&a, to, sizeof(a));                                                                 \
        memcpy(&b, from, sizeof(b));                                                               \
        if (MPI_SUM == op) {                                                                       \
            a = (type) (a + b);                                                                    \
        } else if (MPI_MAX == op) {                                                                \
            a = a > b ? a : b;                                                                     \
        } else if (MPI_MIN == op) {                                                                \
            a = a < b ? a : b;                                                                     \
        } else {                                                                                   \
            uint64_t x = (uint64_t) a, y = (uint64_t) b;                                           \
            a = (type) (MPI_BXOR == op ? x ^ y : MPI_BAND == op ? x & y : x | y);                  \
        }                                                                                          \
        memcpy(to, &a, sizeof(a));                                                                 \
    }

APPLY(uint8_t)
APPLY(int16_t)
APPLY(int64_t)
APPLY(uint64_t)
APPLY(int32_t)
APPLY(uint32_t)
APPLY(double)

/* ---- plans -------------------------------------------------------------- */

/* What the elements of a cell are; see above. */
static basic_t basic_of(int cell, tm_rng_t *rng)
{
    static const basic_t basics[] = {{MPI_INT64_T, 8, apply_int64_t},
                                     {MPI_INT32_T, 4, apply_int32_t},
                                     {MPI_UINT64_T, 8, apply_uint64_t},
                                     {MPI_UINT32_T, 4, apply_uint32_t},
                                     {MPI_BYTE, 1, apply_uint8_t}};

    switch (cell % 5) {
    case 3:
        return (basic_t){MPI_DOUBLE, 8, apply_double};
    case 4:
        return (basic_t){MPI_SHORT, 2, apply_int16_t};
    default:
        return basics[tm_below(rng, 5)];
    }
}

static MPI_Op op_of(const basic_t *basic, tm_rng_t *rng)
{
    static const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_BXOR, MPI_BAND, MPI_BOR};

    if (MPI_BYTE == basic->type) {
        return ops[3 + tm_below(rng, 3)];
    }
    return ops[tm_below(rng, MPI_DOUBLE == basic->type ? 3 : 6)];
}

static plan_t plan_of(int target, int cell)
{
    static const basic_t words[] = {{MPI_INT64_T, 8, apply_int64_t},
                                    {MPI_INT32_T, 4, apply_int32_t}};
    tm_rng_t rng = tm_rng((uint64_t) epoch << 16 | (unsigned) target, (uint64_t) cell);
    plan_t plan = {.what = (enum activity) tm_below(&rng, ACTIVITIES),
                   .writer = (int) tm_below(&rng, (uint64_t) tm_size),
                   .basic = basic_of(cell, &rng)};
    bool is_contended = FETCH == plan.what || SWAP == plan.what || CAS == plan.what;

    if (is_contended && cell % 5 >= 3) {
        plan.what = ACC;
    } else if (is_contended) {
        plan.basic = words[tm_below(&rng, 2)];
        plan.what = CAS == plan.what && for_vader ? SWAP : plan.what;
    }
    plan.op = op_of(&plan.basic, &rng);
    if (for_vader && (MPI_MIN == plan.op || MPI_MAX == plan.op)) {
        plan.op = MPI_SUM;
    }
    if ((ACC == plan.what || GET_ACC == plan.what) && 0 == tm_below(&rng, 2)) {
        plan.writer = ALL_RANKS;
    }
    plan.stride = 1 + (int) tm_below(&rng, 3);
    plan.count = 1 + (int) tm_below(&rng, (uint64_t) (CELL / plan.basic.size / plan.stride));
    if (0 == tm_below(&rng, 3)) {
        plan.count = 1;
    }
    plan.is_two = 0 == tm_below(&rng, 2);
    return plan;
}

static void make_plans(void)
{
    for (int target = 0; target < tm_size; target++) {
        for (int cell = 0; cell < CELLS; cell++) {
            plans[target][cell] = plan_of(target, cell);
        }
    }
}

/* Element i of what a rank brings; for the small ones see the head of this file. */
static void put_element(unsigned char *at, const plan_t *plan, int origin, int cell, int i)
{
    uint64_t x = tm_mix((uint64_t) epoch << 40 ^ (uint64_t) origin << 32 ^ (uint64_t) cell << 16 ^
                        (uint64_t) i ^ tm_seed);

    if (MPI_DOUBLE == plan->basic.type) {
        double value = (double) (x % 1000);
        memcpy(at, &value, sizeof(value));
    } else if (MPI_SHORT == plan->basic.type) {
        int16_t value = (int16_t) (x % 100);
        memcpy(at, &value, sizeof(value));
    } else {
        memcpy(at, &x, (size_t) plan->basic.size);
    }
}

/* ---- the oracle --------------------------------------------------------- */

/* What a put or an accumulate of one rank makes of the model. */
static void model_write(int target, int cell, const plan_t *plan, int writer)
{
    unsigned char element[8];

    for (int i = 0; i < plan->count; i++) {
        unsigned char *at = model[target] + cell * CELL + i * plan->stride * plan->basic.size;
        put_element(element, plan, writer, cell, i);
        if (PUT == plan->what) {
            memcpy(at, element, (size_t) plan->basic.size);
        } else {
            plan->basic.apply(at, element, plan->op);
        }
    }
}

static int64_t read_word(const unsigned char *at, const plan_t *plan)
{
    int64_t wide;
    int32_t narrow;

    memcpy(&wide, at, sizeof(wide));
    memcpy(&narrow, at, sizeof(narrow));
    return 8 == plan->basic.size ? wide : narrow;
}

static void write_word(unsigned char *at, const plan_t *plan, int64_t value)
{
    int32_t narrow = (int32_t) value;

    memcpy(at, 8 == plan->basic.size ? (void *) &value : (void *) &narrow,
           (size_t) plan->basic.size);
}

/* ---- operations --------------------------------------------------------- */

static void *keep(size_t size)
{
    return to_free[num_to_free++] = tm_alloc(size);
}

/* plan->count elements, stride apart. */
static MPI_Datatype make_type(const plan_t *plan)
{
    return types[num_types++] = tm_vector(plan->count, 1, plan->stride, plan->basic.type);
}

/* The origin's buffer: filled with what this rank brings, or for a result. */
static unsigned char *origin_buf(const plan_t *plan, int cell, bool is_filled)
{
    int step = (plan->is_two ? plan->stride : 1) * plan->basic.size;
    unsigned char *buf = keep((size_t) (plan->count * step));

    memset(buf, 0x5a, (size_t) (plan->count * step));
    for (int i = 0; is_filled && i < plan->count; i++) {
        put_element(buf + i * step, plan, tm_rank, cell, i);
    }
    return buf;
}

static void expect(unsigned char *buf, int target, int cell, const plan_t *plan, bool is_old)
{
    pendings[num_pendings++] = (pending_t){buf, target, cell, *plan, is_old};
}

/* Put, get, accumulate, get_accumulate with derived datatypes. */
static void transfer(int target, int cell, const plan_t *plan)
{
    MPI_Datatype there = make_type(plan), here = plan->is_two ? there : plan->basic.type;
    int n = plan->is_two ? 1 : plan->count;
    unsigned char *buf = origin_buf(plan, cell, GET != plan->what), *old = NULL;
    MPI_Aint at = disp(target, cell);
    MPI_Request *request = &requests[num_requests];

    num_requests += with_requests;
    if (PUT == plan->what) {
        TM_MPI(with_requests ? MPI_Rput(buf, n, here, target, at, 1, there, win, request)
                             : MPI_Put(buf, n, here, target, at, 1, there, win));
    } else if (GET == plan->what) {
        TM_MPI(with_requests ? MPI_Rget(buf, n, here, target, at, 1, there, win, request)
                             : MPI_Get(buf, n, here, target, at, 1, there, win));
        expect(buf, target, cell, plan, false);
    } else if (ACC == plan->what) {
        TM_MPI(with_requests
                   ? MPI_Raccumulate(buf, n, here, target, at, 1, there, plan->op, win, request)
                   : MPI_Accumulate(buf, n, here, target, at, 1, there, plan->op, win));
    } else {
        old = origin_buf(plan, cell, false);
        TM_MPI(with_requests ? MPI_Rget_accumulate(buf, n, here, old, n, here, target, at, 1, there,
                                                   plan->op, win, request)
                             : MPI_Get_accumulate(buf, n, here, old, n, here, target, at, 1, there,
                                                  plan->op, win));
        expect(old, target, cell, plan, OLD_IS_LOST || ALL_RANKS == plan->writer);
    }
}

/* What each rank brings where all contend for one word: unlike all others, and never 0. */
static int64_t contended(int origin, int cell)
{
    return (int64_t) (1 + origin + MAX_RANKS * (1 + cell + CELLS * (epoch % 1000)));
}

static void contend(int target, int cell, const plan_t *plan)
{
    unsigned char *arg = keep(8), *compare = keep(8), *old = keep(8);
    int64_t value = contended(tm_rank, cell);
    MPI_Aint at = disp(target, cell);

    write_word(arg, plan, value);
    memcpy(compare, model[target] + cell * CELL, 8);
    if (CAS == plan->what) {
        TM_MPI(MPI_Compare_and_swap(arg, compare, old, plan->basic.type, target, at, win));
    } else {
        TM_MPI(MPI_Fetch_and_op(arg, old, plan->basic.type, target, at,
                                FETCH == plan->what ? MPI_SUM : MPI_REPLACE, win));
    }
    /* old is read when the epoch has closed: keep where it is */
    events[num_events++] = (event_t){target, cell, (int64_t) (intptr_t) old, value};
}

static void operate(int target, int cell)
{
    const plan_t *plan = &plans[target][cell];
    bool is_written = PUT == plan->what || ACC == plan->what || GET_ACC == plan->what;

    if (is_written && plan->writer != tm_rank && ALL_RANKS != plan->writer) {
        return;
    }
    if (plan->what >= FETCH && plan->what <= CAS) {
        contend(target, cell, plan);
    } else {
        transfer(target, cell, plan);
    }
}

static void operate_all(int target)
{
    int first = (int) (tm_mix((uint64_t) epoch ^ (uint64_t) tm_rank << 8) % CELLS);

    for (int i = 0; i < CELLS; i++) {
        operate(target, (first + i) % CELLS);
    }
}

/* ---- synchronisation ---------------------------------------------------- */

static void wait_requests(void)
{
    TM_MPI(MPI_Waitall(num_requests, requests, MPI_STATUSES_IGNORE));
    num_requests = 0;
}

static int nth_target(int i)
{
    return (tm_rank + i + epoch) % tm_size;
}

static void by_lock(void)
{
    for (int i = 0; i < tm_size; i++) {
        int type = 0 == (epoch + i) % 3 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED;
        TM_MPI(MPI_Win_lock(type, nth_target(i), 0, win));
        operate_all(nth_target(i));
        if (0 == (epoch + i) % 4) {
            TM_MPI(MPI_Win_flush(nth_target(i), win));
        }
        TM_MPI(MPI_Win_unlock(nth_target(i), win));
    }
}

static void by_lock_all(bool is_requests)
{
    TM_MPI(MPI_Win_lock_all(0, win));
    with_requests = is_requests;
    for (int i = 0; i < tm_size; i++) {
        operate_all(nth_target(i));
        if (0 == (epoch + i) % 3) {
            TM_MPI(MPI_Win_flush_local(nth_target(i), win));
        }
    }
    with_requests = false;
    wait_requests();
    TM_MPI(0 == epoch % 2 ? MPI_Win_flush_all(win) : MPI_Win_flush_local_all(win));
    TM_MPI(MPI_Win_unlock_all(win));
}

static void by_pscw(void)
{
    MPI_Group group;

    TM_MPI(MPI_Win_get_group(win, &group));
    TM_MPI(MPI_Win_post(group, 0, win));
    TM_MPI(MPI_Win_start(group, 0, win));
    for (int i = 0; i < tm_size; i++) {
        operate_all(nth_target(i));
    }
    TM_MPI(MPI_Win_complete(win));
    TM_MPI(MPI_Win_wait(win));
    TM_MPI(MPI_Group_free(&group));
}

static void by_fence(void)
{
    TM_MPI(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
    for (int i = 0; i < tm_size; i++) {
        operate_all(nth_target(i));
    }
    TM_MPI(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
}

static void communicate(void)
{
    switch ((enum sync_kind)(tm_mix((uint64_t) epoch + tm_seed) % SYNCS)) {
    case FENCE:
        by_fence();
        break;
    case LOCK:
        by_lock();
        break;
    case PSCW:
        by_pscw();
        break;
    case LOCK_ALL:
        by_lock_all(false);
        break;
    default:
        by_lock_all(true);
    }
}

/* ---- checks ------------------------------------------------------------- */

/* Gets see the model as it was before the epoch: nobody writes to their cells. */
static void check_pendings(void)
{
    for (int k = 0; k < num_pendings; k++) {
        const pending_t *p = &pendings[k];
        int size = p->plan.basic.size, step = (p->plan.is_two ? p->plan.stride : 1) * size;
        for (int i = 0; i < p->plan.count && !p->is_old; i++) {
            const unsigned char *want = model[p->target] + p->cell * CELL +
                                        i * p->plan.stride * size;
            if (!TM_CHECK(0 == memcmp(p->buf + i * step, want, (size_t) size),
                          "epoch %d: get of rank %d's cell %d: element %d of %d bytes is wrong",
                          epoch, p->target, p->cell, i, size)) {
                return;
            }
        }
    }
    num_pendings = 0;
}

static const event_t *find_old(const event_t *all, int n, int target, int cell, int64_t old)
{
    for (int i = 0; i < n; i++) {
        if (all[i].target == target && all[i].cell == cell && all[i].old == old) {
            return &all[i];
        }
    }
    return NULL;
}

/* The old values that all got form a chain from what was there; its end is there now. */
static void follow_chain(const event_t *all, int n, int target, int cell, const plan_t *plan)
{
    unsigned char *at = model[target] + cell * CELL;
    int64_t value = read_word(at, plan);
    int links = 0;

    for (; links < tm_size; links++) {
        const event_t *event = find_old(all, n, target, cell, value);
        if (!TM_CHECK(NULL != event, "epoch %d: nobody got %lld from rank %d's cell %d (%d of %d)",
                      epoch, (long long) value, target, cell, links, tm_size)) {
            return;
        }
        value = FETCH == plan->what ? value + event->arg : event->arg;
        if (FETCH == plan->what && 4 == plan->basic.size) {
            value = (int32_t) value;
        }
        if (CAS == plan->what) {
            break; /* the first wins, all others got what it brought */
        }
    }
    for (int i = 0; i < n && CAS == plan->what; i++) {
        if (all[i].target == target && all[i].cell == cell && all[i].arg != value) {
            TM_CHECK(all[i].old == value,
                     "epoch %d: compare_and_swap of rank %d's cell %d got %lld", epoch, target,
                     cell, (long long) all[i].old);
        }
    }
    write_word(at, plan, value);
}

/* Tell all what each got; the model follows. */
static void check_events(void)
{
    static event_t all[MAX_EVENTS];
    int bytes[MAX_RANKS], at[MAX_RANKS], mine = num_events * (int) sizeof(event_t), total = 0;

    for (int i = 0; i < num_events; i++) {
        events[i].old = read_word((const unsigned char *) (intptr_t) events[i].old,
                                  &plans[events[i].target][events[i].cell]);
    }
    TM_MPI(MPI_Allgather(&mine, 1, MPI_INT, bytes, 1, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < tm_size; i++) {
        at[i] = total;
        total += bytes[i];
    }
    TM_MPI(MPI_Allgatherv(events, mine, MPI_BYTE, all, bytes, at, MPI_BYTE, MPI_COMM_WORLD));
    for (int target = 0; target < tm_size; target++) {
        for (int cell = 0; cell < CELLS; cell++) {
            const plan_t *plan = &plans[target][cell];
            if (plan->what >= FETCH && plan->what <= CAS) {
                follow_chain(all, total / (int) sizeof(event_t), target, cell, plan);
            }
        }
    }
    num_events = 0;
}

static void update_model(void)
{
    for (int target = 0; target < tm_size; target++) {
        for (int cell = 0; cell < CELLS; cell++) {
            const plan_t *plan = &plans[target][cell];
            bool is_all = ALL_RANKS == plan->writer;
            bool is_written = PUT == plan->what || ACC == plan->what || GET_ACC == plan->what;
            for (int i = 0; is_written && i < (is_all ? tm_size : 1); i++) {
                model_write(target, cell, plan, is_all ? i : plan->writer);
            }
        }
    }
}

/* This rank's window against the model. */
static void check_window(void)
{
    TM_MPI(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, tm_rank, 0, win));
    for (int cell = 0; cell < CELLS; cell++) {
        plan_t plan = plans[tm_rank][cell];
        TM_CHECK(
            0 == memcmp(base + cell * CELL, model[tm_rank] + cell * CELL, CELL),
            "epoch %d, window %d: cell %d is wrong after activity %d, %d elements of %d bytes, "
            "stride %d",
            epoch, kind, cell, plan.what, plan.count, plan.basic.size, plan.stride);
    }
    memcpy(model[tm_rank], base, WINDOW); /* one error is enough */
    TM_MPI(MPI_Win_unlock(tm_rank, win));
}

static void tidy(void)
{
    while (num_to_free > 0) {
        tm_free(to_free[--num_to_free]);
    }
    while (num_types > 0) {
        TM_MPI(MPI_Type_free(&types[--num_types]));
    }
}

/* False: something was wrong. */
static bool one_epoch(void)
{
    make_plans();
    communicate();
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    check_pendings();
    check_events();
    update_model();
    check_window();
    tidy();
    return 0 == tm_sum_errors(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    bool is_right = true;
    int epochs;

    tm_init(&argc, &argv, "onesided_random");
    epochs = (int) tm_arg(argc, argv, 1, 60);
    if (0 != tm_arg(argc, argv, 2, 1)) {
        tm_seed = (uint64_t) tm_arg(argc, argv, 2, 1);
    }
    for_vader = argc > 3 && 0 == strcmp(argv[3], "vader");
    if (tm_size > MAX_RANKS) {
        return tm_skip("at most 16 ranks");
    }
    for (epoch = 0; epoch < epochs && is_right; epoch++) {
        if (0 == epoch % 6) {
            if (epoch > 0) {
                window_close();
            }
            kind = (enum window_kind)(epoch / 6 % WINDOWS);
            window_open();
        }
        is_right = one_epoch();
    }
    window_close();
    return tm_finish();
}
