/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loading the provider verbs.  The object is looked for where the library itself is, under the
 * library's own name with _verbs in it, so a moved installation has its own, and one of the same
 * release.
 */
#include "fabric/fab_load.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fab_abi.h"

/* As libibverbs looks for devices; SYSFS_PATH is its variable. */
static bool host_has_device(void)
{
    const char *sysfs = secure_getenv("SYSFS_PATH");
    char path[PATH_MAX];
    const struct dirent *entry;
    bool is_found = false;
    DIR *dir;

    snprintf(path, sizeof(path), "%s/class/infiniband_verbs", NULL != sysfs ? sysfs : "/sys");
    dir = opendir(path);
    if (NULL == dir) {
        return false;
    }
    while (!is_found && NULL != (entry = readdir(dir))) {
        is_found = 0 == strncmp(entry->d_name, "uverbs", 6);
    }
    closedir(dir);
    return is_found;
}

/*
 * DIR/libmca_common_tm-0.1.0.so: DIR/libmca_common_tm_verbs-0.1.0.so. False: it has another name.
 */
static bool object_path(char *path, size_t size)
{
    static const char name[] = "/libmca_common_tm";
    const char *at;
    Dl_info info;

    if (0 == dladdr(&fab_counters, &info) || NULL == info.dli_fname) {
        return false;
    }
    at = strrchr(info.dli_fname, '/');
    if (NULL == at || 0 != strncmp(at, name, sizeof(name) - 1)) {
        return false;
    }
    at += sizeof(name) - 1;
    return (size_t) snprintf(path, size, "%.*s_verbs%s", (int) (at - info.dli_fname),
                             info.dli_fname, at) < size;
}

const fab_provider_t *fab_load_verbs(fab_t *fab, const char **why)
{
    char path[PATH_MAX];
    const fab_object_t *object;
    void *handle;

    if (!host_has_device()) {
        *why = "This host has no RDMA device.";
        return NULL;
    }
    if (!object_path(path, sizeof(path))) {
        *why = "The directory of libmca_common_tm, where the provider should be, cannot be found.";
        return NULL;
    }
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    object = NULL != handle ? dlsym(handle, "fab_verbs_object") : NULL;
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
    object->use_ompi();
    return object->provider;
}
