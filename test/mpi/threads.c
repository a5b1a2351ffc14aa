/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI_THREAD_MULTIPLE: several threads of each rank send, receive, probe, cancel, free requests,
 * and create communicators at the same time.
 *
 * args: [part, or "all"] [threads] [percentage of the rounds] [how MPI begins, see begin()]
 */
/* TEST: np=1,2 args="all 4 50" env="OMPI_MCA_mpi_yield_when_idle=1" timeout=60 quick=yes */
/* TEST: np=4 args="all 3 50" timeout=60 */
/* TEST: np=2 args="all 4 50" env="OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_pml_tm_shm_single_copy=none" timeout=60 */
/* TEST: np=2 args="probes 8" env="OMPI_MCA_mpi_yield_when_idle=1" timeout=60 */
/* TEST: np=2 args="cancel 8" env="OMPI_MCA_mpi_yield_when_idle=1" timeout=60 */
/* TEST: np=2 args="handoff 8" env="OMPI_MCA_mpi_yield_when_idle=1" timeout=60 */
/* TEST: np=2 args="all 4 50 session" ompi=5.0,6.0 env="OMPI_MCA_mpi_yield_when_idle=1" timeout=60 stderr="Unable to find reachable pairing" */
/* TEST: np=2 args="all 4 50 late" ompi=5.0,6.0 env="OMPI_MCA_mpi_yield_when_idle=1" timeout=60 stderr="Unable to find reachable pairing" */
/* TEST: np=2 args="all 4 50 world" ompi=5.0,6.0 env="OMPI_MCA_mpi_yield_when_idle=1" timeout=60 stderr="Unable to find reachable pairing" */
#include "tm_complete.h"
#include "tm_threads.h"

enum { MAX_THREADS = 16, BATCH = 8 };

enum { SYNCHRONOUS, STANDARD, IMMEDIATE, NMODES };

static MPI_Comm base, comm, ctl, parents[MAX_THREADS];
static int nthreads;
static pthread_barrier_t barrier;
static atomic_int num_cancelled;

/* ---- threads ---- ---------------------------------------------------------------------------- */

typedef struct job {
    void (*fn)(int id, int rounds);
    int id, rounds;
} job_t;

static void *job_main(void *arg)
{
    job_t *job = arg;

    job->fn(job->id, job->rounds);
    return NULL;
}

/* Run fn in nthreads threads, the last of them this one, on all ranks. */
static void run(void (*fn)(int id, int rounds), int rounds)
{
    job_t jobs[MAX_THREADS];

    for (int i = 0; i < nthreads; i++) {
        jobs[i] = (job_t){.fn = fn, .id = i, .rounds = rounds};
    }
    tm_in_threads(job_main, jobs, nthreads, sizeof(*jobs));
    TM_MPI(MPI_Barrier(ctl));
}

/* The same stream of random numbers for the sender and the receiver. */
static tm_rng_t stream_rng(int from, int id, int part)
{
    return tm_rng((uint64_t) from, (uint64_t) (100 * part + id));
}

/* Mostly around the thresholds below max, some tiny. */
static size_t next_size(tm_rng_t *rng, size_t max)
{
    return 0 == tm_below(rng, 3) ? tm_below(rng, 100) : tm_rand_size(rng, max);
}

/* ---- pairwise traffic ---- ------------------------------------------------------------------- */

/* Send one message to the right and receive one from the left on c. */
static void exchange(MPI_Comm c, int tag, int seq, int mode, size_t nout, size_t nin)
{
    unsigned char *out = tm_alloc(nout), *in = tm_alloc(nin);
    MPI_Request rreq, sreq;

    tm_fill(out, nout, tm_key(tm_rank, tm_dst, tag, seq));
    memset(in, 0xee, nin);
    TM_MPI(MPI_Irecv(in, tm_int(nin), MPI_BYTE, tm_src, tag, c, &rreq));
    switch (mode) {
    case SYNCHRONOUS:
        TM_MPI(MPI_Ssend(out, tm_int(nout), MPI_BYTE, tm_dst, tag, c));
        break;
    case STANDARD:
        TM_MPI(MPI_Send(out, tm_int(nout), MPI_BYTE, tm_dst, tag, c));
        break;
    default:
        TM_MPI(MPI_Isend(out, tm_int(nout), MPI_BYTE, tm_dst, tag, c, &sreq));
    }
    tm_wait_recv(&rreq, in, tm_src, tag, nin, tm_key(tm_src, tm_rank, tag, seq));
    if (IMMEDIATE == mode) {
        TM_MPI(MPI_Wait(&sreq, MPI_STATUS_IGNORE));
    }
    tm_free(in);
    tm_free(out);
}

/* Each thread has a tag of its own; one communicator for all. */
static void pairs(int id, int rounds)
{
    tm_rng_t to = stream_rng(tm_rank, id, 1), from = stream_rng(tm_src, id, 1);

    for (int i = 0; i < rounds; i++) {
        size_t nout = next_size(&to, 70000), nin = next_size(&from, 70000);

        exchange(comm, id, i, (i + id) % NMODES, nout, nin);
    }
}

/* Requests that one thread starts and the next one completes. */
typedef struct slot {
    MPI_Request rreq[BATCH], sreq[BATCH];
    unsigned char *in[BATCH], *out[BATCH];
    size_t nin[BATCH];
} slot_t;

static slot_t slots[MAX_THREADS];

static void slot_start(slot_t *slot, int tag, int first, tm_rng_t *to, tm_rng_t *from)
{
    for (int i = 0; i < BATCH; i++) {
        size_t nout = next_size(to, 70000);

        slot->nin[i] = next_size(from, 70000);
        slot->in[i] = tm_alloc(slot->nin[i]);
        slot->out[i] = tm_alloc(nout);
        memset(slot->in[i], 0xee, slot->nin[i]);
        tm_fill(slot->out[i], nout, tm_key(tm_rank, tm_dst, tag, first + i));
        TM_MPI(MPI_Irecv(slot->in[i], tm_int(slot->nin[i]), MPI_BYTE, tm_src, tag, comm,
                         &slot->rreq[i]));
        TM_MPI((0 == i % 2 ? MPI_Isend : MPI_Issend)(slot->out[i], tm_int(nout), MPI_BYTE, tm_dst,
                                                     tag, comm, &slot->sreq[i]));
    }
}

static void slot_finish(slot_t *slot, int tag, int first)
{
    static const int calls[] = {TM_WAITALL, TM_WAITANY, TM_TESTANY};
    MPI_Status st[BATCH];

    tm_complete(calls[first / BATCH % 3], BATCH, slot->rreq, st, false);
    for (int i = 0; i < BATCH; i++) {
        tm_expect_status(&st[i], tm_src, tag, slot->nin[i]);
        tm_expect_data(slot->in[i], slot->nin[i], tm_key(tm_src, tm_rank, tag, first + i),
                       "receive completed by another thread");
    }
    TM_MPI(MPI_Waitall(BATCH, slot->sreq, MPI_STATUSES_IGNORE));
    tm_free_all(slot->in, BATCH);
    tm_free_all(slot->out, BATCH);
}

static void handoff(int id, int rounds)
{
    tm_rng_t to = stream_rng(tm_rank, id, 2), from = stream_rng(tm_src, id, 2);
    int other = (id + 1) % nthreads;

    for (int i = 0; i < rounds; i++) {
        slot_start(&slots[id], id, BATCH * i, &to, &from);
        pthread_barrier_wait(&barrier);
        slot_finish(&slots[other], other, BATCH * i);
        pthread_barrier_wait(&barrier);
    }
}

/* ---- communicators ---- ---------------------------------------------------------------------- */

/* Each thread creates communicators from a parent of its own, at the same time as the others. */
static void comms(int id, int rounds)
{
    tm_rng_t to = stream_rng(tm_rank, id, 3), from = stream_rng(tm_src, id, 3);

    for (int i = 0; i < rounds; i++) {
        MPI_Comm c;
        int size = -1, rank = -1;

        if (0 == i % 2) {
            TM_MPI(MPI_Comm_dup(parents[id], &c));
        } else {
            TM_MPI(MPI_Comm_split(parents[id], 0, tm_rank, &c));
        }
        TM_MPI(MPI_Comm_size(c, &size));
        TM_MPI(MPI_Comm_rank(c, &rank));
        TM_CHECK(size == tm_size && rank == tm_rank, "new communicator: rank %d of %d", rank, size);
        for (int k = 0; k < 5; k++) {
            size_t nout = next_size(&to, 30000), nin = next_size(&from, 30000);

            /* the same tag for all threads */
            exchange(c, 7, 10 * i + k + 1000 * id, k % NMODES, nout, nin);
        }
        TM_MPI(MPI_Comm_free(&c));
    }
}

/* ---- probes ---- ----------------------------------------------------------------------------- */

/* The start of a message that any thread may get; the tag is the thread of the sender. */
typedef struct head {
    int64_t seq, bytes; /* of all of the message */
} head_t;

enum { MPROBE_MRECV, MPROBE_IMRECV, IMPROBE_MRECV, RECV, IRECV, NKINDS, PROBE_MAX = 40000 };

static atomic_int *seen; /* [rank][thread][seq] */
static int seen_per_thread;

static size_t probe_size(int from, int id, int seq)
{
    tm_rng_t rng = tm_rng((uint64_t) (1000 * from + id), (uint64_t) seq + 77);

    return sizeof(head_t) + next_size(&rng, PROBE_MAX - sizeof(head_t));
}

/* Note the message: it has to be a whole one, as it was sent, and new. */
static void probe_check(const unsigned char *buf, const MPI_Status *st, int kind)
{
    head_t head;
    int from = st->MPI_SOURCE, id = st->MPI_TAG;

    memcpy(&head, buf, sizeof(head));
    if (!TM_CHECK(from >= 0 && from < tm_size && id >= 0 && id < nthreads && head.seq >= 0 &&
                      head.seq < seen_per_thread,
                  "kind %d: message from %d tag %d seq %" PRId64, kind, from, id, head.seq)) {
        return;
    }
    TM_CHECK(head.bytes == (int64_t) probe_size(from, id, (int) head.seq),
             "kind %d: header says %" PRId64 " bytes", kind, head.bytes);
    tm_expect_single(st, from, id, (size_t) head.bytes);
    tm_expect_data(buf + sizeof(head), (size_t) head.bytes - sizeof(head),
                   tm_key(from, tm_rank, id, head.seq), "probed message");
    TM_CHECK(0 == atomic_fetch_add(&seen[(from * nthreads + id) * seen_per_thread + head.seq], 1),
             "kind %d: message %" PRId64 " of thread %d of rank %d came twice", kind, head.seq, id,
             from);
}

static void probe_matched(int kind, unsigned char *buf)
{
    MPI_Message msg = MPI_MESSAGE_NULL;
    MPI_Request req;
    MPI_Status st, found;
    int count = -1;

    tm_status_reset(&found);
    tm_status_reset(&st);
    if (IMPROBE_MRECV == kind) {
        tm_improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &msg, &found);
    } else {
        TM_MPI(MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &msg, &found));
    }
    TM_MPI(MPI_Get_count(&found, MPI_BYTE, &count));
    if (!TM_CHECK(count >= (int) sizeof(head_t) && count <= PROBE_MAX,
                  "a matched probe gave %d bytes", count)) {
        count = PROBE_MAX;
    }
    if (MPROBE_IMRECV == kind) {
        TM_MPI(MPI_Imrecv(buf, count, MPI_BYTE, &msg, &req));
        TM_MPI(MPI_Wait(&req, &st));
    } else {
        TM_MPI(MPI_Mrecv(buf, count, MPI_BYTE, &msg, &st));
    }
    TM_CHECK(MPI_MESSAGE_NULL == msg, "the message handle is not null after it was received");
    tm_expect_status(&st, found.MPI_SOURCE, found.MPI_TAG, (size_t) count);
    probe_check(buf, &st, kind);
}

static void probe_receive(int kind, unsigned char *buf)
{
    MPI_Request req;
    MPI_Status st;

    if (kind < RECV) {
        probe_matched(kind, buf);
        return;
    }
    tm_status_reset(&st);
    if (RECV == kind) {
        TM_MPI(MPI_Recv(buf, PROBE_MAX, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &st));
    } else {
        TM_MPI(MPI_Irecv(buf, PROBE_MAX, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &req));
        TM_MPI(MPI_Wait(&req, &st));
    }
    probe_check(buf, &st, kind);
}

/*
 * All threads of all ranks send as many messages as they receive, all to all ranks in turn; every
 * receive takes any message. They wait in receives only after they have sent, so that somewhere
 * there is always one to be received.
 */
static void probe_race(int id, int rounds)
{
    unsigned char *in = tm_alloc(PROBE_MAX), **out = tm_calloc((size_t) rounds, sizeof(*out));
    MPI_Request *reqs = tm_calloc((size_t) rounds, sizeof(*reqs));

    for (int i = 0; i < rounds; i++) {
        size_t n = probe_size(tm_rank, id, i);
        head_t head = {.seq = i, .bytes = (int64_t) n};
        int to = (tm_rank + i) % tm_size;

        out[i] = tm_alloc(n);
        memcpy(out[i], &head, sizeof(head));
        tm_fill(out[i] + sizeof(head), n - sizeof(head), tm_key(tm_rank, to, id, i));
        TM_MPI((0 == i % 5 ? MPI_Issend : MPI_Isend)(out[i], tm_int(n), MPI_BYTE, to, id, comm,
                                                     &reqs[i]));
        probe_receive((i / 3 + id) % NKINDS, in);
    }
    TM_MPI(MPI_Waitall(rounds, reqs, MPI_STATUSES_IGNORE));
    tm_free_all(out, rounds);
    tm_free(in);
    free(out);
    free(reqs);
}

/*
 * A thread that probes for its own tag, which no other receives, is told of that message until it
 * has received it.
 */
static void probe_own(int id, int rounds)
{
    tm_rng_t to = stream_rng(tm_rank, id, 4), from = stream_rng(tm_src, id, 4);

    for (int i = 0; i < rounds; i++) {
        size_t nout = next_size(&to, PROBE_MAX), nin = next_size(&from, PROBE_MAX);
        unsigned char *out = tm_alloc_data(nout, tm_key(tm_rank, tm_dst, id, i)),
                      *in = tm_alloc(nin);
        MPI_Request req;
        MPI_Status st;

        TM_MPI(MPI_Isend(out, tm_int(nout), MPI_BYTE, tm_dst, id, comm, &req));
        for (int k = 0; k < 2; k++) {
            tm_status_reset(&st);
            if (0 == i % 2) {
                TM_MPI(MPI_Probe(MPI_ANY_SOURCE, id, comm, &st));
            } else {
                tm_iprobe(MPI_ANY_SOURCE, id, comm, &st);
            }
            tm_expect_single(&st, tm_src, id, nin);
        }
        tm_status_reset(&st);
        TM_MPI(MPI_Recv(in, tm_int(nin), MPI_BYTE, MPI_ANY_SOURCE, id, comm, &st));
        tm_expect_message(&st, in, tm_src, id, nin, tm_key(tm_src, tm_rank, id, i),
                          "message found by a probe");
        TM_MPI(MPI_Wait(&req, MPI_STATUS_IGNORE));
        tm_free(out);
        tm_free(in);
    }
}

static void probes(int rounds)
{
    int missing = 0, flag = -1;

    rounds -= rounds % tm_size;
    seen_per_thread = rounds;
    seen = tm_calloc((size_t) (tm_size * nthreads * rounds), sizeof(*seen));
    run(probe_race, rounds);
    for (int from = 0; from < tm_size; from++) {
        for (int k = 0; k < nthreads * rounds; k++) {
            bool is_mine = (from + k % rounds) % tm_size == tm_rank;

            missing += atomic_load(&seen[from * nthreads * rounds + k]) != (is_mine ? 1 : 0);
        }
    }
    TM_CHECK(0 == missing, "%d messages were lost, or came twice or to the wrong rank", missing);
    TM_MPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE));
    TM_CHECK(0 == flag, "a message is left over");
    free(seen);
    TM_MPI(MPI_Barrier(ctl));
    run(probe_own, rounds);
}

/* ---- cancel ---- ----------------------------------------------------------------------------- */

/* The message arrives, by the hand of any thread, while the receive is being cancelled. */
static void cancel(int id, int rounds)
{
    tm_rng_t to = stream_rng(tm_rank, id, 5), from = stream_rng(tm_src, id, 5),
             rng = tm_rng(55, (uint64_t) (100 * tm_rank + id));

    for (int i = 0; i < rounds; i++) {
        size_t nout = next_size(&to, 20000), nin = next_size(&from, 20000);
        unsigned char *out = tm_alloc(nout), *in = tm_alloc(nin);
        int source = 0 == i % 2 ? tm_src : MPI_ANY_SOURCE;
        MPI_Request sreq, rreq;
        MPI_Status st;

        memset(in, 0xee, nin);
        tm_fill(out, nout, tm_key(tm_rank, tm_dst, id, i));
        TM_MPI(MPI_Irecv(in, tm_int(nin), MPI_BYTE, source, id, comm, &rreq));
        tm_spin_us((long) tm_below(&rng, 10));
        TM_MPI(MPI_Isend(out, tm_int(nout), MPI_BYTE, tm_dst, id, comm, &sreq));
        tm_spin_us((long) tm_below(&rng, 30));
        TM_MPI(MPI_Cancel(&rreq));
        if (tm_wait_cancelled(&rreq, &st)) {
            atomic_fetch_add(&num_cancelled, 1);
            tm_expect_fill(in, nin, 0xee, "buffer of a cancelled receive");
            tm_status_reset(&st);
            TM_MPI(MPI_Recv(in, tm_int(nin), MPI_BYTE, source, id, comm, &st));
        }
        tm_expect_message(&st, in, tm_src, id, nin, tm_key(tm_src, tm_rank, id, i),
                          "message that met a cancel");
        TM_MPI(MPI_Wait(&sreq, MPI_STATUS_IGNORE));
        tm_free(out);
        tm_free(in);
    }
}

/* ---- sleepers ---- --------------------------------------------------------------------------- */

enum { TAG_SLEEP = 500 };

/* Wait, in a way that depends on id, for a message that comes when the others are done. */
static void sleeper(int id)
{
    size_t n = 0 == id % 2 ? 10 : 30000;
    unsigned char *in = tm_alloc(n);
    int tag = TAG_SLEEP + id;
    MPI_Message msg;
    MPI_Request req;
    MPI_Status st;

    tm_status_reset(&st);
    switch (id % 4) {
    case 0:
        TM_MPI(MPI_Recv(in, tm_int(n), MPI_BYTE, tm_src, tag, comm, &st));
        break;
    case 1:
        TM_MPI(MPI_Irecv(in, tm_int(n), MPI_BYTE, MPI_ANY_SOURCE, tag, comm, &req));
        TM_MPI(MPI_Wait(&req, &st));
        break;
    case 2:
        TM_MPI(MPI_Mprobe(MPI_ANY_SOURCE, tag, comm, &msg, MPI_STATUS_IGNORE));
        TM_MPI(MPI_Mrecv(in, tm_int(n), MPI_BYTE, &msg, &st));
        break;
    default:
        TM_MPI(MPI_Probe(tm_src, tag, comm, MPI_STATUS_IGNORE));
        TM_MPI(MPI_Recv(in, tm_int(n), MPI_BYTE, tm_src, tag, comm, &st));
    }
    tm_expect_message(&st, in, tm_src, tag, n, tm_key(tm_src, tm_rank, tag, 0),
                      "message for a sleeper");
    tm_free(in);
}

/*
 * The last thread of each rank works, then wakes the others of the next rank, who sleep until then.
 */
static void sleepers(int id, int rounds)
{
    if (id < nthreads - 1) {
        sleeper(id);
        return;
    }
    pairs(id, rounds);
    for (int k = 0; k < nthreads - 1; k++) {
        size_t n = 0 == k % 2 ? 10 : 30000;
        unsigned char *out = tm_alloc_data(n, tm_key(tm_rank, tm_dst, TAG_SLEEP + k, 0));

        TM_MPI((0 == k % 3 ? MPI_Ssend : MPI_Send)(out, tm_int(n), MPI_BYTE, tm_dst, TAG_SLEEP + k,
                                                   comm));
        tm_free(out);
    }
}

/* ---- free ---- ------------------------------------------------------------------------------- */

/* Active sends, freed by another thread while everybody receives. */
static void free_sends(int id, int rounds)
{
    tm_rng_t to = stream_rng(tm_rank, id, 6), from = stream_rng(tm_src, id, 6);
    int other = (id + 1) % nthreads;
    slot_t *mine = &slots[id], *theirs = &slots[other];

    for (int r = 0; r < rounds; r++) {
        slot_start(mine, id, BATCH * r, &to, &from);
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < BATCH; i++) {
            if (0 != (i + r) % 3) {
                TM_MPI(MPI_Request_free(&theirs->sreq[i]));
                TM_CHECK(MPI_REQUEST_NULL == theirs->sreq[i], "a freed request is not null");
            }
            tm_wait_recv(&theirs->rreq[i], theirs->in[i], tm_src, other, theirs->nin[i],
                         tm_key(tm_src, tm_rank, other, BATCH * r + i));
            if (MPI_REQUEST_NULL != theirs->sreq[i]) {
                TM_MPI(MPI_Request_free(&theirs->sreq[i]));
            }
        }
        /* The next rank says that it has received all, so that the buffers may go. */
        tm_handshake(tm_src, tm_dst, other, ctl);
        tm_free_all(theirs->in, BATCH);
        tm_free_all(theirs->out, BATCH);
        pthread_barrier_wait(&barrier);
    }
}

/* ---- main ---- ------------------------------------------------------------------------------- */

/* How a thread waits for a message. */
enum { WAIT_RECV, WAIT_MPROBE, NWAITS };

typedef struct waiter {
    MPI_Comm comm;
    int from, how, got;
    atomic_bool begins;
} waiter_t;

static void *waiter_main(void *arg)
{
    waiter_t *waiter = arg;
    MPI_Message msg;

    atomic_store(&waiter->begins, true);
    if (WAIT_RECV == waiter->how) {
        TM_MPI(
            MPI_Recv(&waiter->got, 1, MPI_INT, waiter->from, 1, waiter->comm, MPI_STATUS_IGNORE));
    } else {
        TM_MPI(MPI_Mprobe(waiter->from, 1, waiter->comm, &msg, MPI_STATUS_IGNORE));
        TM_MPI(MPI_Mrecv(&waiter->got, 1, MPI_INT, &msg, MPI_STATUS_IGNORE));
    }
    return NULL;
}

/* The thread has begun, and since then used a millisecond of processor time: it polls. */
static void await_polling(pthread_t thread, waiter_t *waiter)
{
    struct timespec since, now;
    clockid_t clock;

    while (!atomic_load(&waiter->begins)) {
        usleep(100);
    }
    pthread_getcpuclockid(thread, &clock);
    clock_gettime(clock, &since);
    do {
        usleep(100);
        clock_gettime(clock, &now);
    } while ((now.tv_sec - since.tv_sec) * 1000000000 + now.tv_nsec - since.tv_nsec < 1000000);
}

/* The communicator is freed while a thread waits for a message of it, which comes later. */
static void freed_comm(int how)
{
    const int partner = tm_rank ^ 1;
    waiter_t waiter = {.from = partner, .how = how};
    MPI_Comm mine, other;
    pthread_t thread;
    int value = how + 42, flag;

    TM_MPI(MPI_Comm_dup(base, &mine));
    if (0 == tm_rank % 2) {
        if (partner < tm_size) {
            TM_MPI(MPI_Recv(NULL, 0, MPI_BYTE, partner, 2, ctl, MPI_STATUS_IGNORE));
            TM_MPI(MPI_Send(&value, 1, MPI_INT, partner, 1, mine));
        }
        TM_MPI(MPI_Comm_free(&mine));
        TM_MPI(MPI_Comm_dup(base, &other));
    } else {
        waiter.comm = mine;
        thread = tm_thread(waiter_main, &waiter);
        await_polling(thread, &waiter);
        TM_MPI(MPI_Comm_free(&mine));
        TM_MPI(MPI_Send(NULL, 0, MPI_BYTE, partner, 2, ctl));
        TM_MPI(MPI_Comm_dup(base, &other));
        pthread_join(thread, NULL);
        TM_CHECK(value == waiter.got, "freed while a thread waits (%d): got %d", how, waiter.got);
    }
    TM_MPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, other, &flag, MPI_STATUS_IGNORE));
    TM_CHECK(!flag, "a message of a communicator that was freed is in another");
    TM_MPI(MPI_Comm_free(&other));
}

static void freed(int id, int rounds)
{
    (void) rounds;
    for (int how = 0; nthreads - 1 == id && how < NWAITS; how++) {
        freed_comm(how);
    }
}

static void part(const char *wanted, const char *name, void (*fn)(int id, int rounds), int rounds)
{
    double start = tm_now();

    if (0 != strcmp(wanted, "all") && 0 != strcmp(wanted, name)) {
        return;
    }
    if (NULL != fn) {
        run(fn, rounds);
    } else {
        probes(rounds);
    }
    if (0 == tm_rank) {
        printf("threads: %-10s %.1f s\n", name, tm_now() - start);
        fflush(stdout);
    }
    if (fn == cancel && NULL != getenv("TM_VERBOSE")) {
        printf("threads: rank %d: %d receives cancelled of %d\n", tm_rank, num_cancelled,
               nthreads * rounds);
    }
}

#if OMPI_MAJOR_VERSION >= 5

static MPI_Session session;
static bool has_session, has_world;

static void session_begin(const char *level)
{
    MPI_Info info;

    TM_MPI(MPI_Info_create(&info));
    TM_MPI(MPI_Info_set(info, "thread_level", level));
    TM_MPI(MPI_Session_init(info, MPI_ERRORS_ARE_FATAL, &session));
    TM_MPI(MPI_Info_free(&info));
    has_session = true;
}

static void comm_of_session(void)
{
    MPI_Group group;

    TM_MPI(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    TM_MPI(
        MPI_Comm_create_from_group(group, "threads", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &base));
    TM_MPI(MPI_Group_free(&group));
    tm_use_ranks(base);
}

/*
 * Who asks for threads: MPI_Init_thread; a session alone ("session"); MPI_Init_thread after a
 * session that does not ("late"); a session after MPI_Init ("world").
 */
static void begin(int argc, char **argv)
{
    const char *how = argc > 4 ? argv[4] : "";

    base = MPI_COMM_WORLD;
    has_world = 0 != strcmp(how, "session");
    if (0 == strcmp(how, "late")) {
        session_begin("MPI_THREAD_SINGLE");
    }
    if (has_world) {
        tm_init_thread(&argc, &argv, "threads",
                       0 == strcmp(how, "world") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE);
    }
    if (0 == strcmp(how, "session") || 0 == strcmp(how, "world")) {
        tm_name = "threads";
        session_begin("MPI_THREAD_MULTIPLE");
        comm_of_session();
    }
}

static int end(void)
{
    int errors = tm_sum_errors(base);

    if (0 == tm_rank) {
        printf("threads: errors=%d\n", errors);
        fflush(stdout);
    }
    if (MPI_COMM_WORLD != base) {
        TM_MPI(MPI_Comm_free(&base));
    }
    if (has_session) {
        TM_MPI(MPI_Session_finalize(&session));
    }
    if (has_world) {
        MPI_Finalize();
    }
    return 0 != errors;
}

#else

static void begin(int argc, char **argv)
{
    base = MPI_COMM_WORLD;
    tm_init_thread(&argc, &argv, "threads", MPI_THREAD_MULTIPLE);
}

static int end(void)
{
    return tm_finish();
}

#endif

int main(int argc, char **argv)
{
    const char *wanted;
    int percent;

    begin(argc, argv);
    wanted = argc > 1 ? argv[1] : "all";
    nthreads = (int) tm_arg(argc, argv, 2, 4);
    percent = (int) tm_arg(argc, argv, 3, 100);
    if (nthreads < 1 || nthreads > MAX_THREADS || percent < 1) {
        TM_FATAL("bad arguments");
    }
    pthread_barrier_init(&barrier, NULL, (unsigned) nthreads);
    TM_MPI(MPI_Comm_dup(base, &comm));
    TM_MPI(MPI_Comm_dup(base, &ctl));
    for (int i = 0; i < nthreads; i++) {
        TM_MPI(MPI_Comm_dup(base, &parents[i]));
    }
    part(wanted, "pairs", pairs, 4 * percent);
    part(wanted, "handoff", handoff, percent);
    part(wanted, "comms", comms, percent / 4);
    part(wanted, "probes", NULL, 4 * percent);
    part(wanted, "cancel", cancel, 4 * percent);
    part(wanted, "sleepers", sleepers, 2 * percent);
    part(wanted, "free", free_sends, percent);
    part(wanted, "freed", freed, 1);
    for (int i = 0; i < nthreads; i++) {
        TM_MPI(MPI_Comm_free(&parents[i]));
    }
    TM_MPI(MPI_Comm_free(&comm));
    TM_MPI(MPI_Comm_free(&ctl));
    pthread_barrier_destroy(&barrier);
    return end();
}
