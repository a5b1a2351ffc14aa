#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=60 quick=yes
#
# Every parameter says what it does; every help message that the code asks for exists, and none that
# exists goes unused.
. "$TM_SRC/test/lib/script.sh"

# check_params TYPE NAME: the parameters of that component.
check_params()
{
    local params param help
    ompi_info --param "$1" "$2" --level 9 --parsable >info
    params=$(sed -nE "s/^mca:$1:$2:param:\"?([a-z0-9_]+)\"?:value:.*/\1/p" info | sort -u)
    [[ -n $params ]] || fail "ompi_info lists no parameter of $1 $2"
    echo "parameters of $1 $2: $(wc -l <<<"$params")"
    for param in $params; do
        help=$(sed -nE "s/^mca:$1:$2:param:\"?$param\"?:help://p" info)
        ((${#help} >= 20)) || fail "parameter $param has no help text worth the name: \"$help\""
    done
}

check_params pml tm
check_params btl fabric

mapfile -t sources < <(find "$TM_SRC/common" "$TM_SRC/pml_tm" "$TM_SRC/btl_fabric" -name '*.[ch]')
# tables of fab_help_topic_t
topics=$(sed -nE 's/^    \{"([a-z-]+)",( ".*)?$/\1/p' "$TM_SRC"/pml_tm/base/pml_tm_help.c \
    "$TM_SRC"/btl_fabric/btl_fabric_help.c "$TM_SRC"/common/fabric/fab_fit.c)
[[ -n $topics ]] || fail "no help text"
[[ -z $(sort <<<"$topics" | uniq -d) ]] ||
    fail "a topic is there twice: $(sort <<<"$topics" | uniq -d)"

# Literal topics of fab_help_show() exist.
cat "${sources[@]}" | tr '\n' ' ' | grep -aoP 'fab_help_show\(\w+,\s*"[^"]+"' |
    sed -E 's/.*"([^"]+)"$/\1/' | sort -u >used ||
    fail "no help message is used"
while read -r topic; do
    echo "used: [$topic]"
    grep -qxF "$topic" <<<"$topics" || fail "there is no topic [$topic]"
done <used

# And every topic stands in the sources as a string: used directly, or handed to a function that
# shows it.
for topic in $topics; do
    (($(cat "${sources[@]}" | grep -cF "\"$topic\"") > 1)) || fail "topic [$topic] is not used"
done
