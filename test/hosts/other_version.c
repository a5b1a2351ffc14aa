/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For other_version.sh, preloaded: rank 0 gets the address of rank 1 as if that ran another version
 * of pml_tm, or on a machine of the other byte order. OTHER says what differs.  Rank 1 looks for
 * rank 0 only after that: if it asked first, rank 0 would have its address from the question, which
 * is not changed here.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pmix.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/fab_wire.h"
#include "pml_tm/base/pml_tm_wire.h"
#include "tcp/tcp_wire.h"

typedef pmix_status_t (*get_fn_t)(const pmix_proc_t *proc, const char key[],
                                  const pmix_info_t info[], size_t ninfo, pmix_value_t **value);

static int is_other(const char *what)
{
    const char *other = getenv("OTHER");

    return NULL != other && 0 == strcmp(other, what);
}

static void change_tcp(char *fabric)
{
    fab_wire_head_t head;
    fab_wire_section_t section;
    fab_tcp_addr_t addr;
    char *at = fabric + sizeof(head);

    memcpy(&head, fabric, sizeof(head));
    for (int i = 0; i < head.sections; i++) {
        memcpy(&section, at, sizeof(section));
        at += sizeof(section);
        if (FAB_WIRE_TCP == section.provider) {
            memcpy(&addr, at, sizeof(addr));
            addr.version++;
            memcpy(at, &addr, sizeof(addr));
        }
        at += (section.len + 7u) & ~7u;
    }
}

static void change(char *bytes)
{
    mca_pml_tm_address_t head;
    fab_wire_head_t fabric;

    memcpy(&head, bytes, sizeof(head));
    memcpy(&fabric, bytes + sizeof(head), sizeof(fabric));
    if (is_other("byte-order")) {
        head.magic = __builtin_bswap32(head.magic);
    } else if (is_other("pml")) {
        head.version++;
    } else if (is_other("fabric-byte-order")) {
        fabric.magic = __builtin_bswap32(fabric.magic);
    } else if (is_other("fabric")) {
        fabric.version++;
    }
    memcpy(bytes, &head, sizeof(head));
    memcpy(bytes + sizeof(head), &fabric, sizeof(fabric));
    if (is_other("tcp")) {
        change_tcp(bytes + sizeof(head));
    }
}

static int is_address(const pmix_value_t *value)
{
    const uint32_t magic = PML_TM_ADDRESS_MAGIC;

    return PMIX_BYTE_OBJECT == value->type &&
           value->data.bo.size > sizeof(mca_pml_tm_address_t) + sizeof(fab_wire_head_t) &&
           0 == memcmp(value->data.bo.bytes, &magic, sizeof(magic));
}

/* Rank 0 has got the address: the file of this name, which both hosts see, is there. */
static const char got[] = "other.got";

pmix_status_t PMIx_Get(const pmix_proc_t *proc, const char key[], const pmix_info_t info[],
                       size_t ninfo, pmix_value_t **value)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    get_fn_t get = (get_fn_t) dlsym(RTLD_NEXT, "PMIx_Get");
    pmix_status_t rc = get(proc, key, info, ninfo, value);

    if (PMIX_SUCCESS != rc || NULL == value || NULL == rank || NULL == proc ||
        !is_address(*value)) {
        return rc;
    }
    if (0 == strcmp(rank, "1") && 0 == proc->rank) {
        while (0 != access(got, F_OK)) {
            usleep(1000);
        }
    } else if (0 == strcmp(rank, "0") && 1 == proc->rank) {
        close(open(got, O_WRONLY | O_CREAT, 0600));
        if (is_other("component")) {
            return PMIX_ERR_NOT_FOUND; /* the key of an address has the component's version */
        }
        change((*value)->data.bo.bytes);
    }
    return rc;
}
