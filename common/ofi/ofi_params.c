/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parameters of ofi.  They exist where ofi is not built, too: files of parameters are shared
 * between hosts.
 */
#include "fabric/fab_params.h"

#include <string.h>

#include "ofi/ofi_wire.h"

/* "name,name,...": an unknown name is no error, as hosts differ. */
static bool is_list(const char *list, const char *allowed)
{
    while ('\0' != *list) {
        size_t len = strspn(list, allowed);
        if (0 == len || (',' != list[len] && '\0' != list[len]) ||
            (',' == list[len] && '\0' == list[len + 1])) {
            return false;
        }
        list += len + (',' == list[len]);
    }
    return true;
}

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

static bool ofi_is_provider_list(const char *list)
{
    return is_list(list, NAME_CHARS ";");
}

static bool ofi_is_domain_list(const char *list)
{
    return is_list(list, NAME_CHARS ".:/");
}

static const char ofi_domain_list[] =
    "names of libfabric's domains (fi_info shows them), with commas between and no spaces, e.g. "
    "cxi0,cxi1";

static const fab_param_t ofi_rows[] = {
    {
        FAB_PARAM(fab_params_t, ofi_provider, STRING, 2),
        .is_valid = ofi_is_provider_list,
        .form = "none, or names of libfabric's providers with commas between and no spaces, the "
                "preferred one first, e.g. cxi or tcp;ofi_rxm",
        .empty_means = "cxi, efa, opx, psm2, psm3, where the host has such a device",
        .help = "Providers of libfabric that may be used between hosts. They go before verbs and "
                "tcp.",
    },
    {
        FAB_PARAM(fab_params_t, ofi_if_include, STRING, 1),
        .is_valid = ofi_is_domain_list,
        .form = ofi_domain_list,
        .empty_means = "all",
        .help = "Devices that libfabric may use. A process uses one that is near to it. Not "
                "together with ofi_if_exclude.",
    },
    {
        FAB_PARAM(fab_params_t, ofi_if_exclude, STRING, 1),
        .is_valid = ofi_is_domain_list,
        .form = ofi_domain_list,
        .empty_means = "none",
        .help = "Devices that libfabric must not use. Not together with ofi_if_include.",
    },
    {
        FAB_PARAM(fab_params_t, ofi_timeout, UINT, 4),
        FAB_PARAM_NUMBER(30, 1, 86400),
        .unit = "seconds",
        .help = "How long libfabric may take to deliver the first message to a process of another "
                "host before another provider is tried; and how long a message may be missing, "
                "once later ones have arrived, before its sender counts as failed.",
    },
};

const fab_param_table_t fab_ofi_params = FAB_PARAM_TABLE(ofi_rows);
