# SPDX-License-Identifier: BSD-3-Clause
# The lines of test/run's report, as a table (format=tsv) or in JUnit's form (format=junit). part:
# the name of what has run.
#
#     PASS  mpi/hello/1/np2          0.3 s    0.6 cpu  REASON
#
# Indented lines that follow a FAIL are the end of its log.

function escape(text)
{
    gsub(/&/, "\\&amp;", text)
    gsub(/</, "\\&lt;", text)
    gsub(/>/, "\\&gt;", text)
    gsub(/"/, "\\&quot;", text)
    gsub(/[^\t -~]/, "?", text)
    return text
}

function end_failure()
{
    if (is_open)
        body = body "</failure></testcase>\n"
    is_open = 0
}

/^(PASS|FAIL|SKIP) / && NF >= 6 && $4 == "s" && $6 == "cpu" {
    end_failure()
    reason = ""
    for (i = 7; i <= NF; i++)
        reason = reason (i > 7 ? " " : "") $i
    if (format == "tsv") {
        printf "%s\t%s\t%s\t%s\t%s\t%s\n", part, $1, $2, $3, $5, reason
        next
    }
    count++
    seconds += $3
    body = body sprintf("<testcase classname=\"%s\" name=\"%s\" time=\"%s\"", escape(part),
        escape($2), $3)
    if ($1 == "PASS") {
        body = body "/>\n"
    } else if ($1 == "SKIP") {
        skipped++
        body = body sprintf("><skipped message=\"%s\"/></testcase>\n", escape(reason))
    } else {
        failed++
        is_open = 1
        body = body sprintf("><failure message=\"%s\">", escape(reason))
    }
    next
}

is_open && /^    / {
    body = body escape($0) "\n"
    next
}

{
    end_failure()
}

END {
    end_failure()
    if (format == "junit")
        printf "<testsuite name=\"%s\" tests=\"%d\" failures=\"%d\" skipped=\"%d\" " \
            "time=\"%.1f\">\n%s</testsuite>\n", escape(part), count, failed, skipped, seconds, body
}
