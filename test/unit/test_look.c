/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a process shows of itself: another one reads what was written, the ring of events from its
 * start and after it was overwritten, and while it is written; and anything that a core dump may
 * hold.
 *
 * TEST: sources=@fabric variants=asan,tsan
 */
#include "test_fab_world.h"

#include <fcntl.h>
#include <sys/resource.h>

#include "fabric/fab_clock.h"
#include "fabric/fab_look.h"
#include "fabric/fab_look_read.h"

enum { EVENTS = FAB_LOOK_EVENTS, FUZZ = 20000, READS = 2000 };

#define ME UINT64_C(0x500000003)

static fab_event_t events[EVENTS];
static uint64_t lost;

static void no_failure(void *ctx, fab_peer_t *peer, int rc, const char *why)
{
    (void) ctx, (void) peer, (void) rc, (void) why;
}

static fab_t *open_fabric(void)
{
    const fab_config_t config = {
        .user = FAB_USER_PML, .name = ME, .num_local = 1, .peer_failed = no_failure};
    const char *why = "";
    fab_t *fab;

    assert_int_equal(fab_open(&config, &fab, &why), OPAL_SUCCESS);
    return fab;
}

static fab_look_place_t find(fab_look_t *head)
{
    const fab_look_place_t place = {.fd = fab_look_open_process((uint32_t) getpid(), head)};

    assert_true(place.fd >= 0);
    return place;
}

static void record(fab_t *fab, uint32_t id)
{
    fab_look_event(fab, (fab_event_t){.kind = FAB_EVENT_QUEUED,
                                      .peer = fab_name(5, 7),
                                      .tag = (int32_t) id,
                                      .bytes = id});
}

static bool is_me(void *ctx, uint32_t pid, int fd, const fab_look_t *head)
{
    (void) fd;
    *(bool *) ctx |= (uint32_t) getpid() == pid && ME == head->name;
    return true;
}

static void test_waits(void **state)
{
    fab_t *fab = open_fabric();
    const fab_wait_t wait = {.what = FAB_LOOK_RECV,
                             .peer = 4,
                             .bytes = 5,
                             .tag = -16,
                             .context = 6,
                             .comm = "a row\nof many proce"};
    fab_look_t head, *look;
    fab_look_place_t place = find(&head);
    bool is_found = false;

    (void) state;
    assert_int_equal(head.name, ME);
    assert_int_equal(head.pid, getpid());
    assert_int_equal(head.wait.what, FAB_LOOK_NOTHING);
    assert_int_equal(head.counters[FAB_LOOK_FABRIC].at, (uintptr_t) &fab_counters);
    assert_int_equal(head.counters[FAB_LOOK_FABRIC].names, fab_look_hash(FAB_COUNTER_NAMES));
    look = fab_look_begin(fab, 100);
    assert_non_null(look);
    look->status.since_ns = 17;
    look->wait = look->waits[0] = wait;
    look->waits[1] = (fab_wait_t){.what = FAB_LOOK_MESSAGE, .near = FAB_NEAR_TAG};
    look->status.count = 2;
    /* while it is written nothing of this is used */
    assert_true(fab_look_read(place, &head));
    assert_int_equal(head.wait.what, FAB_LOOK_NOTHING);
    assert_int_equal(head.status.count, 0);
    fab_look_end(look);
    assert_true(fab_look_read(place, &head));
    assert_int_equal(head.status.seen_ns, 100);
    assert_int_equal(head.status.since_ns, 17);
    assert_int_equal(head.status.count, 2);
    assert_int_equal(head.waits[0].what, FAB_LOOK_RECV);
    assert_int_equal(head.waits[1].near, FAB_NEAR_TAG);
    assert_int_equal(head.wait.peer, 4);
    assert_int_equal(head.wait.bytes, 5);
    assert_int_equal(head.wait.tag, -16);
    assert_string_equal(head.wait.comm, "a row?of many proce");
    fab_look_visit(is_me, &is_found);
    assert_true(is_found);
    assert_int_equal(fab_look_process_state((uint32_t) getpid()), 'R');
    close(place.fd);
    fab_close(fab, FAB_USER_PML);
    assert_int_equal(fab_look_open_process((uint32_t) getpid(), &head), -1);
}

static void test_events(void **state)
{
    fab_t *fab = open_fabric();
    fab_look_t head;
    fab_look_place_t place = find(&head);
    uint64_t before = fab_now_ns();

    (void) state;
    assert_int_equal(fab_look_read_events(place, events, &lost), 0);
    record(fab, 0);
    record(fab, 1);
    assert_int_equal(fab_look_read_events(place, events, &lost), 2);
    assert_int_equal(lost, 0);
    assert_int_equal(events[1].peer, fab_name(5, 7));
    assert_int_equal(events[1].tag, 1);
    assert_int_equal(events[1].bytes, 1);
    assert_true(events[0].ns >= before && events[1].ns >= events[0].ns);

    for (uint32_t id = 2; id < 3 * EVENTS; id++) {
        record(fab, id);
    }
    /* the oldest may be in the way of the next */
    assert_int_equal(fab_look_read_events(place, events, &lost), EVENTS - 1);
    assert_int_equal(lost, 2 * EVENTS + 1);
    for (uint32_t i = 0; i < EVENTS - 1; i++) {
        assert_int_equal(events[i].tag, 2 * EVENTS + 1 + i);
    }
    close(place.fd);
    fab_close(fab, FAB_USER_PML);
}

/* Whoever reads while it is written gets whole events, in order. */
static void test_while_written(void **state)
{
    fab_t *fab = open_fabric();
    fab_look_t head;
    fab_look_place_t place = find(&head);
    pid_t child = fork();
    int status;

    (void) state;
    if (0 == child) {
        for (uint32_t id = 0;; id++) {
            record(fab, id);
            if (0 == id % 16) {
                sched_yield();
            }
        }
    }
    for (int i = 0; i < READS; i++) {
        const size_t count = fab_look_read_events(place, events, &lost);

        for (size_t k = 0; k < count; k++) {
            assert_int_equal(events[k].tag, (int32_t) (lost + k));
            assert_int_equal(events[k].bytes, events[k].tag);
        }
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    close(place.fd);
    fab_close(fab, FAB_USER_PML);
}

/* Nothing is shown, and nothing else changes, by a tool, or where the memory cannot be had. */
static void test_without(void **state)
{
    const struct rlimit no_file = {.rlim_cur = 0, .rlim_max = RLIM_INFINITY};
    const fab_config_t tool = {.user = FAB_USER_PML, .name = ME, .num_local = 1, .is_tool = true};
    struct rlimit limit;
    fab_look_t head;

    (void) state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    for (int i = 0; i < 2; i++) {
        const char *why = "";
        fab_t *fab;

        if (0 == i) {
            assert_int_equal(fab_open(&tool, &fab, &why), OPAL_SUCCESS);
        } else {
            assert_int_equal(setrlimit(RLIMIT_FSIZE, &no_file), 0);
            fab = open_fabric();
            assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        }
        assert_int_equal(fab_look_open_process((uint32_t) getpid(), &head), -1);
        record(fab, 1);
        assert_null(fab_look_begin(fab, 1));
        fab_close(fab, FAB_USER_PML);
    }
}

static unsigned next_random(void)
{
    static unsigned long long at = 88172645463325252ull;

    at ^= at << 13;
    at ^= at >> 7;
    at ^= at << 17;
    return (unsigned) (at >> 11);
}

/* Some bytes are others, or it is shorter. */
static void test_anything(void **state)
{
    union {
        fab_look_t look;
        unsigned char bytes[sizeof(fab_look_memory_t)];
    } file = {.look = {.magic = FAB_LOOK_MAGIC, .version = FAB_LOOK_VERSION}};
    int fd = memfd_create("anything", MFD_CLOEXEC), usable = 0;
    fab_look_t head;

    (void) state;
    for (int i = 0; i < FUZZ; i++) {
        const fab_look_place_t place = {.fd = fd};
        const size_t size = 0 == i % 16 ? next_random() % sizeof(file) : sizeof(file);

        for (int k = 0; k < 4; k++) {
            const size_t at = 0 == next_random() % 8 ? next_random() % 64
                                                     : 64 + next_random() % (sizeof(file) - 64);
            file.bytes[at] = (unsigned char) next_random();
        }
        if (0 == i % 4) {
            file.look.magic = FAB_LOOK_MAGIC;
            file.look.version = FAB_LOOK_VERSION;
        }
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, file.bytes, size, 0), size);
        if (!fab_look_read(place, &head)) {
            continue;
        }
        usable++;
        assert_true(head.wait.what < FAB_LOOK_WAITS);
        assert_true(strlen(head.wait.comm) < sizeof(head.wait.comm));
        assert_true(head.status.count <= FAB_LOOK_LIST);
        for (uint32_t k = 0; k < head.status.count; k++) {
            const fab_wait_t *wait = &head.waits[k];

            assert_true(FAB_LOOK_NOTHING != wait->what && wait->what < FAB_LOOK_WAITS);
            assert_true(wait->near < FAB_NEARS && strlen(wait->comm) < sizeof(wait->comm));
        }
        assert_true(strlen(head.program) < FAB_LOOK_TEXT);
        assert_true(strlen(head.host) < FAB_LOOK_HOST);
        assert_true(fab_look_read_events(place, events, &lost) <= EVENTS);
    }
    assert_true(usable > FUZZ / 8);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits),    cmocka_unit_test(test_events),
        cmocka_unit_test(test_without),  cmocka_unit_test(test_while_written),
        cmocka_unit_test(test_anything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
