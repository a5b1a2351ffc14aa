# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2030,SC2031 # subshells keep their settings to themselves
# The TEST directive, and compiling what it describes.  Wants TM_SRC, TM_BUILD and TM_BIN (where
# binaries go).
#
# A directive is a comment line of its own, in C or shell:
#     /* TEST: sources=common/match/match.c variants=asan,tsan timeout=60 */
#     # TEST: timeout=300 quick=no
# of key=value pairs; a value with spaces stands in double quotes.  doc/contributing.md lists the
# keys.

tm_known_keys=' args cflags cores depends device env ldflags needs np ompi pml quick sources short stderr timeout upstream variants '

# tm_directives FILE...: for each directive print its file, a tab, and its text.  Fails if a line
# looks like a directive and is none, or if one goes on in the next line.
tm_directives()
{
    awk '
        function refuse(text) { print FILENAME ":" FNR ": " text > "/dev/stderr"; bad = 1 }
        FNR == 1 { follows = 0 }
        /^[[:space:]]*(\/\*|\*|\/\/|#)[[:space:]]*TEST([: =]|$)/ {
            follows = $0 !~ /\*\/[[:space:]]*$/
            if (!sub(/^[[:space:]]*(\/\*|\*|\/\/|#)[[:space:]]*TEST:[[:space:]]*/, "")) {
                refuse("a TEST directive begins with \"TEST:\"")
                next
            }
            sub(/[[:space:]]*\*\/[[:space:]]*$/, "")
            print FILENAME "\t" $0
            next
        }
        follows && /^[[:space:]]*(\*|\/\/|#)?[[:space:]]*[a-z]+=/ {
            refuse("a TEST directive stands on one line")
        }
        { follows = 0 }
        END { exit bad }' "$@"
}

# tm_parse TEXT FILE: set the associative array tm_key from a directive.
tm_parse()
{
    local text=$1
    declare -gA tm_key=()
    while [[ $text =~ ^[[:space:]]*([a-z]+)=(\"([^\"]*)\"|([^[:space:]\"]*))([[:space:]].*)?$ ]]; do
        if [[ $tm_known_keys != *" ${BASH_REMATCH[1]} "* ]]; then
            echo "$2: unknown key in a TEST directive: ${BASH_REMATCH[1]}" >&2
            return 1
        fi
        tm_key[${BASH_REMATCH[1]}]=${BASH_REMATCH[3]}${BASH_REMATCH[4]}
        text=${BASH_REMATCH[5]}
    done
    if [[ -n ${text//[[:space:]]/} ]]; then
        echo "$2: not understood in a TEST directive: $text" >&2
        return 1
    fi
}

# tm_parse_first FILE: the same from the file's first directive, if it has one.
tm_parse_first()
{
    local text
    text=$(tm_directives "$1") || return 1
    text=${text%%$'\n'*}
    tm_parse "${text#*$'\t'}" "$1"
}

# tm_depends LIST: the files that a list of depends= names, in the current directory: files,
# directories and patterns, comma separated.
tm_depends()
(
    shopt -s nullglob
    IFS=,
    # shellcheck disable=SC2206 # patterns are expanded
    paths=($1)
    find "${paths[@]}" -type f | LC_ALL=C sort -u
)

# tm_binary NAME [VARIANT]: the path of the program of test/NAME.c.
tm_binary()
{
    echo "$TM_BIN/$1${2:+.$2}"
}

declare -gA tm_hashes=() # of commands

# tm_find_known SOURCE COMMAND...: in one run of the tests (tm_objects is a directory then) set
# known to the file that names the object that the command makes of this source.  -DFAB_HAVE_...
# makes no difference to a source that is not in tm_asking.
tm_find_known()
{
    local source=$1 argument command=
    shift
    known=
    [[ -n ${tm_objects-} ]] || return 0
    for argument in "$@"; do
        [[ $argument == -DFAB_HAVE_* && -n ${tm_asking-} && $tm_asking != *" $source "* ]] ||
            command+=" $argument"
    done
    [[ -n ${tm_hashes[$command]-} ]] || tm_hashes[$command]=$(sha1sum <<<"$command")
    known=$tm_objects/${tm_hashes[$command]%% *}${source//\//:}
}

# tm_object SOURCE COMMAND...: compile it, unless the same command has compiled the same
# preprocessed source before, for whichever test; prints the object's name.  What -D and -I do is in
# that source.  The file known, if that is not empty, gets the name, too; the exit status is 75 if
# tm_not_busy is set and another process compiles it for that file now.
tm_object()
{
    local source=$1 key object argument lock
    shift
    if [[ -n $known ]]; then
        exec {lock}>"$known.lock"
        flock ${tm_not_busy:+--nonblock} "$lock" || return 75
        [[ ! -s $known ]] || { cat "$known" && return; }
    fi
    key=$({
        for argument in "$@"; do
            [[ $argument == -[DI]* ]] || echo "$argument"
        done
        "$@" -E "$source"
    } | sha1sum) || return 1
    object=$TM_BIN/objects/${key%% *}.o
    mkdir -p "$TM_BIN/objects"
    (
        flock 9
        # Under another name first: it must not be taken for complete when this is interrupted.
        [[ -e $object ]] ||
            { "$@" -c -o "$object.new" "$source" >&2 && mv -f "$object.new" "$object"; }
    ) 9>"$object.lock" || return 1
    [[ -z $known ]] || { echo "$object" >"$known.$BASHPID" && mv -f "$known.$BASHPID" "$known"; }
    echo "$object"
}

# tm_cc OUTPUT SOURCE... -- COMMAND...: make a program, unless it is there, of the same objects.
# What other processes compile just now comes last, rather than to wait for each of them.
tm_cc()
{
    local output=$1 sources=() objects=() source object key known tm_not_busy
    local -A made=()
    shift
    while [[ $1 != -- ]]; do
        sources+=("$1")
        shift
    done
    shift
    for tm_not_busy in yes ''; do
        for source in "${sources[@]}"; do
            [[ -z ${made[$source]-} ]] || continue
            tm_find_known "$source" "$@"
            if [[ -n $known && -s $known ]]; then
                read -r object <"$known"
                made[$source]=$object
            else
                made[$source]=$(tm_object "$source" "$@") || (($? == 75)) || return 1
            fi
        done
    done
    for source in "${sources[@]}"; do
        objects+=("${made[$source]}")
    done
    mkdir -p "$(dirname "$output")"
    key="$* ${objects[*]} ${tm_libs[*]-}"
    if [[ -x $output && $(cat "$output.key" 2>/dev/null) == "$key" ]]; then
        return 0
    fi
    # Under another name first: a run of this script beside this one may be using the old program.
    "$@" -o "$output.$$" "${objects[@]}" ${tm_libs[@]+"${tm_libs[@]}"} || return 1
    mv -f "$output.$$" "$output"
    echo "$key" >"$output.key"
}

# tm_sources LIST: the files of a comma separated list, one a line. @fabric, @ofi and @verbs are
# those of common/sources.mk that use no help texts, variables and rcache of Open MPI, no librdmacm
# and no hwloc; @btl is btl_fabric, with what it needs besides @fabric.
tm_sources()
{
    local name names
    IFS=, read -ra names <<<"$1"
    for name in ${names[@]+"${names[@]}"}; do
        case $name in
            @fabric)
                tm_listed common_tm_sources 'fab_(cuda|fit|help|load|param_mca|reg_rcache).c'
                ;;
            @ofi)
                tm_listed common_ofi_sources '(ofi_object|idmap).c' # idmap is in @fabric
                echo "$TM_SRC/test/unit/ofi_linked.c"
                ;;
            @verbs)
                tm_listed common_verbs_sources 'verbs_(cm_rdma|near|object).c'
                echo "$TM_SRC/test/unit/verbs_linked.c"
                ;;
            @btl)
                printf '%s\n' "$TM_SRC"/btl_fabric/*.c \
                    "$TM_SRC"/common/fabric/fab_{cuda,fit,help,help_first,param_mca}.c
                ;;
            *) echo "$TM_SRC/$name" ;;
        esac
    done
}

# tm_listed VARIABLE REGEX: the C files in this variable of common/sources.mk, but those whose name
# matches.
tm_listed()
{
    sed -n "/^$1 = /,/[^\\\\]\$/p" "$TM_SRC/common/sources.mk" | grep -oE '[^[:space:]]+\.c' |
        grep -vE "/$2\$" | sed "s@^@$TM_SRC/@"
}

# tm_compile_unit FILE VARIANT: the unit test test/unit/NAME.c, with the sources that it names.
tm_compile_unit()
(
    # shellcheck source=/dev/null
    . "$TM_BUILD/test/config.sh"
    tm_parse_first "$1" || exit 1
    read -ra flags <<<"$TM_CFLAGS -I$TM_SRC/test/unit -I$TM_SRC/common -I$TM_SRC $TM_OMPI_CPPFLAGS ${tm_key[cflags]-}"
    read -ra libs <<<"$TM_OMPI_LDFLAGS -Wl,--as-needed $TM_PAL_LIBS -lcmocka -lm -ldl"
    [[ $TM_OMPI_SERIES == 4.1 ]] || libs+=(-lpmix) # for addresses of processes, in @btl
    read -ra ldflags <<<"${tm_key[ldflags]-}"
    case $2 in
        # gcc sees uninitialized variables where its own instrumentation comes between.
        asan) flags+=(-O1 -fno-omit-frame-pointer "-fsanitize=address,undefined"
            -fno-sanitize-recover=all -Wno-maybe-uninitialized) ;;
        tsan) flags+=(-O1 -fno-omit-frame-pointer -fsanitize=thread -Wno-maybe-uninitialized
            -Wno-tsan) ;;
        plain) flags+=(-O2) ;;
        *)
            echo "$1: unknown variant in a TEST directive: $2" >&2
            exit 1
            ;;
    esac
    mapfile -t more < <(tm_sources "${tm_key[sources]-}")
    name=$(basename "$1" .c)
    tm_libs=("${ldflags[@]}" "${libs[@]}")
    tm_cc "$(tm_binary "unit/$name" "$2")" "$1" "${more[@]}" -- "${TM_CC:-cc}" -g1 "${flags[@]}"
)

# tm_compile_mpi FILE: the MPI program test/mpi/NAME.c (or of another directory below test/).
tm_compile_mpi()
(
    # shellcheck source=/dev/null
    . "$TM_BUILD/test/config.sh"
    PATH=$TM_OMPI_BINDIR:$PATH
    tm_parse_first "$1" || exit 1
    # what a later MPI deprecates is tested all the same
    read -ra flags <<<"-std=gnu11 -D_GNU_SOURCE -g1 -O2 -pthread -Wall -Wextra -Werror -Wno-deprecated-declarations -I$TM_SRC/test/mpi -I$TM_SRC/common -I$TM_SRC ${tm_key[cflags]-}"
    read -ra tm_libs <<<"${tm_key[ldflags]-} -lm"
    mapfile -t more < <(tm_sources "${tm_key[sources]-}")
    name=${1#"$TM_SRC/test/"}
    OMPI_CC=${TM_CC:-cc} tm_cc "$(tm_binary "${name%.c}")" "$1" "${more[@]}" -- mpicc "${flags[@]}"
)
