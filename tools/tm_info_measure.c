/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measuring inside a host and between two: see tm_info.h.
 */
#include "tm_info.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tm_info_pair.h"

/* ---- a line for a provider ---------------------------------------------- */

static void show_head(void)
{
    printf("way    8 bytes take  and there are  copied by messages          read from memory\n");
}

static void show(const char *provider, const tm_pair_result_t *result)
{
    char read[32] = "-";

    if ('\0' != result->why_not[0]) {
        printf("%-6s no: %s%s%s\n", provider, result->why_not, '\0' != result->by[0] ? "; by " : "",
               result->by);
        return;
    }
    if (result->read > 0) {
        snprintf(read, sizeof(read), "%.2f GB/s", result->read / 1e9);
    }
    printf("%-6s %9.2f us  %9.3f M/s  %6.2f GB/s, %5zu at once  %s%s%s\n", provider,
           result->latency_us, result->rate / 1e6, result->copied / 1e9, result->copied_len, read,
           '\0' != result->by[0] ? "   by " : "", result->by);
}

/* Does the child end well? */
static bool is_good(pid_t child)
{
    int status = 1;

    return child > 0 && child == waitpid(child, &status, 0) && 0 == status;
}

/* Ask by the stream, in a child.  False: it cannot be used. */
static bool ask(int stream, const char *provider)
{
    tm_pair_result_t result;
    int status = 0;
    pid_t child;

    fflush(NULL);
    child = fork();
    if (0 == child) {
        tm_pair_ask(stream, provider, &result);
        show(provider, &result);
        fflush(stdout);
        _exit('\0' == result.why_not[0] ? 0 : 1);
    }
    if (child < 0 || child != waitpid(child, &status, 0) || !WIFEXITED(status)) {
        printf("%-6s no: the process that tries it was ended\n", provider);
        return false;
    }
    return 0 == WEXITSTATUS(status);
}

/* Answer one question, in a child. False: there was none. */
static bool answer(int stream)
{
    const pid_t child = fork();

    if (0 == child) {
        _exit(tm_pair_answer(stream) ? 0 : 1);
    }
    return is_good(child);
}

/* ---- inside this host --------------------------------------------------- */

static bool measure(const char *provider)
{
    int ends[2];
    pid_t child;
    bool is_used;

    if (0 != socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
        printf("%-6s no: socketpair: %s\n", provider, strerror(errno));
        return false;
    }
    fflush(NULL);
    child = fork();
    if (0 == child) {
        close(ends[0]);
        _exit(tm_pair_answer(ends[1]) ? 0 : 1);
    }
    close(ends[1]);
    is_used = ask(ends[0], provider);
    close(ends[0]);
    (void) is_good(child);
    return is_used;
}

int tm_info_measure(void)
{
    int num_used = 0;

    show_head();
    for (int i = 0; i < TM_PAIR_PROVIDERS; i++) {
        num_used += measure(tm_pair_providers[i]);
    }
    return num_used > 0 ? 0 : 1;
}

/* ---- between two hosts -------------------------------------------------- */

/* A socket that listens at the port, by IPv6 and IPv4, or IPv4 alone; -1, and errno. */
static int listen_at(const char *port)
{
    const struct addrinfo passive = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    const int families[] = {AF_INET6, AF_INET}, yes = 1, no = 0;

    for (int i = 0; i < 2; i++) {
        struct addrinfo hints = passive, *at;
        int fd;
        hints.ai_family = families[i];
        if (0 != getaddrinfo(NULL, port, &hints, &at)) {
            errno = EINVAL;
            continue;
        }
        fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        (void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
        (void) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
        if (0 == bind(fd, at->ai_addr, at->ai_addrlen) && 0 == listen(fd, 8)) {
            freeaddrinfo(at);
            return fd;
        }
        freeaddrinfo(at);
        close(fd);
    }
    return -1;
}

/* A host's name for people. */
static void name_of(const struct sockaddr *addr, socklen_t len, char *text, socklen_t size)
{
    static const char mapped[] = "::ffff:";

    if (0 != getnameinfo(addr, len, text, size, NULL, 0, NI_NUMERICHOST)) {
        text[0] = '\0';
    }
    if (0 == strncmp(text, mapped, strlen(mapped))) { /* IPv4 by a socket of IPv6 */
        memmove(text, text + strlen(mapped), strlen(text + strlen(mapped)) + 1);
    }
}

/* Answer all questions of one that has connected. */
static void serve(int stream)
{
    struct pollfd at = {.fd = stream, .events = POLLIN};

    while (poll(&at, 1, TM_PAIR_WAIT_S * 1000) > 0 && answer(stream)) {
    }
    close(stream);
}

int tm_info_serve(const char *port)
{
    const int fd = listen_at(port);
    char host[64] = "";

    if (fd < 0) {
        fprintf(stderr, "tm_info: cannot listen at port %s: %s; --port names another one\n", port,
                strerror(errno));
        return 1;
    }
    gethostname(host, sizeof(host) - 1);
    printf("Waiting at port %s, until Ctrl-C.  On the other host: tm_info --ping %s\n", port, host);
    for (;;) {
        struct sockaddr_storage from;
        socklen_t len = sizeof(from);
        int stream;
        fflush(stdout);
        stream = accept4(fd, (struct sockaddr *) &from, &len, SOCK_CLOEXEC);
        if (stream >= 0) {
            name_of((struct sockaddr *) &from, len, host, sizeof(host));
            printf("%s asks\n", host);
            fflush(stdout);
            serve(stream);
        } else if (EINTR != errno && ECONNABORTED != errno) {
            fprintf(stderr, "tm_info: accept: %s\n", strerror(errno));
            return 1;
        }
    }
}

/* Why a connection to --serve fails, and what to do. */
static const char *advice(int error)
{
    switch (error) {
    case ECONNREFUSED:
        return "nobody listens there: start tm_info --serve on that host, or its firewall refuses "
               "the port";
    case ETIMEDOUT:
    case EAGAIN:
    case EINPROGRESS: /* so connect() says that SO_SNDTIMEO is over */
        return "the host is down, or a firewall drops what comes for this port: open it, or use "
               "another one (--port)";
    case EHOSTUNREACH:
    case ENETUNREACH:
        return "there is no route to that host, or a firewall says so";
    default:
        return "see the message";
    }
}

/* A socket that is connected to the host, at one of its addresses; -1: it was said why not. */
static int connect_to(const char *host, const char *port)
{
    const struct timeval limit = {.tv_sec = TM_PAIR_WAIT_S};
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *all;
    const int rc = getaddrinfo(host, port, &hints, &all);
    int fd = -1;

    if (0 != rc) {
        printf("%s: %s\n", host, gai_strerror(rc));
        return -1;
    }
    for (const struct addrinfo *at = all; NULL != at && fd < 0; at = at->ai_next) {
        char name[64];
        name_of(at->ai_addr, at->ai_addrlen, name, sizeof(name));
        fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        (void) setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)); /* connect(), too */
        if (0 == connect(fd, at->ai_addr, at->ai_addrlen)) {
            printf("%s answers at %s, port %s\n", host, name, port);
        } else {
            printf("%s, port %s: %s: %s\n", name, port,
                   EINPROGRESS == errno ? "no answer" : strerror(errno), advice(errno));
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(all);
    return fd;
}

int tm_info_ping(const char *host, const char *port)
{
    const int fd = connect_to(host, port);
    int num_used = 0;

    if (fd < 0) {
        return 1;
    }
    show_head();
    for (int i = TM_PAIR_HOSTS; i < TM_PAIR_PROVIDERS; i++) {
        num_used += ask(fd, tm_pair_providers[i]);
    }
    close(fd);
    if (0 == num_used) {
        printf(
            "A job's processes listen at ports of their own: any, or those of pml_tm_tcp_ports.  "
            "A firewall must\nlet these through between the hosts of a job.\n");
        return 1;
    }
    return 0;
}
