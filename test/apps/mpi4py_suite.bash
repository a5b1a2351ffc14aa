# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# mpi4py's own tests, from the source of the version that is installed, for apps/mpi4py_suite.sh and
# hosts/mpi4py.sh, which source it after script.sh. The source is that of $TM_MPI4PY_SOURCE (a
# directory with test/runtests.py), or apt's, which needs no more than a mirror that has sources.

python=/usr/bin/python3
[[ -x $python ]] || skip "$python is not installed"
"$python" -c 'import mpi4py' 2>/dev/null || skip 'mpi4py (package python3-mpi4py) is not installed'

# Left out, over every PML:
#   test_spawn    children hang in PMIx_Init now and then, and one test spawns more processes than
#                 fit a small machine (mpi/dynamic has spawn)
#   test_doc      reads the documentation, not MPI
# And with more than one rank:
#   test_util_dtlib   the same on each rank, about types only: a minute of processor time
left_out=(test_spawn test_doc)

# suite_fetch: the source of the package that is installed, in ./source.
suite_fetch()
{
    local version apt
    if [[ -n ${TM_MPI4PY_SOURCE-} ]]; then
        ln -s "$TM_MPI4PY_SOURCE" source
        return
    fi
    command -v apt-get >/dev/null ||
        skip 'no apt-get to fetch the source of mpi4py with; TM_MPI4PY_SOURCE may name it'
    version=$(dpkg-query -W -f='${source:Version}' python3-mpi4py 2>/dev/null) ||
        skip 'python3-mpi4py is not a package here'
    # shellcheck source=/dev/null
    . /etc/os-release
    mkdir -p apt/parts apt/lists/partial apt/cache
    cat >apt/parts/source.sources <<END
Types: deb-src
URIs: http://deb.debian.org/debian
Suites: $VERSION_CODENAME
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END
    apt=(-q -o Dir::Etc::sourcelist=/nonexistent -o "Dir::Etc::sourceparts=$PWD/apt/parts"
        -o "Dir::State::Lists=$PWD/apt/lists"
        -o "Dir::Cache=$PWD/apt/cache" -o Acquire::http::Timeout=30 -o Acquire::Retries=0)
    if ! timeout 120 apt-get "${apt[@]}" update >apt.log 2>&1 ||
        ! timeout 120 apt-get "${apt[@]}" source \
            --download-only "mpi4py=$version" >>apt.log 2>&1; then
        grep '^E:' apt.log || true
        skip "apt has no source of mpi4py $version here; TM_MPI4PY_SOURCE may name a directory with it"
    fi
    mkdir source
    tar -xf mpi4py_*.orig.tar.* -C source --strip-components=1
    [[ -r source/test/runtests.py ]] || fail 'the source of mpi4py has no test/runtests.py'
}

# suite_words NP: the command of each rank, in the array words.
suite_words()
{
    local name
    words=("$python" "$PWD/source/test/runtests.py" --no-builddir -v)
    for name in "${left_out[@]}"; do
        words+=(-e "$name")
    done
    (($1 == 1)) || words+=(-e test_util_dtlib)
}

# suite_results FILE...: what the ranks wrote to standard error, as a line "test ... result" for
# each test of each rank.
suite_results()
{
    # A test's name and its result may stand on two lines, and what a test prints between them.
    cat "$@" | "$python" -c '
import re, sys
name = None
for line in sys.stdin:
    m = re.match(r"(test\w+ \([\w.]+\))", line)
    name = m.group(1) if m else name
    m = re.search(r"(?:^|\.\.\. ?)(ok|FAIL|ERROR|skipped .*|expected failure)\s*$", line)
    if m and name:
        print(name, "...", m.group(1).split(" ")[0])
        name = None
' | sort
}
