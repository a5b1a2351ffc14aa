# SPDX-License-Identifier: BSD-3-Clause
#
# From raw.csv: the tables as text (default) or with -v format=html, or with -v metric=M -v
# variant=V -v pml=P the lines "x median least greatest" that a plot needs.
#
#   awk -v pmls="tm ob1 ucx" -v subject=tm [-v statistic=best] -f report.awk raw.csv
#
# A value is the median over the rounds of their medians, or with statistic=best the best over the
# rounds of their best batches (memory: always the median). After it stands half the difference
# between the largest and the smallest round, in percent of the median. The ratio is the subject's
# value to the best of the other peers' values; "~" stands before it if the rounds of one of the two
# differ by more than 20 % (±10 %), "noise" in its place if by more than the value itself (±50 %).

BEGIN {
    FS = ","
    pml_count = split(pmls, pml_name, " ")
    describe("latency_us", "Latency: half the round trip, us", "bytes", "less")
    describe("bandwidth_mbs", "Bandwidth: one way, windows of 64, the same bytes again and again, 10^6 bytes/s", "bytes", "more")
    describe("rate_mmps", "Message rate: one way, windows of 64, 10^6 messages/s", "bytes", "more")
    describe("written_us", "Data that is written before it is sent and read after it has come (-same: neither), us", "bytes", "less")
    describe("cold_us", "Cold: the first N messages of a process, by pattern and bytes, us in all", "N", "less")
    describe("regret_us", "Regret: 200 round trips and exchanges of each size, one after the other, us in all", "sizes", "less")
    describe("depth_us", "Matching depth: 8-byte ping-pong behind N others, half the round trip, us", "N", "less")
    describe("drain_us", "Draining N receives or messages, last first if possible, us per message", "N", "less")
    describe("halo_us", "Halo: both ranks exchange a face at once, us", "bytes", "less")
    describe("face_us", "Face: from or to memory that is not contiguous, one way, us", "bytes", "less")
    describe("memory_kib", "Memory: growth per process from before MPI_Init, KiB, mean over the ranks", "ranks", "less")
    describe("threads_mmps", "Threads: pairs of threads, windows of 64, 10^6 messages/s in sum", "threads", "more")
    describe("calls", "System calls per message", "bytes", "less")
    describe("copies", "Copies of each byte, by memcpy() or the kernel", "bytes", "less")
    describe("crowded_ms", "More ranks than processors: the first 300 barriers, 200 ring, 20 alltoall, ms", "ranks", "less")
    describe("crowded_us", "More ranks than processors, us", "ranks", "less")
    describe("crowded_switches", "Changes of the processor in these, all ranks", "ranks", "less")
    describe("program_s", "Programs, by their own clocks, s", "ranks", "less")
    describe("init_ms", "Start and end: MPI_Init and MPI_Finalize, ms", "ranks", "less")
}

# Metrics of OSU and IMB are described when they are met.
function describe_other(name,    title)
{
    title = name
    sub(/^imb:/, "IMB ", title)
    if (name ~ /^osu_(bw|bibw|put_bw|get_bw|put_bibw|bw_)/) {
        describe(name, title ", 10^6 bytes/s", "bytes", "more")
    } else if (name ~ /^osu_mbw_mr/) {
        describe(name, title ", 10^6 messages/s", "bytes", "more")
    } else {
        describe(name, title (name ~ /^osu_(init|hello)/ ? ", ms" : ", us"), "bytes", "less")
    }
}

function describe(name, title, x, better)
{
    metric_list[++metric_total] = name
    metric_title[name] = title
    metric_x[name] = x
    metric_better[name] = better
}

NR > 1 {
    if (!($3 in metric_title)) {
        describe_other($3)
    }
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

# Median or best of a cell's values, of which there is one for each round. Sets spread_of[cell].
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
    t = (sorted[int((n + 1) / 2)] + sorted[int(n / 2) + 1]) / 2
    least_of[cell] = sorted[1]
    greatest_of[cell] = sorted[n]
    if (n > 1 && t > 0) {
        spread_of[cell] = sprintf(" ±%.0f%%", 50 * (sorted[n] - sorted[1]) / t)
        is_noise[cell] = sorted[n] - sorted[1] > t
        is_rough[cell] = sorted[n] - sorted[1] > 0.2 * t
    }
    return t
}

# Four significant digits, without an exponent.
function number(v,    a)
{
    a = v < 0 ? -v : v
    return sprintf(a >= 1000 ? "%.0f" : a >= 100 ? "%.1f" : a >= 10 ? "%.2f" : "%.3f", v)
}

# The subject against the best other, with "~" where that is rough, "noise", or nothing.
function ratio(m, key,    i, v, best, best_cell)
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
            best_cell = key SUBSEP pml_name[i]
        }
    }
    if (best == "" || best <= 0) {
        return ""
    }
    if (is_noise[key, subject] || is_noise[best_cell]) {
        return "noise"
    }
    return sprintf("%s%.2f", is_rough[key, subject] || is_rough[best_cell] ? "~" : "",
        value_of[key, subject] / best)
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

# A row of the table being written: cell by cell, then its end.
function put(text, width, is_head,    pad, i)
{
    if (format == "html") {
        row = row (is_head ? "<th>" : "<td>") text (is_head ? "</th>" : "</td>")
        return
    }
    # an awk may count bytes, and ± has two
    pad = text
    gsub(/±/, "+", pad)
    for (i = length(pad); i < (width < 0 ? -width : width); i++) {
        text = width < 0 ? text " " : " " text
    }
    row = row (row == "" ? "" : " ") text
}

function end_row()
{
    sub(/ +$/, "", row)
    print format == "html" ? "<tr>" row "</tr>" : row
    row = ""
}

function print_head(m,    i, best)
{
    best = metric_better[m]
    printf format == "html" ? "<h2>%s%s</h2><table>\n" : "\n%s%s\n", metric_title[m],
        best == "none" ? "" : " (" best " is better)"
    put("", -26, 1)
    put(metric_x[m], 8, 1)
    for (i = 1; i <= pml_count; i++) {
        put(pml_name[i], has_spread ? 15 : 10, 1)
    }
    if (pml_count > 1 && has_subject && best != "none") {
        put(subject "/best", 12, 1)
    }
    if (m == "depth_us" && has_subject) {
        put(subject "/N=0", 10, 1)
    }
    end_row()
}

function print_row(m, variant, x, is_first,    i, key)
{
    key = m SUBSEP variant SUBSEP x
    put(is_first ? variant : "", -26)
    put(x, 8)
    for (i = 1; i <= pml_count; i++) {
        put((key, pml_name[i]) in value_of ? number(value_of[key, pml_name[i]]) spread_of[key, pml_name[i]] : "-",
            has_spread ? 15 : 10)
    }
    if (pml_count > 1 && has_subject && metric_better[m] != "none") {
        put(ratio(m, key), 12)
    }
    if (m == "depth_us" && has_subject) {
        put(growth(m, variant, key), 10)
    }
    end_row()
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
    if (format == "html") {
        print "</table>"
    }
}

END {
    for (cell in value_total) {
        value_of[cell] = summary(cell)
        has_spread = has_spread || cell in spread_of
    }
    if (metric != "") {
        for (x = 1; x <= x_total[metric, variant]; x++) {
            cell = metric SUBSEP variant SUBSEP x_list[metric, variant, x] SUBSEP pml
            if (cell in value_of) {
                print x_list[metric, variant, x], value_of[cell],
                    cell in least_of ? least_of[cell] " " greatest_of[cell] : value_of[cell] " " value_of[cell]
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
