/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of libibverbs that a client may call and that this device declines, or for which it has
 * nothing to do. What is missing even here is made at build time (see test/lib/tmdev.sh) and ends
 * the program with a message.
 */
#include "tmdev.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/*
 * fork(): the parent's registrations stay its own, as with kernels that copy pinned pages on fork.
 */

TMDEV_PUBLIC int ibv_fork_init(void)
{
    return 0;
}

TMDEV_PUBLIC enum ibv_fork_status ibv_is_fork_initialized(void)
{
    return IBV_FORK_UNNEEDED;
}

TMDEV_PUBLIC struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    (void) pd;
    (void) attr;
    errno = EOPNOTSUPP;
    return NULL;
}

TMDEV_PUBLIC int ibv_destroy_ah(struct ibv_ah *ah)
{
    (void) ah;
    return EOPNOTSUPP;
}

TMDEV_PUBLIC int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void) qp;
    (void) gid;
    (void) lid;
    return EOPNOTSUPP;
}

TMDEV_PUBLIC int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void) qp;
    (void) gid;
    (void) lid;
    return EOPNOTSUPP;
}

TMDEV_PUBLIC int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
                              size_t length, int access)
{
    (void) mr;
    (void) flags;
    (void) pd;
    (void) addr;
    (void) length;
    (void) access;
    errno = EOPNOTSUPP;
    return IBV_REREG_MR_ERR_INPUT;
}

TMDEV_PUBLIC struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
                                              uint64_t iova, int fd, int access)
{
    (void) pd;
    (void) offset;
    (void) length;
    (void) iova;
    (void) fd;
    (void) access;
    errno = EOPNOTSUPP;
    return NULL;
}

TMDEV_PUBLIC struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
    (void) qp;
    return NULL; /* none is made with send_ops_flags */
}

TMDEV_PUBLIC int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void) qp;
    *ece = (struct ibv_ece){0};
    return 0;
}

TMDEV_PUBLIC int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void) qp;
    return 0 != ece->vendor_id ? EOPNOTSUPP : 0;
}

/* For those who look for the device there. */
TMDEV_PUBLIC const char *ibv_get_sysfs_path(void);
TMDEV_PUBLIC const char *ibv_get_sysfs_path(void)
{
    return "/sys";
}

TMDEV_PUBLIC int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
TMDEV_PUBLIC int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", dir, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t n = read(fd, buf, size - 1);
    close(fd);
    if (n < 0) {
        return -1;
    }
    if (n > 0 && '\n' == buf[n - 1]) {
        n--;
    }
    buf[n] = '\0';
    return (int) n;
}
