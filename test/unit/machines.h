/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What long messages cost on some machines, pushed and pulled: us for 16, 32, 64, 128, 256, 512 KiB
 * and 1 MiB, each way for ping-pong of old data, ping-pong of new data (with the program's writing
 * and reading), exchanges of new data, and windows of old data.  A row more, and test_shm_ways.c
 * checks the choice on that machine, too.
 *
 * The Xeon and the last EPYC were measured with one way fixed (pml_tm_shm_cooperative always; none,
 * with pml_tm_stream_limit 0) by pingpong, written and bandwidth of test/bench.  Of the other EPYCs
 * sizes that were not measured are interpolated.  The row of hyper-threads is the second one with
 * pushing made 1.44 times as long as pulling, which was seen there: a machine where pulling is
 * always better.
 */
{"Intel Xeon (Emerald Rapids), 2 cores, a line 55 ns",
 {{{3.8, 6.0, 10.5, 19.5, 38, 74, 140}, {3.6, 4.5, 6.3, 9.8, 16.8, 33, 95}},
  {{5.3, 9.1, 16.4, 31, 62, 127, 240}, {5.3, 14.5, 23.5, 38.5, 73, 154, 280}},
  {{6.0, 13.8, 26, 49, 98, 187, 380}, {5.6, 16.8, 27, 39.8, 78, 160, 300}},
  {{2.5, 6.1, 10.9, 19.9, 37.4, 72.8, 156}, {2.2, 3.1, 5.1, 9.1, 16.4, 30.8, 96.2}}}},
    {"AMD EPYC, 2 cores, a line 180 ns",
     {{{1.56, 2.6, 4.06, 7.9, 15.4, 27, 52.8}, {3.2, 4.2, 6.1, 10, 17.9, 36, 69.3}},
      {{2.15, 3.5, 6.03, 11.4, 23.3, 45, 89.5}, {6.57, 10.5, 19.3, 36.8, 71, 140, 278}},
      {{2.4, 5.5, 10.7, 19.1, 37, 72, 143}, {7.5, 11, 20.4, 37.9, 73.2, 146, 294}},
      {{1.82, 2.82, 4.68, 7.71, 13.9, 26.9, 51.9}, {2.73, 3.41, 5.46, 9.36, 17.1, 34.3, 69}}}},
    {"AMD EPYC, 2 cores, a line 37 ns",
     {{{1.4, 1.7, 2.4, 3.6, 6, 12, 24}, {2.2, 2.7, 3.6, 5.6, 9.5, 19, 38}},
      {{2, 3.4, 6, 11, 18, 36, 70}, {4.5, 7, 12, 22, 33, 66, 130}},
      {{2.6, 5, 9.5, 19, 33, 66, 130}, {7, 9, 13, 21, 38, 74, 150}},
      {{0.82, 1.17, 1.87, 3.12, 5.7, 11.4, 23.8}, {2.05, 3.28, 5.46, 10.1, 18.7, 37.4, 74.9}}}},
    {"AMD EPYC, 2 hyper-threads of a core",
     {{{4.6, 6.0, 8.8, 14.4, 25.8, 51.8, 99.8}, {3.2, 4.2, 6.1, 10, 17.9, 36, 69.3}},
      {{9.46, 15.1, 27.8, 53, 102, 202, 400}, {6.57, 10.5, 19.3, 36.8, 71, 140, 278}},
      {{10.8, 15.8, 29.4, 54.6, 105, 210, 423}, {7.5, 11, 20.4, 37.9, 73.2, 146, 294}},
      {{3.93, 4.91, 7.86, 13.5, 24.6, 49.4, 99.4}, {2.73, 3.41, 5.46, 9.36, 17.1, 34.3, 69}}}},
    {"AMD EPYC (family 26), 2 cores, a line 170 ns",
     {{{1.78, 2.76, 4.73, 8.82, 18.3, 34.9, 67.4}, {2.5, 7.6, 11, 17.8, 31.2, 57.5, 125}},
      {{2.49, 4.02, 7.31, 13.9, 32, 63.3, 137}, {3.19, 14.3, 23, 43.9, 80.5, 159, 326}},
      {{2.89, 7.94, 13.3, 24.5, 47.4, 98, 212}, {3.3, 14.7, 24.4, 45.3, 86.9, 184, 352}},
      {{1.21, 3.38, 5.7, 9.41, 17, 32.7, 65.2}, {1.46, 4.16, 5.42, 7.84, 14.7, 25.9, 66.3}}}},
