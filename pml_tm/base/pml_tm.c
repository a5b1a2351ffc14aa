/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state that all files share, and what any of them may call.
 */
#include "pml_tm/base/pml_tm.h"

#include "fabric/fab_counters.h"

mca_pml_tm_t mca_pml_tm = {.output = -1};

void mca_pml_tm_bad_message(fab_peer_t *peer, const char *what)
{
    char why[200];

    fab_counters.bad_messages++;
    snprintf(why, sizeof(why), "it sent a message that makes no sense (%s)", what);
    fab_peer_fail(peer, OMPI_ERR_BAD_PARAM, why);
}

/* ---- messages sent ------------------------------------------------------- */

static unsigned long long num_messages(const mca_pml_tm_sent_t *sent)
{
    unsigned long long sum = 0;

    for (unsigned i = 0; i < PML_TM_SIZE_CLASSES; ++i) {
        sum += sent->messages[i];
    }
    return sum;
}

unsigned long long mca_pml_tm_sent_by(mca_pml_tm_protocol_t protocol)
{
    unsigned long long sum = 0;

    for (unsigned i = 0; i < FAB_NUM_PROVIDERS; ++i) {
        sum += num_messages(&mca_pml_tm.sent[protocol][i]);
    }
    if (PML_TM_SENT_EAGER == protocol) {
        sum += num_messages(&mca_pml_tm.ring_sent);
        for (unsigned len = 0; len < PML_TM_SHORT_LENGTHS; ++len) {
            sum += mca_pml_tm.short_sent[len];
        }
    }
    return sum;
}

static void add(const mca_pml_tm_sent_t *sent, mca_pml_tm_sent_t *to)
{
    for (unsigned i = 0; i < PML_TM_SIZE_CLASSES; ++i) {
        to->messages[i] += sent->messages[i];
    }
    to->bytes += sent->bytes;
}

/* Those that went straight into a ring. */
static void add_ring(mca_pml_tm_sent_t *to)
{
    add(&mca_pml_tm.ring_sent, to);
    for (unsigned len = 0; len < PML_TM_SHORT_LENGTHS; ++len) {
        to->messages[mca_pml_tm_size_class(len | 1)] += mca_pml_tm.short_sent[len];
        to->bytes += mca_pml_tm.short_sent[len] * len;
    }
}

unsigned long long mca_pml_tm_sent_through(unsigned provider, mca_pml_tm_sent_t *sent)
{
    for (unsigned i = 0; i < PML_TM_PROTOCOLS; ++i) {
        add(&mca_pml_tm.sent[i][provider], sent);
    }
    if (0 == strcmp("shm", fab_provider_name(provider))) {
        add_ring(sent);
    }
    return num_messages(sent);
}
