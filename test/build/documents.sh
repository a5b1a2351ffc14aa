#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=60 quick=yes
#
# Links of the documents lead to files, and to headings in them. The plots of doc/performance.md
# were drawn from the tables that stand there now.
. "$TM_SRC/test/lib/script.sh"

cd "$TM_SRC"
# anchors FILE: those of its headings, as forges make them.
anchors()
{
    awk '/^`{3}/ { in_code = !in_code } !in_code && sub(/^#+ +/, "")' "$1" | tr '[:upper:]' '[:lower:]' |
        sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'
}

count=0
while IFS=: read -r file link; do
    target=${link%%#*}
    [[ -z $target ]] || target=$(dirname "$file")/$target
    target=${target:-$file}
    [[ -e $target ]] || fail "$file: there is no $link"
    [[ $link != *'#'* ]] || anchors "$target" | grep -xF -e "${link#*#}" >/dev/null ||
        fail "$file: no heading for $link"
    count=$((count + 1))
done < <(grep -oE '\]\([^)]+\)' README.md doc/*.md | sed -E 's/\]\((.*)\)$/\1/' | grep -v ':http')
((count > 50)) || fail "found only $count links"
echo "links: $count"

test/bench/doc_plots --tables | diff doc/plots/tables.txt - ||
    fail "tables of doc/performance.md have changed: run test/bench/doc_plots, which draws their plots"
