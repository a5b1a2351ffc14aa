# SPDX-License-Identifier: BSD-3-Clause
#
# From raw.csv: the table (default), or with -v metric=M -v variant=V -v pml=P the lines "x median" that a plot needs.
#
#   awk -v pmls="tm ob1 ucx" -v subject=tm [-v statistic=best] -f report.awk raw.csv
#
# A value is the median over the repetitions of their medians, or with statistic=best the best over the repetitions of their
# best batches (memory: always the median).  The ratio is the subject's value to the best of the other PMLs' values.

BEGIN {
    FS = ","
    pml_count = split(pmls, pml_name, " ")
    describe("latency_us", "Latency: half the round trip, us", "bytes", "less")
    describe("bandwidth_mbs", "Bandwidth: one way, windows of 64, 10^6 bytes/s", "bytes", "more")
    describe("rate_mmps", "Message rate: one way, windows of 64, 10^6 messages/s", "bytes", "more")
    describe("depth_us", "Matching depth: 8-byte ping-pong behind N others, half the round trip, us", "N", "less")
    describe("drain_us", "Draining N receives or messages, last first if possible, us per message", "N", "less")
    describe("overlap_pct", "Overlap of a transfer with computation on one side, percent", "bytes", "none")
    describe("memory_kib", "Memory: growth per process from before MPI_Init, KiB, mean over the ranks", "ranks", "less")
    describe("init_ms", "Start and end: MPI_Init and MPI_Finalize, ms", "ranks", "less")
}

function describe(name, title, x, better)
{
    metric_list[++metric_total] = name
    metric_title[name] = title
    metric_x[name] = x
    metric_better[name] = better
}

NR > 1 {
    key = $3 SUBSEP $4 SUBSEP $5
    cell = key SUBSEP $2
    if (!(($3, $4) in variant_seen)) {
        variant_seen[$3, $4] = 1
        variant_list[$3, ++variant_total[$3]] = $4
    }
    if (!(key in x_seen)) {
        x_seen[key] = 1
        x_list[$3, $4, ++x_total[$3, $4]] = $5
    }
    value[cell, ++value_total[cell]] = statistic == "best" && $3 != "memory_kib" ? $7 : $6
}

# Median or best of a cell's values, of which there is one for each repetition.
function summary(cell,    n, i, j, t, sorted, part)
{
    n = value_total[cell]
    split(cell, part, SUBSEP)
    for (i = 1; i <= n; i++) {
        t = value[cell, i] + 0
        for (j = i - 1; j >= 1 && sorted[j] > t; j--) {
            sorted[j + 1] = sorted[j]
        }
        sorted[j + 1] = t
    }
    if (statistic == "best") {
        return sorted[metric_better[part[1]] == "less" ? 1 : n]
    }
    return (sorted[int((n + 1) / 2)] + sorted[int(n / 2) + 1]) / 2
}

# Four significant digits, without an exponent.
function number(v,    a)
{
    a = v < 0 ? -v : v
    return sprintf(a >= 1000 ? "%.0f" : a >= 100 ? "%.1f" : a >= 10 ? "%.2f" : "%.3f", v)
}

# The subject against the best other, or nothing.
function ratio(m, key,    i, v, best)
{
    if (metric_better[m] == "none" || !((key, subject) in value_of)) {
        return ""
    }
    best = ""
    for (i = 1; i <= pml_count; i++) {
        if (pml_name[i] == subject || !((key, pml_name[i]) in value_of)) {
            continue
        }
        v = value_of[key, pml_name[i]]
        if (best == "" || (metric_better[m] == "less" ? v < best : v > best)) {
            best = v
        }
    }
    return best == "" || best <= 0 ? "" : sprintf("%.2f", value_of[key, subject] / best)
}

# How many times the value of N = 0, or nothing.
function growth(m, variant, key,    first)
{
    first = m SUBSEP variant SUBSEP 0
    if (m != "depth_us" || !((first, subject) in value_of) || !((key, subject) in value_of)) {
        return ""
    }
    return sprintf("%.2f", value_of[key, subject] / value_of[first, subject])
}

function print_head(m,    i, best, line)
{
    best = metric_better[m]
    printf "\n%s%s\n", metric_title[m], best == "none" ? "" : " (" best " is better)"
    line = sprintf("%-26s %8s", "", metric_x[m])
    for (i = 1; i <= pml_count; i++) {
        line = line sprintf(" %10s", pml_name[i])
    }
    if (pml_count > 1 && has_subject && best != "none") {
        line = line sprintf(" %12s", subject "/best")
    }
    if (m == "depth_us" && has_subject) {
        line = line sprintf(" %10s", subject "/N=0")
    }
    print line
}

function print_row(m, variant, x, is_first,    i, key, line)
{
    key = m SUBSEP variant SUBSEP x
    line = sprintf("%-26s %8s", is_first ? variant : "", x)
    for (i = 1; i <= pml_count; i++) {
        line = line sprintf(" %10s", (key, pml_name[i]) in value_of ? number(value_of[key, pml_name[i]]) : "-")
    }
    if (pml_count > 1 && has_subject && metric_better[m] != "none") {
        line = line sprintf(" %12s", ratio(m, key))
    }
    if (m == "depth_us" && has_subject) {
        line = line sprintf(" %10s", growth(m, variant, key))
    }
    sub(/ +$/, "", line)
    print line
}

function print_metric(m,    v, x)
{
    if (variant_total[m] == 0) {
        return
    }
    print_head(m)
    for (v = 1; v <= variant_total[m]; v++) {
        for (x = 1; x <= x_total[m, variant_list[m, v]]; x++) {
            print_row(m, variant_list[m, v], x_list[m, variant_list[m, v], x], x == 1)
        }
    }
}

END {
    for (cell in value_total) {
        value_of[cell] = summary(cell)
    }
    if (metric != "") {
        for (x = 1; x <= x_total[metric, variant]; x++) {
            cell = metric SUBSEP variant SUBSEP x_list[metric, variant, x] SUBSEP pml
            if (cell in value_of) {
                print x_list[metric, variant, x], value_of[cell]
            }
        }
        exit
    }
    for (i = 1; i <= pml_count; i++) {
        has_subject = has_subject || pml_name[i] == subject
    }
    for (i = 1; i <= metric_total; i++) {
        print_metric(metric_list[i])
    }
}
