/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses (fab_wire.h): this process's, and those of others, of which one section after the other
 * is what a provider needs; and which provider takes a peer: the first that is open on both sides
 * and reaches it.
 */
#include "fabric/fab_core.h"

#include <stdio.h>
#include <string.h>

#include "fabric/fab_wire.h"

size_t fab_address(const fab_t *fab, void *buf, size_t size)
{
    const fab_core_t *core = (const fab_core_t *) fab;
    union {
        fab_wire_head_t head;
        unsigned char bytes[FAB_ADDRESS_MAX];
    } all = {.head = {.magic = FAB_WIRE_MAGIC,
                      .version = FAB_WIRE_VERSION,
                      .name = fab->config.name,
                      .len = sizeof(all.head)}};

    for (int i = 0; i < FAB_NUM_PROVIDERS; i++) {
        const fab_provider_t *provider = fab_providers[i];
        if (NULL == core->slots[i].dom) {
            continue;
        }
        if (all.head.len + sizeof(fab_wire_section_t) + provider->address_len > sizeof(all)) {
            return 0; /* without it peers would think that this process has not got the provider */
        }
        fab_address_add(&all.head, provider->id,
                        provider->address_len > 0 ? provider->address(core->slots[i].dom) : "",
                        provider->address_len);
    }
    if (all.head.len > size) {
        return 0;
    }
    memcpy(buf, &all, all.head.len);
    return all.head.len;
}

int fab_address_check(fab_core_t *core, uint64_t name, const void *address, size_t len,
                      const char **why)
{
    const unsigned char *bytes = address;
    fab_wire_head_t head;
    fab_wire_section_t section;
    size_t at = sizeof(head);
    uint16_t left;

    if (len < sizeof(head) || len > FAB_ADDRESS_MAX) {
        *why = fab_sentence(&core->fab, "Its address has %zu bytes; it must have %zu to %d.", len,
                            sizeof(head), FAB_ADDRESS_MAX);
        return OPAL_ERR_BAD_PARAM;
    }
    memcpy(&head, address, sizeof(head));
    if (__builtin_bswap32(FAB_WIRE_MAGIC) == head.magic) {
        *why = "Its machine has another byte order: run all processes on one kind of machine.";
        return OPAL_ERR_BAD_PARAM;
    }
    if (FAB_WIRE_MAGIC != head.magic || FAB_WIRE_VERSION != head.version) {
        *why = fab_sentence(&core->fab,
                            "Its address has magic 0x%x, version %u; this process knows 0x%x, %u: "
                            "install the same release on all hosts.",
                            head.magic, head.version, FAB_WIRE_MAGIC, FAB_WIRE_VERSION);
        return OPAL_ERR_BAD_PARAM;
    }
    for (left = head.sections; left > 0 && at + sizeof(section) <= len; left--) {
        memcpy(&section, bytes + at, sizeof(section));
        at += sizeof(section) + ((section.len + 7u) & ~7u);
    }
    if (left > 0 || at != len || head.len != len || head.name != name) {
        *why = fab_sentence(&core->fab,
                            "Its address is damaged: %zu bytes, of which the head says %u and the "
                            "sections fill %zu; "
                            "name 0x%llx, expected 0x%llx.",
                            len, head.len, at, (unsigned long long) head.name,
                            (unsigned long long) name);
        return OPAL_ERR_BAD_PARAM;
    }
    return OPAL_SUCCESS;
}

const void *fab_address_section(const void *address, uint16_t provider, size_t *section_len)
{
    const unsigned char *bytes = address;
    fab_wire_head_t head;
    fab_wire_section_t section;
    size_t at = sizeof(head);

    memcpy(&head, address, sizeof(head));
    for (uint16_t i = 0; i < head.sections; i++) {
        memcpy(&section, bytes + at, sizeof(section));
        if (section.provider == provider) {
            *section_len = section.len;
            return bytes + at + sizeof(section);
        }
        at += sizeof(section) + ((section.len + 7u) & ~7u);
    }
    return NULL;
}

void fab_address_add(fab_wire_head_t *to, uint16_t provider, const void *section, size_t len)
{
    const unsigned char *bytes = section;
    unsigned char *at = (unsigned char *) to + to->len;
    fab_wire_section_t head = {.provider = provider};

    while (len > 0 && 0 == bytes[len - 1]) {
        len--;
    }
    head.len = (uint16_t) len;
    memcpy(at, &head, sizeof(head));
    at += sizeof(head);
    memcpy(at, section, len);
    memset(at + len, 0, -len & 7);
    to->len += (uint32_t) (sizeof(head) + len + (-len & 7));
    to->sections++;
}

int fab_choose_this(fab_core_t *core, fab_peer_t *peer, int i, const void *address, size_t len,
                    const char **why)
{
    const fab_provider_t *provider = fab_providers[i];
    unsigned char whole[FAB_ADDRESS_MAX];

    *why = "no reason given";
    peer->ops = provider->ops;
    peer->provider = (uint8_t) i;
    if (len > provider->address_len) {
        *why = fab_sentence(&core->fab, "its address for %s has %zu bytes, expected %zu at most",
                            provider->name, len, provider->address_len);
        return OPAL_ERR_UNREACH;
    }
    memcpy(whole, address, len);
    memset(whole + len, 0, provider->address_len - len);
    return provider->attach(core->slots[i].dom, peer, whole, why);
}

int fab_choose(fab_core_t *core, fab_peer_t *peer, const void *address, int first, char *why,
               size_t size)
{
    size_t used = 0;

    why[0] = '\0';
    for (int i = first; i < FAB_NUM_PROVIDERS; i++) {
        const char *answer = core->slots[i].why_not;
        int rc = OPAL_ERR_UNREACH;
        size_t len = 0;
        const void *section = fab_address_section(address, fab_providers[i]->id, &len);
        if (NULL != core->slots[i].dom) {
            answer = "the other process does not use it";
            rc = NULL != section ? fab_choose_this(core, peer, i, section, len, &answer) : rc;
            if (OPAL_SUCCESS == rc) {
                return OPAL_SUCCESS;
            }
        }
        if (used < size) {
            used += (size_t) snprintf(why + used, size - used, "%s%s: %s",
                                      used > 0 ? "\n               " : "", fab_providers[i]->name,
                                      answer);
        }
        if (OPAL_ERR_OUT_OF_RESOURCE == rc) {
            return rc; /* the other process has chosen this provider, and sends by it */
        }
    }
    return OPAL_ERR_UNREACH;
}
