# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What has changed of late: for test/run, and for the linters among the tests, after script.sh.

# tm_changed: print the files of the tree that the last 30 commits have changed, as many as land
# together, or that no commit has yet; fails if git does not know.
tm_changed()
{
    git -C "$TM_SRC" diff --name-only HEAD~30 2>/dev/null &&
        git -C "$TM_SRC" ls-files --others --exclude-standard
}

# tm_due FILE...: in a short run print those of these files of the tree that have changed, and a
# fifth of the others, by turns; all if git does not know.
tm_due()
{
    local file all i=0
    local -A changed=()
    if [[ ${TM_TEST_SHORT-} != yes ]] || ! all=$(tm_changed); then
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
