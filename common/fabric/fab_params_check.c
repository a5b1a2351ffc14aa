/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric's parameters: their defaults, and what values are allowed.  Needs nothing of Open
 * MPI's libraries, unlike their registration (fab_params.c).
 */
#include "fabric/fab_params.h"

#include <stdio.h>
#include <string.h>

#include "shm/shm_wire.h"
#include "sock/sock_ip.h"
#include "tcp/tcp_wire.h"
#include "verbs/verbs_wire.h"

fab_params_t fab_params = {
    .providers = NULL,
    .shm_ring_size = 0,
    .shm_max_peers = 0,
    .shm_connect_timeout = 30,
    .shm_eager_limit = 16384,
    .shm_copy_step = 524288,
    .shm_single_copy = NULL,
    .shm_cooperative = NULL,
    .verbs_gid_index = -1,
    .verbs_eager_limit = 8192,
    .verbs_window = 64,
    .verbs_buffers = 4096,
    .verbs_tm = NULL,
    .verbs_tm_tags = 1024,
    .verbs_tm_min = 0,
    .verbs_timeout = 17,
    .tcp_eager_limit = 65536,
    .tcp_timeout = 60,
};

static bool is_power_of_two(unsigned int value)
{
    return 0 != value && 0 == (value & (value - 1));
}

static int params_range(const char *name, unsigned int value, unsigned int min, unsigned int max,
                        const char *extra, char *buf, size_t size)
{
    if (value >= min && value <= max) {
        return OPAL_SUCCESS;
    }
    snprintf(buf, size, "%s%s is %u; allowed are %u to %u%s.", fab_params.prefix, name, value, min,
             max, extra);
    return OPAL_ERR_BAD_PARAM;
}

bool fab_params_is_none(const char *choice)
{
    return NULL != choice && 0 == strcmp(choice, "none");
}

static int params_check_cooperative(char *buf, size_t size)
{
    const char *choice = fab_params.shm_cooperative;

    if (NULL == choice || 0 == strcmp(choice, "auto") || 0 == strcmp(choice, "none") ||
        0 == strcmp(choice, "always")) {
        return OPAL_SUCCESS;
    }
    snprintf(buf, size, "%sshm_cooperative is \"%s\"; allowed are auto, none and always.",
             fab_params.prefix, choice);
    return OPAL_ERR_BAD_PARAM;
}

static int params_check_choice(const char *name, const char *choice, char *buf, size_t size)
{
    if (NULL == choice || 0 == strcmp(choice, "auto") || 0 == strcmp(choice, "none")) {
        return OPAL_SUCCESS;
    }
    snprintf(buf, size, "%s%s is \"%s\"; allowed are auto and none.", fab_params.prefix, name,
             choice);
    return OPAL_ERR_BAD_PARAM;
}

/*
 * "device,device:port,...": a name nobody has is no error, as hosts differ; what no device could
 * have is.
 */
static bool params_is_ports(const char *list)
{
    while (NULL != list && '\0' != *list) {
        size_t name = strcspn(list, ":, ");
        size_t port = ':' == list[name] ? strspn(list + name + 1, "0123456789") : 0;
        size_t len = name + (':' == list[name]) + port;
        bool has_port = 1 <= port && port <= 3 && '0' != list[name + 1];
        if (0 == name || (':' == list[name] && !has_port) ||
            (',' != list[len] && '\0' != list[len])) {
            return false;
        }
        list += len + (',' == list[len]);
    }
    return true;
}

static int params_check_ports(const char *name, const char *list, char *buf, size_t size)
{
    if (params_is_ports(list)) {
        return OPAL_SUCCESS;
    }
    snprintf(buf, size,
             "%s%s is \"%s\"; it must be devices, or device:port, with commas between and no "
             "spaces, e.g. mlx5_0,mlx5_1:1.",
             fab_params.prefix, name, list);
    return OPAL_ERR_BAD_PARAM;
}

static int params_check_verbs(char *buf, size_t size)
{
    const fab_params_t *p = &fab_params;
    int rc = params_range("verbs_eager_limit", p->verbs_eager_limit, FAB_VERBS_EAGER_MIN,
                          FAB_VERBS_EAGER_MAX, "", buf, size);

    if (OPAL_SUCCESS == rc) {
        rc = params_range("verbs_window", p->verbs_window, 4, FAB_VERBS_WINDOW_MAX, "", buf, size);
    }
    if (OPAL_SUCCESS == rc) {
        rc = params_range("verbs_buffers", p->verbs_buffers, 128, 1u << 20, "", buf, size);
    }
    if (OPAL_SUCCESS == rc) {
        rc = params_range("verbs_tm_tags", p->verbs_tm_tags, 1, 65536, "", buf, size);
    }
    if (OPAL_SUCCESS == rc) {
        rc = params_check_choice("verbs_tm", p->verbs_tm, buf, size);
    }
    if (OPAL_SUCCESS == rc) {
        rc = params_range("verbs_timeout", p->verbs_timeout, 8, 31, "", buf, size);
    }
    if (OPAL_SUCCESS == rc) {
        rc = params_check_ports("verbs_if_include", p->verbs_if_include, buf, size);
    }
    if (OPAL_SUCCESS == rc) {
        rc = params_check_ports("verbs_if_exclude", p->verbs_if_exclude, buf, size);
    }
    if (OPAL_SUCCESS == rc && (p->verbs_gid_index < -1 || p->verbs_gid_index > 255)) {
        snprintf(buf, size, "%sverbs_gid_index is %d; allowed are -1 (automatic) to 255.",
                 p->prefix, p->verbs_gid_index);
        rc = OPAL_ERR_BAD_PARAM;
    }
    if (OPAL_SUCCESS == rc && NULL != p->verbs_if_include && '\0' != *p->verbs_if_include &&
        NULL != p->verbs_if_exclude && '\0' != *p->verbs_if_exclude) {
        snprintf(
            buf, size,
            "%sverbs_if_include (%s) and %sverbs_if_exclude (%s) are both set; set one of them.",
            p->prefix, p->verbs_if_include, p->prefix, p->verbs_if_exclude);
        rc = OPAL_ERR_BAD_PARAM;
    }
    return rc;
}

bool fab_params_ports(const char *range, uint16_t *first, uint16_t *last)
{
    unsigned from = 0, to = 0;
    int used = 0;

    if (NULL != range && '\0' != *range) {
        int n = sscanf(range, "%5u%n-%5u%n", &from, &used, &to, &used);
        to = 1 == n ? from : to;
        if (n < 1 || '\0' != range[used] || from < 1 || to < from || to > UINT16_MAX ||
            strspn(range, "0123456789-") != strlen(range)) {
            return false;
        }
    }
    *first = (uint16_t) from;
    *last = (uint16_t) to;
    return true;
}

static int params_check_interfaces(const char *name, const char *list, char *buf, size_t size)
{
    if (fab_sock_list_is_sound(list)) {
        return OPAL_SUCCESS;
    }
    snprintf(buf, size,
             "%s%s is \"%s\"; it must be interfaces, or networks as address/bits, with commas "
             "between and no spaces, e.g. eth0,10.1.0.0/16.",
             fab_params.prefix, name, list);
    return OPAL_ERR_BAD_PARAM;
}

static int params_check_tcp(char *buf, size_t size)
{
    const fab_params_t *p = &fab_params;
    uint16_t first, last;
    int rc = params_range("tcp_eager_limit", p->tcp_eager_limit, FAB_TCP_EAGER_MIN,
                          FAB_TCP_EAGER_MAX, "", buf, size);

    if (OPAL_SUCCESS == rc) {
        rc = params_range("tcp_timeout", p->tcp_timeout, 1, 86400, "", buf, size);
    }
    if (OPAL_SUCCESS == rc) {
        rc = params_check_interfaces("tcp_if_include", p->tcp_if_include, buf, size);
    }
    if (OPAL_SUCCESS == rc) {
        rc = params_check_interfaces("tcp_if_exclude", p->tcp_if_exclude, buf, size);
    }
    if (OPAL_SUCCESS == rc && !fab_params_ports(p->tcp_ports, &first, &last)) {
        snprintf(buf, size,
                 "%stcp_ports is \"%s\"; it must be a port, or a range of ports as first-last, "
                 "from 1 to 65535.",
                 p->prefix, p->tcp_ports);
        rc = OPAL_ERR_BAD_PARAM;
    }
    return rc;
}

int fab_params_check(char *buf, size_t size)
{
    const fab_params_t *p = &fab_params;
    int rc = OPAL_SUCCESS;

    if (0 != p->shm_ring_size) {
        rc = params_range("shm_ring_size", p->shm_ring_size, FAB_SHM_RING_MIN, FAB_SHM_RING_MAX,
                          ", powers of two, and 0 (automatic)", buf, size);
        if (OPAL_SUCCESS == rc && !is_power_of_two(p->shm_ring_size)) {
            snprintf(buf, size,
                     "%sshm_ring_size is %u; it must be a power of two, or 0 (automatic).",
                     p->prefix, p->shm_ring_size);
            rc = OPAL_ERR_BAD_PARAM;
        }
    }
    if (OPAL_SUCCESS == rc && 0 != p->shm_max_peers) {
        rc = params_range("shm_max_peers", p->shm_max_peers, 1, FAB_SHM_RINGS_MAX,
                          ", and 0 (automatic)", buf, size);
    }
    if (OPAL_SUCCESS == rc) {
        rc = params_range("shm_connect_timeout", p->shm_connect_timeout, 0, 86400, "", buf, size);
    }
    if (OPAL_SUCCESS == rc) {
        rc = params_range("shm_eager_limit", p->shm_eager_limit, FAB_SHM_EAGER_MIN,
                          FAB_SHM_RING_MAX / 4, "", buf, size);
    }
    if (OPAL_SUCCESS == rc) {
        rc = params_range("shm_copy_step", p->shm_copy_step, 4096, 1u << 30, "", buf, size);
    }
    if (OPAL_SUCCESS == rc) {
        rc = params_check_choice("shm_single_copy", p->shm_single_copy, buf, size);
    }
    if (OPAL_SUCCESS == rc) {
        rc = params_check_cooperative(buf, size);
    }
    if (OPAL_SUCCESS == rc) {
        rc = params_check_verbs(buf, size);
    }
    return OPAL_SUCCESS == rc ? params_check_tcp(buf, size) : rc;
}
