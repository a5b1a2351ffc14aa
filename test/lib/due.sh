# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For the linters among the tests; sourced after script.sh.

# tm_due FILE...: in a short run print those of these files of the tree that the last 10 commits
# have changed, or none has yet, and a fifth of the others, by turns; all if git does not know.
tm_due()
{
    local file all i=0
    local -A changed=()
    if [[ ${TM_TEST_SHORT-} != yes ]] ||
        ! all=$(cd "$TM_SRC" && git diff --name-only HEAD~10 2>/dev/null &&
            git ls-files --others --exclude-standard); then
        printf '%s\n' "$@"
        return
    fi
    while read -r file; do
        changed[./$file]=yes
    done <<<"$all"
    for file in "$@"; do
        i=$((i + 1))
        if (((i + TM_TEST_CHOICE / 10) % 5 == 0)) || [[ -n ${changed[./$file]-} ]]; then
            echo "$file"
        fi
    done
}
