/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults of the device as a whole, at a time after the first queue pair of the process can send:
 * its ports go down, and come up again, or it fails for good. What is cut is the process from all
 * others: nothing is read from its connections, and nothing written to them. Nothing is lost by it,
 * unlike in hardware, where a queue pair also gives up after its retries.
 */
#include "tmdev.h"

static void tell_ports(tmdev_node_t *node, enum ibv_event_type type)
{
    tmdev_ctx_t *ctx;
    TAILQ_FOREACH(ctx, &node->contexts, link) {
        for (uint32_t port = 1; port <= tmdev_settings()->ports; port++) {
            tmdev_event_raise_port(&ctx->v.context, type, (int) port);
        }
    }
}

static void cut(tmdev_node_t *node, bool is_cut)
{
    node->is_cut = is_cut;
    tmdev_conns_watch(node);
}

static void port_down(void *object)
{
    cut(object, true);
    tell_ports(object, IBV_EVENT_PORT_ERR);
}

static void port_up(void *object)
{
    cut(object, false);
    tell_ports(object, IBV_EVENT_PORT_ACTIVE);
}

static void device_fatal(void *object)
{
    tmdev_node_t *node = object;
    tmdev_ctx_t *ctx;
    cut(node, true);
    tmdev_fail_all();
    TAILQ_FOREACH(ctx, &node->contexts, link) {
        tmdev_event_raise(&ctx->v.context, IBV_EVENT_DEVICE_FATAL, NULL);
    }
}

void tmdev_faults_init(tmdev_node_t *node)
{
    tmdev_timer_init(&node->down_timer, port_down, node);
    tmdev_timer_init(&node->up_timer, port_up, node);
    tmdev_timer_init(&node->fatal_timer, device_fatal, node);
}

void tmdev_faults_start(tmdev_node_t *node)
{
    const tmdev_settings_t *s = tmdev_settings();
    if (node->has_faults) {
        return;
    }
    node->has_faults = true;
    if (s->has_port_down) {
        tmdev_timer_arm(node, &node->down_timer, s->port_down_us);
    }
    if (s->port_up_us > 0) {
        tmdev_timer_arm(node, &node->up_timer, s->port_up_us);
    }
    if (s->has_device_fatal) {
        tmdev_timer_arm(node, &node->fatal_timer, s->device_fatal_us);
    }
}
