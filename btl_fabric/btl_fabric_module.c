/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The module: its table, processes, the failure of peers, and its end.
 */
#include "btl_fabric_entry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "btl_fabric_mem.h"
#include "btl_fabric_op.h"
#include "btl_fabric_up.h"

/*
 * The flags and limits hold for every provider: what a provider cannot do, the target's CPU does.
 * The target's CPU does all atomic operations, on integers of 4 and 8 bytes, by atomic
 * instructions, so they are atomic with its own accesses as well (GLOB).  MIN and MAX are missing
 * because an operation does not say whether its operands are signed.  doc/btl.md explains the
 * numbers.
 */
static const mca_btl_base_module_t table = {
    .btl_eager_limit = BTL_FABRIC_EAGER_LIMIT,
    .btl_rndv_eager_limit = 8192,
    .btl_max_send_size = BTL_FABRIC_MAX_SEND_SIZE,
    .btl_rdma_pipeline_send_length = 32768,
    .btl_rdma_pipeline_frag_size = 4 << 20,
    .btl_min_rdma_pipeline_size = SIZE_MAX, /* ob1 then gets what it can */
    .btl_exclusivity = MCA_BTL_EXCLUSIVITY_LOW + 50,
    .btl_latency = 10,
    .btl_bandwidth = 10000,
    .btl_flags = MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_RDMA | MCA_BTL_FLAGS_ATOMIC_OPS |
                 MCA_BTL_FLAGS_ATOMIC_FOPS | MCA_BTL_FLAGS_RDMA_FLUSH | BTL_FABRIC_FLAGS_EXTRA,
    .btl_atomic_flags = MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_AND |
                        MCA_BTL_ATOMIC_SUPPORTS_OR | MCA_BTL_ATOMIC_SUPPORTS_XOR |
                        MCA_BTL_ATOMIC_SUPPORTS_SWAP | MCA_BTL_ATOMIC_SUPPORTS_CSWAP |
                        MCA_BTL_ATOMIC_SUPPORTS_32BIT | MCA_BTL_ATOMIC_SUPPORTS_GLOB,
    .btl_registration_handle_size = BTL_FABRIC_HANDLE,
    .btl_get_limit = SIZE_MAX,
    .btl_get_alignment = 1,
    .btl_put_limit = SIZE_MAX,
    .btl_put_alignment = 1,
    /* local memory needs no registration: the fabric registers what it uses */
    .btl_get_local_registration_threshold = SIZE_MAX,
    .btl_put_local_registration_threshold = SIZE_MAX,
    .btl_add_procs = mca_btl_fabric_add_procs,
    .btl_del_procs = mca_btl_fabric_del_procs,
    .btl_finalize = mca_btl_fabric_finalize,
    .btl_alloc = mca_btl_fabric_alloc,
    .btl_free = mca_btl_fabric_free,
    .btl_prepare_src = mca_btl_fabric_prepare_src,
    .btl_send = mca_btl_fabric_send,
    .btl_sendi = mca_btl_fabric_sendi,
    .btl_put = mca_btl_fabric_put,
    .btl_get = mca_btl_fabric_get,
    .btl_dump = mca_btl_fabric_dump,
    .btl_atomic_op = mca_btl_fabric_atomic_op,
    .btl_atomic_fop = mca_btl_fabric_atomic_fop,
    .btl_atomic_cswap = mca_btl_fabric_atomic_cswap,
    .btl_register_mem = mca_btl_fabric_register_mem,
    .btl_deregister_mem = mca_btl_fabric_deregister_mem,
    .btl_register_error = mca_btl_fabric_register_error,
    .btl_flush = mca_btl_fabric_flush};

static const mca_btl_fabric_up_ops_t failure_ops;

void mca_btl_fabric_module_init(mca_btl_base_component_t *component)
{
    mca_btl_fabric.super = table;
    mca_btl_fabric.super.btl_component = component;
}

/* ---- processes ---------------------------------------------------------- */

typedef struct modex_blob {
    btl_fabric_address_t head;
    uint8_t fabric[FAB_ADDRESS_MAX];
} modex_blob_t;

int mca_btl_fabric_publish(void)
{
    modex_blob_t blob = {
        .head = {.magic = BTL_FABRIC_ADDRESS_MAGIC, .version = BTL_FABRIC_WIRE_VERSION},
    };
    size_t len = fab_address(mca_btl_fabric.fab, blob.fabric, sizeof(blob.fabric));
    int rc;

    if (0 == len) {
        return OPAL_ERR_VALUE_OUT_OF_BOUNDS;
    }
    OPAL_MODEX_SEND(rc, FAB_MODEX_SCOPE, &mca_btl_fabric.super.btl_component->btl_version, &blob,
                    sizeof(blob.head) + len);
    return rc;
}

/*
 * Have the layer above told that the process has failed, if it does not know yet.  It may have
 * failed before it was added.  Lock held.
 */
static void add_failure(mca_btl_fabric_ep_t *ep)
{
    if (!ep->is_reporting && !ep->is_reported && NULL != ep->proc) {
        ep->is_reporting = true;
        mca_btl_fabric_up(&ep->failure, &failure_ops);
    }
}

mca_btl_fabric_ep_t *mca_btl_fabric_ep_open(opal_proc_t *proc, const void *data, size_t len,
                                            const char **why)
{
    const modex_blob_t *blob = data;
    mca_btl_fabric_ep_t *ep = NULL;
    fab_peer_t *peer = NULL;

    if (len < sizeof(blob->head) || BTL_FABRIC_ADDRESS_MAGIC != blob->head.magic ||
        BTL_FABRIC_WIRE_VERSION != blob->head.version) {
        *why = "it runs another version of btl fabric";
        return NULL;
    }
    fab_lock(mca_btl_fabric.fab);
    if (OPAL_SUCCESS == fab_peer_open(mca_btl_fabric.fab, FAB_USER_BTL,
                                      fab_name(proc->proc_name.jobid, proc->proc_name.vpid),
                                      blob->fabric, len - sizeof(blob->head), &peer, why)) {
        ep = mca_btl_fabric_ep_of(peer);
        *why = "there is no memory for it";
    }
    if (NULL != ep && NULL == ep->proc) {
        OBJ_RETAIN(proc);
        ep->proc = proc;
        ep->is_deleted = false;
        ep->is_reported = false;
        if (FAB_PEER_FAILED == peer->state) {
            add_failure(ep);
        }
    }
    fab_unlock(mca_btl_fabric.fab);
    return ep;
}

/* The endpoint of a process; NULL: btl fabric cannot reach it. May block on the modex. */
static mca_btl_fabric_ep_t *add_proc(opal_proc_t *proc)
{
    const char *why = "it does not use btl fabric, or has another version of it";
    mca_btl_fabric_ep_t *ep = NULL;
    modex_blob_t *blob = NULL;
    size_t len = 0;
    int rc;

    OPAL_MODEX_RECV(rc, &mca_btl_fabric.super.btl_component->btl_version, &proc->proc_name,
                    (void **) &blob, &len);
    if (OPAL_SUCCESS == rc && NULL != blob) {
        ep = mca_btl_fabric_ep_open(proc, blob, len, &why);
    }
    free(blob);
    if (NULL == ep) {
        opal_output_verbose(1, mca_btl_fabric.output, "btl fabric does not reach process %s: %s",
                            OPAL_NAME_PRINT(proc->proc_name), why);
    }
    return ep;
}

/*
 * Print the table of paths to the peers, once, if the user asks for it (verbose), unless pml tm
 * prints one.
 */
static void show_paths(void)
{
    static bool is_shown;
    char text[4096];

    if (is_shown || fab_is_started(mca_btl_fabric.fab, FAB_USER_PML) ||
        fab_params.verbose < (0 == OPAL_PROC_MY_NAME.vpid ? 10 : 20)) {
        return;
    }
    is_shown = true;
    fab_lock(mca_btl_fabric.fab);
    fab_describe(mca_btl_fabric.fab, text, sizeof(text));
    fab_unlock(mca_btl_fabric.fab);
    opal_output(mca_btl_fabric.output, "btl fabric: process %s on %s\n%s",
                OPAL_NAME_PRINT(OPAL_PROC_MY_NAME), fab_process.nodename, text);
}

int mca_btl_fabric_add_procs(struct mca_btl_base_module_t *btl, size_t nprocs,
                             struct opal_proc_t **procs, mca_btl_fabric_ep_t **eps,
                             opal_bitmap_t *reachable)
{
    (void) btl;
    if (!mca_btl_fabric_is_wanted()) {
        opal_output_verbose(10, mca_btl_fabric.output,
                            "btl fabric is not used: the PML does not use the fabric, and the "
                            "parameter btl does not name fabric");
        return OPAL_SUCCESS;
    }
    for (size_t i = 0; i < nprocs; ++i) {
        bool is_alike = procs[i]->proc_arch == opal_proc_local_get()->proc_arch;
        eps[i] = is_alike ? add_proc(procs[i]) : NULL;
        if (NULL != eps[i] && NULL != reachable) {
            (void) opal_bitmap_set_bit(reachable, (int) i);
        }
    }
    show_paths();
    return OPAL_SUCCESS;
}

/* Lock not held: releasing the process may run its destructor, which is Open MPI's code. */
static void release_proc(opal_proc_t *proc)
{
    if (NULL != proc) {
        OBJ_RELEASE(proc);
    }
}

int mca_btl_fabric_del_procs(struct mca_btl_base_module_t *btl, size_t nprocs,
                             struct opal_proc_t **procs, mca_btl_fabric_ep_t **eps)
{
    (void) btl, (void) procs;
    for (size_t i = 0; i < nprocs && NULL != mca_btl_fabric.fab; ++i) {
        opal_proc_t *proc = NULL;
        fab_lock(mca_btl_fabric.fab);
        if (NULL != eps[i] && NULL != eps[i]->proc) {
            proc = eps[i]->proc;
            eps[i]->proc = NULL;
            eps[i]->is_deleted = true;
            if (eps[i] == mca_btl_fabric.latest) {
                mca_btl_fabric.latest = NULL;
            }
            mca_btl_fabric_ep_close_if_idle(eps[i]);
        }
        fab_unlock(mca_btl_fabric.fab);
        release_proc(proc);
    }
    return OPAL_SUCCESS;
}

/* ---- failure ------------------------------------------------------------ */

/*
 * The process whose failure is reported now, which the caller must release; NULL: it was deleted.
 * Lock not held.
 */
static opal_proc_t *begin_report(mca_btl_fabric_ep_t *ep)
{
    opal_proc_t *proc;

    fab_lock(mca_btl_fabric.fab);
    proc = ep->proc;
    ep->is_reporting = false;
    if (NULL != proc) {
        OBJ_RETAIN(proc);
        ep->is_reported = true;
    }
    fab_unlock(mca_btl_fabric.fab);
    return proc;
}

/* An upcall: a peer failed. */
static void report_failure(mca_btl_fabric_up_t *up)
{
    mca_btl_fabric_ep_t *ep = FAB_CONTAINER_OF(up, mca_btl_fabric_ep_t, failure);
    opal_proc_t *proc = begin_report(ep); /* another thread may delete it meanwhile */
    mca_btl_base_module_error_cb_fn_t error_cb = mca_btl_fabric.error_cb;

    /* without a callback no reports were asked for: the PML finds out by itself */
    if (NULL != error_cb && NULL != proc) {
        char text[320];

        snprintf(text, sizeof(text), "btl fabric lost process %s: %s",
                 OPAL_NAME_PRINT(proc->proc_name),
                 NULL != ep->why ? ep->why : "It failed before; the reason was not kept.");
        for (char *at = text; NULL != (at = strchr(at, '%'));) {
            *at = ' '; /* ob1 of Open MPI 4.1 uses the text as a format string */
        }
        opal_output_verbose(1, mca_btl_fabric.output, "%s", text);
        error_cb(&mca_btl_fabric.super, MCA_BTL_ERROR_FLAGS_FATAL, proc, text);
    }
    release_proc(proc);
}

/* without drop: the endpoint owns it */
static const mca_btl_fabric_up_ops_t failure_ops = {.run = report_failure};

void mca_btl_fabric_peer_failed(void *ctx, fab_peer_t *peer, int rc, const char *why)
{
    mca_btl_fabric_ep_t *ep = peer->user[FAB_USER_BTL];

    (void) ctx, (void) rc;
    if (NULL == ep) {
        return;
    }
    ep->why = strdup(why);
    add_failure(ep);
    mca_btl_fabric_ops_fail(ep);
}

/* What it sent has come, so no answer will come for the operations that wait for one. */
bool mca_btl_fabric_peer_left(void *ctx, fab_peer_t *peer)
{
    const mca_btl_fabric_ep_t *ep = peer->user[FAB_USER_BTL];

    (void) ctx;
    return NULL != ep && !LIST_EMPTY(&ep->ops);
}

int mca_btl_fabric_register_error(struct mca_btl_base_module_t *btl,
                                  mca_btl_base_module_error_cb_fn_t cbfunc)
{
    (void) btl;
    mca_btl_fabric.error_cb = cbfunc;
    return OPAL_SUCCESS;
}

/* ---- the rest ----------------------------------------------------------- */

static void dump_ep(const mca_btl_fabric_ep_t *ep)
{
    opal_output(0, "btl fabric: process %u.%u by %s, %s: %zu operations under way%s",
                (unsigned) (ep->peer->name >> 32), (unsigned) ep->peer->name,
                fab_peer_provider_name(ep->peer), FAB_PEER_UP == ep->peer->state ? "up" : "failed",
                ep->outstanding, NULL != ep->peer->pending ? ", messages queued" : "");
}

void mca_btl_fabric_dump(struct mca_btl_base_module_t *btl, mca_btl_fabric_ep_t *ep, int verbose)
{
    (void) btl, (void) verbose;
    fab_lock(mca_btl_fabric.fab);
    if (NULL != ep && NULL != ep->proc) {
        dump_ep(ep);
    }
    for (const mca_btl_fabric_ep_t *at = NULL == ep ? mca_btl_fabric.eps : NULL; NULL != at;
         at = at->next) {
        if (NULL != at->proc) {
            dump_ep(at);
        }
    }
    fab_unlock(mca_btl_fabric.fab);
}

static void free_eps(void)
{
    mca_btl_fabric_ep_t *ep;

    while (NULL != (ep = mca_btl_fabric.eps)) {
        mca_btl_fabric.eps = ep->next;
        release_proc(ep->proc);
        if (NULL != ep->part) {
            mca_btl_fabric_msg_free(ep->part);
        }
        free(ep->why);
        free(ep);
    }
}

int mca_btl_fabric_finalize(struct mca_btl_base_module_t *btl)
{
    fab_t *fab = mca_btl_fabric.fab;

    (void) btl;
    fab_when_open(FAB_USER_PML, NULL);
    if (NULL == fab) {
        return OPAL_SUCCESS;
    }
    opal_progress_unregister(mca_btl_fabric_opal_progress);
    fab_lock(fab);
    while (mca_btl_fabric.num_rma > 0) { /* they use memory that is about to be freed */
        (void) fab_progress(fab);
    }
    fab_unlock(fab);
    mca_btl_fabric_ups_fini();
    fab_close(fab, FAB_USER_BTL);
    mca_btl_fabric.fab = NULL;
    mca_btl_fabric.latest = NULL;
    mca_btl_fabric.error_cb = NULL;
    mca_btl_fabric_ops_fini();
    mca_btl_fabric_replies_fini();
    free_eps();
    mca_btl_fabric_mems_fini();
    mca_btl_fabric_frags_fini();
    return OPAL_SUCCESS;
}
