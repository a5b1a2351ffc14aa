/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tm_info: does pml tm fit here?  One page: the Open MPI that it was built for and the one that
 * runs, where the component is and whether Open MPI finds it, parameters, the providers, limits; as
 * text, or as JSON with a member for each line.
 *
 * Nothing of Open MPI is read or called before it is known to fit.
 */
#include "ompi_config.h"

#include <dlfcn.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opal/constants.h"
#include "opal/mca/base/base.h"
#include "opal/runtime/opal.h"

#include "fabric/fab_abi.h"
#include "fabric/fab_fit.h"
#include "pml_tm/base/pml_tm_params.h"
#include "pml_tm/base/pml_tm_shared.h"
#include "tm_commit.h"
#include "tm_info.h"

enum { STATUS_GOOD = 0, STATUS_BAD = 1, STATUS_USAGE = 2 };

static bool is_quiet; /* --check: problems only */
static bool is_json;
static const char *separator = ""; /* of the next member, with is_json */
static int status = STATUS_GOOD;

/* ---- output ------------------------------------------------------------- */

/* A string of JSON, in quotes. */
static void put_json(const char *text)
{
    putchar('"');
    for (; '\0' != *text; text++) {
        if ('"' == *text || '\\' == *text) {
            putchar('\\');
        }
        if ((unsigned char) *text < ' ') {
            printf("\\u%04x", (unsigned char) *text);
        } else {
            putchar(*text);
        }
    }
    putchar('"');
}

static void put_member(const char *name, const char *text)
{
    fputs(separator, stdout);
    put_json(name);
    fputs(": ", stdout);
    put_json(text);
    separator = ",\n  ";
}

static __attribute__((format(printf, 2, 3))) void say(const char *name, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (is_json) {
        put_member(name, text);
    } else if (!is_quiet) {
        printf("  %-18s %s\n", name, text);
    }
}

/* pml tm cannot be used. */
static __attribute__((format(printf, 2, 3))) void say_bad(const char *name, const char *format, ...)
{
    char text[4096], member[32];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (is_json) {
        snprintf(member, sizeof(member), "%s: problem", name);
        put_member(member, text);
    } else {
        printf(is_quiet ? "tm_info: %s: %s\n" : "  %-18s NO: %s\n", name, text);
    }
    status = STATUS_BAD;
}

/* ---- Open MPI ----------------------------------------------------------- */

static const char *file_of(const void *address)
{
    Dl_info info;

    return 0 != dladdr(address, &info) && NULL != info.dli_fname ? info.dli_fname : "unknown";
}

static bool check_fit(void)
{
    char why[256];
    const char *misfit = fab_fit_why_not(&mca_pml_tm_fit, why, sizeof(why));

    say("built for", "Open MPI %s", mca_pml_tm_fit.built);
    say("Open MPI here", "%s (%s)", mca_pml_tm_fit.runs, file_of(mca_pml_tm_fit.runs));
    if (NULL != misfit) {
        say_bad("fits", "built for Open MPI %s, but %s runs: %s; rebuild pml_tm for it",
                mca_pml_tm_fit.built, mca_pml_tm_fit.runs, misfit);
        return false;
    }
    say("fits", "yes");
    return true;
}

/* ---- the component ------------------------------------------------------ */

/*
 * Where the component is: beside the library, so that a moved installation has its own, or in the
 * directory that configure was told.
 */
static bool find_component(char path[PATH_MAX])
{
    /* not the address of something of the library: that could be a copy in this program */
    const char *library = file_of(dlsym(RTLD_DEFAULT, "fab_describe"));
    const char *slash = strrchr(library, '/');
    char beside[PATH_MAX];

    if (NULL != slash) {
        snprintf(beside, sizeof(beside), "%.*s/openmpi/mca_pml_tm.so", (int) (slash - library),
                 library);
        if (NULL != realpath(beside, path)) {
            return true;
        }
    }
    snprintf(path, PATH_MAX, "%s/mca_pml_tm.so", TM_COMPONENTDIR);
    return 0 == access(path, R_OK);
}

/* Is the directory in Open MPI's list of those where it looks for components? */
static bool is_searched(const char *dir)
{
    char real[PATH_MAX], entry[PATH_MAX], found[PATH_MAX];
    const char *at = mca_base_component_path;

    while (NULL != realpath(dir, real) && NULL != at && '\0' != *at) {
        size_t len = strcspn(at, ":");
        snprintf(entry, sizeof(entry), "%.*s", (int) len, at);
        if (NULL != realpath(entry, found) && 0 == strcmp(real, found)) {
            return true;
        }
        at += len + (':' == at[len]);
    }
    return false;
}

static void check_component(void)
{
    char path[PATH_MAX];

    if (!find_component(path)) {
        say_bad("component", "there is no %s", path);
        return;
    }
    say("component", "%s", path);
    if (NULL == dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
        say_bad("loads", "%s", dlerror());
        return;
    }
    say("loads", "yes");
    *strrchr(path, '/') = '\0';
    if (is_searched(path)) {
        say("found by mpirun", "yes");
    } else {
        say_bad("found by mpirun",
                "Open MPI does not look there: source env.sh, load the module pml_tm, or set "
                "OMPI_MCA_mca_base_component_path=%s:SYS_DEFAULT:USER_DEFAULT",
                path);
    }
}

/* ---- parameters --------------------------------------------------------- */

static mca_pml_tm_params_t own_params;

static bool register_params(void)
{
    return OPAL_SUCCESS == fab_param_register(&mca_pml_tm_param_table, &own_params) &&
           OPAL_SUCCESS == fab_params_register();
}

/* A line if the user has set it. */
static int show_param(const fab_param_t *row, const void *values)
{
    const int index = mca_base_var_find("ompi", "pml", "tm", row->name);
    const char *file = NULL, *value = (const char *) values + row->offset;
    mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_DEFAULT;
    char name[64];

    if (index < 0 || OPAL_SUCCESS != mca_base_var_get_value(index, NULL, &source, &file) ||
        MCA_BASE_VAR_SOURCE_DEFAULT == source) {
        return 0;
    }
    file = NULL != file ? file : "environment";
    snprintf(name, sizeof(name), "pml_tm_%s", row->name);
    switch (row->type) {
    case FAB_PARAM_STRING:
        say(name, "%s   (%s)", NULL != *(char *const *) value ? *(char *const *) value : "", file);
        break;
    case FAB_PARAM_SIZE:
        say(name, "%zu   (%s)", *(const size_t *) value, file);
        break;
    default: /* an unsigned one is in the range of an int, too */
        say(name, "%d   (%s)", *(const int *) value, file);
    }
    return 1;
}

static int show_table(const fab_param_table_t *table, const void *values)
{
    int count = 0;

    for (size_t i = 0; i < table->num; i++) {
        count += show_param(&table->rows[i], values);
    }
    return count;
}

/* What is set, what cannot be, and names that no parameter has. */
static void check_params(void)
{
    char text[1024];
    int count;

    if (!register_params()) {
        say_bad("parameters", "cannot be registered");
        return;
    }
    count = show_table(&mca_pml_tm_param_table, &own_params);
    for (size_t t = 0; t < fab_params_num_tables; t++) {
        count += show_table(fab_params_tables[t], &fab_params);
    }
    if (OPAL_SUCCESS !=
            fab_param_check(&mca_pml_tm_param_table, &own_params, "pml_tm_", text, sizeof(text)) ||
        OPAL_SUCCESS != fab_params_check(text, sizeof(text))) {
        say_bad("parameters", "%s", text);
    } else if (0 == count) {
        say("parameters", "all have their defaults");
    }
    if (fab_params_unknown("pml_tm_", &mca_pml_tm_param_table, fab_params_is_known, text,
                           sizeof(text)) > 0) {
        say("no parameter", "%s: it has no effect", text);
    }
}

/* ---- providers ---------------------------------------------------------- */

/* Warnings, such as of an interface that this host does not have. */
static void log_line(void *ctx, int level, const char *text)
{
    (void) ctx;
    if (0 == level) {
        say("note", "%s", text);
    }
}

/* The lines of fab_describe(). */
static void show_providers(char *text)
{
    char *save = NULL;

    if (!is_json) {
        printf("\n%s", text);
        return;
    }
    printf("%s\"paths\": [", separator);
    separator = "";
    for (char *line = strtok_r(text, "\n", &save); NULL != line;
         line = strtok_r(NULL, "\n", &save)) {
        printf("%s\n    ", separator);
        put_json(line);
        separator = ",";
    }
    printf("]");
    separator = ",\n  ";
}

/* The fabric as a process of a job of two on this host, and more on others, would open it. */
static void check_providers(void)
{
    const fab_config_t config = {
        .user = FAB_USER_PML, .name = 1, .num_local = 2, .is_tool = true, .log = log_line};
    const char *why = "unknown";
    char text[4096];
    fab_t *fab;

    if (OPAL_SUCCESS != fab_open(&config, &fab, &why)) {
        say_bad("providers", "%s", why);
        return;
    }
    if (!is_quiet) {
        fab_describe(fab, text, sizeof(text));
        show_providers(text);
    }
    if (!fab_is_open(fab, "shm") && NULL != fab_why_one_host(fab)) {
        say_bad("providers", "no process can be reached: %s", fab_why_one_host(fab));
    }
    fab_close(fab, FAB_USER_PML);
}

/* ---- limits ------------------------------------------------------------- */

static void show_limits(void)
{
    tm_info_limit_t limits[TM_INFO_LIMITS];

    if (is_quiet) {
        return;
    }
    tm_info_find_limits(limits);
    if (!is_json) {
        putchar('\n');
    }
    for (int i = 0; i < TM_INFO_LIMITS; i++) {
        say(limits[i].name, "%s%s%s", limits[i].value, NULL != limits[i].advice ? "   " : "",
            NULL != limits[i].advice ? limits[i].advice : "");
    }
}

static int usage(FILE *out, int rc)
{
    fprintf(out, "Usage: tm_info [--check | --json]\n"
                 "       tm_info --errors [WORD...]\n\n"
                 "Shows whether pml tm fits the Open MPI that runs here, whether mpirun finds it,\n"
                 "which providers can be used, and limits of this host.  Exit status: 0 if it can\n"
                 "be used, 1 if not, 2 for wrong arguments.\n\n"
                 "  --check    print only why it cannot be used\n"
                 "  --json     print the page as a JSON object, with a member for each line\n"
                 "  --version  print the version\n"
                 "  --errors   look up a message of pml tm by some of its words: what happened,\n"
                 "             what to do, and where doc/troubleshooting.md has more\n");
    return rc;
}

/* All words are one text, as if they were in quotes. */
static int show_errors(char **words)
{
    char text[4096] = "";

    for (size_t len = 0; NULL != *words && len < sizeof(text); words++) {
        len += (size_t) snprintf(text + len, sizeof(text) - len, "%s%s", 0 == len ? "" : " ",
                                 *words);
    }
    if (0 == tm_info_show_errors(text)) {
        fprintf(stderr, "tm_info: no message of pml tm has these words\n");
        return STATUS_BAD;
    }
    return STATUS_GOOD;
}

/* Is there an Open MPI whose parameters can be read? */
static bool init(int *argc, char ***argv)
{
    int rc = check_fit() ? opal_init_util(argc, argv) : OPAL_ERROR;

    if (STATUS_GOOD == status && OPAL_SUCCESS != rc) {
        say_bad("Open MPI here", "cannot be initialised (error %d)", rc);
    }
    return STATUS_GOOD == status;
}

static int show_page(int *argc, char ***argv)
{
    if (is_json) {
        fputs("{\n  ", stdout);
        say("pml_tm", "%s", TM_VERSION);
        say("commit", "%s", TM_COMMIT);
    } else if (!is_quiet) {
        printf("pml_tm %s, commit %s\n\n", TM_VERSION, TM_COMMIT);
    }
    if (init(argc, argv)) {
        check_component();
        check_params();
        if (STATUS_GOOD == status) {
            check_providers();
        }
    }
    show_limits();
    if (is_json) {
        printf("%s\"usable\": %s\n}\n", separator, STATUS_GOOD == status ? "true" : "false");
    }
    return status;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"check", no_argument, NULL, 'c'},   {"errors", no_argument, NULL, 'e'},
        {"help", no_argument, NULL, 'h'},    {"json", no_argument, NULL, 'j'},
        {"version", no_argument, NULL, 'V'}, {0}};
    int mode = 0; /* the option that says what is wanted; 0: the page */
    int option;

    while (-1 != (option = getopt_long(argc, argv, "h", options, NULL))) {
        switch (option) {
        case 'h':
            return usage(stdout, STATUS_GOOD);
        case 'V':
            printf("tm_info (pml_tm) %s, commit %s\n", TM_VERSION, TM_COMMIT);
            return STATUS_GOOD;
        case 'c':
        case 'e':
        case 'j':
            if (0 != mode && option != mode) {
                fprintf(stderr, "tm_info: two of --check, --json and --errors were given, which "
                                "exclude each other; --help\n");
                return STATUS_USAGE;
            }
            mode = option;
            break;
        default:
            return usage(stderr, STATUS_USAGE);
        }
    }
    if ('e' != mode && optind < argc) {
        return usage(stderr, STATUS_USAGE);
    }
    if ('e' == mode) {
        return show_errors(argv + optind);
    }
    is_quiet = 'c' == mode;
    is_json = 'j' == mode;
    return show_page(&argc, &argv);
}
