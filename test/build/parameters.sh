#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=60 quick=yes
#
# The lists of parameters in doc/tuning.md are what ompi_info says.
# TM_PARAMETERS_RENEW=yes test/run build/parameters writes them.  Its sizes are those of the
# sources.
. "$TM_SRC/test/lib/script.sh"

# rows TYPE COMPONENT: a line "parameter|level|default|allowed|help" for each parameter of the
# component that its own table has.
rows()
{
    ompi_info --param "$1" "$2" --level 9 --parsable |
        awk -v prefix="mca:$1:$2:param:" '
        index($0, prefix) != 1 { next }
        {
            line = substr($0, length(prefix) + 1)
            if (line ~ /^"/) {
                sub(/^"/, "", line)
                sub(/":/, ":", line)
            }
            name = substr(line, 1, index(line, ":") - 1)
            line = substr(line, length(name) + 2)
        }
        line ~ /^level:/ { level[name] = substr(line, 7) }
        line ~ /^help:.* Allowed: .* Default: .*\.$/ {
            line = substr(line, 6)
            at = match(line, / Allowed: /)
            help[name] = substr(line, 1, at - 1)
            line = substr(line, at + RLENGTH)
            at = match(line, /\. Default: /)
            allowed[name] = substr(line, 1, at - 1)
            standard[name] = substr(line, at + RLENGTH)
            sub(/\.$/, "", standard[name])
            names[++num] = name
        }
        END {
            for (i = 1; i <= num; i++) {
                name = names[i]
                print name "|" level[name] "|" standard[name] "|" allowed[name] "|" help[name]
            }
        }' | LC_ALL=C sort
}

# table TYPE COMPONENT: the same, for doc/tuning.md.
table()
{
    printf '%s\n' '| parameter | level | default | allowed | |' '|---|---|---|---|---|'
    # shellcheck disable=SC2016 # `: the table's
    rows "$1" "$2" | sed -E 's/\|/ | /g; s/^([^ ]+)/| `\1`/; s/$/ |/'
}

# compare FILE FIRST LAST NEW: the lines of FILE between the two lines that match are those in NEW,
# or become so.
compare()
{
    local file=$TM_SRC/$1
    awk -v first="$2" -v last="$3" \
        'in_list && $0 ~ last { exit } in_list { print } $0 ~ first { in_list = 1 }' "$file" >have
    if [[ ${TM_PARAMETERS_RENEW-} == yes ]]; then
        awk -v first="$2" -v last="$3" -v new="$4" '
            in_list && $0 ~ last { in_list = 0 }
            !in_list { print }
            $0 ~ first { in_list = 1; while ((getline line <new) > 0) print line }' "$file" >renewed
        cat renewed >"$file"
    elif ! diff have "$4"; then
        fail "$1 does not have what ompi_info says: TM_PARAMETERS_RENEW=yes test/run build/parameters writes it"
    fi
}

table pml tm >table.pml
(($(wc -l <table.pml) > 30 && $(wc -l <table.pml) <= 42)) ||
    fail "ompi_info lists $(($(wc -l <table.pml) - 2)) parameters: there are to be at most 40"
compare doc/tuning.md '^<!-- pml tm' '^<!-- end' table.pml

# "above 2047" is of a constant that is 2048 and a least one.
# shellcheck disable=SC2016 # `: the table's
sed -nE 's/^\| ([0-9]+) \| [^|]* \| `((FAB|PML_TM)_[A-Z_]+)` \|$/\1 \2/p' "$TM_SRC/doc/tuning.md" >sizes
while read -r bytes name; do
    if [[ $name == *_MIN && $((bytes % 2)) == 1 ]]; then
        bytes=$((bytes + 1))
    fi
    grep -qrE --include='*.h' "\b$name +(= )?$bytes\b" "$TM_SRC/common" "$TM_SRC/pml_tm" ||
        fail "doc/tuning.md: $name is not $bytes"
done <sizes
(($(wc -l <sizes) == 5)) || fail "doc/tuning.md has other sizes: $(paste -sd , sizes)"
