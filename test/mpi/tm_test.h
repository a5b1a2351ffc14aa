/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helpers of the MPI test programs: error counting, data patterns, guarded buffers, status checks,
 * random numbers, calls that many programs make alike, and parameters of the library.
 *
 * A program calls tm_init() or tm_init_thread(), checks with TM_CHECK and the tm_expect_*
 * functions, and returns the value of tm_finish(), which adds the errors of all ranks, has rank 0
 * print "name: errors=N" and finalizes MPI. The checks may be used by several threads at once.
 */
#ifndef TM_TEST_H
#define TM_TEST_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <mpi.h>

#define TM_MAX_PRINT  8  /* errors printed per rank; all are counted */
#define TM_GUARD      64 /* bytes before and after each buffer of tm_alloc */
#define TM_GUARD_BYTE 0xA5
/* put in MPI_Status.MPI_ERROR, which single completions must not change */
#define TM_NO_ERROR 0x7e57e44
#define TM_SKIP     77 /* exit status of a test that cannot run here */

/* Weak: each file of a program that includes this defines them, and all mean the same. */
#define TM_SHARED __attribute__((weak))

TM_SHARED const char *tm_name = "?";
TM_SHARED int tm_rank = -1;
TM_SHARED int tm_size;
TM_SHARED int tm_dst, tm_src; /* in a ring of all: the next rank, and the one before */
TM_SHARED uint64_t tm_seed;
TM_SHARED atomic_int tm_errors;

/* ---- errors ---- ----------------------------------------------------------------------------- */

static inline void tm_verror(const char *file, int line, const char *fmt, va_list ap)
{
    char msg[512];

    if (atomic_fetch_add(&tm_errors, 1) >= TM_MAX_PRINT) {
        return;
    }
    vsnprintf(msg, sizeof(msg), fmt, ap);
    fprintf(stderr, "%s: rank %d: %s:%d: %s (seed=%" PRIu64 ")\n", tm_name, tm_rank, file, line,
            msg, tm_seed);
    fflush(stderr);
}

/* Its value is false. */
static inline bool __attribute__((format(printf, 3, 4)))
tm_error(const char *file, int line, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    tm_verror(file, line, fmt, ap);
    va_end(ap);
    return false;
}

static inline bool __attribute__((format(printf, 4, 5)))
tm_check(bool cond, const char *file, int line, const char *fmt, ...)
{
    if (!cond) {
        va_list ap;

        va_start(ap, fmt);
        tm_verror(file, line, fmt, ap);
        va_end(ap);
    }
    return cond;
}

/*
 * Count and report an error unless cond holds; the arguments say what was expected and what came.
 * Its value is cond. The arguments are evaluated in any case.
 */
#define TM_CHECK(cond, ...) tm_check(cond, __FILE__, __LINE__, __VA_ARGS__)
#define TM_ERROR(...)       tm_error(__FILE__, __LINE__, __VA_ARGS__)

/* End the job. */
#define TM_FATAL(...)                                                                              \
    do {                                                                                           \
        tm_error(__FILE__, __LINE__, __VA_ARGS__);                                                 \
        MPI_Abort(MPI_COMM_WORLD, 3);                                                              \
        exit(3);                                                                                   \
    } while (0)

/* Call MPI where an error leaves nothing to test. */
#define TM_MPI(call)                                                                               \
    do {                                                                                           \
        int tm_rc_ = (call);                                                                       \
        if (MPI_SUCCESS != tm_rc_) {                                                               \
            tm_fatal_mpi(__FILE__, __LINE__, #call, tm_rc_);                                       \
        }                                                                                          \
    } while (0)

static inline void tm_fatal_mpi(const char *file, int line, const char *what, int rc)
{
    char str[MPI_MAX_ERROR_STRING] = "";
    int len;

    MPI_Error_string(rc, str, &len);
    tm_error(file, line, "%s: %s", what, str);
    MPI_Abort(MPI_COMM_WORLD, 3);
    exit(3);
}

/* Error class of a return code. */
static inline int tm_class(int rc)
{
    int cls = -1;

    MPI_Error_class(rc, &cls);
    return cls;
}

/* ---- start, end ---- ------------------------------------------------------------------------- */

static inline uint64_t tm_seed_default(void)
{
    const char *env = getenv("TM_SEED");

    return NULL != env ? strtoull(env, NULL, 0) : UINT64_C(20240607);
}

/* Ranks are those of comm from here on. */
static inline void tm_use_ranks(MPI_Comm comm)
{
    TM_MPI(MPI_Comm_rank(comm, &tm_rank));
    TM_MPI(MPI_Comm_size(comm, &tm_size));
    tm_dst = (tm_rank + 1) % tm_size;
    tm_src = (tm_rank + tm_size - 1) % tm_size;
}

static inline void tm_init_thread(int *argc, char ***argv, const char *name, int required)
{
    int provided;

    tm_name = name;
    tm_seed = tm_seed_default();
    if (MPI_SUCCESS != MPI_Init_thread(argc, argv, required, &provided)) {
        fprintf(stderr, "%s: MPI_Init_thread failed\n", name);
        exit(3);
    }
    tm_use_ranks(MPI_COMM_WORLD);
    if (provided < required) {
        TM_FATAL("thread level %d asked for, got %d", required, provided);
    }
}

static inline void tm_init(int *argc, char ***argv, const char *name)
{
    tm_init_thread(argc, argv, name, MPI_THREAD_SINGLE);
}

/* Sum the errors over comm. */
static inline int tm_sum_errors(MPI_Comm comm)
{
    int mine = atomic_load(&tm_errors);
    int all = mine;

    TM_MPI(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, comm));
    return all;
}

/* Print the result and finalize. The value is the exit status. */
static inline int tm_finish(void)
{
    int all = tm_sum_errors(MPI_COMM_WORLD);

    if (0 == tm_rank) {
        printf("%s: errors=%d\n", tm_name, all);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0 != all;
}

/* As tm_finish, for a test that cannot run here; all ranks must take this way. */
static inline int tm_skip(const char *why)
{
    if (0 == tm_rank) {
        printf("%s: skipped: %s\n", tm_name, why);
        fflush(stdout);
    }
    MPI_Finalize();
    return TM_SKIP;
}

static inline long tm_arg(int argc, char **argv, int i, long dflt)
{
    return argc > i ? strtol(argv[i], NULL, 0) : dflt;
}

static inline double tm_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double) ts.tv_sec + 1e-9 * (double) ts.tv_nsec;
}

/* Use the processor for so long without calling MPI. */
static inline void tm_spin_us(long us)
{
    double end = tm_now() + 1e-6 * (double) us;

    while (tm_now() < end) {
    }
}

/* ---- random ---- ----------------------------------------------------------------------------- */

static inline uint64_t tm_mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

typedef struct tm_rng {
    uint64_t state;
} tm_rng_t;

static inline uint64_t tm_rand(tm_rng_t *rng)
{
    return tm_mix(rng->state += UINT64_C(0x9e3779b97f4a7c15));
}

/* Below n; n > 0. */
static inline uint64_t tm_below(tm_rng_t *rng, uint64_t n)
{
    return tm_rand(rng) % n;
}

static inline tm_rng_t tm_rng(uint64_t a, uint64_t b)
{
    tm_rng_t rng = {tm_mix(tm_seed + tm_mix(a + tm_mix(b)))};

    return rng;
}

/* The numbers below n, in any order. */
static inline void tm_shuffle(tm_rng_t *rng, int n, int *out)
{
    for (int i = 0; i < n; i++) {
        out[i] = i;
    }
    for (int i = n - 1; i > 0; i--) {
        int j = (int) tm_below(rng, (uint64_t) i + 1), t = out[i];

        out[i] = out[j];
        out[j] = t;
    }
}

/* What a message contains: everything that names it goes in. */
static inline uint64_t tm_key(int src, int dst, int tag, long seq)
{
    return tm_mix(tm_mix(((uint64_t) (uint32_t) src << 32) | (uint32_t) dst) +
                  tm_mix(((uint64_t) (uint32_t) tag << 32) ^ (uint64_t) seq) + tm_seed);
}

/* ---- sizes ---- ------------------------------------------------------------------------------ */

/* Where a protocol may change: each is tested with one byte less and one more. */
static const size_t tm_thresholds[] = {40, 64, 256, 4096, 16384, 65536, 1048576, 4194304};

#define TM_NTHRESHOLDS (sizeof(tm_thresholds) / sizeof(tm_thresholds[0]))
#define TM_MAX_SIZES   64

/* The sizes to test, at most max bytes, in out[TM_MAX_SIZES]. */
static inline int tm_sizes(size_t max, size_t *out)
{
    static const size_t small[] = {0, 1, 2, 7, 8, 9, 24};
    int n = 0;

    for (size_t i = 0; i < sizeof(small) / sizeof(small[0]); i++) {
        out[n++] = small[i];
    }
    for (size_t i = 0; i < TM_NTHRESHOLDS; i++) {
        for (int d = -1; d <= 1; d++) {
            out[n++] = tm_thresholds[i] + (size_t) d;
        }
    }
    while (n > 0 && out[n - 1] > max) {
        n--;
    }
    return n;
}

/* A size from 0 to max: half spread evenly over the powers of two, half next to a threshold. */
static inline size_t tm_rand_size(tm_rng_t *rng, size_t max)
{
    size_t size;

    if (0 == tm_below(rng, 2)) {
        size = tm_thresholds[tm_below(rng, TM_NTHRESHOLDS)] + tm_below(rng, 5) - 2;
    } else {
        size_t top = (size_t) 1 << tm_below(rng, 23);

        size = tm_below(rng, 2 * top);
    }
    return size <= max ? size : tm_below(rng, max + 1) >> tm_below(rng, 12);
}

/* ---- data ---- ------------------------------------------------------------------------------- */

static inline uint64_t tm_word(uint64_t key, uint64_t i)
{
    uint64_t x = (key + i * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xd6e8feb86659fd93);

    return x ^ (x >> 32);
}

/* Byte i of the data that belongs to key. */
static inline unsigned char tm_byte(uint64_t key, size_t i)
{
    return (unsigned char) (tm_word(key, i / 8) >> (8 * (i % 8)));
}

/* Write the bytes [first, first + n) of the data of key. */
static inline void tm_fill_at(void *buf, size_t first, size_t n, uint64_t key)
{
    unsigned char *p = buf;
    size_t i = 0;

    for (; i < n && 0 != (first + i) % 8; i++) {
        p[i] = tm_byte(key, first + i);
    }
    for (; i + 8 <= n; i += 8) {
        uint64_t w = tm_word(key, (first + i) / 8);

        memcpy(p + i, &w, 8);
    }
    for (; i < n; i++) {
        p[i] = tm_byte(key, first + i);
    }
}

/* Number of leading bytes of buf that are [first, first + n) of the data of key. */
static inline size_t tm_match_at(const void *buf, size_t first, size_t n, uint64_t key)
{
    const unsigned char *p = buf;
    size_t i = 0;

    for (; i < n && 0 != (first + i) % 8; i++) {
        if (p[i] != tm_byte(key, first + i)) {
            return i;
        }
    }
    for (; i + 8 <= n; i += 8) {
        uint64_t w;

        memcpy(&w, p + i, 8);
        if (w != tm_word(key, (first + i) / 8)) {
            break;
        }
    }
    for (; i < n; i++) {
        if (p[i] != tm_byte(key, first + i)) {
            return i;
        }
    }
    return n;
}

static inline void tm_fill(void *buf, size_t n, uint64_t key)
{
    tm_fill_at(buf, 0, n, key);
}

static inline bool tm_is(const void *buf, size_t n, uint64_t key)
{
    return tm_match_at(buf, 0, n, key) == n;
}

#define tm_expect_data(buf, n, key, what) tm_expect_data_at(__FILE__, __LINE__, buf, n, key, what)

static inline bool tm_expect_data_at(const char *file, int line, const void *buf, size_t n,
                                     uint64_t key, const char *what)
{
    const unsigned char *p = buf;
    size_t i = tm_match_at(buf, 0, n, key);

    if (i == n) {
        return true;
    }
    return tm_error(file, line, "%s: byte %zu of %zu is 0x%02x, expected 0x%02x", what, i, n, p[i],
                    tm_byte(key, i));
}

/* All n bytes are byte. */
#define tm_expect_fill(buf, n, byte, what) tm_expect_fill_at(__FILE__, __LINE__, buf, n, byte, what)

static inline bool tm_expect_fill_at(const char *file, int line, const void *buf, size_t n,
                                     int byte, const char *what)
{
    const unsigned char *p = buf;

    for (size_t i = 0; i < n; i++) {
        if (p[i] != (unsigned char) byte) {
            return tm_error(file, line, "%s: byte %zu of %zu is 0x%02x, expected 0x%02x untouched",
                            what, i, n, p[i], byte);
        }
    }
    return true;
}

/* ---- buffers ---- ---------------------------------------------------------------------------- */

static inline void *tm_calloc(size_t n, size_t size)
{
    void *p = calloc(n > 0 ? n : 1, size > 0 ? size : 1);

    if (NULL == p) {
        TM_FATAL("out of memory (%zu x %zu bytes)", n, size);
    }
    return p;
}

/* The number of KiB that a file of /proc has behind this word; -1: there is none. */
static inline long tm_proc_kib(const char *path, const char *word)
{
    FILE *f = fopen(path, "r");
    char line[256];
    long kib = -1;

    while (NULL != f && NULL != fgets(line, sizeof(line), f)) {
        if (0 == strncmp(line, word, strlen(word))) {
            kib = strtol(line + strlen(word), NULL, 10);
        }
    }
    if (NULL != f) {
        fclose(f);
    }
    return kib;
}

/* Resident memory of this process, KiB. */
static inline long tm_resident_kib(void)
{
    return tm_proc_kib("/proc/self/status", "VmRSS:");
}

/*
 * What rank 0 of comm could still allocate, bytes; the same on all. For tests that need gigabytes.
 */
static inline size_t tm_free_memory(MPI_Comm comm)
{
    long kib = tm_proc_kib("/proc/meminfo", "MemAvailable:");

    TM_MPI(MPI_Bcast(&kib, 1, MPI_LONG, 0, comm));
    return kib > 0 ? (size_t) kib << 10 : 0;
}

/* A buffer of n bytes between two guards. Its contents are undefined. */
static inline void *tm_alloc(size_t n)
{
    unsigned char *base = NULL;

    if (0 != posix_memalign((void **) &base, 64, n + 2 * TM_GUARD)) {
        TM_FATAL("out of memory (%zu bytes)", n);
    }
    memset(base, TM_GUARD_BYTE, TM_GUARD);
    memset(base + TM_GUARD + n, TM_GUARD_BYTE, TM_GUARD);
    memcpy(base, &n, sizeof(n));
    return base + TM_GUARD;
}

#define tm_expect_guard(buf) tm_expect_guard_at(__FILE__, __LINE__, buf)

static inline bool tm_expect_guard_at(const char *file, int line, const void *buf)
{
    const unsigned char *base = (const unsigned char *) buf - TM_GUARD;
    size_t n;

    memcpy(&n, base, sizeof(n));
    return tm_expect_fill_at(file, line, base + sizeof(n), TM_GUARD - sizeof(n), TM_GUARD_BYTE,
                             "guard before the buffer") &&
           tm_expect_fill_at(file, line, base + TM_GUARD + n, TM_GUARD, TM_GUARD_BYTE,
                             "guard after the buffer");
}

/* One that has the data of key. */
static inline void *tm_alloc_data(size_t n, uint64_t key)
{
    void *buf = tm_alloc(n);

    tm_fill(buf, n, key);
    return buf;
}

#define tm_free(buf) tm_free_at(__FILE__, __LINE__, buf)

static inline void tm_free_at(const char *file, int line, void *buf)
{
    tm_expect_guard_at(file, line, buf);
    free((unsigned char *) buf - TM_GUARD);
}

/* n of them, not the array. */
#define tm_free_all(bufs, n) tm_free_all_at(__FILE__, __LINE__, bufs, n)

static inline void tm_free_all_at(const char *file, int line, unsigned char *const *bufs, int n)
{
    for (int i = 0; i < n; i++) {
        tm_free_at(file, line, bufs[i]);
    }
}

/* ---- status ---- ----------------------------------------------------------------------------- */

/* A status that shows who wrote what. */
static inline void tm_status_reset(MPI_Status *st)
{
    memset(st, 0x5a, sizeof(*st));
    st->MPI_ERROR = TM_NO_ERROR;
}

#define tm_expect_status(st, src, tag, n) tm_expect_status_at(__FILE__, __LINE__, st, src, tag, n)

/* Source, tag, length in bytes and the cancelled flag of a received message. */
static inline bool tm_expect_status_at(const char *file, int line, const MPI_Status *st, int src,
                                       int tag, size_t n)
{
    MPI_Count bytes = -1;
    int cancelled = -1;
    int count = -1;
    int want = n <= 0x7fffffff ? (int) n : MPI_UNDEFINED;

    MPI_Get_elements_x(st, MPI_BYTE, &bytes);
    MPI_Get_count(st, MPI_BYTE, &count);
    MPI_Test_cancelled(st, &cancelled);
    if (st->MPI_SOURCE == src && st->MPI_TAG == tag && bytes == (MPI_Count) n && count == want &&
        0 == cancelled) {
        return true;
    }
    return tm_error(
        file, line,
        "status: source %d tag %d bytes %lld count %d cancelled %d, expected %d %d %zu %d 0",
        st->MPI_SOURCE, st->MPI_TAG, (long long) bytes, count, cancelled, src, tag, n, want);
}

#define tm_expect_single(st, src, tag, n) tm_expect_single_at(__FILE__, __LINE__, st, src, tag, n)

/*
 * The same after a call that completes one operation: it must leave MPI_ERROR alone (MPI 3.1,
 * 3.2.5).
 */
static inline bool tm_expect_single_at(const char *file, int line, const MPI_Status *st, int src,
                                       int tag, size_t n)
{
    if (TM_NO_ERROR != st->MPI_ERROR) {
        return tm_error(
            file, line,
            "status: MPI_ERROR was set to %d by a call that returned no MPI_ERR_IN_STATUS",
            st->MPI_ERROR);
    }
    return tm_expect_status_at(file, line, st, src, tag, n);
}

#define tm_expect_empty(st) tm_expect_empty_at(__FILE__, __LINE__, st)

/* The empty status (MPI 3.1, 3.7.3). */
static inline bool tm_expect_empty_at(const char *file, int line, const MPI_Status *st)
{
    return tm_expect_status_at(file, line, st, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
}

#define tm_expect_proc_null(st) tm_expect_proc_null_at(__FILE__, __LINE__, st)

/* Status of a receive from MPI_PROC_NULL (MPI 3.1, 3.11). */
static inline bool tm_expect_proc_null_at(const char *file, int line, const MPI_Status *st)
{
    return tm_expect_status_at(file, line, st, MPI_PROC_NULL, MPI_ANY_TAG, 0);
}

/* Status and data of a message that one call has received. */
#define tm_expect_message(st, buf, src, tag, n, key, what)                                         \
    tm_expect_message_at(__FILE__, __LINE__, st, buf, src, tag, n, key, what)

static inline bool tm_expect_message_at(const char *file, int line, const MPI_Status *st,
                                        const void *buf, int src, int tag, size_t n, uint64_t key,
                                        const char *what)
{
    bool has_status = tm_expect_single_at(file, line, st, src, tag, n);

    return tm_expect_data_at(file, line, buf, n, key, what) && has_status;
}

/* ---- calls ---- ------------------------------------------------------------------------------ */

/* n as a count of MPI. */
static inline int tm_int(size_t n)
{
    if (n > 0x7fffffff) {
        TM_FATAL("%zu is no MPI count", n);
    }
    return (int) n;
}

/* Receive what has this source and tag, n bytes, and check it. */
#define tm_recv(buf, n, src, tag, comm, key, what)                                                 \
    tm_recv_at(__FILE__, __LINE__, buf, n, src, tag, comm, key, what)

static inline bool tm_recv_at(const char *file, int line, void *buf, size_t n, int src, int tag,
                              MPI_Comm comm, uint64_t key, const char *what)
{
    MPI_Status st;

    tm_status_reset(&st);
    TM_MPI(MPI_Recv(buf, tm_int(n), MPI_BYTE, src, tag, comm, &st));
    return tm_expect_message_at(file, line, &st, buf, src, tag, n, key, what);
}

/* Wait for a receive and check it whole: the status, the data and the guard. */
#define tm_wait_recv(req, buf, src, tag, n, key)                                                   \
    tm_wait_recv_at(__FILE__, __LINE__, req, buf, src, tag, n, key)

static inline bool tm_wait_recv_at(const char *file, int line, MPI_Request *req, const void *buf,
                                   int src, int tag, size_t n, uint64_t key)
{
    MPI_Status st;

    tm_status_reset(&st);
    TM_MPI(MPI_Wait(req, &st));
    return tm_expect_message_at(file, line, &st, buf, src, tag, n, key, "received data") &&
           tm_expect_guard_at(file, line, buf);
}

/* Was it cancelled, or is it complete? */
static inline bool tm_wait_cancelled(MPI_Request *req, MPI_Status *st)
{
    int cancelled = -1;

    tm_status_reset(st);
    TM_MPI(MPI_Wait(req, st));
    TM_MPI(MPI_Test_cancelled(st, &cancelled));
    TM_CHECK(0 == cancelled || 1 == cancelled, "MPI_Test_cancelled gave %d", cancelled);
    return cancelled;
}

/* MPI_Test, MPI_Iprobe and MPI_Improbe, until they find something. */
static inline void tm_test(MPI_Request *req, MPI_Status *st)
{
    for (int flag = 0; !flag;) {
        TM_MPI(MPI_Test(req, &flag, st));
    }
}

static inline void tm_iprobe(int source, int tag, MPI_Comm comm, MPI_Status *st)
{
    for (int flag = 0; !flag;) {
        TM_MPI(MPI_Iprobe(source, tag, comm, &flag, st));
    }
}

static inline void tm_improbe(int source, int tag, MPI_Comm comm, MPI_Message *msg, MPI_Status *st)
{
    for (int flag = 0; !flag;) {
        TM_MPI(MPI_Improbe(source, tag, comm, &flag, msg, st));
    }
}

/* Let src know that this rank has come here, and wait until dst has. */
static inline void tm_handshake(int src, int dst, int tag, MPI_Comm comm)
{
    TM_MPI(MPI_Sendrecv(NULL, 0, MPI_BYTE, src, tag, NULL, 0, MPI_BYTE, dst, tag, comm,
                        MPI_STATUS_IGNORE));
}

/* Tell dst a number. The value is the one that src tells. */
static inline int tm_exchange(int mine, int dst, int src, int tag, MPI_Comm comm)
{
    int theirs = -1;

    TM_MPI(MPI_Sendrecv(&mine, 1, MPI_INT, dst, tag, &theirs, 1, MPI_INT, src, tag, comm,
                        MPI_STATUS_IGNORE));
    return theirs;
}

/* A buffer for buffered sends. */
static inline void *tm_buffer_attach(size_t size)
{
    void *buf = tm_calloc(1, size);

    TM_MPI(MPI_Buffer_attach(buf, tm_int(size)));
    return buf;
}

/* Detach it, overwrite and free it: nothing may need it any more. */
static inline void tm_buffer_detach(void *want, size_t want_size)
{
    void *buf = NULL;
    int size = -1;

    TM_MPI(MPI_Buffer_detach(&buf, &size));
    TM_CHECK(buf == want && size == (int) want_size,
             "MPI_Buffer_detach gave %p %d, expected %p %zu", buf, size, want, want_size);
    memset(want, 0xdd, want_size);
    free(want);
}

/* MPI_Type_vector, to be freed. */
static inline MPI_Datatype tm_vector(int n, int block, int stride, MPI_Datatype part)
{
    MPI_Datatype type;

    TM_MPI(MPI_Type_vector(n, block, stride, part, &type));
    TM_MPI(MPI_Type_commit(&type));
    return type;
}

/* ---- the library ---- ------------------------------------------------------------------------ */

/* Read an MCA variable of at most size bytes. False: there is none. */
static inline bool tm_cvar_read(const char *name, void *value, size_t size)
{
    int provided, index, count, verbosity, binding, scope, len = 0, desc_len = 0, type_size = 1;
    MPI_T_cvar_handle handle;
    MPI_Datatype type;
    MPI_T_enum values;
    bool is_read = false;

    if (MPI_SUCCESS != MPI_T_init_thread(MPI_THREAD_SINGLE, &provided)) {
        return false;
    }
    if (MPI_SUCCESS == MPI_T_cvar_get_index(name, &index) &&
        MPI_SUCCESS == MPI_T_cvar_get_info(index, NULL, &len, &verbosity, &type, &values, NULL,
                                           &desc_len, &binding, &scope) &&
        MPI_SUCCESS == MPI_T_cvar_handle_alloc(index, NULL, &handle, &count)) {
        MPI_Type_size(type, &type_size);
        is_read = (size_t) count * (size_t) type_size <= size &&
                  MPI_SUCCESS == MPI_T_cvar_read(handle, value);
        MPI_T_cvar_handle_free(&handle);
    }
    MPI_T_finalize(); /* before MPI_Finalize: Open MPI 4.1.4 crashes otherwise */
    return is_read;
}

/* The value of an integer variable; 0: there is none, or it is less. */
static inline size_t tm_cvar_number(const char *name)
{
    long long value = 0; /* little endian: an int fills the low half */

    if (!tm_cvar_read(name, &value, sizeof(value)) || value < 0 || value >= 0x7fffffff) {
        return 0;
    }
    return (size_t) value;
}

/* The pml that runs this, by the MCA variable of that name, is pml_tm. */
static inline bool tm_is_pml_tm(void)
{
    static int answer = -1;
    char value[4096] = ""; /* MPI_T says 2048 for any string */

    if (answer < 0) {
        answer = tm_cvar_read("pml", value, sizeof(value) - 1) && 0 == strcmp(value, "tm");
    }
    return answer;
}

/*
 * Expect also what pml/ob1 of Open MPI 4.1.4 does wrong. TM_STRICT in the environment asks that of
 * any pml.
 */
static inline bool tm_is_strict(void)
{
    return tm_is_pml_tm() || NULL != getenv("TM_STRICT");
}

#endif /* TM_TEST_H */
