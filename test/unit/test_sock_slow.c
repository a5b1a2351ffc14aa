/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections between processes that compute for long between two polls.  The clock is the test's:
 * what a poll sees is settled by the order of polls alone, however fast the machine is.
 *
 * TEST: sources=common/fabric/fab_host.c,common/sock/sock_set.c,common/sock/sha256.c,common/sock/sock_ask.c,common/sock/sock_base.c,common/sock/sock_stranger.c,common/sock/sock_ip.c,common/sock/sock_listen.c,common/sock/sock_proof.c,common/sock/sock_race.c variants=asan,tsan ldflags=-Wl,--wrap=clock_gettime,--wrap=listen,--wrap=socket timeout=120
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fabric/fab_params.h"
#include "fabric/fab_provider.h"
#include "sock/sock.h"
#include "test_cmocka.h"

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

/* ---- the kernel ----------------------------------------------------------- */

static int socket_error; /* 0: none */

int __real_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol)
{
    errno = socket_error;
    return 0 == socket_error ? __real_socket(family, type, protocol) : -1;
}

static int backlog; /* of sockets that listen; 0: as the process asks for */

int __real_listen(int fd, int num);
int __wrap_listen(int fd, int num);
int __wrap_listen(int fd, int num)
{
    return __real_listen(fd, 0 == backlog ? num : backlog);
}

fab_counters_t fab_counters;

const char *fab_sentence(fab_t *fab, const char *format, ...)
{
    (void) fab;
    return format;
}

static int num_waits; /* lines logged about a host that lives */

void fab_log(fab_t *fab, int level, const char *format, ...)
{
    (void) fab;
    num_waits += 0 == level && NULL != strstr(format, "somaxconn");
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

/* Listens at the address with this last byte, of the loopback network; 0: at all. */
static void proc_open_at(proc_t *proc, uint64_t name, uint8_t at)
{
    const fab_sock_ip_t ip = {.ip = {[10] = 0xff, 0xff, 127, 0, 0, at}};
    fab_sock_user_t user = {
        .fab = &proc->fab,
        .dom = proc,
        .protocol = 3,
        .frame_len = sizeof(question),
        .key = proc->key,
        .timeout_s = 60,
        .ips = &ip,
        .num_ips = at > 0,
        .on_frame = on_frame,
        .on_broken = on_broken,
        .strangers = &proc->strangers,
    };
    const char *why = "";

    *proc = (proc_t){.key = {(uint8_t) name, 1}};
    proc->fab.config.name = name;
    assert_int_equal(fab_sock_set_open(&user, &proc->set, &why), OPAL_SUCCESS);
}

static void proc_open(proc_t *proc, uint64_t name)
{
    proc_open_at(proc, name, 0);
}

static void proc_close(proc_t *proc)
{
    fab_sock_set_close(proc->set);
}

static fab_sock_ip_t loopback(uint8_t last, uint16_t port)
{
    return (fab_sock_ip_t){.ip = {[10] = 0xff, 0xff, 127, 0, 0, last}, .port = port};
}

static fab_sock_ip_t address_of(const proc_t *proc)
{
    return loopback(1, fab_sock_set_port(proc->set));
}

/* At these addresses, and its own after them. */
static void ask_at(proc_t *proc, const proc_t *whom, const fab_sock_ip_t *others, int num)
{
    fab_sock_ip_t ips[FAB_SOCK_IPS];

    for (int i = 0; i < num; i++) {
        ips[i] = others[i];
    }
    ips[num] = address_of(whom);
    proc->has_answer = false;
    proc->asked = fab_sock_connect(proc->set, proc, whom->fab.config.name, whom->key, ips, num + 1,
                                   &question);
    assert_non_null(proc->asked);
}

static void ask(proc_t *proc, const proc_t *whom)
{
    ask_at(proc, whom, NULL, 0);
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

/* Both poll, and the clock stands still. */
static void poll_both(proc_t *asking, proc_t *answering)
{
    for (int i = 0; i < 4; i++) {
        proc_poll(asking);
        proc_poll(answering);
    }
}

/* A socket bound to the address, of the kind. */
static int socket_at(int type, const fab_sock_ip_t *ip)
{
    struct sockaddr_storage at;
    socklen_t len = fab_sock_ip_sockaddr(ip, &at);
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0 && 0 == bind(fd, (struct sockaddr *) &at, len));
    return fd;
}

/* Something listens at the address with this last byte, and never says a word. */
static int silent_listener(uint8_t last, fab_sock_ip_t *ip)
{
    *ip = loopback(last, 0);
    int fd = socket_at(SOCK_STREAM, ip);
    struct sockaddr_in at;
    socklen_t len = sizeof(at);

    assert_int_equal(__real_listen(fd, 100), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *) &at, &len), 0);
    ip->port = ntohs(at.sin_port);
    return fd;
}

/* A client that never says a word, at the address with this last byte. */
static int call_from(const proc_t *proc, uint8_t last)
{
    fab_sock_ip_t ip = address_of(proc), own = loopback(last, 0);
    struct sockaddr_storage to;
    socklen_t len = fab_sock_ip_sockaddr(&ip, &to);
    int fd = socket_at(SOCK_STREAM, &own);

    assert_int_equal(connect(fd, (struct sockaddr *) &to, len), 0);
    return fd;
}

static int call(const proc_t *proc)
{
    return call_from(proc, 1);
}

static bool is_closed(int fd)
{
    char byte;

    return -1 != recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) || EAGAIN != errno;
}

/*
 * The process that asks computes for longer than its own time limit, and is dropped meanwhile for
 * another one as the oldest of those that are silent: it asks again.
 */
static void test_dropped(void **state)
{
    int fds[FAB_SOCK_STRANGERS];
    proc_t asking, answering;
    bool have_gone = false;

    (void) state;
    proc_open(&asking, 1);
    proc_open(&answering, 2);
    ask(&asking, &answering);
    proc_poll(&asking);    /* connected, greets */
    proc_poll(&answering); /* accepts, sends the challenge */
    for (int i = 0; i < FAB_SOCK_STRANGERS - 1; i++) {
        fds[i] = call(&answering);
    }
    proc_poll(&answering);
    proc_poll(&answering);
    assert_int_equal(answering.strangers, 0);
    fds[FAB_SOCK_STRANGERS - 1] = call(&answering);
    proc_poll(&answering);
    assert_int_equal(answering.strangers, 1); /* the last one: all others may speak yet */
    assert_true(is_closed(fds[FAB_SOCK_STRANGERS - 1]));
    close(fds[FAB_SOCK_STRANGERS - 1]);
    now_us += 70 * SECOND;
    proc_poll(&answering); /* all are silent */
    fds[FAB_SOCK_STRANGERS - 1] = call(&answering);
    proc_poll(&answering);
    assert_int_equal(answering.strangers, 2);
    for (int i = 0; i < FAB_SOCK_STRANGERS; i++) {
        have_gone = have_gone || is_closed(fds[i]);
    }
    assert_false(have_gone);
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
    proc_close(&asking);
    proc_close(&answering);
}

/* A process outside of the test that calls, from another address, and says nothing. */
static pid_t flood(const proc_t *proc, int num)
{
    int ready[2];
    pid_t pid;
    char byte;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (0 == pid) {
        for (int i = 0; i < num; i++) {
            (void) call_from(proc, 9);
        }
        (void) alarm(60); /* if the test ends early */
        (void) !write(ready[1], "", 1);
        (void) pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

/* This process may have so many more files than now, if it does not raise its limit. */
static struct rlimit limit_files(rlim_t num)
{
    struct rlimit limit, low;
    int next = dup(0);

    assert_true(next >= 0 && 0 == close(next) && 0 == getrlimit(RLIMIT_NOFILE, &limit));
    low = limit;
    low.rlim_cur = (rlim_t) next + num;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    return limit;
}

/*
 * Hundreds of silent connections wait before one of the job, whose address has none yet.  They do
 * not keep it waiting, and get no descriptors beyond those that the process has.
 */
static void test_flood(void **state)
{
    enum { NUM = 400 };
    struct rlimit limit, after;
    proc_t asking, answering;
    pid_t pid;

    (void) state;
    proc_open(&asking, 1);
    proc_open(&answering, 2);
    pid = flood(&answering, NUM);
    limit = limit_files(FAB_SOCK_STRANGERS + 10);
    ask(&asking, &answering);
    for (int i = 0; i < NUM / 64 + 8 && !is_over(&asking); i++) {
        proc_poll(&asking);
        proc_poll(&answering);
    }
    assert_true(asking.has_answer);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &after), 0);
    assert_true(after.rlim_cur < limit.rlim_max);
    assert_true(answering.strangers >= NUM - FAB_SOCK_STRANGERS);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    proc_close(&asking);
    proc_close(&answering);
}

/*
 * No descriptor is left.  A stranger does not make the process raise its limit; one of the job,
 * which gets the descriptor in reserve when the stranger has gone, does.
 */
static void test_reserve(void **state)
{
    struct rlimit limit, after;
    proc_t asking, answering;
    int silent;

    (void) state;
    proc_open(&asking, 1);
    proc_open(&answering, 2);
    silent = call(&answering);
    ask(&asking, &answering);
    limit = limit_files(0);
    poll_both(&asking, &answering);
    assert_false(asking.has_answer);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &after), 0);
    assert_true(after.rlim_cur < limit.rlim_max);
    now_us += FAB_SOCK_STRANGER_US + 1;
    poll_both(&asking, &answering);
    poll_both(&asking, &answering);
    assert_true(asking.has_answer);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &after), 0);
    assert_true(after.rlim_cur == limit.rlim_max);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    close(silent);
    proc_close(&asking);
    proc_close(&answering);
}

/* Nothing is left for a socket that this process wants: there is later. */
static void test_no_socket(void **state)
{
    const int errors[] = {EMFILE, ENFILE, ENOBUFS, ENOMEM};

    (void) state;
    for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        proc_t asking, answering;
        proc_open(&asking, 1);
        proc_open(&answering, 2);
        socket_error = errors[i];
        ask(&asking, &answering);
        poll_both(&asking, &answering);
        assert_false(is_over(&asking));
        socket_error = 0;
        now_us += SECOND;
        poll_both(&asking, &answering);
        assert_true(asking.has_answer);
        proc_close(&asking);
        proc_close(&answering);
    }
}

/* ---- addresses ---------------------------------------------------------- */

/*
 * What listens at the first address accepts, and says nothing: the second is tried beside it, and
 * the next process of that host is not asked at the first any more.
 */
static void test_silent_address(void **state)
{
    proc_t asking, answering;
    fab_sock_ip_t silent;
    int fd;

    (void) state;
    proc_open(&asking, 1);
    proc_open(&answering, 2);
    fd = silent_listener(2, &silent);
    ask_at(&asking, &answering, &silent, 1);
    poll_both(&asking, &answering);
    assert_false(is_over(&asking));
    now_us += FAB_SOCK_ATTEMPT_US + 1;
    poll_both(&asking, &answering);
    assert_true(asking.has_answer);
    ask_at(&asking, &answering, &silent, 1);
    poll_both(&asking, &answering);
    assert_true(asking.has_answer);
    assert_int_equal(answering.strangers, 0);
    close(fd);
    proc_close(&asking);
    proc_close(&answering);
}

/* It listens where it shall, and nowhere else. */
static void test_place(void **state)
{
    fab_sock_ip_t here, elsewhere;
    struct sockaddr_storage to;
    proc_t proc;
    socklen_t len;
    int fd;

    (void) state;
    proc_open_at(&proc, 2, 2);
    here = loopback(2, fab_sock_set_port(proc.set));
    elsewhere = loopback(1, here.port);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    len = fab_sock_ip_sockaddr(&elsewhere, &to);
    assert_true(-1 == connect(fd, (struct sockaddr *) &to, len) && ECONNREFUSED == errno);
    close(fd);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    len = fab_sock_ip_sockaddr(&here, &to);
    assert_int_equal(connect(fd, (struct sockaddr *) &to, len), 0);
    close(fd);
    proc_close(&proc);
}

/* ---- a queue of connections that is full -------------------------------- */

enum { FULL = 2 };

/* The process has a queue for one connection, and so many wait. */
static void open_full(proc_t *proc, int *fds)
{
    backlog = 1;
    proc_open(proc, 2);
    backlog = 0;
    for (int i = 0; i < FULL; i++) {
        fds[i] = call(proc);
    }
}

/*
 * A process computes for longer than the time limit, and its queue is full: its kernel says that it
 * lives, so the other waits, and says so.
 */
static void test_full(void **state)
{
    proc_t asking, answering;
    int fds[FULL];

    (void) state;
    proc_open(&asking, 1);
    open_full(&answering, fds);
    ask(&asking, &answering);
    num_waits = 0;
    for (int i = 0; i < 200; i++) {
        now_us += SECOND;
        (void) fab_sock_set_poll(asking.set);
    }
    assert_string_equal(asking.broken, "");
    assert_int_equal(num_waits, 1);
    for (int i = 0; i < 20 && !asking.has_answer; i++) {
        now_us += SECOND;
        poll_both(&asking, &answering);
    }
    assert_true(asking.has_answer);
    for (int i = 0; i < FULL; i++) {
        close(fds[i]);
    }
    proc_close(&asking);
    proc_close(&answering);
}

/* Its kernel says nothing either: it is given up, and the message tells what it may have been. */
static void test_mute(void **state)
{
    proc_t asking, answering;
    int fds[FULL], udp;
    fab_sock_ip_t ip;

    (void) state;
    proc_open(&asking, 1);
    open_full(&answering, fds);
    ip = address_of(&answering);
    udp = socket_at(SOCK_DGRAM, &ip); /* takes the question for itself */
    ask(&asking, &answering);
    for (int i = 0; i < 200 && !is_over(&asking); i++) {
        now_us += SECOND;
        (void) fab_sock_set_poll(asking.set);
    }
    assert_non_null(strstr(asking.broken, "net.core.somaxconn"));
    close(udp);
    for (int i = 0; i < FULL; i++) {
        close(fds[i]);
    }
    proc_close(&asking);
    proc_close(&answering);
}

/*
 * Strangers that say nothing cost nothing: no poll is needed for them.  When they go, nothing is
 * said of them: so does a process of the job of which another address has won the race.
 */
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
    assert_int_equal(answering.strangers, 0);
    fd = call(&answering);
    assert_int_equal(send(fd, "x", 1, MSG_NOSIGNAL), 1); /* that is no process of the job */
    close(fd);
    proc_poll(&answering);
    proc_poll(&answering);
    assert_int_equal(answering.strangers, 1);
    fab_sock_set_close(answering.set);
}

/* Who has greeted and then withdraws, as when both ask at once, is not taken for a stranger. */
static void test_withdrawn(void **state)
{
    proc_t asking, answering;

    (void) state;
    proc_open(&asking, 1);
    proc_open(&answering, 2);
    ask(&asking, &answering);
    proc_poll(&asking);    /* connected, greets */
    proc_poll(&answering); /* accepts, sends the challenge */
    assert_true(fab_sock_set_is_busy(answering.set));
    fab_sock_release(asking.asked);
    proc_poll(&asking);
    proc_poll(&answering);
    assert_false(fab_sock_set_is_busy(answering.set));
    assert_int_equal(answering.strangers, 0);
    proc_close(&asking);
    proc_close(&answering);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answering_is_slow),
        cmocka_unit_test(test_asking_is_slow),
        cmocka_unit_test(test_both_are_slow),
        cmocka_unit_test(test_crowd),
        cmocka_unit_test(test_dropped),
        cmocka_unit_test(test_silent),
        cmocka_unit_test(test_withdrawn),
        cmocka_unit_test(test_flood),
        cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_no_socket),
        cmocka_unit_test(test_silent_address),
        cmocka_unit_test(test_place),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_mute),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
