/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Run a program for which the kernel refuses one system call, as a container's filter does, with
 * EPERM or ENOSYS: refused ERROR CALL PROGRAM [ARGUMENT...]
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define CALL(name)                                                                                 \
    {                                                                                              \
#name, SYS_##name                                                                          \
    }

static const struct {
    const char *name;
    unsigned number;
} calls[] = {
    CALL(memfd_create),
    CALL(process_vm_readv),
    CALL(process_vm_writev),
    CALL(madvise),
    CALL(fallocate),
    CALL(getrandom),
    CALL(kill),

    CALL(epoll_create1),
    CALL(prctl),
    CALL(munlock),
};

int main(int argc, char **argv)
{
    unsigned number = 0;
    int error = argc > 3 && 0 == strcmp(argv[1], "EPERM") ? EPERM : ENOSYS;

    for (size_t i = 0; argc > 3 && i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (0 == strcmp(argv[2], calls[i].name)) {
            number = calls[i].number;
        }
    }
    if (0 == number) {
        fprintf(stderr, "usage: refused EPERM|ENOSYS CALL PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned) error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};
    if (0 != prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        0 != prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        fprintf(stderr, "refused: seccomp: %s\n", strerror(errno));
        return 77;
    }
    execvp(argv[3], argv + 3);
    fprintf(stderr, "refused: %s: %s\n", argv[3], strerror(errno));
    return 2;
}
