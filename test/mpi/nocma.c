/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Run a program whose calls of process_vm_readv and process_vm_writev the kernel refuses with
 * EPERM, as in a container: nocma PROGRAM [ARGUMENT...]
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

int main(int argc, char **argv)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};

    if (argc < 2) {
        fprintf(stderr, "usage: nocma PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    if (0 != prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        0 != prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        fprintf(stderr, "nocma: seccomp: %s\n", strerror(errno));
        return 77;
    }
    execvp(argv[1], argv + 1);
    fprintf(stderr, "nocma: %s: %s\n", argv[1], strerror(errno));
    return 2;
}
