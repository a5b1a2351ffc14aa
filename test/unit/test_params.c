/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of parameters: every row of every table, its default, each end of its range, what lies
 * beyond, and the messages for the user.
 *
 * TEST: sources=@fabric,pml_tm/base/pml_tm_params.c
 */
#include "fabric/fab_params.h"

#include <limits.h>

#include "pml_tm/base/pml_tm_params.h"
#include "test_cmocka.h"

enum { MANY = 64 };

typedef struct owner {
    const fab_param_table_t *table;
    size_t size; /* of the struct */
} owner_t;

/* All tables; returns how many. */
static size_t all_owners(owner_t *owners)
{
    size_t num = 0;

    for (size_t t = 0; t < fab_params_num_tables; t++) {
        owners[num++] = (owner_t){fab_params_tables[t], sizeof(fab_params_t)};
    }
    owners[num++] = (owner_t){&mca_pml_tm_param_table, sizeof(mca_pml_tm_params_t)};
    return num;
}

typedef void (*row_fn_t)(const owner_t *owner, const fab_param_t *row, void *values);

/* Call fn for each row of all tables, with all values of its table at their defaults. */
static unsigned for_each_row(row_fn_t fn)
{
    owner_t owners[MANY];
    size_t num = all_owners(owners);
    unsigned rows = 0;

    for (size_t o = 0; o < num; o++) {
        void *values = calloc(1, owners[o].size);
        assert_non_null(values);
        for (size_t i = 0; i < owners[o].table->num; i++) {
            fab_param_reset(owners[o].table, values);
            fn(&owners[o], &owners[o].table->rows[i], values);
            rows++;
        }
        free(values);
    }
    return rows;
}

static size_t size_of(const fab_param_t *row)
{
    static const size_t sizes[] = {[FAB_PARAM_INT] = sizeof(int),
                                   [FAB_PARAM_UINT] = sizeof(unsigned int),
                                   [FAB_PARAM_SIZE] = sizeof(size_t),
                                   [FAB_PARAM_STRING] = sizeof(char *)};
    return sizes[row->type];
}

static int check(const owner_t *owner, const void *values, char *text, size_t size)
{
    return fab_param_check(owner->table, values, "t_", text, size);
}

/* ---- each row ----------------------------------------------------------- */

static void row_is_complete(const owner_t *owner, const fab_param_t *row, void *values)
{
    char help[2048], text[512] = "";
    int len = fab_param_help(row, help, sizeof(help));
    size_t last = strlen(row->help) - 1;

    print_message("%s\n", row->name);
    assert_true(row->level >= 1 && row->level <= 9);
    assert_true(row->offset + size_of(row) <= owner->size);
    assert_true(len > 0 && (size_t) len < sizeof(help));
    assert_true(last > 10 && '.' == row->help[last]);
    assert_non_null(strstr(help, " Allowed: "));
    assert_non_null(strstr(help, " Default: "));
    if (FAB_PARAM_STRING == row->type && NULL == row->words[0]) {
        assert_non_null(row->form);
        assert_non_null(row->is_valid);
        assert_non_null(row->empty_means);
    }
    if (OPAL_SUCCESS != check(owner, values, text, sizeof(text))) {
        fail_msg("the default is refused: %s", text);
    }
}

static void test_rows(void **state)
{
    (void) state;
    assert_true(for_each_row(row_is_complete) > 30);
}

/* No two rows share a value or a name. */
static void row_is_alone(const owner_t *owner, const fab_param_t *row, void *values)
{
    (void) values;
    for (const fab_param_t *other = owner->table->rows; other != row; other++) {
        assert_string_not_equal(other->name, row->name);
        assert_true(other->offset + size_of(other) <= row->offset ||
                    row->offset + size_of(row) <= other->offset);
    }
}

static void test_rows_apart(void **state)
{
    (void) state;
    for_each_row(row_is_alone);
}

/* ---- values ------------------------------------------------------------- */

/* False: the type cannot hold it. */
static bool set_number(const fab_param_t *row, void *values, long long number)
{
    char *at = (char *) values + row->offset;

    switch (row->type) {
    case FAB_PARAM_INT:
        *(int *) at = (int) number;
        return number >= INT_MIN && number <= INT_MAX;
    case FAB_PARAM_UINT:
        *(unsigned int *) at = (unsigned int) number;
        return number >= 0 && number <= UINT_MAX;
    default:
        *(size_t *) at = (size_t) number;
        return number >= 0;
    }
}

static void expect(const owner_t *owner, const fab_param_t *row, void *values, const char *value,
                   bool is_allowed)
{
    char text[512] = "", names[128];

    snprintf(names, sizeof(names), FAB_PARAM_STRING == row->type ? "t_%s is \"%s\"" : "t_%s is %s",
             row->name, value);
    if (is_allowed) {
        assert_int_equal(check(owner, values, text, sizeof(text)), OPAL_SUCCESS);
    } else {
        assert_int_equal(check(owner, values, text, sizeof(text)), OPAL_ERR_BAD_PARAM);
        print_message("%s\n", text);
        assert_non_null(strstr(text, names));
        assert_true(strlen(text) < sizeof(text) - 1 && '.' == text[strlen(text) - 1]);
    }
}

static void expect_number(const owner_t *owner, const fab_param_t *row, void *values,
                          long long number, bool is_allowed)
{
    char value[32];

    if (set_number(row, values, number)) {
        snprintf(value, sizeof(value), "%lld", number);
        expect(owner, row, values, value, is_allowed);
    }
}

static void row_has_range(const owner_t *owner, const fab_param_t *row, void *values)
{
    bool has_special = NULL != row->special_means;

    if (FAB_PARAM_STRING == row->type) {
        return;
    }
    assert_true(row->min < row->max);
    expect_number(owner, row, values, row->min, true);
    expect_number(owner, row, values, row->max, true);
    if (LLONG_MIN != row->min && !(has_special && row->min - 1 == row->special)) {
        expect_number(owner, row, values, row->min - 1, false);
    }
    if (LLONG_MAX != row->max) {
        expect_number(owner, row, values, row->max + 1, false);
    }
    if (has_special) {
        assert_true(row->special < row->min || row->special > row->max);
        expect_number(owner, row, values, row->special, true);
    }
    expect_number(owner, row, values, row->min + 1, !row->is_power_of_two);
    expect_number(owner, row, values, -7, false);
}

static void row_has_words(const owner_t *owner, const fab_param_t *row, void *values)
{
    const char **at = (const char **) ((char *) values + row->offset);

    if (FAB_PARAM_STRING != row->type) {
        return;
    }
    for (const char *const *word = row->words; NULL != *word; word++) {
        *at = *word;
        expect(owner, row, values, *word, true);
    }
    *at = "no such, word";
    expect(owner, row, values, *at, false);
    *at = "";
    expect(owner, row, values, "", NULL == row->words[0]);
}

static void test_values(void **state)
{
    (void) state;
    for_each_row(row_has_range);
    for_each_row(row_has_words);
}

/* ---- what one row alone cannot say -------------------------------------- */

static bool allows(char **value, const char *string)
{
    char text[512];
    char *saved = *value;
    int rc;

    *value = (char *) (uintptr_t) string;
    rc = fab_params_check(text, sizeof(text));
    *value = saved;
    return OPAL_SUCCESS == rc;
}

static void test_forms(void **state)
{
    (void) state;
    fab_params_reset();
    assert_true(allows(&fab_params.providers, "shm,tcp"));
    assert_true(allows(&fab_params.providers, "^shm"));
    assert_false(allows(&fab_params.providers, "^shm,nosuch"));
    assert_true(allows(&fab_params.verbs_if_include, "mlx5_0,mlx5_1:1"));
    assert_false(allows(&fab_params.verbs_if_include, "mlx5_0:0"));
    assert_false(allows(&fab_params.verbs_if_include, "mlx5_0:1000"));
    assert_false(allows(&fab_params.verbs_if_include, "mlx5_0, mlx5_1"));
    assert_true(allows(&fab_params.tcp_if_exclude, "eth0,10.1.0.0/16,fd00::/8"));
    assert_false(allows(&fab_params.tcp_if_exclude, "10.1.0.0/33"));
    assert_true(allows(&fab_params.tcp_ports, "1-65535"));
    assert_true(allows(&fab_params.tcp_ports, "7000"));
    assert_false(allows(&fab_params.tcp_ports, "0-10"));
    assert_false(allows(&fab_params.tcp_ports, "10-9"));
    assert_false(allows(&fab_params.tcp_ports, "1-65536"));
    assert_false(allows(&fab_params.tcp_ports, "1-"));
}

static void test_together(void **state)
{
    (void) state;
    fab_params_reset();
    fab_params.verbs_if_include = (char *) (uintptr_t) "a";
    assert_true(allows(&fab_params.verbs_if_exclude, ""));
    assert_false(allows(&fab_params.verbs_if_exclude, "b"));
}

/* ---- what the user wrote -------------------------------------------------- */

static void test_numbers(void **state)
{
    static const char *const numbers[] = {"", "0", "-1", "16384", "0x4000", "64K", "64m", " 1G"};
    static const char *const others[] = {
        "abc", "5s", "1.5", "64KiB", "K", "1 2", "99999999999999999999"};

    (void) state;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        assert_true(fab_param_is_number(numbers[i]));
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_false(fab_param_is_number(others[i]));
    }
}

/* A text that is no number is refused. */
static void test_text(void **state)
{
    char text[512];

    (void) state;
    fab_params_reset();
    assert_int_equal(0, setenv("OMPI_MCA_pml_tm_shm_ring_size", "8192 bytes", 1));
    assert_int_equal(OPAL_ERR_BAD_PARAM, fab_params_check(text, sizeof(text)));
    assert_non_null(strstr(text, "pml_tm_shm_ring_size is \"8192 bytes\"; allowed: 4096 to "));
    assert_int_equal(0, setenv("OMPI_MCA_pml_tm_shm_ring_size", "8K", 1));
    assert_int_equal(OPAL_SUCCESS, fab_params_check(text, sizeof(text)));
    assert_int_equal(0, unsetenv("OMPI_MCA_pml_tm_shm_ring_size"));
}

static bool is_wait(const char *name)
{
    return 0 == strcmp(name, "pml_tm_wait");
}

static void test_unknown(void **state)
{
    char text[128], longest[300];

    (void) state;
    assert_int_equal(
        0, fab_params_unknown("pml_tm_", &mca_pml_tm_param_table, is_wait, text, sizeof(text)));
    assert_string_equal("", text);
    assert_int_equal(0, setenv("OMPI_MCA_pml_tm_wait", "spin", 1));
    assert_int_equal(0, setenv("OMPI_MCA_btl_fabric_eager_limt", "1", 1));
    assert_int_equal(0, setenv("OMPI_MCA_pml_tm_eager_limt", "1", 1));
    assert_int_equal(
        1, fab_params_unknown("pml_tm_", &mca_pml_tm_param_table, is_wait, text, sizeof(text)));
    assert_string_equal("pml_tm_eager_limt (perhaps pml_tm_eager_limit)", text);
    assert_int_equal(0, unsetenv("OMPI_MCA_pml_tm_eager_limt"));
    assert_int_equal(0, setenv("OMPI_MCA_pml_tm_zzzzzzzzzz", "1", 1));
    assert_int_equal(
        1, fab_params_unknown("pml_tm_", &mca_pml_tm_param_table, is_wait, text, sizeof(text)));
    assert_string_equal("pml_tm_zzzzzzzzzz", text);
    assert_int_equal(0, unsetenv("OMPI_MCA_pml_tm_zzzzzzzzzz"));
    assert_int_equal(0, setenv("OMPI_MCA_pml_tm_tcp_eager_limit", "1", 1));
    assert_int_equal(
        1, fab_params_unknown("pml_tm_", &mca_pml_tm_param_table, is_wait, text, sizeof(text)));
    assert_string_equal("pml_tm_tcp_eager_limit (removed: set pml_tm_eager_limit)", text);
    assert_int_equal(0, unsetenv("OMPI_MCA_pml_tm_tcp_eager_limit"));
    /* a name that is longer than any: nothing is written past its end */
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    memcpy(longest, "OMPI_MCA_pml_tm_", 16);
    assert_int_equal(0, setenv(longest, "1", 1));
    assert_true(
        0 < fab_params_unknown("pml_tm_", &mca_pml_tm_param_table, is_wait, text, sizeof(text)));
    assert_int_equal(0, unsetenv(longest));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),     cmocka_unit_test(test_rows_apart),
        cmocka_unit_test(test_values),   cmocka_unit_test(test_forms),
        cmocka_unit_test(test_together), cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_text),     cmocka_unit_test(test_unknown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
