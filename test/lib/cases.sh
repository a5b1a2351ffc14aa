# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034,SC2154 # the arrays are test/run's, and so are its settings
# Which cases there are, and which of them a run has. For test/run.

declare -a cases=()
declare -A case_kind case_file case_quick case_timeout case_variant case_np case_ompi case_args \
    case_env case_pml case_stderr
declare -A case_upstream case_device case_cores case_needs case_depends case_short case_is_main

# add_case NAME KIND FILE IS_MAIN: the rest is taken from tm_key.  Of the cases of a directive the
# main one is that with the first variant, or with 2 ranks, or else the first number of them.
add_case()
{
    local name=$1 quick_default=no
    [[ $2 != unit ]] || quick_default=yes
    cases+=("$name")
    case_kind[$name]=$2
    case_file[$name]=$3
    case_is_main[$name]=$4
    case_quick[$name]=${tm_key[quick]:-$quick_default}
    case_timeout[$name]=${tm_key[timeout]:-60}
    case_args[$name]=${tm_key[args]-}
    case_env[$name]=${tm_key[env]-}
    case_pml[$name]=${TM_TEST_PML:-${tm_key[pml]:-tm}}
    case_device[$name]=${tm_key[device]-}
    case_ompi[$name]=${tm_key[ompi]-}
    case_stderr[$name]=${tm_key[stderr]-}
    case_upstream[$name]=${tm_key[upstream]-}
    case_cores[$name]=${tm_key[cores]:-1}
    case_needs[$name]=${tm_key[needs]-}
    [[ $2 != unit ]] || case_needs[$name]+=,cmocka.h
    case_depends[$name]=${tm_key[depends]-}
    case_short[$name]=${tm_key[short]:-yes}
}

# The text of the directives of each file, those of one file on lines.
declare -A directives

# read_directives FILE...
read_directives()
{
    local file text all
    all=$(tm_directives "$@" </dev/null) || die "bad directive"
    while IFS=$'\t' read -r file text; do
        [[ -z $file ]] || directives[$file]+=${directives[$file]+$'\n'}$text
    done <<<"$all"
}

# parse_first FILE: set tm_key from its first directive, if it has one.
parse_first()
{
    local text=${directives[$1]-}
    tm_parse "${text%%$'\n'*}" "$1" || die "bad directive"
}

find_unit_cases()
{
    local file name variants variant is_main
    for file in "$@"; do
        parse_first "$file"
        name=${file##*/}
        name=unit/${name%.c}
        variants=${tm_key[variants]:-asan}
        is_main=yes
        for variant in ${variants//,/ }; do
            add_case "$name/$variant" unit "$file" $is_main
            case_variant[$name/$variant]=$variant
            is_main=no
        done
    done
}

find_scripts()
{
    local file name
    for file in "$@"; do
        parse_first "$file"
        name=${file#"$TM_SRC/test/"}
        add_case "${name%.sh}" script "$file" yes
    done
}

# One case for each directive and number of ranks. A program without directive is a helper of a
# script.
find_programs()
{
    local file name numbers np main is_main line lines i
    for file in "$@"; do
        [[ -v directives[$file] ]] || continue
        name=${file##*/}
        name=mpi/${name%.c}
        i=0
        mapfile -t lines <<<"${directives[$file]}"
        for line in "${lines[@]}"; do
            i=$((i + 1))
            tm_parse "$line" "$file" || die "bad directive"
            numbers=${tm_key[np]:-2}
            main=${numbers%%,*}
            [[ ,$numbers, != *,2,* ]] || main=2
            for np in ${numbers//,/ }; do
                is_main=no
                ((np != main)) || is_main=yes
                add_case "$name/$i/np$np" mpi "$file" $is_main
                case_np[$name/$i/np$np]=$np
                # Ranks wait half of the time.
                case_cores[$name/$i/np$np]=$(((np + 1) / 2))
            done
        done
    done
}

find_cases()
{
    local units scripts programs
    units=("$TM_SRC"/test/unit/test_*.c)
    scripts=("$TM_SRC"/test/{build,model,mpi,bench,apps,tmdev,fuzz,vm,hosts}/*.sh)
    programs=("$TM_SRC"/test/mpi/*.c)
    read_directives "${units[@]}" "${scripts[@]}" "${programs[@]}"
    find_unit_cases "${units[@]}"
    find_scripts "${scripts[@]}"
    find_programs "${programs[@]}"
    if [[ -n ${TM_TEST_DEVICE-} ]]; then
        use_device
    fi
}

# has_no_part_in_device NAME: what is counted depends on the way; one rank, or settings of shared
# memory, show nothing of a device.
has_no_part_in_device()
{
    local settings=" ${case_env[$1]} "
    [[ ${case_kind[$1]} == mpi && $1 != mpi/counters/* && $1 != mpi/btl_choice/* ]] || return 0
    # The case chooses the way itself.
    [[ ${case_env[$1]} != *_providers=* ]] || return 0
    [[ $TM_TEST_DEVICE != rxe2 ]] || return 1
    ((case_np[$1] > 1)) || return 0
    [[ $settings == *" OMPI_MCA_pml_tm_shm_"* && ! $settings =~ \ OMPI_MCA_pml_tm_[^s] ]]
}

# The MPI programs, and nothing else, over this device.
use_device()
{
    local name selected=() settings="OMPI_MCA_mtl=^ofi OMPI_MCA_btl=^openib,ofi,uct,fabric"
    settings+=" OMPI_MCA_pml_tm_verbs_tm=${TM_TEST_VERBS_TM:-always}"
    case $TM_TEST_DEVICE in
        rxe2) ;;
        tcp) settings+=' OMPI_MCA_pml_tm_providers=tcp' ;;
        *) settings+=' OMPI_MCA_pml_tm_providers=^shm,tcp' ;;
    esac
    ! is_machine || settings+=" OMPI_MCA_plm_rsh_agent=$VM_AGENT"
    for name in "${cases[@]}"; do
        ! has_no_part_in_device "$name" || continue
        # What Open MPI chooses for one-sided communication fails between hosts without RDMA of its
        # own (doc/conformance.md).
        [[ $TM_TEST_DEVICE != rxe2 || $name != mpi/onesided/1/* ]] || continue
        selected+=("$name")
        case_env[$name]="$settings ${case_env[$name]}"
        if [[ $TM_TEST_DEVICE == tmdev ]]; then
            case_device[$name]=tmdev
            case_stderr[$name]="${case_stderr[$name]}${case_stderr[$name]:+|} ibv_create_qp: .* inline "
        fi
    done
    cases=("${selected[@]}")
}

# is_wanted NAME: does one of the arguments of test/run name it?
is_wanted()
{
    local pattern named=1
    if ((${#wanted[@]} == 0)); then
        return 0
    fi
    for pattern in "${wanted[@]}"; do
        # shellcheck disable=SC2053 # a pattern it is
        if [[ $1 == $pattern || $1 == $pattern/* ]]; then
            used[$pattern]=1
            named=0
        fi
    done
    return $named
}

select_cases()
{
    local name selected=() pattern
    declare -gA used=()
    for name in "${cases[@]}"; do
        if is_wanted "$name" &&
            [[ $quick == no || ${case_quick[$name]}${case_is_main[$name]} == yesyes ]]; then
            selected+=("$name")
        fi
    done
    for pattern in ${wanted[@]+"${wanted[@]}"}; do
        [[ -n ${used[$pattern]-} ]] || die "no such test: $pattern (test/run --list names them)"
    done
    cases=(${selected[@]+"${selected[@]}"})
}

# Leave out what is for another Open MPI than that of the build.
select_series()
{
    local name selected=()
    for name in ${cases[@]+"${cases[@]}"}; do
        if [[ -z ${case_ompi[$name]} || ,${case_ompi[$name]}, == *,$TM_OMPI_SERIES,* ]]; then
            selected+=("$name")
        fi
    done
    cases=(${selected[@]+"${selected[@]}"})
}

# ---- the short run -------------------------------------------------------------------------------

# tm_number TEXT: print a number made from it, the same one each time.
tm_number()
{
    local sum
    sum=$(cksum <<<"$1")
    echo "${sum%% *}"
}

# The number that decides what a short run has: $TM_TEST_CHOICE, or one made from the commit.
tm_choice()
{
    local commit
    commit=$(git -C "$TM_SRC" rev-parse HEAD 2>/dev/null || true)
    echo "${TM_TEST_CHOICE:-$(($(tm_number "$commit") % 100000))}"
}

# Of an MPI program its first directive, with its first number of ranks, those with more than 8
# ranks, and every second time one of all others, by the choice.  What a program is asked for by a
# word (threads: all, probes, cancel) makes a program of its own. Sets short_cases.
choose_of_program()
{
    local name first i others=() taken=' '
    first=${1%/np*}
    for name in "$@"; do
        if [[ $name == "$first"/* && ${case_is_main[$name]} == yes ]] ||
            ((case_np[$name] > 8)); then
            taken+="$name "
        else
            others+=("$name")
        fi
    done
    i=$((choice + $(tm_number "$1")))
    if ((${#others[@]} > 0 && i % 2 == 0)); then
        taken+="${others[i / 2 % ${#others[@]}]} "
    fi
    for name in "$@"; do
        [[ $taken != *" $name "* ]] || short_cases+=("$name")
    done
}

# is_other_variant NAME: is it a unit test with and without ThreadSanitizer, and not its turn?  The
# turn is the run's: so the sources that such tests share are compiled once.  What is built plain,
# and does not only run when something has changed, comes with the address sanitizer's turn.
is_other_variant()
{
    local test=${1%/*} turn=asan
    ((choice / 10 % 2 == 0)) || turn=tsan
    if [[ ${case_variant[$1]-} == plain ]]; then
        [[ $turn == tsan && -z ${case_depends[$1]} ]]
        return
    fi
    [[ -n ${case_variant[$test/asan]-} && -n ${case_variant[$test/tsan]-} ]] &&
        [[ $1 != "$test/$turn" ]]
}

# is_resting NAME: is it a unit test of a provider that has not changed of late (tm_changed, in
# changed), and not its turn, which comes once in four?
is_resting()
{
    local module
    [[ -n $changed && $1 =~ ^unit/test_(ofi|shm|tcp|verbs)_ ]] || return
    module=${BASH_REMATCH[1]}
    ! grep -qE "^(common/($module|session|sock)/|test/(tmdev|ofidev)/|test/unit/test_$module)" \
        <<<"$changed" && (((choice / 4 + $(tm_number "${1%/*}")) % 4 != 0))
}

# Has Debian 13 its turn (test/all)?
is_release_due()
{
    ((choice / 20 % 3 == 0))
}

# Leave out what a short run has not; says what it leaves to others.  Of the cases of a group
# (short=GROUP) one is in each short run; of those that take minutes none in one of everything if
# Debian 13 has its turn, which takes as long.
select_short()
{
    local name word key left=() keys=() of=() changed given_up=
    local -A group=()
    short_cases=()
    if ((${#wanted[@]} == 0)) && is_release_due; then
        given_up=minutes
    fi
    changed=$(tm_changed) || changed=
    for name in ${cases[@]+"${cases[@]}"}; do
        key=
        if [[ ${case_kind[$name]} == mpi && ${case_short[$name]} == yes ]]; then
            word=${case_args[$name]%% *}
            [[ $word =~ ^[a-z] ]] || word=
            key=${name%%/[0-9]*}:$word
        elif [[ ${case_short[$name]} == no ]] || is_other_variant "$name" ||
            is_resting "$name" || [[ ${case_short[$name]} == "$given_up" ]]; then
            left+=("$name")
        elif [[ ${case_short[$name]} != yes ]]; then
            key=${case_short[$name]}
        else
            short_cases+=("$name")
        fi
        if [[ -n $key ]]; then
            [[ -n ${group[$key]-} ]] || keys+=("$key")
            group[$key]+="$name "
        fi
    done
    for key in ${keys[@]+"${keys[@]}"}; do
        read -ra of <<<"${group[$key]}"
        if [[ $key == *:* ]]; then
            choose_of_program "${of[@]}"
            continue
        fi
        short_cases+=("${of[(choice + $(tm_number "$key")) % ${#of[@]}]}")
        for name in "${of[@]}"; do
            [[ $name == "${short_cases[-1]}" ]] || left+=("$name")
        done
    done
    cases=(${short_cases[@]+"${short_cases[@]}"})
    left_to_others=${left[*]-}
}

# ---- what has not changed ------------------------------------------------------------------------

tm_recorded=$TM_SRC/test/recorded

# without_comments FILE: print it; of a C file not its comments, but what test/run reads of them.
without_comments()
{
    case $1 in
        *.[ch])
            tm_directives "$1" | cut -f 2-
            gcc -fpreprocessed -dD -E -P -x c "$1" 2>/dev/null || cat "$1"
            ;;
        *) cat "$1" ;;
    esac
}

# case_hash NAME: print a hash of what this deterministic case depends on.
case_hash()
{
    local file=${case_file[$1]}
    (
        cd "$TM_SRC" || exit
        echo "$1"
        tm_depends "${file#"$TM_SRC/"},${case_depends[$1]}" |
            while read -r file; do
                echo "$file"
                without_comments "$file"
            done
    ) | sha1sum | cut -d ' ' -f 1
}

# is_recorded NAME: has it passed with what it depends on as it is now?
is_recorded()
{
    [[ -n ${case_depends[$1]} ]] && grep -qsx "$1 $(case_hash "$1")" "$tm_recorded"
}

# record_case NAME HASH: note that it has, with this hash of what it depends on.
record_case()
{
    local others
    others=$(grep -sv "^$1 " "$tm_recorded" || true)
    printf '%s\n' "$others" "$1 $2" | grep . | LC_ALL=C sort >"$tm_recorded.new"
    mv "$tm_recorded.new" "$tm_recorded"
}

# ---- what is missing -----------------------------------------------------------------------------

# missing_programs NAME: print those that this case needs and this machine has not.
missing_programs()
{
    local program
    for program in ${case_needs[$1]//,/ }; do
        tm_has_program "$program" || echo "$program"
    done
}

# All that the cases lack.
all_missing()
{
    local name
    for name in ${cases[@]+"${cases[@]}"}; do
        missing_programs "$name"
    done | sort -u
}

# The packages with it.
missing_packages()
{
    local program
    for program in $(all_missing); do
        tm_package_of "$program"
    done | sort -u
}

# What the cases lack, in one list, with the command that installs it.
report_missing()
{
    local programs packages
    mapfile -t programs < <(all_missing)
    ((${#programs[@]} > 0)) || return 0
    mapfile -t packages < <(missing_packages)
    echo "Missing here, so that tests are skipped: ${programs[*]}"
    echo "All of it: apt-get install --no-install-recommends ${packages[*]} (or test/run --install)"
}
