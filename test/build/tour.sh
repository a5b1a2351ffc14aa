#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2016 # the quotes of Markdown
# TEST: timeout=60 quick=yes
#
# The files and functions that doc/tour.md names exist; a function that it places in a file is
# defined or declared there.
. "$TM_SRC/test/lib/script.sh"

cd "$TM_SRC"
count=0
mapfile -t files < <(
    grep -oE '`(pml_tm|common|test|btl_fabric)(/[a-z_0-9]+)*(\.[ch])?`' doc/tour.md | tr -d '`' |
        sort -u
)
for file in "${files[@]}"; do
    [[ -e $file ]] || fail "doc/tour.md names $file"
done
mapfile -t functions < <(grep -oE '`[a-z_0-9]+\(\)`' doc/tour.md | tr -d '`()' | sort -u)
for function in "${functions[@]}"; do
    grep -qrE --include='*.[ch]' "\b$function\(" common pml_tm ||
        fail "doc/tour.md names $function()"
done

# "`NAME()` in `FILE`", on one line or two
while read -r function file; do
    grep -qE "^[a-z_].*\b$function\(|^$function\(" "$file" ||
        fail "doc/tour.md places $function() in $file"
    count=$((count + 1))
done < <(tr '\n' ' ' <doc/tour.md | tr -s ' ' |
    grep -oE '`[a-z_0-9]+\(\)` in `[a-z_0-9/.]+\.[ch]`' |
    sed -E 's/`([^(]+)\(\)` in `([^`]+)`/\1 \2/')
echo "${#files[@]} files, ${#functions[@]} functions, $count of them with their file"
((count >= 10 && ${#files[@]} >= 20 && ${#functions[@]} >= 25)) || fail "doc/tour.md was not read"
