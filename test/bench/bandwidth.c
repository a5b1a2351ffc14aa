/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bandwidth: one-way windows of 64 non-blocking messages, each window answered, by size.
 *
 * Result: bandwidth_mbs window <bytes>, in 10^6 bytes per second.
 */
#include "stream.h"

#define SIZES                                                                                      \
    "1,2,4,8,16,32,64,128,256,512,1024,2048,4096,8192,16384,32768,65536,131072,262144,524288,"     \
    "1048576,2097152,4194304"

int main(int argc, char **argv)
{
    double value[BENCH_MAX_BATCHES];
    bench_options_t opt;
    stream_t stream;
    long max = 0;

    MPI_Init(&argc, &argv);
    opt = bench_options(argc, argv, SIZES);
    for (int i = 0; i < opt.list.count; i++) {
        max = opt.list.value[i] > max ? opt.list.value[i] : max;
    }
    stream_init(&stream, (size_t) max);
    for (int i = 0; i < opt.list.count; i++) {
        int size = (int) opt.list.value[i];

        stream_measure(&stream, size, &opt, value);
        for (int b = 0; b < opt.batches && 0 == stream.rank; b++) {
            value[b] *= 1e-6 * size;
        }
        if (0 == stream.rank) {
            bench_result_rates("bandwidth_mbs", "window", size, value, opt.batches);
        }
    }
    free(stream.buffer);
    MPI_Finalize();
    return 0;
}
