/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * With which access the verbs provider registers memory: data may be written in any order, except
 * where a program may poll for it.
 *
 * TEST: sources=common/verbs/verbs_reg.c variants=asan
 */
#include <errno.h>

#include "verbs/verbs_reg.h"

#include <infiniband/verbs.h>

#include "test_cmocka.h"

enum { LEN = 64, LOCAL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ };

static struct ibv_mr mr;
static int asked[4], num_asked;
static bool is_read_only;

static struct ibv_mr *reg_mr(int access)
{
    asked[num_asked++] = access;
    if (is_read_only && 0 != (access & IBV_ACCESS_LOCAL_WRITE)) {
        errno = EFAULT;
        return NULL;
    }
    return &mr;
}

/* verbs.h has macros of these names, or of one, which choose by the access. */
#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    (void) pd, (void) addr, (void) length;
    return reg_mr(access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                unsigned int access)
{
    (void) pd, (void) addr, (void) length, (void) iova;
    return reg_mr((int) access);
}

int ibv_dereg_mr(struct ibv_mr *gone)
{
    return gone == &mr ? 0 : EINVAL;
}

/* Register for this access; the last access that was asked for, and what may be done in the end. */
static int add(unsigned *access)
{
    static char buf[LEN];

    num_asked = 0;
    assert_ptr_equal(fab_verbs_reg_how.add(NULL, buf, sizeof(buf), access), &mr);
    assert_int_equal(fab_verbs_reg_how.remove(NULL, &mr), 0);
    return asked[num_asked - 1];
}

static void test_data_in_any_order(void **state)
{
    unsigned access = FAB_REG_LOCAL_WRITE;

    (void) state;
    assert_int_equal(add(&access), LOCAL | IBV_ACCESS_RELAXED_ORDERING);
    access = 0;
    assert_int_equal(add(&access), LOCAL | IBV_ACCESS_RELAXED_ORDERING);
    assert_int_equal(access, FAB_REG_LOCAL_WRITE);
}

static void test_what_peers_write_in_order(void **state)
{
    unsigned access = FAB_REG_REMOTE_WRITE;

    (void) state;
    assert_int_equal(add(&access), LOCAL | IBV_ACCESS_REMOTE_WRITE);
}

static void test_read_only(void **state)
{
    unsigned access = 0;

    (void) state;
    is_read_only = true;
    assert_int_equal(add(&access), IBV_ACCESS_REMOTE_READ);
    assert_int_equal(num_asked, 2);
    assert_int_equal(access, 0);
    is_read_only = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_data_in_any_order),
        cmocka_unit_test(test_what_peers_write_in_order),
        cmocka_unit_test(test_read_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
