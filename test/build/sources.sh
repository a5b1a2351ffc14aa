#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=120
#
# Every source file names its licence and is in a sources.mk. C files are formatted by
# clang-format. Every header compiles alone, and directories include each other as doc/design.md
# says. Within a directory files use each other in one direction, and so do the folders of pml_tm.
# Documents and scripts have lines of at most 100 columns. A short run compiles a part of the
# headers, and has clang-format look at a part of the files (tm_due).
. "$TM_SRC/test/lib/script.sh"
. "$TM_SRC/test/lib/due.sh"

cd "$TM_SRC"
mapfile -t scripts < <(find autogen.sh quickstart packaging/headers packaging/into_openmpi .ci \
    test -type f -exec grep -lE '^#!.*sh$|^# shellcheck shell=' {} +)
mapfile -t files < <(find configure.ac configure.m4 Makefile.am env.sh.in common pml_tm \
    btl_fabric tools test -type f \( -name '*.[ch]' -o -name '*.mk' -o -name '*.am' \
    -o -name '*.ac' -o -name '*.m4' -o -name '*.in' -o -name '*.py' -o -name '*.awk' \))
files+=("${scripts[@]}")
((${#files[@]} > 20)) || fail "found only ${#files[@]} files"
awk 'BEGIN { for (i = 1; i < ARGC; i++) without[ARGV[i]] }
    FNR <= 3 && /SPDX-License-Identifier: BSD-3-Clause/ { delete without[FILENAME] }
    END { for (file in without) print file, "does not say its licence" }' \
    "${files[@]}" >"$TM_WORK/none"
[[ ! -s $TM_WORK/none ]] || fail "$(paste -sd ' ' "$TM_WORK/none")"
echo "licence: ${#files[@]} files"

listed=$(cat common/sources.mk pml_tm/sources.mk btl_fabric/sources.mk)
mapfile -t files < <(find common pml_tm btl_fabric -name '*.[ch]')
for file in "${files[@]}"; do
    grep -qw -- "$file" <<<"$listed" || fail "$file is in no sources.mk"
done
echo "listed: ${#files[@]} files"

version=$(sed -nE 's/^#define FAB_(MAJOR|MINOR|RELEASE)_VERSION +([0-9]+)$/\2/p' \
    common/fabric/fab_ompi.h | paste -sd .)
grep -qF "m4_define([TM_VERSION_STRING], [$version])" configure.m4 ||
    fail "configure.m4 and fab_ompi.h ($version) disagree on the version"
grep -qE "^Version: +$version\$" packaging/pml-tm.spec ||
    fail "packaging/pml-tm.spec does not have the version $version"
[[ $(head -n 1 debian/changelog) == "pml-tm ($version-"* ]] ||
    fail "debian/changelog does not begin with the version $version"

# shellcheck source=/dev/null
. "$TM_BUILD/test/config.sh"
mapfile -t files < <(find common pml_tm btl_fabric -name '*.h')
mapfile -t due < <(tm_due "${files[@]}")
for file in "${due[@]}"; do
    echo "#include \"$PWD/$file\"" >"$TM_WORK/alone.c"
    # shellcheck disable=SC2086 # lists of flags
    "$TM_CC" -fsyntax-only -Werror $TM_CFLAGS -I. -Icommon $TM_OMPI_CPPFLAGS "$TM_WORK/alone.c" ||
        fail "$file does not compile alone"
done
echo "alone: ${#due[@]} of ${#files[@]} headers"

# included DIRECTORY: "FILE HEADER" for each header in quotes that its files include, and those of
# its folders; of its own "NAME.h", else "NAME/NAME.h".
included()
{
    local dir=$1
    find "$dir" -name '*.[ch]' -exec grep -HoE '^#include "[^"]+"' {} + |
        sed -E "s@^[^:]*/@@; s@:#include \"@ @; s@\"\$@@; s@ (\./)?${dir##*/}/([^/]+/)?@ @"
}

# design.md has a table of who includes what.
mapfile -t dirs < <(find common pml_tm btl_fabric -name '*.[ch]' -printf '%h\n' |
    grep -vE '^common/ompi5_headers|^pml_tm/' | sort -u)
for dir in "${dirs[@]}"; do
    row=$(grep -E "^\| .${dir##*/}. \|" doc/design.md) ||
        fail "doc/design.md does not say what $dir includes"
    included "$dir" >"$TM_WORK/included"
    while read -r file header; do
        [[ $header != */* || ${row#*|*|} == *"\`${header%%/*}\`"* ||
            ${row#*|*|} == *"\`$header\`"* ]] ||
            fail "$dir/$file includes $header, which is not in the table of doc/design.md"
    done <"$TM_WORK/included"
    grep -E '\.h [^/]*$' "$TM_WORK/included" >"$TM_WORK/headers" || true
    tsort "$TM_WORK/headers" >"$TM_WORK/sorted" ||
        fail "headers of $dir include each other in a circle"
done
echo "includes: ${#dirs[@]} directories"

# The rest of pml_tm sees the offload engine as one table of functions.
mapfile -t files < <(grep -rlE 'include "(offload/|fabric/fab_tm)|fab_(tm|offload)_[a-z_]+\(' \
    pml_tm | grep -v '/pml_tm_offload')
((${#files[@]} == 0)) || fail "past the table of pml_tm_offload.h: ${files[*]}"

# symbols OPTION DIRECTORY: "FILE SYMBOL" for each function and variable that its objects have or
# need from others (nm's OPTION); FILE is without .c.
symbols()
{
    local kind=$1 source object file
    while read -r source; do
        file=$(basename "$source" .c)
        # a build directory may have objects of removed files
        object=$TM_BUILD/${source%/*}/.libs/$file.o
        [[ ! -e $object ]] ||
            nm "$kind" "$object" | awk -v file="$file" 'NF > 1 { print file, $NF }'
    done < <(find "$2" -name '*.c')
}

# NAME.c and NAME.h count as one file: no two of a directory use each other, directly or through
# others.
in_order=(pml_tm btl_fabric common/fabric common/ofi common/shm common/sock common/tcp common/verbs)
for dir in "${in_order[@]}"; do
    symbols --defined-only "$dir" | sort -k 2 >"$TM_WORK/defined"
    symbols --undefined-only "$dir" | sort -k 2 >"$TM_WORK/used"
    {
        join -1 2 -2 2 -o 1.1,2.1 "$TM_WORK/used" "$TM_WORK/defined"
        included "$dir" | sed -nE 's@\.[ch] ([^/]+)\.h$@ \1@p'
    } | awk '$1 != $2' | sort -u >"$TM_WORK/uses"
    (($(wc -l <"$TM_WORK/uses") > 20)) || fail "found only few uses in $dir"
    tsort "$TM_WORK/uses" >"$TM_WORK/sorted" || fail "files of $dir use each other in a circle"
    echo "order of $dir: $(tac "$TM_WORK/sorted" | paste -sd ' ')"
    [[ $dir != pml_tm ]] || cp "$TM_WORK/uses" "$TM_WORK/uses_of_pml_tm"
done

# The folders of pml_tm are in design.md's picture; each uses only those below it.
sed -nE '/^   pml_tm\//,/^   common\//s@^     ([a-z]+)/ .*@pml_tm/\1@p' doc/design.md \
    >"$TM_WORK/folders"
diff <(sort "$TM_WORK/folders") <(find pml_tm -mindepth 1 -type d | sort) ||
    fail "doc/design.md's picture does not have the folders of pml_tm"
find pml_tm -name '*.[ch]' -printf '%h %f\n' | sed 's/\.[ch]$//' | sort -u >"$TM_WORK/housed"
awk 'FILENAME ~ /folders$/ { floor[$1] = NR }
    FILENAME ~ /housed$/ { folder[$2] = $1 }
    FILENAME ~ /uses_of_pml_tm$/ && $2 in folder && floor[folder[$1]] > floor[folder[$2]] {
        print folder[$1] "/" $1, "uses", folder[$2] "/" $2
    }' "$TM_WORK/folders" "$TM_WORK/housed" "$TM_WORK/uses_of_pml_tm" >"$TM_WORK/upward"
[[ ! -s $TM_WORK/upward ]] || fail "a folder that stands above: $(paste -sd ';' "$TM_WORK/upward")"
echo "folders of pml_tm: $(paste -sd ' ' "$TM_WORK/folders")"

# Lines have at most 100 columns.  In documents tables and code may be longer; in scripts a TEST
# directive, and a line with a string of 60 columns or more, which is not broken; in C a TEST
# directive, and a drawing or a table in a comment: it is indented, or has words far apart.
mapfile -t files < <(ls README.md SECURITY CONTRIBUTING CHANGELOG packaging/README doc/*.md)
awk 'FNR == 1 { in_code = 0 }
    /^```/ { in_code = !in_code }
    !in_code && !/^\|/ && length > 100 { print FILENAME ":" FNR }' "${files[@]}" >"$TM_WORK/long"
awk 'function longest_string(line,    longest)
    {
        while (match(line, /\047[^\047]*\047|"[^"]*"/)) {
            longest = RLENGTH > longest ? RLENGTH : longest
            line = substr(line, RSTART + RLENGTH)
        }
        return longest
    }
    length > 100 && !/^# TEST:/ && (/^ *#/ || longest_string($0) < 60) {
        print FILENAME ":" FNR
    }' "${scripts[@]}" >>"$TM_WORK/long"
mapfile -t sources < <(find common pml_tm btl_fabric tools test -name '*.[ch]' \
    ! -path 'common/ompi5_headers/*')
LC_ALL=C.UTF-8 grep -HnoP '^(?!.*TEST:| \* {5}| \*.*\S {3,}\S).{101}' "${sources[@]}" \
    >>"$TM_WORK/long" || true
[[ ! -s $TM_WORK/long ]] ||
    fail "lines of more than 100 columns: $(paste -sd ' ' "$TM_WORK/long")"
echo "wrapped: ${#files[@]} documents, ${#scripts[@]} scripts, ${#sources[@]} C files"

# Words for which there is a plainer one, or which hide the subject of a sentence.
mapfile -t files < <(grep -rlwiE 'in vain|anew|as far as|likewise|whoever|nobody' common pml_tm \
    btl_fabric tools doc README.md SECURITY --exclude-dir=ompi5_headers)
((${#files[@]} == 0)) || fail "in vain, anew, as far as, likewise, whoever or nobody: ${files[*]}"

# Releases of clang-format disagree on details: one decides.
if [[ $(clang-format --version) == *' version 14.'* ]]; then
    mapfile -t files < <(find common pml_tm btl_fabric tools test -name '*.[ch]' \
        ! -path '*/ompi5_headers/*')
    mapfile -t due < <(tm_due "${files[@]}")
    clang-format --dry-run -Werror "${due[@]}" ||
        fail "not formatted: run clang-format -i (version 14)"
    echo "clang-format: ${#due[@]} of ${#files[@]} files"
else
    echo "clang-format: not checked, it is not version 14"
fi
