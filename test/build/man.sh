#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=60 needs=mandoc
#
# Each program has a manual page, pml_tm(7) is there, all are installed, and mandoc finds nothing to
# say about them. Each option that a program's --help names is in its page, and no other.
. "$TM_SRC/test/lib/script.sh"

man=$TM_PREFIX/share/man

# in_help PROGRAM, in_page FILE: the options, one a line.
in_help()
{
    "$1" --help | grep -oE '(^|[ [|])--?[a-zA-Z][a-z-]*' | grep -oE -- '-.*' | sort -u
}
in_page()
{
    sed -nE 's/^\.(It|Op) (Fl .*)/\2/p' "$1" | grep -oE 'Fl -?[a-zA-Z-]+' | sed 's/^Fl /-/' |
        sort -u
}

for program in "$TM_PREFIX"/bin/*; do
    page=$man/man1/${program##*/}.1
    [[ -f $page ]] || fail "${program##*/} has no manual page"
    in_help "$program" >help
    in_page "$page" >options
    grep -vx -e --help help | diff - <(grep -vx -e --help options) ||
        fail "the options of ${program##*/} are not those of its page"
done

pages=("$man"/man[17]/*)
((${#pages[@]} >= 3)) || fail "only ${#pages[@]} pages"
[[ -f $man/man7/pml_tm.7 ]] || fail "pml_tm(7) is not there"
for page in "${pages[@]}"; do
    # pages of others may not be installed here
    said=$(mandoc -T lint -W all "$page" 2>&1 |
        grep -vE 'manual not found|outdated mandoc.db') || true
    [[ -z $said ]] || fail "$said"
    mandoc "$page" >/dev/null || fail "mandoc $page"
done

# A page names only parameters that there are.
ompi_info --param pml tm --level 9 --parsable >info
grep -ohE 'pml_tm_[a-z_]+' "${pages[@]}" | sort -u | while read -r name; do
    grep -q "param:\"\?$name\"\?:" info || fail "there is no parameter $name"
done
