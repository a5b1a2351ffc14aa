/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which share of the receives a device that matches tags takes, for four kinds of traffic
 * (offload_share runs this):
 *
 *      halo       a periodic grid of two dimensions: receives from the four neighbours, then sends;
 *                 8 KiB, every fourth time 64 KiB
 *      alltoall   MPI_Alltoall, 2 KiB to each
 *      workers    rank 0 receives results from any source and answers with tasks, the others work
 *                 for some microseconds
 *      random     to random ranks with random tags; half of the sizes below 256 bytes, one in eight
 *                 a rendezvous; one receive in 16
 *                 is from any source, one in 16 has gaps in memory
 *
 * Prints a table of pml_tm's performance variables, summed over the ranks and taken over one kind
 * of traffic each.  Rows that are zero everywhere are left out.  Usage: offload_share [rounds]
 */
#include "bench.h"

enum {
    KINDS = 4,
    HALO = 8192,
    HALO_LONG = 65536,
    BLOCK = 2048,
    RESULT = 512,
    TASKS = 8,       /* per worker and round */
    PER_ROUND = 16,  /* random messages from each rank to each other */
    TAGS = 8,        /* of random messages; one more for receives from any source */
    LONGEST = 65536, /* a random message */
};

static const struct {
    const char *name;
    const char *text;
} rows[] = {
    {"expected", "messages that found a receive"},
    {"unexpected", "messages that came before it"},
    {"listed", "receives listed when posted"},
    {"listed_late", "receives listed later"},
    {"listed_matched", "matched by the device"},
    {"listed_taken", "listed, but the message was there"},
    {"listed_parked", "messages by another path that waited"},
    {"listed_raced", "matched when to be taken off"},
    {"listed_refused", "refused by the device"},
    {"not_listed_other_path", "not listed: by another path"},
    {"not_listed_any_source", "not listed: from any source"},
    {"not_listed_unknown", "not listed: source not known yet"},
    {"not_listed_short", "not listed: short"},
    {"not_listed_blocked", "not listed: behind one that is not"},
    {"not_listed_full", "not listed: the list is full"},
    {"not_listed_failed", "not listed: the device has failed"},
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static int rank, size;

/* ---- performance variables ---------------------------------------------- */

static MPI_T_pvar_session session;
static MPI_T_pvar_handle handles[ROWS];

static int find_pvar(const char *name)
{
    char want[128], found[128], text[8];
    int num, verbosity, var_class, bind, readonly, continuous, atomic;
    MPI_Datatype datatype;
    MPI_T_enum enumtype;

    snprintf(want, sizeof(want), "pml_tm_%s", name);
    MPI_T_pvar_get_num(&num);
    for (int i = 0; i < num; i++) {
        int len = sizeof(found), text_len = sizeof(text);
        if (MPI_SUCCESS == MPI_T_pvar_get_info(i, found, &len, &verbosity, &var_class, &datatype,
                                               &enumtype, text, &text_len, &bind, &readonly,
                                               &continuous, &atomic) &&
            0 == strcmp(found, want)) {
            return i;
        }
    }
    return -1;
}

static void open_pvars(void)
{
    int provided, count;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&session);
    for (int i = 0; i < ROWS; i++) {
        int index = find_pvar(rows[i].name);
        if (0 > index ||
            MPI_SUCCESS != MPI_T_pvar_handle_alloc(session, index, NULL, &handles[i], &count)) {
            bench_fail("a performance variable is missing: is this pml tm?");
        }
    }
}

static void read_pvars(unsigned long long *values)
{
    for (int i = 0; i < ROWS; i++) {
        MPI_T_pvar_read(session, handles[i], &values[i]);
    }
}

static void close_pvars(void)
{
    for (int i = 0; i < ROWS; i++) {
        MPI_T_pvar_handle_free(session, &handles[i]);
    }
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
}

/* ---- traffic ------------------------------------------------------------ */

static void halo(int rounds)
{
    int dims[2] = {0, 0}, periods[2] = {1, 1}, peer[4];
    char *in = bench_alloc(4 * HALO_LONG), *out = bench_alloc(4 * HALO_LONG);
    MPI_Request req[8];
    MPI_Comm grid;

    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
    MPI_Cart_shift(grid, 0, 1, &peer[0], &peer[1]);
    MPI_Cart_shift(grid, 1, 1, &peer[2], &peer[3]);
    for (int i = 0; i < rounds; i++) {
        int len = 3 == i % 4 ? HALO_LONG : HALO;
        for (int side = 0; side < 4; side++) {
            MPI_Irecv(in + side * HALO_LONG, len, MPI_BYTE, peer[side], side, grid, &req[side]);
        }
        for (int side = 0; side < 4; side++) { /* the neighbour's opposite side */
            MPI_Isend(out + side * HALO_LONG, len, MPI_BYTE, peer[side], side ^ 1, grid,
                      &req[4 + side]);
        }
        MPI_Waitall(8, req, MPI_STATUSES_IGNORE);
    }
    MPI_Comm_free(&grid);
    free(in);
    free(out);
}

static void alltoall(int rounds)
{
    char *in = bench_alloc((size_t) size * BLOCK), *out = bench_alloc((size_t) size * BLOCK);

    for (int i = 0; i < rounds; i++) {
        MPI_Alltoall(out, BLOCK, MPI_BYTE, in, BLOCK, MPI_BYTE, MPI_COMM_WORLD);
    }
    free(in);
    free(out);
}

static void work(double seconds)
{
    double until = bench_now() + seconds;

    while (bench_now() < until) {
    }
}

/* Two receives from any source are always posted. */
static void master(int tasks)
{
    char result[2][RESULT], task[RESULT] = {0};
    MPI_Request req[2];
    MPI_Status status;

    for (int i = 0; i < 2; i++) {
        MPI_Irecv(result[i], RESULT, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &req[i]);
    }
    for (int i = 0; i < tasks; i++) {
        int which;
        MPI_Waitany(2, req, &which, &status);
        MPI_Irecv(result[which], RESULT, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &req[which]);
        MPI_Send(task, RESULT, MPI_BYTE, status.MPI_SOURCE, 2, MPI_COMM_WORLD);
    }
    for (int i = 0; i < 2; i++) {
        MPI_Cancel(&req[i]);
        MPI_Wait(&req[i], MPI_STATUS_IGNORE);
    }
}

static void worker(int tasks)
{
    char result[RESULT] = {0}, task[RESULT];
    MPI_Request req;

    for (int i = 0; i < tasks; i++) {
        MPI_Irecv(task, RESULT, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &req);
        MPI_Send(result, RESULT, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        MPI_Wait(&req, MPI_STATUS_IGNORE);
        work(20e-6);
    }
}

static void workers(int rounds)
{
    if (0 == rank) {
        master(rounds * TASKS * (size - 1));
    } else {
        worker(rounds * TASKS);
    }
}

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) (*state >> 33);
}

typedef struct message {
    int tag;
    int len;
    bool is_vector;
} message_t;

static message_t draw(uint64_t *state)
{
    uint32_t kind = next_random(state) % 16, length = next_random(state);
    message_t msg = {.tag = 0 == kind ? TAGS : (int) (next_random(state) % TAGS),
                     .is_vector = 1 == kind};

    msg.len = kind < 8 ? (int) (length % 256) : (int) (length % 16384);
    msg.len = kind > 13 ? 16385 + (int) (length % (LONGEST - 16385)) : msg.len;
    return msg;
}

/* Both sides draw the same, for messages from one rank to another. */
static uint64_t pair_seed(int round, int from, int to)
{
    return (((uint64_t) round * 1000 + (uint64_t) from) * 1000 + (uint64_t) to) * 7919;
}

static void random_round(int round, MPI_Datatype vector, char *in, char *out, MPI_Request *req)
{
    int n = 0;

    for (int step = 1; step < size; step++) {
        int from = (rank + step) % size;
        uint64_t state = pair_seed(round, from, rank);
        for (int i = 0; i < PER_ROUND; i++, n++) {
            message_t msg = draw(&state);
            MPI_Irecv(in + (size_t) n * 2 * LONGEST, msg.is_vector ? 1 : LONGEST,
                      msg.is_vector ? vector : MPI_BYTE, TAGS == msg.tag ? MPI_ANY_SOURCE : from,
                      msg.tag, MPI_COMM_WORLD, &req[n]);
        }
    }
    for (int step = 1; step < size; step++) {
        int to = (rank + step) % size;
        uint64_t state = pair_seed(round, rank, to);
        for (int i = 0; i < PER_ROUND; i++) {
            message_t msg = draw(&state);
            MPI_Isend(out, msg.len, MPI_BYTE, to, msg.tag, MPI_COMM_WORLD, &req[n++]);
        }
    }
    MPI_Waitall(n, req, MPI_STATUSES_IGNORE);
}

static void random_traffic(int rounds)
{
    size_t count = (size_t) (size - 1) * PER_ROUND;
    char *in = bench_alloc(count * 2 * LONGEST), *out = bench_alloc(LONGEST);
    MPI_Request *req = bench_alloc(2 * count * sizeof(*req));
    MPI_Datatype vector;

    MPI_Type_vector(LONGEST / 64, 64, 128, MPI_BYTE, &vector);
    MPI_Type_commit(&vector);
    for (int i = 0; i < rounds; i++) {
        random_round(i, vector, in, out, req);
    }
    MPI_Type_free(&vector);
    free(in);
    free(out);
    free(req);
}

/* ---- the table ---------------------------------------------------------- */

static const struct {
    const char *name;
    void (*run)(int rounds);
} kinds[KINDS] = {
    {"halo", halo}, {"alltoall", alltoall}, {"workers", workers}, {"random", random_traffic}};

static unsigned long long sums[KINDS][ROWS];

static void measure(int kind, int rounds)
{
    unsigned long long before[ROWS], after[ROWS];

    MPI_Barrier(MPI_COMM_WORLD);
    read_pvars(before);
    kinds[kind].run(rounds);
    read_pvars(after);
    for (int i = 0; i < ROWS; i++) {
        after[i] -= before[i];
    }
    MPI_Reduce(after, sums[kind], ROWS, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
}

/* Messages, and receives that were posted before their message was seen. */
static void print_shares(void)
{
    printf("%-40s", "matched by the device, of all messages");
    for (int kind = 0; kind < KINDS; kind++) {
        unsigned long long messages = sums[kind][0] + sums[kind][1];
        printf(" %9.1f%%", messages > 0 ? 100.0 * (double) sums[kind][4] / (double) messages : 0.0);
    }
    printf("\n");
}

static void print_table(int rounds)
{
    printf("%d ranks, %d rounds\n%-40s", size, rounds, "");
    for (int kind = 0; kind < KINDS; kind++) {
        printf(" %10s", kinds[kind].name);
    }
    printf("\n");
    for (int i = 0; i < ROWS; i++) {
        unsigned long long all = 0;
        for (int kind = 0; kind < KINDS; kind++) {
            all += sums[kind][i];
        }
        if (0 == all) {
            continue;
        }
        printf("%-40s", rows[i].text);
        for (int kind = 0; kind < KINDS; kind++) {
            printf(" %10llu", sums[kind][i]);
        }
        printf("\n");
    }
    print_shares();
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 200;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    open_pvars();
    for (int kind = 0; kind < KINDS; kind++) {
        measure(kind, rounds);
    }
    close_pvars();
    if (0 == rank) {
        print_table(rounds);
    }
    MPI_Finalize();
    return 0;
}
