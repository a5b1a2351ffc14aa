/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Nearness of devices, by Open MPI's hwloc topology.  mpirun shares one with all processes of a
 * host, so it costs little here. Loading one in each process would take tens of milliseconds on
 * large machines.
 */
#include "verbs/verbs_near.h"

#include <sched.h>
#include <string.h>

#include "verbs/verbs.h"

static hwloc_obj_t near_find(hwloc_topology_t topology, const char *device)
{
    hwloc_obj_t obj = NULL;

    do {
        obj = hwloc_get_next_osdev(topology, obj);
    } while (NULL != obj && (HWLOC_OBJ_OSDEV_OPENFABRICS != obj->attr->osdev.type ||
                             0 != strcmp(obj->name, device)));
    return obj;
}

int fab_verbs_near_depth(hwloc_topology_t topology, hwloc_const_cpuset_t cpus, const char *device)
{
    hwloc_obj_t obj = near_find(topology, device);

    if (NULL == obj || !hwloc_bitmap_intersects(cpus, hwloc_get_root_obj(topology)->cpuset)) {
        return 0;
    }
    obj = hwloc_get_non_io_ancestor_obj(topology, obj);
    while (NULL != obj->parent && !hwloc_bitmap_isincluded(cpus, obj->cpuset)) {
        obj = obj->parent;
    }
    return (int) obj->depth;
}

/* Not hwloc_get_cpubind(): with an XML topology it may describe another host. */
static hwloc_cpuset_t near_cpus(void)
{
    hwloc_cpuset_t set = hwloc_bitmap_alloc();
    cpu_set_t cpus;

    if (NULL != set && 0 == sched_getaffinity(0, sizeof(cpus), &cpus)) {
        for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (CPU_ISSET(cpu, &cpus)) {
                hwloc_bitmap_set(set, cpu);
            }
        }
    }
    return set;
}

static int near_here(const char *device, uint32_t *parts)
{
    hwloc_cpuset_t cpus = OPAL_SUCCESS == opal_hwloc_base_get_topology() ? near_cpus() : NULL;
    int depth = NULL != cpus ? fab_verbs_near_depth(opal_hwloc_topology, cpus, device) : 0;

    *parts = NULL != cpus ? hwloc_get_nbobjs_by_depth(opal_hwloc_topology, depth) : 1;
    hwloc_bitmap_free(cpus);
    return depth;
}

void fab_verbs_near_use_hwloc(void)
{
    fab_verbs_near = near_here;
}
