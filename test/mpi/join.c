/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * More ways to other processes: MPI_Comm_spawn_multiple of two kinds of children, distinguished by
 * their arguments, and MPI_Comm_join of two processes that have nothing but a socket between them;
 * messages of all protocols over what comes of it.
 *
 * args: multiple|join|child KIND
 */
/* TEST: np=1,2 args="multiple" env="OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1" ompi=4.1 timeout=60 upstream="PMIx_(Init|Connect|Disconnect|Fence)" */
/* TEST: np=2 args="join" timeout=60 upstream="PMIx_(Init|Connect|Disconnect|Fence)" */
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tm_test.h"

static const size_t sizes[] = {0, 8, 41, 16385, 300000};

enum { NSIZES = sizeof(sizes) / sizeof(sizes[0]), MAX_PEERS = 3 };

/*
 * Everybody to everybody of the other side. me and them name the sides in the data. No send is
 * waited for before all receives are done: with MPI_ANY_SOURCE a process may receive another one's
 * message first, and two of them that wait for each other's send would wait for ever.
 */
static void traffic(MPI_Comm inter, int me, int them)
{
    int rank, peers;

    TM_MPI(MPI_Comm_rank(inter, &rank));
    TM_MPI(MPI_Comm_remote_size(inter, &peers));
    for (int s = 0; s < NSIZES; s++) {
        size_t n = sizes[s];
        unsigned char *in = tm_alloc(n), *out = tm_alloc(n);
        MPI_Request sends[MAX_PEERS];

        TM_CHECK(peers <= MAX_PEERS, "%d peers", peers);
        tm_fill(out, n, tm_key(me, them, rank, s));
        for (int k = 0; k < peers; k++) {
            MPI_Status st;

            TM_MPI(MPI_Isend(out, tm_int(n), MPI_BYTE, k, s, inter, &sends[k]));
            tm_status_reset(&st);
            TM_MPI(MPI_Recv(in, tm_int(n), MPI_BYTE, 0 == s % 2 ? k : MPI_ANY_SOURCE,
                            0 == s ? MPI_ANY_TAG : s, inter, &st));
            tm_expect_message(&st, in, st.MPI_SOURCE, s, n, tm_key(them, me, st.MPI_SOURCE, s),
                              "other side");
        }
        TM_MPI(MPI_Waitall(peers, sends, MPI_STATUSES_IGNORE));
        tm_free(in);
        tm_free(out);
    }
}

/* Two children with one argument, one with another. */
static void multiple(char *program)
{
    char *commands[2] = {program, program}, *first[] = {"child", "1", NULL},
         *second[] = {"child", "2", NULL};
    char **arguments[2] = {first, second};
    int count[2] = {2, 1}, codes[3], kinds[3], size;
    MPI_Info infos[2] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm children;

    TM_MPI(MPI_Comm_spawn_multiple(2, commands, arguments, count, infos, 0, MPI_COMM_WORLD,
                                   &children, codes));
    TM_MPI(MPI_Comm_remote_size(children, &size));
    TM_CHECK(3 == size && 0 == codes[0] && 0 == codes[1] && 0 == codes[2],
             "MPI_Comm_spawn_multiple: %d children, codes %d %d %d", size, codes[0], codes[1],
             codes[2]);
    for (int k = 0; k < 3; k++) {
        TM_MPI(MPI_Recv(&kinds[k], 1, MPI_INT, k, 99, children, MPI_STATUS_IGNORE));
        TM_CHECK(kinds[k] == (k < 2 ? 1 : 2), "child %d is of kind %d", k, kinds[k]);
    }
    traffic(children, 1, 2);
    for (int k = 0; k < 3; k++) {
        int errors;

        TM_MPI(MPI_Recv(&errors, 1, MPI_INT, k, 98, children, MPI_STATUS_IGNORE));
        TM_CHECK(0 == errors, "child %d has %d errors", k, errors);
    }
    TM_MPI(MPI_Comm_disconnect(&children));
}

static int child(MPI_Comm parent, int kind)
{
    int size, errors, none = 0;

    TM_MPI(MPI_Comm_remote_size(parent, &size));
    for (int k = 0; k < size; k++) {
        TM_MPI(MPI_Send(&kind, 1, MPI_INT, k, 99, parent));
    }
    traffic(parent, 2, 1);
    errors = atomic_load(&tm_errors);
    for (int k = 0; k < size; k++) {
        TM_MPI(MPI_Send(0 == k ? &errors : &none, 1, MPI_INT, k, 98, parent));
    }
    TM_MPI(MPI_Comm_disconnect(&parent));
    MPI_Finalize();
    return 0;
}

static struct in_addr address_of(const char *host)
{
    struct addrinfo hints = {.ai_family = AF_INET}, *found;
    struct in_addr address = {htonl(INADDR_LOOPBACK)};
    char mine[256] = "";

    gethostname(mine, sizeof(mine) - 1);
    if (0 != strcmp(host, mine) && 0 == getaddrinfo(host, NULL, &hints, &found)) {
        address = ((struct sockaddr_in *) found->ai_addr)->sin_addr;
        freeaddrinfo(found);
    }
    return address;
}

/* A connected socket between ranks 0 and 1. */
static int make_socket(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);
    char host[256] = "";
    int fd = socket(AF_INET, SOCK_STREAM, 0), port = 0, connected = fd;

    if (fd < 0) {
        TM_FATAL("no socket");
    }
    if (0 == tm_rank) {
        if (0 != bind(fd, (struct sockaddr *) &address, len) || 0 != listen(fd, 1) ||
            0 != getsockname(fd, (struct sockaddr *) &address, &len)) {
            TM_FATAL("cannot listen");
        }
        port = address.sin_port;
        gethostname(host, sizeof(host) - 1);
    }
    TM_MPI(MPI_Bcast(&port, 1, MPI_INT, 0, MPI_COMM_WORLD));
    TM_MPI(MPI_Bcast(host, sizeof(host), MPI_CHAR, 0, MPI_COMM_WORLD));
    if (0 == tm_rank) {
        connected = accept(fd, NULL, NULL);
        close(fd);
    } else {
        address.sin_port = (in_port_t) port;
        address.sin_addr = address_of(host);
        if (0 != connect(fd, (struct sockaddr *) &address, len)) {
            TM_FATAL("cannot connect");
        }
    }
    return connected;
}

static void join(void)
{
    int fd = make_socket(), size;
    MPI_Comm inter, both;

    TM_MPI(MPI_Comm_join(fd, &inter));
    TM_MPI(MPI_Comm_remote_size(inter, &size));
    TM_CHECK(1 == size, "MPI_Comm_join: %d remote ranks", size);
    traffic(inter, tm_rank, 1 - tm_rank);
    TM_MPI(MPI_Intercomm_merge(inter, 1 == tm_rank, &both));
    TM_MPI(MPI_Comm_size(both, &size));
    TM_CHECK(2 == size, "merged: %d ranks", size);
    TM_MPI(MPI_Comm_free(&both));
    TM_MPI(MPI_Comm_disconnect(&inter));
    close(fd);
}

int main(int argc, char **argv)
{
    MPI_Comm parent;

    tm_init(&argc, &argv, "join");
    TM_MPI(MPI_Comm_get_parent(&parent));
    if (MPI_COMM_NULL != parent) {
        return child(parent, (int) tm_arg(argc, argv, 2, 0));
    }
    if (argc > 1 && 0 == strcmp(argv[1], "join")) {
        join();
    } else {
        multiple(argv[0]);
    }
    return tm_finish();
}
