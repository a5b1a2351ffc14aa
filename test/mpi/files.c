/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For components.sh: MPI-IO over the messages of the PML. Interleaved views with collective,
 * independent, ordered, shared and non-blocking access; each byte is checked by reading it back
 * another way.
 *
 * args: file ["blocking": no non-blocking collective access, in which Debian's romio321 of Open MPI
 * 4.1.4 crashes over every PML]
 */
#include "tm_test.h"

static const char *path;

static int value(int rank, int i)
{
    return rank * 1000003 + i;
}

static MPI_File open_file(int mode)
{
    MPI_File file;

    TM_MPI(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file));
    return file;
}

/* Block i of rank r is block i * size + r of the file: written at once by all, read by one. */
static void interleaved(int blocks, int ints, bool nonblocking)
{
    int n = blocks * ints, *out = tm_calloc((size_t) n, sizeof(int)),
        *in = tm_calloc((size_t) n, sizeof(int));
    MPI_File file = open_file(MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    MPI_Datatype view = tm_vector(blocks, ints, ints * tm_size, MPI_INT);
    MPI_Request req;
    MPI_Status st;
    int count = -1;

    for (int i = 0; i < n; i++) {
        out[i] = value(tm_rank, i);
    }
    TM_MPI(MPI_File_set_view(file, (MPI_Offset) tm_rank * ints * (MPI_Offset) sizeof(int), MPI_INT,
                             view, "native", MPI_INFO_NULL));
    if (nonblocking) {
        TM_MPI(MPI_File_iwrite_at_all(file, 0, out, n, MPI_INT, &req));
        TM_MPI(MPI_Wait(&req, &st));
    } else {
        TM_MPI(MPI_File_write_all(file, out, n, MPI_INT, &st));
    }
    TM_MPI(MPI_Get_count(&st, MPI_INT, &count));
    TM_CHECK(count == n, "collective write: %d of %d ints", count, n);
    TM_MPI(MPI_File_sync(file));
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    TM_MPI(MPI_File_read_at_all(file, 0, in, n, MPI_INT, &st));
    TM_CHECK(0 == memcmp(in, out, (size_t) n * sizeof(int)),
             "collective read of %d blocks of %d ints differs", blocks, ints);
    /* Everything, by another rank than wrote it. */
    TM_MPI(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int b = 0; b < blocks; b++) {
        int other = (tm_rank + 1) % tm_size;

        TM_MPI(MPI_File_read_at(file, ((MPI_Offset) b * tm_size + other) * ints, in, ints, MPI_INT,
                                &st));
        for (int i = 0; i < ints; i++) {
            int want = value(other, b * ints + i);

            if (!TM_CHECK(in[i] == want, "block %d of rank %d: int %d is %d, expected %d", b, other,
                          i, in[i], want)) {
                break;
            }
        }
    }
    TM_MPI(MPI_Type_free(&view));
    TM_MPI(MPI_File_close(&file));
    free(out);
    free(in);
}

/* One after the other in the order of ranks, with the shared file pointer. */
static void ordered(int ints)
{
    int *buf = tm_calloc((size_t) ints, sizeof(int));
    MPI_File file = open_file(MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    MPI_Status st;

    for (int i = 0; i < ints; i++) {
        buf[i] = value(tm_rank, i);
    }
    TM_MPI(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    TM_MPI(MPI_File_write_ordered(file, buf, ints, MPI_INT, &st));
    TM_MPI(MPI_File_sync(file));
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    TM_MPI(MPI_File_read_at(file, (MPI_Offset) (tm_size - 1 - tm_rank) * ints, buf, ints, MPI_INT,
                            &st));
    for (int i = 0; i < ints; i++) {
        int want = value(tm_size - 1 - tm_rank, i);

        if (!TM_CHECK(buf[i] == want, "ordered: int %d is %d, expected %d", i, buf[i], want)) {
            break;
        }
    }
    TM_MPI(MPI_File_close(&file));
    free(buf);
}

int main(int argc, char **argv)
{
    tm_init(&argc, &argv, "files");
    if (argc < 2) {
        TM_FATAL("name a file");
    }
    path = argv[1];
    TM_MPI(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL));
    for (int i = 0; i < (argc > 2 ? 1 : 2); i++) {
        interleaved(1, 10, 1 == i);
        interleaved(50, 7, 1 == i);
        interleaved(40, 5000, 1 == i);
    }
    ordered(10);
    ordered(30000);
    return tm_finish();
}
