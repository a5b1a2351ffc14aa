/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protection domains and memory regions. A key is the slot of the region and, in its low 8 bits, a
 * number that changes with every use of the slot, so that keys of regions that are gone are
 * recognized. Keys are looked up under node->lock.
 *
 * Registering touches the pages as a device that pins them would: missing ones are made, copies on
 * write are broken, and memory that is not there, or that may not be written, is refused.
 */
#include "tmdev.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

enum {
    ACCESS_KNOWN = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                   IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING
};

TMDEV_PUBLIC struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    tmdev_pd_t *pd;
    if (tmdev_fails(TMDEV_FAIL_PD) || NULL == (pd = tmdev_alloc(sizeof(*pd)))) {
        return NULL;
    }
    pd->pd.context = context;
    atomic_fetch_add(&tmdev_ctx(context)->objects, 1);
    return &pd->pd;
}

/* ---- thread domains ------------------------------------------------------ */

void tmdev_alone_begin(tmdev_alone_t *thread, const char *function)
{
    unsigned long none = 0;
    if (NULL != thread &&
        !atomic_compare_exchange_strong(thread, &none, (unsigned long) pthread_self())) {
        tmdev_misuse(0, "%s in two threads at once, on what is said to have one at a time",
                     function);
    }
}

void tmdev_alone_end(tmdev_alone_t *thread)
{
    if (NULL != thread) {
        atomic_store(thread, 0);
    }
}

tmdev_alone_t *tmdev_alone_of(struct ibv_pd *pd)
{
    return NULL != tmdev_pd(pd)->td ? &tmdev_pd(pd)->td->thread : NULL;
}

struct ibv_td *tmdev_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
    tmdev_td_t *td;
    if (0 != attr->comp_mask) {
        errno = EINVAL;
        return NULL;
    }
    if (tmdev_fails(TMDEV_FAIL_TD) || NULL == (td = tmdev_alloc(sizeof(*td)))) {
        return NULL;
    }
    td->td.context = context;
    atomic_fetch_add(&tmdev_ctx(context)->objects, 1);
    return &td->td;
}

int tmdev_dealloc_td(struct ibv_td *ibtd)
{
    tmdev_td_t *td = (tmdev_td_t *) ibtd;
    if (0 != atomic_load(&td->users)) {
        return tmdev_misuse(EBUSY, "ibv_dealloc_td: a parent domain still has it");
    }
    atomic_fetch_sub(&tmdev_ctx(ibtd->context)->objects, 1);
    free(td);
    return 0;
}

struct ibv_pd *tmdev_alloc_parent_domain(struct ibv_context *context,
                                         struct ibv_parent_domain_init_attr *attr)
{
    if (0 != attr->comp_mask) { /* with allocators of its own */
        errno = EOPNOTSUPP;
        return NULL;
    }
    if (NULL == attr->pd || attr->pd->context != context) {
        errno = EINVAL;
        return NULL;
    }
    tmdev_pd_t *pd = tmdev_alloc(sizeof(*pd));
    if (NULL == pd) {
        return NULL;
    }
    pd->pd.context = context;
    pd->base = attr->pd;
    pd->td = (tmdev_td_t *) attr->td;
    if (NULL != pd->td) {
        atomic_fetch_add(&pd->td->users, 1);
    }
    atomic_fetch_add(&tmdev_pd(attr->pd)->objects, 1);
    atomic_fetch_add(&tmdev_ctx(context)->objects, 1);
    return &pd->pd;
}

/* The protection domain that a parent domain stands for. */
static const struct ibv_pd *pd_base(const struct ibv_pd *ibpd)
{
    const tmdev_pd_t *pd = (const tmdev_pd_t *) ibpd;
    return NULL != pd->base ? pd->base : ibpd;
}

TMDEV_PUBLIC int ibv_dealloc_pd(struct ibv_pd *ibpd)
{
    tmdev_pd_t *pd = tmdev_pd(ibpd);
    if (0 != atomic_load(&pd->objects)) {
        return tmdev_misuse(
            EBUSY, "ibv_dealloc_pd: %u memory regions, queue pairs or SRQs are still in it",
            atomic_load(&pd->objects));
    }
    if (NULL != pd->base) {
        atomic_fetch_sub(&tmdev_pd(pd->base)->objects, 1);
    }
    if (NULL != pd->td) {
        atomic_fetch_sub(&pd->td->users, 1);
    }
    atomic_fetch_sub(&tmdev_ctx(ibpd->context)->objects, 1);
    free(pd);
    return 0;
}

/* ---- keys ---------------------------------------------------------------- */

/* Twice as many slots. */
static int mr_grow(tmdev_node_t *node)
{
    uint32_t slots = 0 == node->mr_slots ? 256 : 2 * node->mr_slots;
    tmdev_mr_t **mrs = slots <= 1u << 24 ? realloc(node->mrs, slots * sizeof(*mrs)) : NULL;
    if (NULL == mrs) {
        return ENOMEM;
    }
    memset(mrs + node->mr_slots, 0, (slots - node->mr_slots) * sizeof(*mrs));
    node->mrs = mrs;
    node->next_mr = 0 == node->mr_slots ? 1 : node->mr_slots;
    node->mr_slots = slots;
    return 0;
}

/*
 * Slots are used round and round, so that a key that is gone stays wrong for long. Half of them are
 * free.
 */
static int mr_insert(tmdev_node_t *node, tmdev_mr_t *mr)
{
    if (node->num_mrs >= node->mr_slots / 2 && 0 != mr_grow(node)) {
        return ENOMEM;
    }
    while (NULL != node->mrs[node->next_mr]) {
        node->next_mr = node->next_mr + 1 < node->mr_slots ? node->next_mr + 1 : 1;
    }
    node->mrs[node->next_mr] = mr;
    node->num_mrs++;
    mr->mr.handle = node->next_mr;
    node->next_mr = node->next_mr + 1 < node->mr_slots ? node->next_mr + 1 : 1;
    return 0;
}

void *tmdev_mr_find(tmdev_node_t *node, const struct ibv_pd *pd, uint32_t key, uint64_t addr,
                    uint64_t length, unsigned int access)
{
    uint32_t slot = key >> 8;
    tmdev_mr_t *mr = slot < node->mr_slots ? node->mrs[slot] : NULL;
    if (NULL == mr || mr->mr.lkey != key || pd_base(mr->mr.pd) != pd_base(pd) ||
        access != (mr->access & access) || addr < mr->iova || length > mr->mr.length ||
        addr - mr->iova > mr->mr.length - length) {
        return NULL;
    }
    return (uint8_t *) mr->mr.addr + (addr - mr->iova);
}

uint64_t tmdev_sges_length(const struct ibv_sge *sges, int count)
{
    uint64_t length = 0;
    for (int i = 0; i < count; i++) {
        length += sges[i].length;
    }
    return length;
}

bool tmdev_sges_valid(tmdev_node_t *node, const struct ibv_pd *pd, const struct ibv_sge *sges,
                      int count, unsigned int access)
{
    for (int i = 0; i < count; i++) {
        if (0 != sges[i].length &&
            NULL == tmdev_mr_find(node, pd, sges[i].lkey, sges[i].addr, sges[i].length, access)) {
            return false;
        }
    }
    return true;
}

bool tmdev_sges_scatter(tmdev_node_t *node, const struct ibv_pd *pd, const struct ibv_sge *sges,
                        int count, uint64_t offset, const void *data, uint64_t length)
{
    const uint8_t *from = data;
    for (int i = 0; i < count && length > 0; i++) {
        if (offset >= sges[i].length) {
            offset -= sges[i].length;
            continue;
        }
        uint64_t part = sges[i].length - offset < length ? sges[i].length - offset : length;
        void *to = tmdev_mr_find(node, pd, sges[i].lkey, sges[i].addr + offset, part,
                                 IBV_ACCESS_LOCAL_WRITE);
        if (NULL == to) {
            return false;
        }
        memcpy(to, from, part);
        from += part;
        length -= part;
        offset = 0;
    }
    return 0 == length;
}

int tmdev_sges_gather(tmdev_node_t *node, const struct ibv_pd *pd, const struct ibv_sge *sges,
                      int count, uint64_t offset, uint64_t length, struct iovec *iov)
{
    int n = 0;
    for (int i = 0; i < count && length > 0; i++) {
        if (offset >= sges[i].length) {
            offset -= sges[i].length;
            continue;
        }
        uint64_t part = sges[i].length - offset < length ? sges[i].length - offset : length;
        iov[n].iov_base = tmdev_mr_find(node, pd, sges[i].lkey, sges[i].addr + offset, part, 0);
        if (NULL == iov[n].iov_base) {
            return -1;
        }
        iov[n++].iov_len = part;
        length -= part;
        offset = 0;
    }
    return n;
}

/* ---- registration -------------------------------------------------------- */

/* Without madvise(MADV_POPULATE): at least all pages must be mapped. */
static int pages_mapped(uintptr_t first, size_t length, size_t page)
{
    unsigned char seen[4096];
    for (size_t at = 0; at < length; at += sizeof(seen) * page) {
        size_t part = length - at < sizeof(seen) * page ? length - at : sizeof(seen) * page;
        if (0 != mincore((void *) (first + at), part, seen)) {
            return EFAULT;
        }
    }
    return 0;
}

static int pin(void *addr, size_t length, unsigned int access)
{
    size_t page = (size_t) sysconf(_SC_PAGESIZE);
    uintptr_t first = (uintptr_t) addr & ~(page - 1);
    size_t pages = (((uintptr_t) addr + length + page - 1) & ~(page - 1)) - first;
    if ((uintptr_t) addr + length < (uintptr_t) addr) {
        return EFAULT;
    }
    int advice = 0 != (access & IBV_ACCESS_LOCAL_WRITE) ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
    int rc;
    do {
        rc = madvise((void *) first, pages, advice);
    } while (0 != rc && (EINTR == errno || EAGAIN == errno));
    if (0 == rc) {
        return 0;
    }
    if (EINVAL == errno && MADV_POPULATE_READ != advice &&
        0 != madvise((void *) first, pages, MADV_POPULATE_READ) && EINVAL == errno) {
        return pages_mapped(first, pages, page); /* an old kernel */
    }
    return ENOMEM == errno || EINVAL == errno ? EFAULT : errno;
}

static struct ibv_mr *mr_register(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                  unsigned int access)
{
    if (0 != (access & ~(unsigned int) ACCESS_KNOWN)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    if (0 != (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
        0 == (access & IBV_ACCESS_LOCAL_WRITE)) {
        errno = tmdev_misuse(
            EINVAL, "ibv_reg_mr: remote write or atomic access without IBV_ACCESS_LOCAL_WRITE");
        return NULL;
    }
    if (0 == length) {
        errno = EINVAL;
        return NULL;
    }
    tmdev_mr_t *mr;
    if (tmdev_fails(TMDEV_FAIL_MR) || NULL == (mr = tmdev_alloc(sizeof(*mr)))) {
        return NULL;
    }
    int error = pin(addr, length, access);
    tmdev_node_t *node = tmdev_ctx(pd->context)->node;
    tmdev_node_lock(node);
    if (0 == error) {
        error = mr_insert(node, mr);
    }
    if (0 == error) {
        mr->mr.context = pd->context;
        mr->mr.pd = pd;
        mr->mr.addr = addr;
        mr->mr.length = length;
        mr->mr.lkey = mr->mr.rkey = mr->mr.handle << 8 | node->mr_generation++;
        mr->iova = iova;
        mr->access = access;
        atomic_fetch_add(&tmdev_pd(pd)->objects, 1);
    }
    tmdev_node_unlock(node);
    if (0 != error) {
        free(mr);
        errno = error;
        return NULL;
    }
    return &mr->mr;
}

#undef ibv_reg_mr
TMDEV_PUBLIC struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return mr_register(pd, addr, length, (uintptr_t) addr, (unsigned int) access);
}

#undef ibv_reg_mr_iova
TMDEV_PUBLIC struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length,
                                            uint64_t iova, int access)
{
    return mr_register(pd, addr, length, iova, (unsigned int) access);
}

/* Optional access flags that are not known are no error. */
TMDEV_PUBLIC struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
                                             uint64_t iova, unsigned int access)
{
    return mr_register(pd, addr, length, iova, access & ~(unsigned int) IBV_ACCESS_OPTIONAL_RANGE);
}

/* Does a listed tag that may match use the region? The device would go on writing there. */
static bool mr_is_listed(tmdev_node_t *node, const tmdev_mr_t *mr)
{
    tmdev_srq_t *srq;
    tmdev_tag_t *tag;
    TAILQ_FOREACH(srq, &node->tm_srqs, link) {
        TAILQ_FOREACH(tag, &srq->list, link) {
            if (tag->is_enabled && tag->sge.lkey == mr->mr.lkey) {
                return true;
            }
        }
    }
    return false;
}

TMDEV_PUBLIC int ibv_dereg_mr(struct ibv_mr *ibmr)
{
    tmdev_mr_t *mr = (tmdev_mr_t *) ibmr;
    tmdev_node_t *node = tmdev_ctx(ibmr->context)->node;
    tmdev_node_lock(node);
    if (mr_is_listed(node, mr)) {
        tmdev_misuse(
            0, "ibv_dereg_mr: a tag in the matching list still uses the region with lkey 0x%x",
            mr->mr.lkey);
    }
    node->mrs[mr->mr.handle] = NULL;
    node->num_mrs--;
    tmdev_node_unlock(node);
    atomic_fetch_sub(&tmdev_pd(ibmr->pd)->objects, 1);
    free(mr);
    return 0;
}
