/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections between processes that compute for long between two polls.  The clock is the test's:
 * what a poll sees is settled by the order of polls alone, however fast the machine is.
 *
 * TEST: sources=common/sock/sock.c,common/sock/sha256.c,common/sock/sock_ip.c,common/sock/sock_proof.c variants=asan,tsan ldflags=-Wl,--wrap=clock_gettime timeout=120
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "fabric/fab_provider.h"
#include "sock/sock.h"

/* ---- the clock ---------------------------------------------------------- */

enum { SECOND = 1000000 };

static uint64_t now_us = SECOND;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    (void) clock;
    now->tv_sec = (time_t) (now_us / SECOND);
    now->tv_nsec = (long) (now_us % SECOND * 1000);
    return 0;
}

const char *fab_sentence(fab_t *fab, const char *format, ...)
{
    (void) fab;
    return format;
}

void fab_log(fab_t *fab, int level, const char *format, ...)
{
    (void) fab, (void) level, (void) format;
}

/* ---- processes ---------------------------------------------------------- */

typedef struct proc {
    fab_t fab;
    uint8_t key[FAB_SOCK_KEY];
    fab_sock_set_t *set;
    fab_sock_t *asked;
    unsigned long long strangers;
    int answered; /* questions */
    bool has_answer;
    char broken[256]; /* why */
} proc_t;

static const uint64_t question = 77, reply = 78;

static void on_frame(fab_sock_t *sock, const void *frame)
{
    proc_t *proc = fab_sock_set_dom(sock->set);

    if (sock == proc->asked) {
        assert_memory_equal(frame, &reply, sizeof(reply));
        proc->has_answer = true;
        proc->asked = NULL;
    } else {
        assert_memory_equal(frame, &question, sizeof(question));
        fab_sock_send(sock, &reply);
        proc->answered++;
    }
    fab_sock_release(sock);
}

static void on_broken(fab_sock_t *sock, const char *why)
{
    proc_t *proc = fab_sock_set_dom(sock->set);

    if (sock == proc->asked) {
        snprintf(proc->broken, sizeof(proc->broken), "%s", why);
        proc->asked = NULL;
    }
    fab_sock_release(sock);
}

static void proc_open(proc_t *proc, uint64_t name)
{
    fab_sock_user_t user = {
        .fab = &proc->fab,
        .dom = proc,
        .protocol = 3,
        .frame_len = sizeof(question),
        .key = proc->key,
        .timeout_s = 60,
        .on_frame = on_frame,
        .on_broken = on_broken,
        .strangers = &proc->strangers,
    };
    const char *why = "";

    *proc = (proc_t){.key = {(uint8_t) name, 1}};
    proc->fab.config.name = name;
    assert_int_equal(fab_sock_set_open(&user, &proc->set, &why), OPAL_SUCCESS);
}

static fab_sock_ip_t address_of(const proc_t *proc)
{
    return (fab_sock_ip_t){.ip = {[10] = 0xff, 0xff, 127, 0, 0, 1},
                           .port = fab_sock_set_port(proc->set)};
}

static void ask(proc_t *proc, const proc_t *whom)
{
    fab_sock_ip_t ip = address_of(whom);

    proc->asked = fab_sock_connect(proc->set, proc, whom->fab.config.name, whom->key, &ip, 1,
                                   &question);
    assert_non_null(proc->asked);
}

/* One poll.  Bytes on the loopback device take a moment, in which the test's clock stands still. */
static void proc_poll(proc_t *proc)
{
    struct pollfd fd = {.fd = fab_sock_set_fd(proc->set), .events = POLLIN};

    (void) poll(&fd, 1, 5);
    (void) fab_sock_set_poll(proc->set);
}

static bool is_over(const proc_t *proc)
{
    return proc->has_answer || '\0' != proc->broken[0];
}

/* ---- delays ------------------------------------------------------------- */

/* Both poll in turn, and compute for so many microseconds in between. */
static void exchange(uint64_t asking_us, uint64_t answering_us)
{
    proc_t asking, answering;
    uint64_t asking_at, answering_at;
    int polls = 0;

    proc_open(&asking, 1);
    proc_open(&answering, 2);
    ask(&asking, &answering);
    asking_at = answering_at = now_us;
    while (!is_over(&asking) && polls < 1000) {
        if (asking_at <= answering_at) {
            now_us = asking_at;
            proc_poll(&asking);
            asking_at += asking_us;
        } else {
            now_us = answering_at;
            proc_poll(&answering);
            answering_at += answering_us;
        }
        polls++;
    }
    assert_string_equal(asking.broken, "");
    assert_true(asking.has_answer);
    assert_int_equal(answering.answered, 1);
    assert_int_equal(answering.strangers, 0);
    fab_sock_set_close(asking.set);
    fab_sock_set_close(answering.set);
}

static void test_answering_is_slow(void **state)
{
    (void) state;
    exchange(SECOND / 10, 13 * SECOND);
    exchange(SECOND, 100 * SECOND);
}

static void test_asking_is_slow(void **state)
{
    (void) state;
    exchange(13 * SECOND, SECOND / 10);
    exchange(100 * SECOND, SECOND);
}

static void test_both_are_slow(void **state)
{
    (void) state;
    exchange(13 * SECOND, 17 * SECOND);
    exchange(200 * SECOND, 100 * SECOND);
}

/* ---- numbers ------------------------------------------------------------ */

enum { CROWD = FAB_SOCK_STRANGERS + 60 };

/* More than may be strangers at a time ask one that polls rarely: nobody is dropped. */
static void test_crowd(void **state)
{
    proc_t *crowd = calloc(CROWD, sizeof(*crowd));
    proc_t answering;
    int polls = 0;

    (void) state;
    assert_non_null(crowd);
    proc_open(&answering, 1);
    for (int i = 0; i < CROWD; i++) {
        proc_open(&crowd[i], (uint64_t) i + 2);
        ask(&crowd[i], &answering);
    }
    while (answering.answered < CROWD && polls < 20) {
        for (int i = 0; i < CROWD; i++) {
            (void) fab_sock_set_poll(crowd[i].set);
        }
        now_us += 13 * SECOND;
        proc_poll(&answering);
        polls++;
    }
    for (int i = 0; i < CROWD; i++) {
        while (!is_over(&crowd[i])) {
            proc_poll(&crowd[i]);
        }
        assert_true(crowd[i].has_answer);
        fab_sock_set_close(crowd[i].set);
    }
    assert_int_equal(answering.answered, CROWD);
    assert_int_equal(answering.strangers, 0);
    fab_sock_set_close(answering.set);
    free(crowd);
}

/* A client that never says a word. */
static int call(const proc_t *proc)
{
    fab_sock_ip_t ip = address_of(proc);
    struct sockaddr_storage to;
    socklen_t len = fab_sock_ip_sockaddr(&ip, &to);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0 && 0 == connect(fd, (struct sockaddr *) &to, len));
    return fd;
}

/*
 * The process that asks computes for longer than its own time limit, and is dropped meanwhile for
 * another one as the oldest of those that are silent: it asks again.
 */
static void test_dropped(void **state)
{
    int fds[FAB_SOCK_STRANGERS];
    proc_t asking, answering;

    (void) state;
    proc_open(&asking, 1);
    proc_open(&answering, 2);
    ask(&asking, &answering);
    proc_poll(&asking);    /* connected, greets */
    proc_poll(&answering); /* accepts, sends the challenge */
    for (int i = 0; i < FAB_SOCK_STRANGERS; i++) {
        fds[i] = call(&answering);
    }
    proc_poll(&answering);
    assert_int_equal(answering.strangers, 0); /* the last one waits, as all others may speak yet */
    now_us += 70 * SECOND;
    proc_poll(&answering); /* all are silent */
    assert_int_equal(answering.strangers, 1);
    for (int i = 0; i < FAB_SOCK_STRANGERS; i++) {
        char byte;
        assert_true(-1 == recv(fds[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT) && EAGAIN == errno);
    }
    for (int i = 0; i < 100 && !is_over(&asking); i++) {
        proc_poll(&asking);
        now_us += SECOND;
        proc_poll(&answering);
    }
    assert_string_equal(asking.broken, "");
    assert_true(asking.has_answer);
    assert_int_equal(answering.answered, 1);
    for (int i = 0; i < FAB_SOCK_STRANGERS; i++) {
        close(fds[i]);
    }
    fab_sock_set_close(asking.set);
    fab_sock_set_close(answering.set);
}

/* Strangers that say nothing cost nothing: no poll is needed for them. */
static void test_silent(void **state)
{
    proc_t answering;
    int fd;

    (void) state;
    proc_open(&answering, 2);
    fd = call(&answering);
    proc_poll(&answering);
    assert_true(fab_sock_set_is_busy(answering.set));
    now_us += FAB_SOCK_STRANGER_US + 1;
    proc_poll(&answering);
    assert_false(fab_sock_set_is_busy(answering.set));
    close(fd);
    proc_poll(&answering);
    assert_int_equal(answering.strangers, 1);
    fab_sock_set_close(answering.set);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answering_is_slow), cmocka_unit_test(test_asking_is_slow),
        cmocka_unit_test(test_both_are_slow),     cmocka_unit_test(test_crowd),
        cmocka_unit_test(test_dropped),           cmocka_unit_test(test_silent),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
