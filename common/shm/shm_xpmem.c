/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer's memory by XPMEM, a kernel module of many HPC systems: a process makes its address space
 * accessible, a peer maps parts of it and copies by plain loads and stores, without system calls.
 *
 * libxpmem is loaded when the fabric is opened.  Without the library or the module, or if the
 * parameter shm_single_copy says otherwise, this process publishes no segment id and uses none.
 *
 * A peer's memory is mapped in windows, each at its first use.  There is a table with a place for
 * each window number modulo its size, so a window may replace another one.  A window that is mapped
 * stays true: when its owner unmaps memory, or maps other memory there, the kernel takes the pages
 * out of the window as well, and the next access finds the new ones.
 *
 * The id of a segment is never used again, and what a process got stays that process's, so no nonce
 * is needed as for CMA, where a pid may come to belong to another process.
 *
 * An access to a page that the owner has not mapped is a SIGBUS, and so is one after the owner has
 * died.  In a job that ends when one of its processes dies, that changes only which message comes
 * last.  With fault tolerance others go on, so XPMEM is not used then.
 */
#include "shm/shm.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fab_params.h"

enum {
    FAB_SHM_WINDOWS = 64,     /* of a peer */
    FAB_SHM_WINDOW_BITS = 25, /* a window has 32 MiB */
    /* of libxpmem */
    XPMEM_PERMIT_MODE = 1,
    XPMEM_RDWR = 2,
};

#define FAB_SHM_WINDOW     (UINT64_C(1) << FAB_SHM_WINDOW_BITS)
#define XPMEM_MAXADDR_SIZE ((size_t) -1)

/* libxpmem's struct xpmem_addr */
typedef struct xpmem_addr {
    int64_t apid;
    off_t offset;
} xpmem_addr_t;

/* A part of the peer's memory that is mapped here. */
struct fab_shm_window {
    uint64_t number; /* the address there, divided by the size of a window */
    char *base;      /* NULL: this place in the table is free */
};

/* The functions of libxpmem, as its header xpmem.h declares them. */
static struct {
    int64_t (*make)(void *at, size_t size, int permit_type, void *permit_value);
    int (*remove)(int64_t segid);
    int64_t (*get)(int64_t segid, int flags, int permit_type, void *permit_value);
    int (*release)(int64_t apid);
    void *(*attach)(xpmem_addr_t addr, size_t size, void *at);
    int (*detach)(void *at);
} xpmem;

/* True: all of it is there. */
static bool load(void)
{
    const struct {
        const char *name;
        void *to;
    } symbols[] = {
        {"xpmem_make", &xpmem.make},     {"xpmem_remove", &xpmem.remove},
        {"xpmem_get", &xpmem.get},       {"xpmem_release", &xpmem.release},
        {"xpmem_attach", &xpmem.attach}, {"xpmem_detach", &xpmem.detach},
    };
    /* it stays loaded: another part of the process may use it as well */
    void *handle = dlopen("libxpmem.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

    if (NULL == handle) {
        return false;
    }
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *symbol = dlsym(handle, symbols[i].name);
        if (NULL == symbol) {
            return false;
        }
        memcpy(symbols[i].to, &symbol, sizeof(symbol));
    }
    return true;
}

void fab_shm_xpmem_open(fab_shm_domain_t *dom)
{
    const char *choice = fab_params.shm_single_copy;
    int64_t segid;

    if ((NULL != choice && 0 != strcmp(choice, "auto")) || dom->fab->config.outlives_peers ||
        !load()) {
        return;
    }
    segid = xpmem.make(NULL, XPMEM_MAXADDR_SIZE, XPMEM_PERMIT_MODE, (void *) (uintptr_t) 0600);
    if (segid <= 0) {
        fab_log(dom->fab, 1, "XPMEM is installed and not used (xpmem_make: %s)", strerror(errno));
        return;
    }
    dom->addr.xpmem_segid = segid;
}

void fab_shm_xpmem_close(fab_shm_domain_t *dom)
{
    if (0 != dom->addr.xpmem_segid) {
        (void) xpmem.remove(dom->addr.xpmem_segid);
        dom->addr.xpmem_segid = 0;
    }
}

bool fab_shm_xpmem_connect(fab_shm_ep_t *ep)
{
    if (0 == ep->dom->addr.xpmem_segid || 0 == ep->addr.xpmem_segid || NULL != ep->windows) {
        return NULL != ep->windows;
    }
    ep->windows = calloc(FAB_SHM_WINDOWS, sizeof(*ep->windows));
    if (NULL == ep->windows) {
        return false;
    }
    ep->xpmem_apid = xpmem.get(ep->addr.xpmem_segid, XPMEM_RDWR, XPMEM_PERMIT_MODE, NULL);
    if (ep->xpmem_apid <= 0) {
        fab_log(ep->dom->fab, 1, "the memory of process %u cannot be mapped (xpmem_get: %s)",
                ep->addr.pid, strerror(errno));
        free(ep->windows);
        ep->windows = NULL;
        fab_counters.shm_xpmem_refused++;
        return false;
    }
    ep->peer->caps |= FAB_CAP_MAPPED;
    return true;
}

void fab_shm_xpmem_disconnect(fab_shm_ep_t *ep)
{
    if (NULL == ep->windows) {
        return;
    }
    for (int i = 0; i < FAB_SHM_WINDOWS; i++) {
        if (NULL != ep->windows[i].base) {
            (void) xpmem.detach(ep->windows[i].base);
        }
    }
    (void) xpmem.release(ep->xpmem_apid);
    free(ep->windows);
    ep->windows = NULL;
    ep->peer->caps &= (uint8_t) ~FAB_CAP_MAPPED;
}

/* The window with this number, or NULL: it cannot be mapped. */
static char *window_map(fab_shm_ep_t *ep, uint64_t number)
{
    fab_shm_window_t *window = &ep->windows[number % FAB_SHM_WINDOWS];
    xpmem_addr_t addr = {.apid = ep->xpmem_apid, .offset = (off_t) (number * FAB_SHM_WINDOW)};
    void *base;

    if (NULL != window->base) {
        (void) xpmem.detach(window->base);
        window->base = NULL;
    }
    base = xpmem.attach(addr, FAB_SHM_WINDOW, NULL);
    if (NULL == base || (void *) -1 == base) {
        fab_counters.shm_xpmem_refused++;
        return NULL;
    }
    *window = (fab_shm_window_t){.number = number, .base = base};
    return base;
}

size_t fab_shm_xpmem_copy(fab_shm_ep_t *ep, bool is_put, void *local, uint64_t remote, size_t len)
{
    size_t done = 0;

    if (remote > INT64_MAX - len) {
        return 0;
    }
    while (done < len) {
        uint64_t at = remote + done;
        uint64_t number = at / FAB_SHM_WINDOW, offset = at % FAB_SHM_WINDOW;
        const fab_shm_window_t *window = &ep->windows[number % FAB_SHM_WINDOWS];
        char *base = NULL != window->base && number == window->number ? window->base
                                                                      : window_map(ep, number);
        size_t n = len - done < FAB_SHM_WINDOW - offset ? len - done : FAB_SHM_WINDOW - offset;
        if (NULL == base) {
            break;
        }
        if (is_put) {
            memcpy(base + offset, (char *) local + done, n);
        } else {
            memcpy((char *) local + done, base + offset, n);
        }
        done += n;
    }
    fab_counters.shm_xpmem_bytes += done;
    return done;
}
