/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long contiguous messages into memory that is not: blocks of several lengths, messages that end
 * after any byte of a block, receives that have room for more, for exactly that, or for less,
 * several of them at a time. What MPI_Unpack makes of the same bytes is expected.
 */
/* TEST: np=1,2 timeout=60 quick=yes */
/* TEST: np=2 env="OMPI_MCA_pml_tm_shm_single_copy=none" timeout=60 */
#include <string.h>

#include "tm_test.h"

enum { BLOCKS = 8 /* of an element */, WINDOW = 4, LONGEST = 400000 };

typedef struct strided {
    MPI_Datatype type; /* an element */
    size_t bytes;      /* of its data */
    size_t extent;
} strided_t;

static strided_t make_type(int block)
{
    MPI_Aint stride = block + 40;
    strided_t s = {.bytes = (size_t) block * BLOCKS, .extent = (size_t) stride * BLOCKS};
    MPI_Datatype vector;

    TM_MPI(MPI_Type_create_hvector(BLOCKS, block, stride, MPI_BYTE, &vector));
    TM_MPI(MPI_Type_create_resized(vector, 0, (MPI_Aint) s.extent, &s.type));
    TM_MPI(MPI_Type_commit(&s.type));
    TM_MPI(MPI_Type_free(&vector));
    return s;
}

/* A message under way. */
typedef struct message {
    unsigned char *out, *in;
    size_t len; /* of the message */
    int count;  /* elements of the receive */
    MPI_Request req[2];
} message_t;

static void start(message_t *m, const strided_t *s, int tag)
{
    int peer = tm_size > 1 ? tm_rank ^ 1 : tm_rank;

    m->out = tm_alloc(m->len);
    m->in = tm_alloc(s->extent * (size_t) m->count);
    tm_fill(m->out, m->len, tm_key(tm_rank, peer, tag, 0));
    memset(m->in, 0xee, s->extent * (size_t) m->count);
    TM_MPI(MPI_Irecv(m->in, m->count, s->type, peer, tag, MPI_COMM_WORLD, &m->req[0]));
    TM_MPI(MPI_Isend(m->out, (int) m->len, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &m->req[1]));
}

/* What is to be in memory: whole elements by MPI_Unpack, of one more the first bytes. */
static void expect(unsigned char *memory, const strided_t *s, int block, unsigned char *bytes,
                   size_t len)
{
    size_t whole = len / s->bytes, rest = len % s->bytes;
    int at = 0;

    TM_MPI(MPI_Unpack(bytes, (int) len, &at, memory, (int) whole, s->type, MPI_COMM_WORLD));
    memory += whole * s->extent;
    bytes += whole * s->bytes;
    for (size_t i = 0; i < rest; i++) {
        memory[i / (size_t) block * (s->extent / BLOCKS) + i % (size_t) block] = bytes[i];
    }
}

static void finish(message_t *m, const strided_t *s, int block, int tag)
{
    int peer = tm_size > 1 ? tm_rank ^ 1 : tm_rank;
    size_t room = s->bytes * (size_t) m->count, size = s->extent * (size_t) m->count;
    size_t len = m->len < room ? m->len : room;
    unsigned char *want = tm_alloc(size), *bytes = tm_alloc(m->len);
    MPI_Status st;
    int rc, got;

    tm_status_reset(&st);
    rc = MPI_Wait(&m->req[0], &st);
    TM_CHECK((m->len > room ? MPI_ERR_TRUNCATE : MPI_SUCCESS) == tm_class(rc),
             "%zu bytes into %zu: error class %d", m->len, room, tm_class(rc));
    if (m->len <= room) {
        MPI_Get_elements(&st, MPI_BYTE, &got);
        TM_CHECK((size_t) got == m->len, "%d bytes arrived, not %zu", got, m->len);
    } else if (MPI_REQUEST_NULL != m->req[0]) {
        TM_MPI(MPI_Request_free(&m->req[0]));
    }
    TM_MPI(MPI_Wait(&m->req[1], MPI_STATUS_IGNORE));
    tm_fill(bytes, m->len, tm_key(peer, tm_rank, tag, 0));
    memset(want, 0xee, size);
    expect(want, s, block, bytes, len);
    TM_CHECK(0 == memcmp(want, m->in, size), "%zu bytes into %d elements with blocks of %d: wrong",
             m->len, m->count, block);
    tm_free(want);
    tm_free(bytes);
    tm_free(m->out);
    tm_free(m->in);
}

/* Messages of len bytes, for receives with more and less room. */
static void window(const strided_t *s, int block, size_t len, int tag)
{
    size_t elements = len / s->bytes;
    int room[WINDOW] = {(int) elements + 1, (int) elements, (int) elements + 3, (int) elements / 2};
    message_t m[WINDOW];

    for (int i = 0; i < WINDOW; i++) {
        m[i] = (message_t){.len = len, .count = room[i]};
        start(&m[i], s, tag + i);
    }
    for (int i = 0; i < WINDOW; i++) {
        finish(&m[i], s, block, tag + i);
    }
}

static void all_remainders(int block, size_t base, int step)
{
    strided_t s = make_type(block);
    int tag = 0;

    for (int rest = 0; rest <= block; rest += step) {
        window(&s, block, base - base % (size_t) block + (size_t) rest, tag % 30000);
        tag += WINDOW;
    }
    TM_MPI(MPI_Type_free(&s.type));
}

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "strided");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    all_remainders(256, 70000, 3);
    all_remainders(256, LONGEST, 37);
    all_remainders(300, 70001, 7);
    all_remainders(4096, 140000, 119);
    all_remainders(64, 70000, 5);
    return tm_finish();
}
