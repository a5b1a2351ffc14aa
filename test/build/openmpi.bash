# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# The source package of the installed Open MPI, for tests; after script.sh.

# get_source DIRECTORY: the files, from the repositories that apt knows, whether or not it looks for
# sources there.
get_source()
(
    cd "$1" || exit
    mkdir -p apt/lists/partial apt/cache/archives/partial archives
    state=(-o "Dir::Etc::SourceList=$1/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State::Lists=$1/apt/lists" -o "Dir::Cache=$1/apt/cache")
    [[ -z $(find archives -name '*.dsc') ]] || exit 0
    # shellcheck disable=SC2016 # apt's variables
    apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' \
        'Created-By: Packages' | sort -u >apt/sources.list
    apt-get "${state[@]}" -q update &&
        env -C archives apt-get "${state[@]}" -q --download-only source openmpi
    rm -rf apt/lists apt/cache
    [[ -n $(find archives -name '*.dsc') ]]
)

# openmpi_source DIRECTORY: make its directory archives have the source package, once; or skip the
# test.
openmpi_source()
{
    (flock 9 && get_source "$1" >"$1/get.log" 2>&1) 9>"$1/get.lock" || skip_without release \
        "the source package of Open MPI cannot be had: $(grep -a '^[EW]:' "$1/get.log" | head -n 1)"
}
