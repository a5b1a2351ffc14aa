/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Provider shm: opening and closing it in this process, its address, its description, its table.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/prctl.h>

#include "fabric/fab_host.h"
#include "fabric/fab_params.h"
#include "fabric/fab_wire.h"

#include "shm/shm.h"

/* ---- open --------------------------------------------------------------- */

static int fill_address(fab_shm_domain_t *dom, const char **why)
{
    fab_shm_addr_t *addr = &dom->addr;

    if (!fab_random(addr->nonce, sizeof(addr->nonce))) {
        *why = fab_sentence(dom->fab,
                            "There are no random bytes: getrandom() failed, and reading "
                            "/dev/urandom: %s.",
                            strerror(errno));
        return OPAL_ERR_NOT_AVAILABLE;
    }
    addr->version = FAB_SHM_VERSION;
    addr->page = (uint32_t) sysconf(_SC_PAGESIZE);
    if (addr->page < FAB_SHM_PAGE_MIN || addr->page > FAB_SHM_PAGE_MAX) {
        *why = fab_sentence(dom->fab, "The kernel has pages of %u bytes; %d to %d can be used.",
                            addr->page, FAB_SHM_PAGE_MIN, FAB_SHM_PAGE_MAX);
        return OPAL_ERR_NOT_AVAILABLE;
    }
    addr->pid = (uint32_t) getpid();
    addr->uid = (uint32_t) geteuid();
    addr->host = fab_host_identity();
    addr->user_ns = fab_host_namespace("user");
    addr->net_ns = fab_host_namespace("net");
    addr->start_time = fab_proc_start_time(addr->pid);
    if (0 == addr->start_time) {
        *why = fab_sentence(dom->fab, "/proc/%u/stat cannot be read; is /proc mounted?", addr->pid);
        return OPAL_ERR_NOT_AVAILABLE;
    }
    memcpy(dom->nonce, addr->nonce, sizeof(addr->nonce));
    addr->nonce_at = (uint64_t) (uintptr_t) dom->nonce;
    return OPAL_SUCCESS;
}

/*
 * May other processes of this user open this one's segment, through /proc?  Only root may if this
 * process is not dumpable: its program is execute-only, or it has called prctl(PR_SET_DUMPABLE).
 */
static bool can_be_opened(void)
{
    int dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);

    return 1 == dumpable || dumpable < 0 || 0 == geteuid(); /* < 0: a filter refuses the call */
}

static void domain_free(fab_shm_domain_t *dom)
{
    fab_shm_xpmem_close(dom);
    fab_shm_seg_destroy(dom);
    fab_file_close(&dom->socket);
    fab_shm_coop_close(dom);
    free(dom->hot);
    free(dom->ins);
    free(dom->nonce);
    free(dom);
}

/* Create nonce, address, segment, and the arrays with an element for each ring. */
static int domain_fill(fab_shm_domain_t *dom, const char **why)
{
    int rc;

    dom->nonce = malloc(FAB_SHM_NONCE);
    if (NULL != dom->nonce) {
        rc = fill_address(dom, why);
        if (OPAL_SUCCESS == rc) {
            rc = fab_shm_seg_create(dom, why);
        }
        if (OPAL_SUCCESS != rc) {
            return rc;
        }
        dom->hot = calloc(dom->addr.num_rings, sizeof(*dom->hot));
        dom->ins = calloc(dom->addr.num_rings, sizeof(*dom->ins));
        if (NULL != dom->hot && NULL != dom->ins) {
            return OPAL_SUCCESS;
        }
    }
    *why = "There is not enough memory.";
    return OPAL_ERR_OUT_OF_RESOURCE;
}

static int shm_domain_open(fab_t *fab, fab_domain_t **out, const char **why)
{
    fab_shm_domain_t *dom;
    int rc;

    if (!can_be_opened()) {
        *why = "Other processes may not open this one's files below /proc, since its program "
               "cannot be read, or it has called prctl(PR_SET_DUMPABLE).";
        return OPAL_ERR_NOT_AVAILABLE;
    }
    dom = calloc(1, sizeof(*dom));
    if (NULL == dom) {
        *why = "There is not enough memory.";
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    dom->fab = fab;
    dom->provider = &fab_shm_provider;
    dom->file.fd = dom->socket.fd = -1;
    STAILQ_INIT(&dom->rma);
    rc = domain_fill(dom, why);
    if (OPAL_SUCCESS != rc) {
        domain_free(dom);
        return rc;
    }
    fab_shm_pass_open(dom);
    dom->ptrace_scope = fab_host_ptrace_scope();
    /* with Yama's ptrace_scope 1 only ancestors may read a process, unless it permits others */
    if (1 == dom->ptrace_scope && !fab_params_is_none(fab_params.shm_single_copy)) {
        (void) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    }
    fab_shm_xpmem_open(dom);
    fab_shm_coop_open(dom);
    *out = (fab_domain_t *) dom;
    return OPAL_SUCCESS;
}

/* ---- close -------------------------------------------------------------- */

/* Tell all peers that this process leaves. What it has sent stays in its peers' rings. */
static void say_goodbye(fab_shm_domain_t *dom)
{
    uint32_t high = fab_shm_high(dom);

    /* release: pairs with the acquire in is_finalized(): all that was sent is visible before */
    atomic_store_explicit(&dom->seg->is_finalized, 1, memory_order_release);
    for (uint32_t index = 0; index < high; index++) {
        /* release: pairs with the acquire in is_refused() */
        atomic_store_explicit(&dom->entries[index].ctl.is_refused, 1, memory_order_release);
    }
}

static void shm_domain_close(fab_domain_t *domain)
{
    fab_shm_domain_t *dom = (fab_shm_domain_t *) domain;

    if ((uint32_t) getpid() != dom->addr.pid) {
        return; /* a child made by fork(): the segments are its parent's */
    }
    say_goodbye(dom);
    while (!LIST_EMPTY(&dom->eps)) {
        fab_shm_ep_t *ep = LIST_FIRST(&dom->eps);
        free(ep->in);
        ep->in = NULL;
        ep->peer->ep = NULL;
        fab_shm_ep_free(ep);
    }
    domain_free(dom);
}

/* ---- the rest ----------------------------------------------------------- */

static int shm_wake_fd(fab_domain_t *domain)
{
    return ((fab_shm_domain_t *) domain)->socket.fd;
}

static void shm_is_awake(fab_domain_t *domain)
{
    fab_shm_pass_serve((fab_shm_domain_t *) domain);
}

static const void *shm_address(const fab_domain_t *domain)
{
    return &((const fab_shm_domain_t *) domain)->addr;
}

/* The table's text for large messages: how they are copied, and if twice, why. */
static void describe_copy(const fab_shm_domain_t *dom, char *buf, size_t size)
{
    char yama[32] = "no ptrace_scope", helped[64] = "";

    if (dom->ptrace_scope >= 0) {
        snprintf(yama, sizeof(yama), "ptrace_scope %d", dom->ptrace_scope);
    }
    if (fab_params_is_none(fab_params.shm_single_copy)) {
        snprintf(buf, size,
                 "rendezvous, fragments through the ring: two copies, since pml_tm_shm_single_copy "
                 "is none");
    } else if (0 != dom->cma_errno) {
        snprintf(buf, size,
                 "rendezvous, fragments through the ring: two copies, since process_vm_readv is "
                 "refused (%s; %s)",
                 strerror(dom->cma_errno), yama);
    } else {
        if (dom->is_coop) {
            snprintf(helped, sizeof(helped),
                     "; from %d bytes on the sender helps while it is inside MPI",
                     FAB_SHM_COOP_MIN);
        }
        snprintf(buf, size, "rendezvous, read by the receiver: one copy (%s, steps of %u bytes)%s",
                 0 != dom->addr.xpmem_segid ? "XPMEM" : "CMA", fab_params.shm_copy_step, helped);
    }
}

static int shm_describe(fab_domain_t *domain, char *buf, size_t size)
{
    fab_shm_domain_t *dom = (fab_shm_domain_t *) domain;
    char copy[256], refused[256] = ""; /* peers that are reached by another provider */

    fab_shm_access_try_one(dom);
    describe_copy(dom, copy, sizeof(copy));
    if (0 != dom->num_refused) {
        snprintf(refused, sizeof(refused), "                      not to %u process%s: %s\n",
                 dom->num_refused, 1 == dom->num_refused ? "" : "es", dom->why_refused);
    }
    return snprintf(
        buf, size,
        "this host      shm    0 to %-10u  eager, through a ring of %u bytes: two copies\n"
        "                      longer           %s\n"
        "                      derived types    rendezvous, fragments through the ring: two "
        "copies\n"
        "%s",
        dom->addr.eager_max, dom->addr.ring_size, copy, refused);
}

const fab_provider_t fab_shm_provider = {
    .name = "shm",
    .id = FAB_WIRE_SHM,
    .abi = FAB_SHM_ABI,
    .ops = &fab_shm_ops,
    .open = shm_domain_open,
    .close = shm_domain_close,
    .address_len = sizeof(fab_shm_addr_t),
    .address = shm_address,
    .attach = fab_shm_attach,
    .detach = fab_shm_detach,
    .drop = fab_shm_drop,
    .progress = fab_shm_progress,
    .poll = fab_shm_poll,
    .wake_fd = shm_wake_fd,
    .is_awake = shm_is_awake,
    .describe = shm_describe,
    .expose = fab_shm_expose,
    .unexpose = fab_shm_unexpose,
};
