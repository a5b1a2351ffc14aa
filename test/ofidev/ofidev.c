/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric with moods: fi_getinfo() and fi_fabric() of a provider in software, between which and
 * the caller stands what providers for hardware do and it does not.  README.md has the settings.
 * Part of a unit test, or preloaded.
 *
 * The objects that libfabric makes stay its own; only their tables of functions are replaced, by
 * copies with some of the functions exchanged.  One fabric, domain, endpoint and completion queue
 * in a process.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_rma.h>

#define OFIDEV_EXPORT __attribute__((visibility("default")))

OFIDEV_EXPORT int fi_getinfo(uint32_t version, const char *node, const char *service,
                             uint64_t flags, const struct fi_info *hints, struct fi_info **info);
OFIDEV_EXPORT int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
OFIDEV_EXPORT int fi_open(uint32_t version, const char *name, void *attr, size_t attr_len,
                          uint64_t flags, struct fid **fid, void *context);
/* Notices of memory that is unmapped, so far. */
OFIDEV_EXPORT unsigned ofidev_notified(void);
/*
 * The next message of so many bytes or more stops half way: it is not reported, and those behind
 * it are, until all that have stopped go on (0).
 */
OFIDEV_EXPORT void ofidev_stop(size_t min_len);
/* Messages that have stopped. */
OFIDEV_EXPORT unsigned ofidev_stopped(void);

enum { HELD_MAX = 65536, STOPPED_MAX = 4, CONTEXT_MARK = 0x5a };

/* An entry that the caller has not been shown yet. */
typedef struct held {
    struct fi_cq_tagged_entry entry;
    unsigned wait; /* reads of the queue that it is held back */
} held_t;

static struct {
    bool is_read;
    unsigned again;     /* per thousand of operations that find no room */
    unsigned delay;     /* reads of the queue by which an entry is held back at most */
    unsigned unaligned; /* bytes by which receive buffers are shifted */
    unsigned lost;      /* per thousand of reads that report an error of nobody */
    unsigned room;      /* operations under way at most; 0: no limit */
    unsigned swallow;   /* messages up to the one that is lost; 0: none is */
    unsigned refuse;    /* receive buffers up to the first that is refused; 0: none is */
    unsigned event;     /* reads of the event queue up to that of a failure; 0: none */
    unsigned early;     /* bytes of room with which a receive buffer is released too early */
    int release;        /* 0: with the last message, 1: an entry of its own, 2: anywhere */
    bool no_rma, mr_endpoint, context2, no_wait;
    uint64_t state; /* of the random numbers */
} dev;

static held_t held[HELD_MAX];
static size_t num_held;
static struct fi_cq_tagged_entry stopped[STOPPED_MAX];
static unsigned num_stopped;
static size_t stop_len; /* 0: none is to stop */
static unsigned under_way;
static bool has_lost;

/* the originals, and the copies that the objects have */
static struct fi_ops_fabric fabric_ops, *real_fabric;
static struct fi_ops_domain domain_ops, *real_domain;
static struct fi_ops_mr mr_ops, *real_mr;
static struct fi_ops_msg msg_ops, *real_msg;
static struct fi_ops_ep ep_ops, *real_ep;
static struct fi_ops_rma rma_ops, *real_rma;
static struct fi_ops_cq cq_ops, *real_cq;
static struct fi_ops_eq eq_ops, *real_eq;
static struct fi_ops mr_fid_ops, *real_mr_fid;
static struct fi_ops domain_fid_ops, *real_domain_fid;

/* ---- settings ------------------------------------------------------------ */

static unsigned setting(const char *name)
{
    const char *value = getenv(name);

    return NULL != value ? (unsigned) strtoul(value, NULL, 0) : 0;
}

static void read_settings(void)
{
    if (dev.is_read) {
        return;
    }
    dev.is_read = true;
    dev.again = setting("OFIDEV_AGAIN");
    dev.delay = setting("OFIDEV_DELAY");
    dev.unaligned = setting("OFIDEV_UNALIGNED");
    dev.lost = setting("OFIDEV_LOST");
    dev.room = setting("OFIDEV_ROOM");
    dev.swallow = setting("OFIDEV_SWALLOW");
    dev.refuse = setting("OFIDEV_REFUSE");
    dev.event = setting("OFIDEV_EVENT");
    dev.early = setting("OFIDEV_EARLY");
    dev.release = (int) setting("OFIDEV_RELEASE");
    dev.no_rma = 0 != setting("OFIDEV_NO_RMA");
    dev.mr_endpoint = 0 != setting("OFIDEV_MR_ENDPOINT");
    dev.context2 = 0 != setting("OFIDEV_CONTEXT2");
    dev.no_wait = 0 != setting("OFIDEV_NO_WAIT");
    dev.state = UINT64_C(0x9e3779b97f4a7c15) * (setting("OFIDEV_SEED") + (unsigned) getpid());
}

static unsigned chance(unsigned below)
{
    dev.state = dev.state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned) (dev.state >> 33) % below;
}

static bool is_busy(void)
{
    return chance(1000) < dev.again || (dev.room > 0 && under_way >= dev.room);
}

static void broken(const char *what)
{
    fprintf(stderr, "ofidev: %s\n", what);
    abort();
}

/* ---- contexts ------------------------------------------------------------ */

/* The provider's until the operation completes. */
static void context_take(void *context)
{
    if (dev.context2) {
        memset(context, CONTEXT_MARK, sizeof(struct fi_context2));
    }
}

static void context_check(const void *context)
{
    const unsigned char *bytes = context;

    for (size_t i = 0; dev.context2 && i < sizeof(struct fi_context2); i++) {
        if (CONTEXT_MARK != bytes[i]) {
            broken("a context was written to before its operation was complete");
        }
    }
}

/* ---- messages and RMA ---------------------------------------------------- */

static ssize_t dev_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    ssize_t rc;

    if (is_busy()) {
        return -FI_EAGAIN;
    }
    rc = real_msg->sendmsg(ep, msg, flags);
    if (0 == rc) {
        context_take(msg->context);
        under_way++;
    }
    return rc;
}

static ssize_t dev_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to)
{
    return is_busy() ? -FI_EAGAIN : real_msg->inject(ep, buf, len, to);
}

static ssize_t dev_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    struct iovec iov = *msg->msg_iov;
    struct fi_msg shifted = *msg;
    ssize_t rc;

    if (chance(1000) < dev.again) {
        return -FI_EAGAIN;
    }
    if (1 == dev.refuse) {
        return -FI_EIO;
    }
    dev.refuse -= dev.refuse > 0;
    iov.iov_base = (char *) iov.iov_base + dev.unaligned;
    iov.iov_len -= dev.unaligned;
    shifted.msg_iov = &iov;
    rc = real_msg->recvmsg(ep, &shifted, flags);
    if (0 == rc) {
        context_take(msg->context);
    }
    return rc;
}

static ssize_t dev_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    ssize_t rc = is_busy() ? -FI_EAGAIN : real_rma->readmsg(ep, msg, flags);

    if (0 == rc) {
        context_take(msg->context);
        under_way++;
    }
    return rc;
}

static ssize_t dev_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    ssize_t rc = is_busy() ? -FI_EAGAIN : real_rma->writemsg(ep, msg, flags);

    if (0 == rc) {
        context_take(msg->context);
        under_way++;
    }
    return rc;
}

/* The room with which a buffer is released. */
static int dev_setopt(struct fid *fid, int level, int name, const void *value, size_t len)
{
    size_t min;

    if (FI_OPT_ENDPOINT != level || FI_OPT_MIN_MULTI_RECV != name) {
        return real_ep->setopt(fid, level, name, value, len);
    }
    memcpy(&min, value, sizeof(min));
    min += dev.early;
    return real_ep->setopt(fid, level, name, &min, sizeof(min));
}

/* ---- the completion queue ------------------------------------------------ */

static void hold(const struct fi_cq_tagged_entry *entry, unsigned wait)
{
    if (HELD_MAX == num_held) {
        broken("too many entries are held back");
    }
    held[num_held++] = (held_t){.entry = *entry, .wait = wait};
}

void ofidev_stop(size_t min_len)
{
    stop_len = min_len;
    while (0 == min_len && num_stopped > 0) {
        hold(&stopped[--num_stopped], 0);
    }
}

unsigned ofidev_stopped(void)
{
    return num_stopped;
}

/* Make of one entry those that the caller is to see, in their order. */
static void take_entry(const struct fi_cq_tagged_entry *entry)
{
    struct fi_cq_tagged_entry message = *entry, release = *entry;
    const bool is_message = 0 != (entry->flags & FI_RECV) && entry->len > 0 && NULL != entry->buf;
    const bool is_release = 0 != (entry->flags & FI_MULTI_RECV);
    const unsigned wait = dev.delay > 0 ? chance(dev.delay + 1) : 0;

    if (is_message && stop_len > 0 && entry->len >= stop_len && num_stopped < STOPPED_MAX) {
        stop_len = 0;
        stopped[num_stopped++] = *entry;
        return;
    }
    message.flags &= ~FI_MULTI_RECV;
    release.flags = FI_MULTI_RECV;
    release.len = 0;
    release.buf = NULL;
    if (is_message && dev.swallow > 0 && 0 == --dev.swallow) {
        if (is_release) {
            hold(&release, wait);
        }
    } else if (0 == dev.release || !is_release || !is_message) {
        hold(entry, wait);
    } else if (1 == dev.release) {
        hold(&message, wait);
        hold(&release, wait);
    } else {
        hold(&release, 0); /* before messages that it was behind */
        hold(&message, dev.delay);
    }
}

/*
 * Those whose time has come.  Messages that are matched in order may be reported in another one:
 * so they are, with OFIDEV_RELEASE=2; otherwise nothing passes what is held back.
 */
static ssize_t show(struct fi_cq_tagged_entry *entries, size_t count)
{
    size_t num = 0, kept = 0;
    bool is_stopped = false;

    for (size_t i = 0; i < num_held; i++) {
        is_stopped = is_stopped || num == count || (2 != dev.release && held[i].wait > 0);
        if (held[i].wait > 0) {
            held[i].wait--;
            held[kept++] = held[i];
        } else if (is_stopped) {
            held[kept++] = held[i];
        } else {
            entries[num++] = held[i].entry;
        }
    }
    num_held = kept;
    for (size_t i = 0; i < num; i++) {
        if (0 != (entries[i].flags & (FI_SEND | FI_READ | FI_WRITE))) {
            context_check(entries[i].op_context);
            under_way--;
        }
    }
    return num > 0 ? (ssize_t) num : -FI_EAGAIN;
}

static ssize_t dev_read(struct fid_cq *cq, void *buf, size_t count)
{
    struct fi_cq_tagged_entry some[16];
    ssize_t num;

    if (chance(1000) < dev.lost) {
        has_lost = true;
        return -FI_EAVAIL;
    }
    num = real_cq->read(cq, some, sizeof(some) / sizeof(some[0]));
    for (ssize_t i = 0; i < num; i++) {
        take_entry(&some[i]);
    }
    return num < 0 && -FI_EAGAIN != num ? num : show(buf, count);
}

static ssize_t dev_readerr(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
    ssize_t rc;

    if (has_lost) {
        has_lost = false;
        *entry = (struct fi_cq_err_entry){.flags = FI_SEND, .err = FI_EIO};
        return 1;
    }
    rc = real_cq->readerr(cq, entry, flags);
    under_way -= 1 == rc && NULL != entry->op_context &&
                 0 != (entry->flags & (FI_SEND | FI_READ | FI_WRITE));
    return rc;
}

/* ---- the event queue ----------------------------------------------------- */

static ssize_t dev_eq_read(struct fid_eq *eq, uint32_t *event, void *buf, size_t len,
                           uint64_t flags)
{
    if (dev.event > 0 && 0 == --dev.event) {
        return -FI_EAVAIL;
    }
    return real_eq->read(eq, event, buf, len, flags);
}

static ssize_t dev_eq_readerr(struct fid_eq *eq, struct fi_eq_err_entry *entry, uint64_t flags)
{
    (void) eq, (void) flags;
    *entry = (struct fi_eq_err_entry){.err = FI_EIO};
    return sizeof(*entry);
}

static int dev_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
                       void *context)
{
    int rc = real_fabric->eq_open(fabric, attr, eq, context);

    if (0 == rc) {
        real_eq = (*eq)->ops;
        eq_ops = *real_eq;
        eq_ops.read = dev_eq_read;
        eq_ops.readerr = dev_eq_readerr;
        (*eq)->ops = &eq_ops;
    }
    return rc;
}

/* Nobody sleeps while there is something that he has not been shown. */
static int dev_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    return num_held > 0 || has_lost ? -FI_EAGAIN : real_fabric->trywait(fabric, fids, count);
}

/* ---- memory -------------------------------------------------------------- */

/* With OFIDEV_MR_ENDPOINT: bound, then enabled, before anybody gets the key. */
static _Atomic unsigned num_regs, num_binds, num_enables;

static int mr_bind(struct fid *fid, struct fid *to, uint64_t flags)
{
    (void) fid, (void) to, (void) flags;
    num_binds++;
    return 0;
}

static int mr_control(struct fid *fid, int command, void *arg)
{
    if (FI_ENABLE != command) {
        return real_mr_fid->control(fid, command, arg);
    }
    num_enables++;
    return 0;
}

static int mr_close(struct fid *fid)
{
    if (num_regs != num_binds || num_regs != num_enables) {
        broken("memory was not bound to the endpoint, or not enabled");
    }
    return real_mr_fid->close(fid);
}

static int dev_mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access,
                      uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **mr,
                      void *context)
{
    int rc = real_mr->reg(fid, buf, len, access, offset, key, flags, mr, context);

    if (0 == rc && dev.mr_endpoint) {
        num_regs++;
        real_mr_fid = (*mr)->fid.ops;
        mr_fid_ops = *real_mr_fid;
        mr_fid_ops.bind = mr_bind;
        mr_fid_ops.control = mr_control;
        mr_fid_ops.close = mr_close;
        (*mr)->fid.ops = &mr_fid_ops;
    }
    return rc;
}

/* ---- the cache of registrations ------------------------------------------ */

/* It asks to be told of memory that is unmapped, as one that a provider for hardware has does. */
static struct fid cache;
static struct fid_mem_monitor *monitor;
static _Atomic unsigned num_notified;

unsigned ofidev_notified(void)
{
    return num_notified;
}

static void notify(struct fid_mem_monitor *from, const void *addr, size_t len)
{
    (void) addr, (void) len;
    num_notified += from == monitor;
}

static struct fi_ops_mem_notify notify_ops = {.size = sizeof(notify_ops), .notify = notify};

static int cache_close(struct fid *fid)
{
    (void) fid;
    return 0;
}

static struct fi_ops plain_ops = {.size = sizeof(plain_ops), .close = cache_close};

static int cache_import(struct fid *fid, struct fid *imported, uint64_t flags)
{
    (void) fid, (void) flags;
    monitor = (struct fid_mem_monitor *) imported;
    imported->ops = &plain_ops;
    monitor->import_ops = &notify_ops;
    return 0;
}

static struct fi_ops cache_ops = {
    .size = sizeof(cache_ops), .close = cache_close, .bind = cache_import};

int fi_open(uint32_t version, const char *name, void *attr, size_t attr_len, uint64_t flags,
            struct fid **fid, void *context)
{
    (void) version, (void) attr, (void) attr_len, (void) flags, (void) context;
    if (0 != strcmp("mr_cache", name)) {
        return -FI_ENOSYS;
    }
    cache.ops = &cache_ops;
    *fid = &cache;
    return 0;
}

/* ---- objects ------------------------------------------------------------- */

static int dev_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                        void *context)
{
    int rc = real_domain->endpoint(domain, info, ep, context);

    if (0 == rc && NULL == real_msg) { /* others are the provider's own, for its connections */
        real_msg = (*ep)->msg;
        msg_ops = *real_msg;
        msg_ops.sendmsg = dev_sendmsg;
        msg_ops.inject = dev_inject;
        msg_ops.recvmsg = dev_recvmsg;
        (*ep)->msg = &msg_ops;
        real_ep = (*ep)->ops;
        ep_ops = *real_ep;
        ep_ops.setopt = dev_setopt;
        (*ep)->ops = &ep_ops;
        real_rma = (*ep)->rma;
        if (NULL != real_rma) {
            rma_ops = *real_rma;
            rma_ops.readmsg = dev_readmsg;
            rma_ops.writemsg = dev_writemsg;
            (*ep)->rma = &rma_ops;
        }
    }
    return rc;
}

static int dev_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                       void *context)
{
    const bool is_refused = dev.no_wait && FI_WAIT_NONE != attr->wait_obj;
    int rc = is_refused ? -FI_ENOSYS : real_domain->cq_open(domain, attr, cq, context);

    if (0 == rc && NULL == real_cq) {
        real_cq = (*cq)->ops;
        cq_ops = *real_cq;
        cq_ops.read = dev_read;
        cq_ops.readerr = dev_readerr;
        (*cq)->ops = &cq_ops;
    }
    return rc;
}

static int dev_domain_close(struct fid *domain)
{
    if (NULL != monitor) {
        monitor->export_ops->stop(monitor);
    }
    return real_domain_fid->close(domain);
}

/* The provider does not know these modes. */
static void hide_modes(struct fi_info *info)
{
    info->mode &= ~FI_CONTEXT2;
    if (dev.mr_endpoint) {
        info->domain_attr->mr_mode &= ~FI_MR_ENDPOINT;
    }
}

static int dev_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                      void *context)
{
    struct fi_info *plain = fi_dupinfo(info);
    int rc;

    hide_modes(plain);
    rc = real_fabric->domain(fabric, plain, domain, context);
    fi_freeinfo(plain);
    if (0 == rc && NULL != monitor && 0 != monitor->export_ops->start(monitor)) {
        broken("the memory hooks do not start");
    }
    if (0 == rc) {
        num_held = under_way = 0;
        real_msg = NULL;
        real_cq = NULL;
        num_regs = num_binds = num_enables = 0;
        real_domain = (*domain)->ops;
        domain_ops = *real_domain;
        domain_ops.endpoint = dev_endpoint;
        domain_ops.cq_open = dev_cq_open;
        (*domain)->ops = &domain_ops;
        real_domain_fid = (*domain)->fid.ops;
        domain_fid_ops = *real_domain_fid;
        domain_fid_ops.close = dev_domain_close;
        (*domain)->fid.ops = &domain_fid_ops;
        real_mr = (*domain)->mr;
        mr_ops = *real_mr;
        mr_ops.reg = dev_mr_reg;
        (*domain)->mr = &mr_ops;
    }
    return rc;
}

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    __typeof__(&fi_fabric) real = dlsym(RTLD_NEXT, "fi_fabric");
    int rc = real(attr, fabric, context);

    read_settings();
    if (0 == rc) {
        real_fabric = (*fabric)->ops;
        fabric_ops = *real_fabric;
        fabric_ops.domain = dev_domain;
        fabric_ops.trywait = dev_trywait;
        fabric_ops.eq_open = dev_eq_open;
        (*fabric)->ops = &fabric_ops;
    }
    return rc;
}

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
               const struct fi_info *hints, struct fi_info **info)
{
    __typeof__(&fi_getinfo) real = dlsym(RTLD_NEXT, "fi_getinfo");
    int rc;

    read_settings();
    if (dev.no_rma && NULL != hints && 0 != (hints->caps & FI_RMA)) {
        return -FI_ENODATA;
    }
    rc = real(version, node, service, flags, hints, info);
    for (struct fi_info *each = 0 == rc ? *info : NULL; NULL != each; each = each->next) {
        each->mode |= dev.context2 ? FI_CONTEXT2 : 0;
        each->domain_attr->mr_mode |= dev.mr_endpoint ? FI_MR_ENDPOINT : 0;
        each->caps &= dev.no_rma ? ~(uint64_t) FI_RMA : UINT64_MAX;
    }
    return rc;
}
