# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For the scripts whose output is in doc/diagnosis.md; sourced after script.sh.

# What differs from run to run or machine: hosts and processes, places in the program, the length of
# rings, and numbers except ranks, tags and bytes.
normal()
{
    sed -E -e 's/^\[[^]]*\] //' -e 's/[^ ]+:[0-9]+  /HOST:PID  /' -e 's/\+0x[0-9a-f]+/+0xN/' \
        -e 's/ring of [0-9]+ bytes/ring of N bytes/' \
        -e 's/ +[0-9.]+( s\>| %| GB)/ N\1/g' "$@"
}

# documented HEADING [REGEX]: the last job printed each line of the first example under that
# heading of doc/diagnosis.md; but for those that match.
documented()
{
    local line
    awk -v heading="## $1" '$0 == heading { here = 1 }
        here && /^```$/ { if (inside) exit; inside = 1; next }
        inside' "$TM_SRC/doc/diagnosis.md" | grep -vE -e "${2:-^$}" | normal >documented
    [[ -s documented ]] || fail "doc/diagnosis.md has no example under \"$1\""
    normal "$TM_WORK/err" >printed
    while IFS= read -r line; do
        grep -qxF -e "$line" printed || fail "this is in doc/diagnosis.md only: $line"
    done <documented
}
