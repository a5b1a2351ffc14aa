#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=60 quick=yes
#
# Every parameter says what it does; every help message that the code asks for exists, and none that exists goes unused.
. "$TM_SRC/test/lib/script.sh"

ompi_info --param pml tm --level 9 --parsable >info
params=$(sed -nE 's/^mca:pml:tm:param:"?([a-z0-9_]+)"?:value:.*/\1/p' info | sort -u)
[[ -n $params ]] || fail "ompi_info lists no parameter of pml tm"
echo "parameters: $(wc -l <<<"$params")"
for param in $params; do
    help=$(sed -nE "s/^mca:pml:tm:param:\"?$param\"?:help://p" info)
    ((${#help} >= 20)) || fail "parameter $param has no help text worth the name: \"$help\""
done

mapfile -t sources < <(find "$TM_SRC/common" "$TM_SRC/pml_tm" -name '*.[ch]')
mapfile -t helps < <(find "$TM_SRC/common" "$TM_SRC/pml_tm" -name 'help-*.txt')
[[ -n ${helps[*]} ]] || fail "no help file"
topics=$(sed -nE 's/^\[(.+)\]$/\1/p' "${helps[@]}")
[[ -z $(sort <<<"$topics" | uniq -d) ]] || fail "a topic is there twice: $(sort <<<"$topics" | uniq -d)"

# Literal topics of opal_show_help() exist in the file that it names.
cat "${sources[@]}" | tr '\n' ' ' | grep -oP 'opal_show_help(_string)?\(\s*"[^"]+",\s*"[^"]+"' |
    sed -E 's/.*\(\s*"([^"]+)",\s*"([^"]+)"$/\1 \2/' | sort -u >used || fail "no help message is used"
while read -r file topic; do
    echo "used: $file [$topic]"
    path=$(find "$TM_SRC/common" "$TM_SRC/pml_tm" -name "$file")
    [[ -n $path ]] || fail "there is no $file"
    grep -qxF "[$topic]" "$path" || fail "$file has no topic [$topic]"
    [[ -r $TM_PREFIX/share/openmpi/$file ]] || fail "$file is not installed"
done <used

# And every topic stands in the sources as a string: used directly, or handed to a function that shows it.
for topic in $topics; do
    grep -qF "\"$topic\"" "${sources[@]}" || fail "topic [$topic] is not used"
done
