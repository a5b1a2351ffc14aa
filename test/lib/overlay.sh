# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For tests that install something into the system: they do it in an overlay over it, which goes
# when the test ends.
. "$TM_SRC/test/lib/script.sh"

# in_overlay SCRIPT ARGUMENT...: bash runs it with the system as it is, but for what it changes
# there; $TM_WORK is kept, and so is what env.sh sets taken away.  Skips the test where there may be
# no overlay.
in_overlay()
{
    ((EUID == 0)) || skip "only root can mount an overlay"
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare --mount --propagation private bash -euo pipefail -c '
        mkdir "$TM_WORK/overlay"
        mount -t tmpfs tmpfs "$TM_WORK/overlay"
        mkdir "$TM_WORK"/overlay/{upper,work,root}
        cd "$TM_WORK/overlay"
        mount -t overlay overlay -o "lowerdir=/,upperdir=$PWD/upper,workdir=$PWD/work" root ||
            exit 77
        cd root
        mount --rbind /dev dev
        mount --rbind /sys sys
        mount --rbind /proc proc
        mkdir -p ".$TM_WORK"
        mount --bind "$TM_WORK" ".$TM_WORK"
        mount -t tmpfs tmpfs tmp 2>/dev/null || true
        mkdir -p ".$TM_WORK" && mount --bind "$TM_WORK" ".$TM_WORK"
        exec chroot . env -u OMPI_MCA_mca_base_component_path \
            -u PMIX_MCA_mca_base_component_path bash "$TM_WORK/$0" "$@"' "$@"
}

# copy_tree DIRECTORY: the sources, without what was built; .commit names theirs, as in an archive.
copy_tree()
{
    mkdir -p "$1"
    rsync -a --exclude=/build --exclude=/.git --filter=':- .gitignore' "$TM_SRC/" "$1/"
    [[ -e $1/.commit ]] ||
        git -C "$TM_SRC" describe --always --dirty --abbrev=12 >"$1/.commit" 2>/dev/null ||
        echo unknown >"$1/.commit"
}
