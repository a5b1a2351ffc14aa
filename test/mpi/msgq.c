/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For msgq.sh: what a parallel debugger shows of the message queues. Each rank plays debugger to
 * itself: it loads Open MPI's message queue library, whose interface is the one of MPIR debuggers,
 * answers its questions about types and symbols from Open MPI's headers, and compares the pending
 * receives and sends that it lists with those that this rank has posted.
 *
 * args: the library
 */
#include <dlfcn.h>

#include "ompi_config.h"

/* The base request headers want a PERUSE header that Open MPI does not install. */
#define _PERUSE_INTERNAL_H_

#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/group/group.h"
#include "ompi/mca/pml/base/pml_base_recvreq.h"
#include "ompi/mca/pml/base/pml_base_sendreq.h"
#include "ompi/request/request.h"
#include "opal/class/opal_hash_table.h"
#include "opal/class/opal_pointer_array.h"

#define FOR_MPI2 0
#include "ompi/debuggers/msgq_interface.h"

#include "tm_test.h"

/*
 * -------------------------------------------------------------------------------------------------
 * the debugger ----------
 */

typedef struct field {
    const char *type, *name;
    int offset;
} field_t;

#define FIELD(type, name)                                                                          \
    {                                                                                              \
#type, #name, (int) offsetof(type, name)                                                   \
    }

/* Names of types as the library asks for them, with what it asks about them. */
static const field_t fields[] = {
    FIELD(opal_list_item_t, opal_list_next),
    FIELD(opal_list_t, opal_list_sentinel),
    FIELD(opal_free_list_t, fl_mpool),
    FIELD(opal_free_list_t, fl_allocations),
    FIELD(opal_free_list_t, fl_frag_class),
    FIELD(opal_free_list_t, fl_frag_size),
    FIELD(opal_free_list_t, fl_frag_alignment),
    FIELD(opal_free_list_t, fl_max_to_alloc),
    FIELD(opal_free_list_t, fl_num_per_alloc),
    FIELD(opal_free_list_t, fl_num_allocated),
    FIELD(ompi_request_t, req_type),
    FIELD(ompi_request_t, req_status),
    FIELD(ompi_request_t, req_complete),
    FIELD(ompi_request_t, req_state),
    FIELD(ompi_request_t, req_f_to_c_index),
    FIELD(mca_pml_base_request_t, req_addr),
    FIELD(mca_pml_base_request_t, req_count),
    FIELD(mca_pml_base_request_t, req_peer),
    FIELD(mca_pml_base_request_t, req_tag),
    FIELD(mca_pml_base_request_t, req_comm),
    FIELD(mca_pml_base_request_t, req_datatype),
    FIELD(mca_pml_base_request_t, req_proc),
    FIELD(mca_pml_base_request_t, req_sequence),
    FIELD(mca_pml_base_request_t, req_type),
    FIELD(mca_pml_base_request_t, req_pml_complete),
    FIELD(mca_pml_base_send_request_t, req_addr),
    FIELD(mca_pml_base_send_request_t, req_bytes_packed),
    FIELD(mca_pml_base_send_request_t, req_send_mode),
    FIELD(mca_pml_base_recv_request_t, req_bytes_packed),
    FIELD(opal_pointer_array_t, lowest_free),
    FIELD(opal_pointer_array_t, number_free),
    FIELD(opal_pointer_array_t, size),
    FIELD(opal_pointer_array_t, addr),
    FIELD(ompi_communicator_t, c_name),
    FIELD(ompi_communicator_t, c_contextid),
#if OMPI_MAJOR_VERSION >= 5
    FIELD(ompi_communicator_t, c_contextidb),
    FIELD(ompi_communicator_t, c_index),
#endif
    FIELD(ompi_communicator_t, c_my_rank),
    FIELD(ompi_communicator_t, c_local_group),
    FIELD(ompi_communicator_t, c_remote_group),
    FIELD(ompi_communicator_t, c_flags),
    FIELD(ompi_group_t, grp_proc_count),
    FIELD(ompi_group_t, grp_proc_pointers),
    FIELD(ompi_group_t, grp_my_rank),
    FIELD(ompi_group_t, grp_flags),
    FIELD(ompi_status_public_t, MPI_SOURCE),
    FIELD(ompi_status_public_t, MPI_TAG),
    FIELD(ompi_status_public_t, MPI_ERROR),
    FIELD(ompi_status_public_t, _ucount),
    FIELD(ompi_status_public_t, _cancelled),
    FIELD(ompi_datatype_t, name),
    FIELD(ompi_datatype_t, super),
    FIELD(opal_datatype_t, size),
};

static mqs_image_info *image_info;
static mqs_process_info *process_info;
static char image, process; /* their addresses stand for this process */

static void put_image_info(mqs_image *i, mqs_image_info *info)
{
    (void) i;
    image_info = info;
}

static mqs_image_info *get_image_info(mqs_image *i)
{
    (void) i;
    return image_info;
}

static void put_process_info(mqs_process *p, mqs_process_info *info)
{
    (void) p;
    process_info = info;
}

static mqs_process_info *get_process_info(mqs_process *p)
{
    (void) p;
    return process_info;
}

static void print_nothing(const char *text)
{
    (void) text;
}

static char *error_string(int code)
{
    (void) code;
    return "error";
}

static void get_type_sizes(mqs_process *p, mqs_target_type_sizes *sizes)
{
    (void) p;
    memset(sizes, 0, sizeof(*sizes));
    sizes->short_size = sizeof(short);
    sizes->int_size = sizeof(int);
    sizes->long_size = sizeof(long);
    sizes->long_long_size = sizeof(long long);
    sizes->pointer_size = sizeof(void *);
}

static int find_symbol(mqs_image *i, char *name, mqs_taddr_t *address)
{
    void *p = dlsym(RTLD_DEFAULT, name);

    (void) i;
    if (NULL != p && NULL != address) {
        *address = (mqs_taddr_t) (uintptr_t) p;
    }
    return NULL != p ? mqs_ok : mqs_no_information;
}

static int find_function(mqs_image *i, char *name, mqs_lang_code language, mqs_taddr_t *address)
{
    (void) language;
    return find_symbol(i, name, address);
}

/* A type is its name. What is not in the table serves only to show topologies and attributes. */
static mqs_type *find_type(mqs_image *i, char *name, mqs_lang_code language)
{
    (void) i;
    (void) language;
    return (mqs_type *) strdup(name);
}

static int field_offset(mqs_type *type, char *name)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (0 == strcmp(fields[i].type, (const char *) type) && 0 == strcmp(fields[i].name, name)) {
            return fields[i].offset;
        }
    }
    return 0;
}

static int size_of(mqs_type *type)
{
    if (0 == strcmp((const char *) type, "opal_free_list_item_t")) {
        return (int) sizeof(opal_free_list_item_t);
    }
    return 0; /* not used */
}

static int global_rank(mqs_process *p)
{
    (void) p;
    return tm_rank;
}

static mqs_image *get_image(mqs_process *p)
{
    (void) p;
    return (mqs_image *) &image;
}

static int fetch_data(mqs_process *p, mqs_taddr_t from, int n, void *to)
{
    (void) p;
    memcpy(to, (const void *) (uintptr_t) from, (size_t) n);
    return mqs_ok;
}

static void target_to_host(mqs_process *p, const void *from, void *to, int n)
{
    (void) p;
    memcpy(to, from, (size_t) n);
}

static const mqs_basic_callbacks basic_callbacks = {.mqs_malloc_fp = malloc,
                                                    .mqs_free_fp = free,
                                                    .mqs_dprints_fp = print_nothing,
                                                    .mqs_errorstring_fp = error_string,
                                                    .mqs_put_image_info_fp = put_image_info,
                                                    .mqs_get_image_info_fp = get_image_info,
                                                    .mqs_put_process_info_fp = put_process_info,
                                                    .mqs_get_process_info_fp = get_process_info};
static const mqs_image_callbacks image_callbacks = {.mqs_get_type_sizes_fp = get_type_sizes,
                                                    .mqs_find_function_fp = find_function,
                                                    .mqs_find_symbol_fp = find_symbol,
                                                    .mqs_find_type_fp = find_type,
                                                    .mqs_field_offset_fp = field_offset,
                                                    .mqs_sizeof_fp = size_of};
static const mqs_process_callbacks process_callbacks = {.mqs_get_global_rank_fp = global_rank,
                                                        .mqs_get_image_fp = get_image,
                                                        .mqs_fetch_data_fp = fetch_data,
                                                        .mqs_target_to_host_fp = target_to_host};

/*
 * -------------------------------------------------------------------------------------------------
 * the library -----------
 */

static void *library;

#define LIBRARY(name) ((__typeof__(name) *) library_function(#name))

static void *library_function(const char *name)
{
    void *p = dlsym(library, name);

    if (NULL == p) {
        TM_FATAL("the library has no %s", name);
    }
    return p;
}

static void open_library(const char *path)
{
    char *message = NULL;

    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (NULL == library) {
        TM_FATAL("%s", dlerror());
    }
    LIBRARY(mqs_setup_basic_callbacks)(&basic_callbacks);
    TM_CHECK(LIBRARY(mqs_setup_image)((mqs_image *) &image, &image_callbacks) == mqs_ok,
             "mqs_setup_image");
    TM_CHECK(LIBRARY(mqs_image_has_queues)((mqs_image *) &image, &message) == mqs_ok,
             "mqs_image_has_queues: %s", NULL != message ? message : "");
    TM_CHECK(LIBRARY(mqs_setup_process)((mqs_process *) &process, &process_callbacks) == mqs_ok,
             "mqs_setup_process");
    TM_CHECK(LIBRARY(mqs_process_has_queues)((mqs_process *) &process, &message) == mqs_ok,
             "mqs_process_has_queues: %s", NULL != message ? message : "");
}

typedef struct op {
    int is_found, peer, tag, is_tag_wild;
    long bytes;
    const void *buf;
} op_t;

/*
 * Look for what is listed as pending of a kind on a communicator of this name; each of the n must
 * be there once, and nothing else.
 */
static void compare(const char *comm_name, int kind, op_t *want, int n)
{
    mqs_process *p = (mqs_process *) &process;
    const char *what = kind == mqs_pending_receives ? "receive" : "send";
    bool has_comm = false;
    int rc;

    for (int i = 0; i < n; i++) {
        want[i].is_found = 0;
    }
    LIBRARY(mqs_update_communicator_list)(p);
    for (rc = LIBRARY(mqs_setup_communicator_iterator)(p); rc == mqs_ok;
         rc = LIBRARY(mqs_next_communicator)(p)) {
        mqs_communicator comm;
        mqs_pending_operation op;

        TM_CHECK(LIBRARY(mqs_get_communicator)(p, &comm) == mqs_ok, "mqs_get_communicator");
        if (0 != strcmp(comm.name, comm_name)) {
            continue;
        }
        has_comm = true;
        TM_CHECK(comm.local_rank == tm_rank && comm.size == tm_size,
                 "%s: rank %ld of %ld, expected %d of %d", comm_name, (long) comm.local_rank,
                 (long) comm.size, tm_rank, tm_size);
        TM_CHECK(LIBRARY(mqs_setup_operation_iterator)(p, kind) == mqs_ok,
                 "mqs_setup_operation_iterator");
        for (memset(&op, 0, sizeof(op)); LIBRARY(mqs_next_operation)(p, &op) == mqs_ok;
             memset(&op, 0, sizeof(op))) {
            int i = 0;

            if (op.status != mqs_st_pending) {
                continue; /* given back, or complete */
            }
            while (i < n && (uintptr_t) want[i].buf != (uintptr_t) op.buffer) {
                i++;
            }
            if (!TM_CHECK(i < n,
                          "a pending %s is listed that is not there: peer %ld tag %ld, %ld bytes",
                          what, (long) op.desired_local_rank, (long) op.desired_tag,
                          (long) op.desired_length)) {
                continue;
            }
            want[i].is_found++;
            /* wildcards come as 32 bits without their sign */
            TM_CHECK((int) op.desired_local_rank == want[i].peer &&
                         op.tag_wild == want[i].is_tag_wild &&
                         (op.tag_wild || op.desired_tag == want[i].tag) &&
                         op.desired_length == want[i].bytes,
                     "%s %d: peer %ld, tag %ld, wild %d, %ld bytes; expected %d, %d, %d, %ld", what,
                     i, (long) op.desired_local_rank, (long) op.desired_tag, op.tag_wild,
                     (long) op.desired_length, want[i].peer, want[i].tag, want[i].is_tag_wild,
                     want[i].bytes);
        }
    }
    TM_CHECK(has_comm, "communicator \"%s\" is not listed", comm_name);
    for (int i = 0; i < n; i++) {
        TM_CHECK(1 == want[i].is_found, "pending %s %d is listed %d times", what, i,
                 want[i].is_found);
    }
}

/* ---- the program ----------------------------------------------------------------------------- */

enum { COUNT = 5 };

int main(int argc, char **argv)
{
    static int in[COUNT][100], out[COUNT][100];
    MPI_Request rreq[COUNT], sreq[COUNT];
    op_t recvs[COUNT], sends[COUNT];
    MPI_Comm comm, back;
    int dst, src;

    tm_init(&argc, &argv, "msgq");
    if (argc < 2) {
        TM_FATAL("name the library");
    }
    dst = (tm_rank + 1) % tm_size;
    src = (tm_rank + tm_size - 1) % tm_size;
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    TM_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &back));
    TM_MPI(MPI_Comm_set_name(comm, "receives"));
    TM_MPI(MPI_Comm_set_name(back, "sends"));
    open_library(argv[1]);
    compare("receives", mqs_pending_receives, recvs, 0);
    compare("sends", mqs_pending_sends, sends, 0);
    for (int i = 0; i < COUNT; i++) {
        recvs[i] = (op_t){.peer = 0 == i % 2 ? src : MPI_ANY_SOURCE,
                          .tag = 10 + i,
                          .is_tag_wild = 3 == i,
                          .bytes = 4 * (10 + i),
                          .buf = in[i]};
        sends[i] = (op_t){.peer = dst, .tag = 20 + i, .bytes = 4 * (20 + i), .buf = out[i]};
        TM_MPI(MPI_Irecv(in[i], 10 + i, MPI_INT, recvs[i].peer, 3 == i ? MPI_ANY_TAG : 10 + i, comm,
                         &rreq[i]));
        TM_MPI(MPI_Issend(out[i], 20 + i, MPI_INT, dst, 20 + i, back, &sreq[i]));
    }
    compare("receives", mqs_pending_receives, recvs, COUNT);
    compare("sends", mqs_pending_sends, sends, COUNT);
    TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
    compare("receives", mqs_pending_receives, recvs, COUNT);
    compare("sends", mqs_pending_sends, sends, COUNT);
    /* One of each is done: it is no longer pending. */
    for (int i = 0; i < COUNT; i++) {
        int k = COUNT - 1 - i;

        TM_MPI(MPI_Barrier(MPI_COMM_WORLD));
        TM_MPI(MPI_Recv(in[k], 100, MPI_INT, src, 20 + k, back, MPI_STATUS_IGNORE));
        TM_MPI(MPI_Wait(&sreq[k], MPI_STATUS_IGNORE));
        TM_MPI(MPI_Cancel(&rreq[k]));
        TM_MPI(MPI_Wait(&rreq[k], MPI_STATUS_IGNORE));
        compare("receives", mqs_pending_receives, recvs, k);
        compare("sends", mqs_pending_sends, sends, k);
    }
    TM_MPI(MPI_Comm_free(&comm));
    TM_MPI(MPI_Comm_free(&back));
    return tm_finish();
}
