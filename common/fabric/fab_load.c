/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The providers verbs and ofi are separate DSOs beside the library.  verbs is loaded if the host
 * has an RDMA device, ofi if it has one that libfabric serves better, or if the user names a
 * provider of libfabric.  Otherwise start-up loads neither libibverbs nor libfabric.
 *
 * They are looked for where the library itself is, under its own name with _verbs or _ofi in it, so
 * a moved installation has its own, and one of the same release.
 */
#include "fabric/fab_core.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fab_abi.h"
#include "fabric/fab_params.h"

/*
 * Is there an entry with one of these prefixes in this class of devices?  SYSFS_PATH is libibverbs'
 * variable.
 */
static bool has_device(const char *class, const char *const *prefixes)
{
    const char *sysfs = secure_getenv("SYSFS_PATH");
    char path[PATH_MAX];
    const struct dirent *entry;
    bool is_found = false;
    DIR *dir;

    snprintf(path, sizeof(path), "%s/class/%s", NULL != sysfs ? sysfs : "/sys", class);
    dir = opendir(path);
    if (NULL == dir) {
        return false;
    }
    while (!is_found && NULL != (entry = readdir(dir))) {
        for (const char *const *prefix = prefixes; !is_found && NULL != *prefix; prefix++) {
            is_found = 0 == strncmp(entry->d_name, *prefix, strlen(*prefix));
        }
    }
    closedir(dir);
    return is_found;
}

/*
 * DIR/libmca_common_tm-0.1.0.so: DIR/libmca_common_tm_NAME-0.1.0.so. False: it has another name.
 */
static bool object_path(const char *name, char *path, size_t size)
{
    static const char library[] = "/libmca_common_tm";
    const char *at;
    Dl_info info;

    if (0 == dladdr(&fab_counters, &info) || NULL == info.dli_fname) {
        return false;
    }
    at = strrchr(info.dli_fname, '/');
    if (NULL == at || 0 != strncmp(at, library, sizeof(library) - 1)) {
        return false;
    }
    at += sizeof(library) - 1;
    return (size_t) snprintf(path, size, "%.*s_%s%s", (int) (at - info.dli_fname), info.dli_fname,
                             name, at) < size;
}

/* The provider in the object with this name, which exports symbol. */
static const fab_provider_t *load_object(fab_t *fab, const char *name, const char *symbol,
                                         const char **why)
{
    char path[PATH_MAX];
    const fab_object_t *object;
    void *handle;

    if (!object_path(name, path, sizeof(path))) {
        *why = "The directory of libmca_common_tm, where the provider should be, cannot be found.";
        return NULL;
    }
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    object = NULL != handle ? dlsym(handle, symbol) : NULL;
    if (NULL == object) {
        *why = fab_sentence(fab, "The provider cannot be loaded: %s.", dlerror());
        return NULL;
    }
    if (FAB_ABI != object->abi) {
        *why = fab_sentence(fab,
                            "%s is of another build than the library beside it (ABI %llx, not "
                            "%llx): install both from the same one.",
                            path, (unsigned long long) object->abi, (unsigned long long) FAB_ABI);
        return NULL;
    }
    if (!fab->config.is_tool) {
        object->use_ompi();
    }
    return object->provider;
}

const fab_provider_t *fab_load_verbs(fab_t *fab, const char **why)
{
    static const char *const prefixes[] = {"uverbs", NULL};

    if (!has_device("infiniband_verbs", prefixes)) {
        if (NULL != fab_params.verbs_if_include && '\0' != fab_params.verbs_if_include[0]) {
            fab_warn(fab, "pml_tm_verbs_if_include names %s; this host has no RDMA device.",
                     fab_params.verbs_if_include);
        }
        *why = "This host has no RDMA device.";
        return NULL;
    }
    return load_object(fab, "verbs", "fab_verbs_object", why);
}

/* A device of which libfabric makes more than verbs does: Slingshot, EFA or Omni-Path. */
static bool has_ofi_device(void)
{
    static const char *const cxi[] = {"cxi", NULL};
    static const char *const infiniband[] = {"efa_", "rdmap", "hfi1_", NULL};

    return has_device("cxi", cxi) || has_device("cxi_user", cxi) ||
           has_device("infiniband", infiniband);
}

const fab_provider_t *fab_load_ofi(fab_t *fab, const char **why)
{
    const char *wanted = fab_params.ofi_provider;

    if (fab_params_is_none(wanted)) {
        *why = fab_sentence(fab, "pml_tm_ofi_provider is none.");
        return NULL;
    }
    if ((NULL == wanted || '\0' == *wanted) && !has_ofi_device()) {
        *why = fab_sentence(
            fab, "This host has no Slingshot, EFA or Omni-Path device; pml_tm_ofi_provider "
                 "can name another provider of libfabric.");
        return NULL;
    }
    return load_object(fab, "ofi", "fab_ofi_object", why);
}
