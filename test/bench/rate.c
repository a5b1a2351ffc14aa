/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Message rate: one-way windows of 64 non-blocking messages, small sizes, all pairs together.
 *
 * Results, in 10^6 messages per second:
 *      rate_mmps window <bytes>  each window is answered: all receives are posted before their
 *                                messages come, nearly
 *      rate_mmps stream <bytes>  only the last one is: the sender runs ahead, messages can be
 *                                unexpected
 */
#include "stream.h"

static void measure(stream_t *stream, const char *variant, int size, const bench_options_t *opt)
{
    double value[BENCH_MAX_BATCHES];

    stream_measure(stream, size, opt, value);
    if (0 != stream->rank) {
        return;
    }
    for (int b = 0; b < opt->batches; b++) {
        value[b] *= 1e-6;
    }
    bench_result_rates("rate_mmps", variant, size, value, opt->batches);
}

int main(int argc, char **argv)
{
    bench_options_t opt;
    stream_t stream;

    MPI_Init(&argc, &argv);
    opt = bench_options(argc, argv, "1,8,64,1024");
    stream_init(&stream, 1 << 20);
    for (int i = 0; i < opt.list.count; i++) {
        stream.has_answers = true;
        measure(&stream, "window", (int) opt.list.value[i], &opt);
        stream.has_answers = false;
        measure(&stream, "stream", (int) opt.list.value[i], &opt);
    }
    free(stream.buffer);
    MPI_Finalize();
    return 0;
}
