/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registration of the fabric's parameters with the MCA variable system; with verbs_reg_rcache.c and
 * verbs_near.c the only file of the fabric that needs libopen-pal.
 *
 * The storage is fab_params, in the common library: Open MPI deregisters the variables when the
 * component closes, and the library stays loaded (-z nodelete), so they never dangle.
 */
#include "fabric/fab_params.h"

#include <stdio.h>

#include "opal/mca/base/base.h"
#include "opal/mca/base/mca_base_var.h"

#include "fabric/fab_provider.h"
#if FAB_HAVE_VERBS
#include "verbs/verbs_near.h"
#include "verbs/verbs_reg.h"
#endif

/* The components that may open the fabric. */
static const struct {
    const char *project;
    const char *type;
    const char *name;
} fab_params_owners[] = {{"ompi", "pml", "tm"}, {"opal", "btl", "fabric"}};

/*
 * One variable, of the name opal_common_tm_NAME, which lives as long as the process; each component
 * has it under its own name.  Whichever comes first opens the fabric, so all names are registered
 * then: a value takes effect only when the name under which the user gave it is known.
 */
static int params_var(const char *name, const char *help, mca_base_var_type_t type,
                      mca_base_var_info_lvl_t level, void *storage)
{
    int index = mca_base_var_find("opal", "opal_common", "tm", name);

    if (index < 0) {
        index = mca_base_var_register("opal", "opal_common", "tm", name, help, type, NULL, 0, 0,
                                      level, MCA_BASE_VAR_SCOPE_READONLY, storage);
    }
    for (size_t i = 0; i < sizeof(fab_params_owners) / sizeof(fab_params_owners[0]); i++) {
        int rc = index < 0 ? index
                           : mca_base_var_register_synonym(index, fab_params_owners[i].project,
                                                           fab_params_owners[i].type,
                                                           fab_params_owners[i].name, name, 0);
        if (rc < 0) {
            return rc;
        }
    }
    return index;
}

static int params_string(const char *name, const char *help, mca_base_var_info_lvl_t level,
                         char **storage)
{
    return params_var(name, help, MCA_BASE_VAR_TYPE_STRING, level, storage);
}

/*
 * "auto" or "none": text, since the message of an MCA enumerator about another value may not reach
 * the user (pml_tm's own do).
 */
static int params_choice(const char *name, const char *help, mca_base_var_info_lvl_t level,
                         char **storage)
{
    static char fab_params_auto[] = "auto";

    if (NULL == *storage) {
        *storage = fab_params_auto;
    }
    return params_string(name, help, level, storage);
}

static int params_uint(const char *name, const char *help, mca_base_var_info_lvl_t level,
                       unsigned int *storage)
{
    return params_var(name, help, MCA_BASE_VAR_TYPE_UNSIGNED_INT, level, storage);
}

static int params_verbs_tm(void)
{
    int rc = params_choice(
        "verbs_tm",
        "Whether posted receives are listed on RDMA devices that match tags (ConnectX-5 and later, "
        "InfiniBand). auto: where the device can; none: messages are always matched by the CPU. "
        "Default: auto.",
        OPAL_INFO_LVL_4, &fab_params.verbs_tm);

    if (rc >= 0) {
        rc = params_uint("verbs_tm_tags",
                         "With verbs_tm, receives on the device's list at most, if it can hold "
                         "as many; up to as many "
                         "buffers of verbs_eager_limit bytes are locked in memory for them: 1 "
                         "to 65536. Default: 1024.",
                         OPAL_INFO_LVL_5, &fab_params.verbs_tm_tags);
    }
    if (rc >= 0) {
        rc = params_uint("verbs_tm_min",
                         "With verbs_tm, bytes: receives with a shorter buffer are matched by "
                         "the CPU, which costs less than to "
                         "list them where a program seldom computes while it waits. They keep "
                         "later receives that fit the same "
                         "messages off the list, too. Any number. Default: 0.",
                         OPAL_INFO_LVL_5, &fab_params.verbs_tm_min);
    }
    return rc;
}

static int params_verbs(void)
{
    fab_params_t *p = &fab_params;
    int rc;

    rc = params_string("verbs_if_include",
                       "Comma-separated list of RDMA devices, or of their ports as "
                       "device:port, that may be used, e.g. "
                       "mlx5_0,mlx5_1:1. The one nearest the process is used. Not together "
                       "with verbs_if_exclude. "
                       "Empty: all. Default: empty.",
                       OPAL_INFO_LVL_2, &p->verbs_if_include);
    if (rc >= 0) {
        rc = params_string("verbs_if_exclude",
                           "Comma-separated list of RDMA devices, or of their ports as "
                           "device:port, that must not be used. "
                           "Not together with verbs_if_include. Empty: none. Default: empty.",
                           OPAL_INFO_LVL_2, &p->verbs_if_exclude);
    }
    if (rc >= 0) {
        rc = params_var(
            "verbs_gid_index",
            "Index in the GID table of the port to be used with RoCE, 0 to 255. -1: RoCE v2 before "
            "v1, IPv4 before IPv6, "
            "addresses that are routed before link-local ones. Default: -1.",
            MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_4, &p->verbs_gid_index);
    }
    if (rc >= 0) {
        rc = params_uint("verbs_eager_limit",
                         "Bytes: longest message that verbs sends as it is; longer ones are "
                         "announced and read by the "
                         "receiver. Also the size of every send and receive buffer. 304 to "
                         "1048576. Default: 8192.",
                         OPAL_INFO_LVL_4, &p->verbs_eager_limit);
    }
    if (rc >= 0) {
        rc = params_uint("verbs_window",
                         "Messages that one peer may have under way to this process by verbs, "
                         "before it waits for credits: "
                         "4 to 16384. With each connection come as many receive buffers, as "
                         "far as verbs_buffers allows. "
                         "Default: 64.",
                         OPAL_INFO_LVL_5, &p->verbs_window);
    }
    if (rc >= 0) {
        rc = params_uint(
            "verbs_buffers",
            "Receive buffers of verbs in this process at most, and send buffers at most, each of "
            "verbs_eager_limit bytes and locked in memory; they are made as connections and "
            "messages need them: "
            "128 to 1048576. Default: 4096.",
            OPAL_INFO_LVL_5, &p->verbs_buffers);
    }
    if (rc >= 0) {
        rc = params_uint(
            "verbs_timeout",
            "Time after which an RDMA device sends again what was not acknowledged, as the "
            "exponent n of "
            "4.096 us * 2^n, 8 to 31; after 7 times the peer has failed. Larger on networks that "
            "lose much or "
            "reroute slowly. Default: 17 (0.5 s; a lost peer is noticed after 4 to 16 s).",
            OPAL_INFO_LVL_6, &p->verbs_timeout);
    }
    return rc >= 0 ? params_verbs_tm() : rc;
}

static int params_tcp(void)
{
    fab_params_t *p = &fab_params;
    int rc;

    rc = params_string("tcp_if_include",
                       "Comma-separated list of network interfaces, or of networks as "
                       "address/bits, whose IP addresses may be used by tcp, e.g. "
                       "eth0,10.1.0.0/16. Connections to other addresses are refused. Empty: "
                       "all. Default: empty.",
                       OPAL_INFO_LVL_2, &p->tcp_if_include);
    if (rc >= 0) {
        rc = params_string("tcp_if_exclude",
                           "The same, of those that must not be used, though tcp_if_include "
                           "may name them. Empty: none. Default: empty.",
                           OPAL_INFO_LVL_2, &p->tcp_if_exclude);
    }
    if (rc >= 0) {
        rc = params_string("tcp_ports",
                           "Range of TCP ports, as first-last, of which each process listens "
                           "on one, for hosts behind firewalls: at least as many as processes "
                           "on one host. 1 to 65535. Empty: any that is free. Default: empty.",
                           OPAL_INFO_LVL_3, &p->tcp_ports);
    }
    if (rc >= 0) {
        rc = params_uint("tcp_eager_limit",
                         "Bytes: longest message that tcp sends as it is, and longest fragment "
                         "of longer ones, which are announced first. 304 to 122880. "
                         "Default: 65536.",
                         OPAL_INFO_LVL_4, &p->tcp_eager_limit);
    }
    if (rc >= 0) {
        rc = params_uint("tcp_timeout",
                         "Seconds after which a host that does not answer by TCP has failed: 1 "
                         "to 86400. What the network loses in less time is sent again. "
                         "Default: 60.",
                         OPAL_INFO_LVL_4, &p->tcp_timeout);
    }
    return rc;
}

/* params_var() returns the variable's index, or an error. */
static int params_register_all(void)
{
    fab_params_t *p = &fab_params;
    int rc;

    rc = params_string("providers",
                       "Comma-separated list of the ways to other processes that may be used: "
                       "shm, verbs, tcp; or, after ^, of those that may not. "
                       "Empty: all. A peer is reached by the first that can, in the order shm, "
                       "verbs, tcp; a process always reaches itself (self). "
                       "Default: empty.",
                       OPAL_INFO_LVL_2, &p->providers);
    if (rc >= 0) {
        rc = params_uint("shm_ring_size",
                         "Bytes of the shared-memory ring that a sender uses towards one "
                         "receiver: a power of two, 4096 to "
                         "16777216. 0: 64 KiB up to 16 processes per host, 32 KiB up to 64, 16 "
                         "KiB beyond. A larger ring "
                         "holds more messages before a sender must wait; memory is used per "
                         "pair that communicates. "
                         "Default: 0.",
                         OPAL_INFO_LVL_5, &p->shm_ring_size);
    }
    if (rc >= 0) {
        rc = params_uint(
            "shm_max_peers",
            "Processes of the same host that can send to this process through shared memory at the "
            "same time; others wait until one of them leaves: "
            "1 to 65536. 0: the processes of the job on this host and 1024 more, for those that "
            "join later. "
            "Costs address space, and memory only for those that do send. Default: 0.",
            OPAL_INFO_LVL_5, &p->shm_max_peers);
    }
    if (rc >= 0) {
        rc = params_uint(
            "shm_connect_timeout",
            "Seconds for which the first message to a process of the same host waits if there is "
            "no memory or file descriptor for a connection; then that peer has failed. 0 to 86400. "
            "Default: 30.",
            OPAL_INFO_LVL_6, &p->shm_connect_timeout);
    }
    if (rc >= 0) {
        rc = params_uint("shm_eager_limit",
                         "Bytes: longest message that is copied through the shared-memory ring "
                         "as it is; longer ones are "
                         "announced and fetched by the receiver. 304 to 4194304, and not above "
                         "a quarter of the ring, which "
                         "bounds it silently. Default: 16384.",
                         OPAL_INFO_LVL_4, &p->shm_eager_limit);
    }
    if (rc >= 0) {
        rc = params_uint("shm_copy_step",
                         "Bytes that one progress call copies with CMA (process_vm_readv) "
                         "before it looks after other "
                         "messages: 4096 to 1073741824. Larger: fewer system calls; smaller: "
                         "other messages wait less "
                         "(512 KiB take about 60 us). Default: 524288.",
                         OPAL_INFO_LVL_5, &p->shm_copy_step);
    }
    if (rc >= 0) {
        rc = params_choice("shm_single_copy",
                           "How large messages between processes of one host are copied once. "
                           "auto: by the kernel (CMA, "
                           "process_vm_readv), where a test call on the peer succeeds, else "
                           "through the rings; none: always "
                           "through the rings (two copies). Default: auto.",
                           OPAL_INFO_LVL_4, &p->shm_single_copy);
    }
    if (rc >= 0) {
        rc = params_choice(
            "shm_cooperative",
            "Whether a sender that waits inside MPI copies a part of a large message, while the "
            "receiver copies the other. auto: where this host has a core for each process of the "
            "job; none: never; always: also where it has not. Default: auto.",
            OPAL_INFO_LVL_5, &p->shm_cooperative);
    }
    if (rc >= 0) {
        rc = params_verbs();
    }
    return rc >= 0 ? params_tcp() : rc;
}

int fab_params_register(const struct mca_base_component_2_1_0_t *component)
{
    const mca_base_component_t *owner = (const mca_base_component_t *) component;
    int rc = params_register_all();

#if FAB_HAVE_VERBS
    fab_verbs_reg_use_rcache();
    fab_verbs_near_use_hwloc();
#endif
    snprintf(fab_params.prefix, sizeof(fab_params.prefix), "%s_%s_", owner->mca_type_name,
             owner->mca_component_name);

    return rc < 0 ? rc : OPAL_SUCCESS;
}
