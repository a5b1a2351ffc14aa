/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Floods of messages of 8 bytes that nobody receives for a while: what the receiver keeps of them
 * is bounded by pml_tm_unexpected_max, whether their sends block or not. All are received in the
 * end: in order, in reverse, in random order, by probes, in two communicators, by everybody from
 * everybody. A send that needs no request does not pass those that are held back.
 *
 * args: [messages in all] [bytes that may be kept; 0: any number]
 */
/* TEST: np=1,2,4 args="100000 1048576" env="OMPI_MCA_pml_tm_unexpected_max=1048576" timeout=120 quick=yes */
/* TEST: np=2,4 args="80000 65536" env="OMPI_MCA_pml_tm_unexpected_max=65536" timeout=120 */
/* TEST: np=2,4 args="30000 0" timeout=120 */
/* TEST: np=2,4 device=tmdev args="20000 65536" env="OMPI_MCA_pml_tm_unexpected_max=65536 OMPI_MCA_pml_tm_providers=^shm,tcp TMDEV_TM_TAGS=4 OMPI_MCA_mtl=^ofi" timeout=120 */
#include "tm_counter.h"

enum {
    MESSAGE_COST = 240,   /* bytes that keeping one short message costs, at least */
    RING = 4 << 20,       /* bytes at most, by default */
    SLOT = 64,            /* bytes of a ring that a short message takes */
    TCP_WINDOW = 1 << 20, /* bytes that a sender has sent and its receiver not read, by TCP */
    TCP_MESSAGE = 24,     /* bytes of the stream that a short message takes */
    /* messages of one sender that may be on their way when it is told to stop, besides its ring */
    UNDER_WAY = 4000,
    MARGIN_KIB = 16384, /* of memory that other things need */
    TAGS = 1000,
    POLLS = 20000,
    PAIRS = 50,
    WORDS = 16, /* of a message that is too long for the shortest way into a ring */
};

static MPI_Comm comm, other, ctl;
static int first, per_sender;
static long max_bytes;
/* highest number of messages that this process has kept at once in one communicator */
static tm_counter_t kept_most;

/* Messages of one sender that may be on their way when it is told to stop. */
static long under_way(void)
{
    const char *ring = getenv("OMPI_MCA_pml_tm_shm_ring_size");
    const char *providers = getenv("OMPI_MCA_pml_tm_providers");

    if (NULL == providers) {
        return UNDER_WAY + (NULL != ring ? atol(ring) / SLOT : RING / SLOT);
    }
    return UNDER_WAY + (0 == strcmp(providers, "tcp") ? TCP_WINDOW / TCP_MESSAGE : 0);
}

/* Messages that may be kept at once. */
static long most(void)
{
    return max_bytes / MESSAGE_COST + under_way() * (tm_size - first);
}

static bool is_bounded(void)
{
    return 0 != max_bytes && 0 != first && tm_is_pml_tm(); /* not of a process to itself */
}

static void expect_bounded(const char *what, long before)
{
    long kept, kib = tm_resident_kib() - before;

    if (!is_bounded()) {
        return;
    }
    kept = (long) tm_counter_read(&kept_most);
    TM_CHECK(kept <= most(), "%s: %ld messages were kept at once, at most %ld may be", what, kept,
             most());
    TM_CHECK(kib <= most() * MESSAGE_COST / 1024 + MARGIN_KIB, "%s: memory grew by %ld KiB", what,
             kib);
}

/* Let messages come that nobody wants. */
static void poll(void)
{
    for (int i = 0, flag;
         i < POLLS && (!is_bounded() || (long) tm_counter_read(&kept_most) <= most()); i++) {
        TM_MPI(MPI_Iprobe(MPI_ANY_SOURCE, 1, ctl, &flag, MPI_STATUS_IGNORE));
    }
}

static uint64_t value_of(int sender, int i)
{
    return tm_mix((uint64_t) sender << 32 | (uint64_t) i);
}

static void take(MPI_Comm from, int source, int sender, int i)
{
    uint64_t value = 0;
    MPI_Status st;

    tm_status_reset(&st);
    TM_MPI(MPI_Recv(&value, 8, MPI_BYTE, source, i % TAGS, from, &st));
    tm_expect_single(&st, sender, i % TAGS, 8);
    TM_CHECK(value_of(sender, i) == value, "message %d of %d is another one", i, sender);
}

typedef struct flood {
    uint64_t *value;
    MPI_Request *req;
} flood_t;

static flood_t start(MPI_Comm to, int rank, int count)
{
    flood_t f = {tm_calloc((size_t) count, sizeof(uint64_t)),
                 tm_calloc((size_t) count, sizeof(MPI_Request))};

    for (int i = 0; i < count; i++) {
        f.value[i] = value_of(tm_rank, i);
        TM_MPI(MPI_Isend(&f.value[i], 8, MPI_BYTE, rank, i % TAGS, to, &f.req[i]));
    }
    return f;
}

static void finish(flood_t *f, int count)
{
    TM_MPI(MPI_Waitall(count, f->req, MPI_STATUSES_IGNORE));
    free(f->value);
    free(f->req);
}

/* To rank 0, which receives in order: the bound holds all the time. */
static void in_order(bool is_blocking)
{
    long before = tm_resident_kib();
    flood_t f = {NULL, NULL};

    if (tm_rank >= first && is_blocking) {
        for (int i = 0; i < per_sender; i++) {
            uint64_t value = value_of(tm_rank, i);

            TM_MPI(MPI_Send(&value, 8, MPI_BYTE, 0, i % TAGS, comm));
        }
    } else if (tm_rank >= first) {
        f = start(comm, 0, per_sender);
    }
    if (0 == tm_rank) {
        poll();
        expect_bounded(is_blocking ? "blocking sends" : "sends", before);
        for (int i = 0; i < per_sender; i++) {
            for (int sender = first; sender < tm_size; sender++) {
                take(comm, sender, sender, i);
            }
        }
        expect_bounded(is_blocking ? "blocking sends received" : "sends received", before);
    }
    if (NULL != f.req) {
        finish(&f, per_sender);
    }
    TM_MPI(MPI_Barrier(ctl));
}

static void take_turn(MPI_Comm from, int i)
{
    uint64_t value[WORDS] = {0};

    TM_MPI(MPI_Recv(value, sizeof(value), MPI_BYTE, 1, 0, from, MPI_STATUS_IGNORE));
    TM_CHECK(value_of(1, i) == value[0], "in turns: message %d is another one", i);
}

/*
 * Of one tag, after a flood that has made rank 0 hold rank 1 back: a request, then a short send
 * that needs none. The collective between them, which is not held back, lets rank 0 begin to
 * receive only when the request is there. Short sends look for what comes only now and then: so the
 * flood has none.
 */
static void in_turns(void)
{
    uint64_t value[2 * PAIRS][WORDS] = {{0}};
    MPI_Request req[PAIRS], barrier;
    int count = (int) (max_bytes / MESSAGE_COST) + 1000; /* more than may be kept */
    MPI_Request *flood = tm_calloc((size_t) count, sizeof(*flood));

    for (int i = 0; i < 2 * PAIRS; i++) {
        value[i][0] = value_of(1, i);
    }
    for (int i = 0; 1 == tm_rank && i < count; i++) {
        TM_MPI(MPI_Isend(value[0], sizeof(value[0]), MPI_BYTE, 0, 0, other, &flood[i]));
    }
    TM_MPI(MPI_Barrier(ctl)); /* it stands behind the flood */
    TM_MPI(MPI_Barrier(ctl)); /* and this one behind the word that rank 1 is to hold */
    for (int i = 0; i < PAIRS; i++) {
        if (1 == tm_rank) {
            TM_MPI(MPI_Isend(value[2 * i], sizeof(value[0]), MPI_BYTE, 0, 0, comm, &req[i]));
        }
        TM_MPI(MPI_Ibarrier(ctl, &barrier));
        if (1 == tm_rank) {
            TM_MPI(MPI_Send(value[2 * i + 1], 8, MPI_BYTE, 0, 0, comm));
        }
        TM_MPI(MPI_Wait(&barrier, MPI_STATUS_IGNORE));
        if (0 == tm_rank) {
            take_turn(comm, 2 * i);
            take_turn(comm, 2 * i + 1);
        }
    }
    for (int i = 0; 0 == tm_rank && i < count; i++) {
        take_turn(other, 0);
    }
    if (1 == tm_rank) {
        TM_MPI(MPI_Waitall(PAIRS, req, MPI_STATUSES_IGNORE));
        TM_MPI(MPI_Waitall(count, flood, MPI_STATUSES_IGNORE));
    }
    free(flood);
    TM_MPI(MPI_Barrier(ctl));
}

/* Wildcards and probes: each finds the oldest of somebody. */
static void by_probe(void)
{
    int *next = tm_calloc((size_t) tm_size, sizeof(int));
    flood_t f = {NULL, NULL};

    if (tm_rank >= first) {
        f = start(comm, 0, per_sender);
    }
    for (int k = 0; 0 == tm_rank && k < per_sender * (tm_size - first); k++) {
        MPI_Status st;
        int flag = 1;

        if (0 == k % 2) {
            TM_MPI(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &st));
        } else {
            do {
                TM_MPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &st));
            } while (!flag);
        }
        take(comm, st.MPI_SOURCE, st.MPI_SOURCE, next[st.MPI_SOURCE]++);
    }
    if (NULL != f.req) {
        finish(&f, per_sender);
    }
    free(next);
    TM_MPI(MPI_Barrier(ctl));
}

/* Everybody to everybody, in two communicators, received the last tag first. */
static void all_to_all(int count)
{
    flood_t *f = tm_calloc((size_t) tm_size, 2 * sizeof(*f));

    for (int i = 0; i < tm_size; i++) {
        f[2 * i] = start(comm, i, count);
        f[2 * i + 1] = start(other, i, count);
    }
    TM_MPI(MPI_Barrier(ctl));
    for (int tag = TAGS - 1; tag >= 0; tag--) {
        for (int i = tag; i < count; i += TAGS) {
            for (int sender = 0; sender < tm_size; sender++) {
                take(other, sender, sender, i);
                take(comm, sender, sender, i);
            }
        }
    }
    for (int i = 0; i < 2 * tm_size; i++) {
        finish(&f[i], count);
    }
    free(f);
    TM_MPI(MPI_Barrier(ctl));
}

/* A buffered and a freed send are delivered, though held back, when they are received. */
static void left_behind(void)
{
    static uint64_t value;
    int size = 100 * (8 + MPI_BSEND_OVERHEAD);
    void *buffer = tm_calloc(1, (size_t) size);
    flood_t f = start(comm, 0, per_sender / tm_size);

    TM_MPI(MPI_Buffer_attach(buffer, size));
    value = value_of(tm_rank, 7);
    for (int i = 0; i < 50; i++) {
        MPI_Request req;

        TM_MPI(MPI_Bsend(&value, 8, MPI_BYTE, 0, 7, other));
        TM_MPI(MPI_Isend(&value, 8, MPI_BYTE, 0, 7, other, &req));
        TM_MPI(MPI_Request_free(&req));
    }
    TM_MPI(MPI_Barrier(ctl));
    for (int i = 0; 0 == tm_rank && i < 100 * tm_size; i++) {
        take(other, i % tm_size, i % tm_size, 7);
    }
    for (int i = 0; 0 == tm_rank && i < per_sender / tm_size * tm_size; i++) {
        take(comm, i % tm_size, i % tm_size, i / tm_size);
    }
    TM_MPI(MPI_Buffer_detach(&buffer, &size));
    free(buffer);
    finish(&f, per_sender / tm_size);
    TM_MPI(MPI_Barrier(ctl));
}

int main(int argc, char **argv)
{
    int total;

    tm_init(&argc, &argv, "flood_small");
    first = tm_size > 1;
    total = (int) tm_arg(argc, argv, 1, 100000);
    per_sender = total / (tm_size - first);
    max_bytes = tm_arg(argc, argv, 2, 0);
    if (is_bounded() && !tm_counter_find("pml_tm_unexpected_max_count",
                                         MPI_T_PVAR_CLASS_HIGHWATERMARK, &kept_most)) {
        TM_FATAL("the PML does not count the messages that it keeps");
    }
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &ctl));
    if (tm_size > 1) {
        in_turns();
        in_order(true); /* a process that sends to itself would wait for itself */
    }
    in_order(false);
    by_probe();
    left_behind();
    all_to_all(total / 10 / tm_size / tm_size + TAGS);
    TM_MPI(MPI_Comm_free(&comm));
    TM_MPI(MPI_Comm_free(&other));
    TM_MPI(MPI_Comm_free(&ctl));
    return tm_finish();
}
