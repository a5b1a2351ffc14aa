/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tells a job's connections from others (SHA-256, HMAC, seals), and lists and choice of IP
 * addresses.
 *
 * TEST: sources=common/sock/sha256.c,common/sock/sock_ip.c,common/sock/sock_proof.c,common/sock/sock_race.c
 */
#include "sock/sock_ip.h"
#include "sock/sock_proof.h"
#include "sock/sock_race.h"
#include "test_cmocka.h"

/* ---- SHA-256 ------------------------------------------------------------ */

static void assert_hex(const uint8_t *bytes, const char *hex)
{
    char text[2 * FAB_SHA256_LEN + 1];

    for (int i = 0; i < FAB_SHA256_LEN; i++) {
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    }
    assert_string_equal(text, hex);
}

static void assert_sha256(const char *text, int times, const char *hex)
{
    uint8_t out[FAB_SHA256_LEN];
    fab_sha256_t sha;

    fab_sha256_init(&sha);
    for (int i = 0; i < times; i++) {
        fab_sha256_add(&sha, text, strlen(text));
    }
    fab_sha256_end(&sha, out);
    assert_hex(out, hex);
}

/* The examples of FIPS 180-2, appendix B, and the empty message. */
static void test_sha256(void **state)
{
    (void) state;
    assert_sha256("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_sha256("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_sha256("aaaaaaaaaa", 100000,
                  "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* Test cases 1, 2 and 3 of RFC 4231. */
static void test_hmac(void **state)
{
    uint8_t out[FAB_SHA256_LEN], key[20], data[50];

    (void) state;
    memset(key, 0x0b, sizeof(key));
    fab_hmac(key, sizeof(key), "Hi There", 8, out);
    assert_hex(out, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    fab_hmac((const uint8_t *) "Jefe", 4, "what do ya want for nothing?", 28, out);
    assert_hex(out, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof(key));
    memset(data, 0xdd, sizeof(data));
    fab_hmac(key, sizeof(key), data, sizeof(data), out);
    assert_hex(out, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
}

/* ---- seals -------------------------------------------------------------- */

static fab_sock_session_t session_of(uint8_t key_byte, uint8_t nonce_byte)
{
    uint8_t key[FAB_SOCK_KEY], nonce[FAB_SOCK_NONCE];
    fab_sock_greeting_t greeting = {.magic = FAB_SOCK_MAGIC, .name = 3, .target = 4};
    fab_sock_session_t session;

    memset(key, key_byte, sizeof(key));
    memset(nonce, nonce_byte, sizeof(nonce));
    fab_sock_session(key, &greeting, nonce, &session);
    return session;
}

static void test_seal(void **state)
{
    fab_sock_session_t session = session_of(1, 2), other = session_of(1, 3),
                       wrong = session_of(2, 2);
    uint8_t frame[208], out[208];
    fab_sock_sealed_t sealed;

    (void) state;
    for (size_t i = 0; i < sizeof(frame); i++) {
        frame[i] = (uint8_t) (i * 7);
    }
    fab_sock_seal(&session, FAB_SOCK_ASKING, 5, frame, sizeof(frame), &sealed);
    assert_memory_not_equal(sealed.frame, frame, 32);
    assert_true(fab_sock_unseal(&session, FAB_SOCK_ASKING, 5, &sealed, sizeof(frame), out));
    assert_memory_equal(out, frame, sizeof(frame));
    /* of another side, place, connection or key */
    assert_false(fab_sock_unseal(&session, FAB_SOCK_ANSWERING, 5, &sealed, sizeof(frame), out));
    assert_false(fab_sock_unseal(&session, FAB_SOCK_ASKING, 6, &sealed, sizeof(frame), out));
    assert_false(fab_sock_unseal(&other, FAB_SOCK_ASKING, 5, &sealed, sizeof(frame), out));
    assert_false(fab_sock_unseal(&wrong, FAB_SOCK_ASKING, 5, &sealed, sizeof(frame), out));
    for (size_t bit = 0; bit < 8 * (FAB_SHA256_LEN + sizeof(frame)); bit++) {
        ((uint8_t *) &sealed)[bit / 8] ^= (uint8_t) (1 << bit % 8);
        assert_false(fab_sock_unseal(&session, FAB_SOCK_ASKING, 5, &sealed, sizeof(frame), out));
        ((uint8_t *) &sealed)[bit / 8] ^= (uint8_t) (1 << bit % 8);
    }
}

/* ---- addresses ---------------------------------------------------------- */

static fab_sock_ip_t v4(int a, int b, int c, int d, int bits)
{
    return (fab_sock_ip_t){
        .ip = {[10] = 0xff, 0xff, (uint8_t) a, (uint8_t) b, (uint8_t) c, (uint8_t) d},
        .prefix = (uint8_t) (96 + bits),
        .port = 4000};
}

static void test_lists(void **state)
{
    fab_sock_ip_t ip = v4(10, 1, 2, 3, 16), v6 = {.ip = {0xfd, [15] = 7}};

    (void) state;
    assert_true(fab_sock_list_is_sound(NULL) && fab_sock_list_is_sound(""));
    assert_true(fab_sock_list_is_sound("eth0") &&
                fab_sock_list_is_sound("eth0,10.1.0.0/16,fd00::/8"));
    assert_true(fab_sock_list_is_sound("10.0.0.1") && fab_sock_list_is_sound("enp0s31f6.100"));
    assert_false(fab_sock_list_is_sound("10.1.0.0/33") || fab_sock_list_is_sound("10.1.0.0/"));
    assert_false(fab_sock_list_is_sound("fd00::/129") || fab_sock_list_is_sound("eth0,,eth1"));
    assert_false(fab_sock_list_is_sound("10.1.0.0/-1") || fab_sock_list_is_sound("eth0 eth1"));
    assert_false(fab_sock_list_is_sound("an-interface-with-a-name-like-none"));
    assert_true(fab_sock_list_has("lo,eth0", "eth0", ip.ip));
    assert_false(fab_sock_list_has("lo,eth01", "eth0", ip.ip) ||
                 fab_sock_list_has("", "eth0", ip.ip));
    assert_true(fab_sock_list_has("10.1.0.0/16", "x", ip.ip));
    assert_true(fab_sock_list_has("10.1.2.3", "x", ip.ip) &&
                fab_sock_list_has("0.0.0.0/0", "x", ip.ip));
    assert_true(fab_sock_list_has("10.1.2.2/31", "x", ip.ip));
    assert_false(fab_sock_list_has("10.1.2.2", "x", ip.ip) ||
                 fab_sock_list_has("10.2.0.0/16", "x", ip.ip));
    assert_true(fab_sock_list_has("fd00::/8", "x", v6.ip) &&
                fab_sock_list_has("fc00::/7", "x", v6.ip));
    assert_false(fab_sock_list_has("fd00::/8", "x", ip.ip) ||
                 fab_sock_list_has("0.0.0.0/0", "x", v6.ip));
}

static void test_text(void **state)
{
    fab_sock_ip_t ip = v4(10, 1, 2, 3, 16), v6 = {.ip = {0xfd, [15] = 7}, .port = 80};
    struct sockaddr_storage sa;
    uint8_t back[16];
    char text[64];

    (void) state;
    assert_string_equal(fab_sock_ip_text(&ip, text, sizeof(text)), "10.1.2.3:4000");
    assert_string_equal(fab_sock_ip_text(&v6, text, sizeof(text)), "[fd00::7]:80");
    (void) fab_sock_ip_sockaddr(&ip, &sa);
    assert_true(fab_sock_ip_of((struct sockaddr *) &sa, back));
    assert_memory_equal(back, ip.ip, sizeof(back));
    (void) fab_sock_ip_sockaddr(&v6, &sa);
    assert_true(fab_sock_ip_of((struct sockaddr *) &sa, back));
    assert_memory_equal(back, v6.ip, sizeof(back));
}

static void test_sort(void **state)
{
    fab_sock_ip_t own[3] = {v4(10, 0, 0, 1, 24), v4(172, 17, 0, 1, 16), v4(127, 0, 0, 1, 8)};
    fab_sock_ip_t theirs[5] = {v4(172, 17, 0, 1, 16),
                               v4(192, 168, 0, 2, 24),
                               v4(127, 0, 0, 1, 8),
                               {.ip = {0xfd, [15] = 2}},
                               v4(10, 0, 0, 2, 24)};
    fab_sock_ip_t ips[5];

    (void) state;
    own[1].net = theirs[0].net = FAB_SOCK_NET_BRIDGE;
    own[2].net = theirs[2].net = FAB_SOCK_NET_LOOPBACK;
    memcpy(ips, theirs, sizeof(ips));
    /* a shared network first; not: the same bridge, loopback, a family that is not here */
    assert_int_equal(fab_sock_sort_ips(own, 3, false, ips, 5), 2);
    assert_memory_equal(&ips[0], &theirs[4], sizeof(ips[0]));
    assert_memory_equal(&ips[1], &theirs[1], sizeof(ips[0]));
    memcpy(ips, theirs, sizeof(ips));
    assert_int_equal(fab_sock_sort_ips(own, 3, true, ips, 5), 4);
    assert_memory_equal(&ips[3], &theirs[2], sizeof(ips[0])); /* loopback last */
    memcpy(ips, &theirs[2], sizeof(ips[0]));
    assert_int_equal(fab_sock_sort_ips(own, 3, false, ips, 1), 0);
}

/* Link-local addresses come after all but loopback, and are no links. */
static void test_link_local(void **state)
{
    fab_sock_ip_t own[4] = {v4(169, 254, 3, 1, 16), v4(10, 0, 0, 1, 24), v4(172, 17, 0, 1, 16),
                            v4(10, 2, 0, 1, 24)};
    fab_sock_ip_t theirs[4] = {v4(169, 254, 3, 2, 16), v4(172, 17, 0, 2, 16), v4(10, 0, 0, 2, 24),
                               v4(10, 2, 0, 2, 24)};
    fab_sock_ip_t ips[4], out[4];

    (void) state;
    for (int i = 0; i < 4; i++) {
        own[i].speed = theirs[i].speed = 1000;
    }
    own[2].net = theirs[1].net = FAB_SOCK_NET_BRIDGE;
    memcpy(ips, theirs, sizeof(ips));
    assert_int_equal(fab_sock_sort_ips(own, 4, false, ips, 4), 4);
    assert_memory_equal(&ips[0], &theirs[2], sizeof(ips[0]));
    assert_memory_equal(&ips[2], &theirs[1], sizeof(ips[0]));
    assert_memory_equal(&ips[3], &theirs[0], sizeof(ips[0]));
    assert_int_equal(fab_sock_other_nets(own, 4, theirs, 4, theirs[2].ip, out, 4), 1);
    assert_memory_equal(&out[0], &theirs[3], sizeof(ips[0]));
}

/* ---- the race of addresses ----------------------------------------------- */

enum { SECOND = 1000000 };

/* Two connect at a time, with a start for the first; who answers TCP gets its time alone. */
static void test_race(void **state)
{
    fab_sock_race_t race;
    uint64_t now = 7;

    (void) state;
    fab_sock_race_begin(&race, 4, now, 60 * SECOND);
    assert_int_equal(fab_sock_race_next(&race, now), 0);
    assert_int_equal(fab_sock_race_next(&race, now + FAB_SOCK_HEAD_US - 1), -1);
    now += FAB_SOCK_HEAD_US;
    assert_int_equal(fab_sock_race_next(&race, now), 1);
    assert_int_equal(fab_sock_race_next(&race, now + SECOND), -1); /* two connect */
    fab_sock_race_failed(&race, 0, true);
    assert_int_equal(fab_sock_race_next(&race, now + SECOND), 2);
    fab_sock_race_greeted(&race, 1, now + SECOND);
    assert_int_equal(fab_sock_race_next(&race, now + 5 * SECOND), -1);
    assert_int_equal(fab_sock_race_late(&race, now + 6 * SECOND), -1);
    now += 7 * SECOND;
    assert_int_equal(fab_sock_race_late(&race, now), 2);
    fab_sock_race_failed(&race, 2, true);
    assert_int_equal(fab_sock_race_next(&race, now), 3);
    fab_sock_race_failed(&race, 3, false);
    /* one was greeted: the others are tried again, for ever */
    for (int i = 0; i < 100; i++) {
        assert_true(fab_sock_race_go_on(&race, now, 0));
        assert_int_equal(fab_sock_race_next(&race, now), -1);
        now += 5 * SECOND;
        for (int at = 0; at < 4; at++) {
            if (1 != at) {
                assert_int_equal(fab_sock_race_next(&race, now), at);
                fab_sock_race_failed(&race, at, false);
            }
        }
    }
}

/* When all have failed, it begins again, until the time is up. */
static void test_race_lost(void **state)
{
    fab_sock_race_t race;
    uint64_t now = 7;

    (void) state;
    fab_sock_race_begin(&race, 2, now, 60 * SECOND);
    for (bool is_late = false; !is_late; now += SECOND) {
        assert_int_equal(fab_sock_race_next(&race, now), 0);
        fab_sock_race_failed(&race, 0, false);
        assert_int_equal(fab_sock_race_next(&race, now), 1);
        fab_sock_race_failed(&race, 1, true);
        is_late = now >= 7 + UINT64_C(60) * SECOND;
        assert_int_equal(fab_sock_race_go_on(&race, now, 7), !is_late);
        assert_int_equal(fab_sock_race_next(&race, now), -1);
    }
    fab_sock_race_extend(&race, now);
    assert_true(fab_sock_race_go_on(&race, now, 0));
    /* one was greeted for a moment, by the wrong process, after the others had refused */
    fab_sock_race_begin(&race, 2, now, 60 * SECOND);
    assert_int_equal(fab_sock_race_next(&race, now), 0);
    fab_sock_race_failed(&race, 0, false);
    assert_int_equal(fab_sock_race_next(&race, now), 1);
    fab_sock_race_greeted(&race, 1, now);
    assert_true(fab_sock_race_go_on(&race, now, 0));
    fab_sock_race_failed(&race, 1, false);
    assert_true(fab_sock_race_go_on(&race, now, 0));
}

/* All refuse: it is lost when they have done so for a while, unless one of them stops to. */
static void test_race_refused(void **state)
{
    fab_sock_race_t race;
    uint64_t now = 7, until = 7 + FAB_SOCK_REFUSED_US;

    (void) state;
    fab_sock_race_begin(&race, 1, now, 60 * SECOND);
    for (; now <= until; now += SECOND) {
        assert_int_equal(fab_sock_race_next(&race, now), 0);
        fab_sock_race_failed(&race, 0, false);
        assert_int_equal(fab_sock_race_go_on(&race, now, 0), now < until);
    }
    fab_sock_race_begin(&race, 1, now, 60 * SECOND);
    for (int i = 0; i < 40; i++, now += SECOND) {
        assert_int_equal(fab_sock_race_next(&race, now), 0);
        fab_sock_race_failed(&race, 0, 0 == i % 5); /* the host says nothing now and then */
        assert_true(fab_sock_race_go_on(&race, now, 0));
    }
    fab_sock_race_begin(&race, 1, now, SECOND); /* all the time is less than that */
    assert_int_equal(fab_sock_race_next(&race, now), 0);
    fab_sock_race_failed(&race, 0, false);
    assert_false(fab_sock_race_go_on(&race, now + SECOND, 0));
}

/* Addresses that led nowhere are tried last for a time. */
static void test_lame(void **state)
{
    fab_sock_lame_t *lame = calloc(1, sizeof(*lame));
    fab_sock_ip_t all[3] = {v4(10, 0, 0, 1, 24), v4(10, 0, 0, 2, 24), v4(10, 0, 0, 3, 24)};
    fab_sock_ip_t ips[3];

    (void) state;
    assert_non_null(lame);
    fab_sock_lame_set(lame, all[0].ip, 100);
    memcpy(ips, all, sizeof(ips));
    fab_sock_lame_sort(lame, 99, ips, 3);
    assert_memory_equal(&ips[0], &all[1], 2 * sizeof(ips[0]));
    assert_memory_equal(&ips[2], &all[0], sizeof(ips[0]));
    memcpy(ips, all, sizeof(ips));
    fab_sock_lame_sort(lame, 100, ips, 3);
    assert_memory_equal(ips, all, sizeof(ips));
    fab_sock_lame_clear(lame, all[0].ip);
    fab_sock_lame_sort(lame, 99, ips, 3);
    assert_memory_equal(ips, all, sizeof(ips));
    free(lame);
}

/* A container that shares the host's network, not its processes, has its plain addresses. */
static void test_one_net(void **state)
{
    fab_sock_ip_t own[3] = {v4(10, 0, 0, 1, 24), v4(172, 17, 0, 1, 16), v4(127, 0, 0, 1, 8)};
    fab_sock_ip_t theirs[3] = {v4(10, 0, 0, 2, 24), v4(172, 17, 0, 1, 16), v4(127, 0, 0, 1, 8)};

    (void) state;
    own[1].net = theirs[1].net = FAB_SOCK_NET_BRIDGE;
    own[2].net = theirs[2].net = FAB_SOCK_NET_LOOPBACK;
    assert_true(fab_sock_is_one_net(own, 3, own, 3));
    assert_true(fab_sock_is_one_net(own, 3, own, 1));
    assert_false(fab_sock_is_one_net(own, 3, theirs, 3));
    assert_false(fab_sock_is_one_net(own, 3, &theirs[1], 2)); /* those are on every host */
}

/* One address of each network comes before the second of any. */
static void test_nets_first(void **state)
{
    const fab_sock_ip_t all[6] = {v4(10, 1, 0, 1, 16), v4(10, 1, 0, 2, 16),   v4(10, 2, 0, 1, 16),
                                  v4(10, 1, 0, 3, 16), v4(172, 17, 0, 1, 16), v4(10, 2, 0, 2, 16)};
    const int order[6] = {0, 2, 4, 1, 3, 5};
    fab_sock_ip_t ips[6];

    (void) state;
    memcpy(ips, all, sizeof(ips));
    fab_sock_nets_first(ips, 6);
    for (int i = 0; i < 6; i++) {
        assert_memory_equal(&ips[i], &all[order[i]], sizeof(ips[i]));
    }
}

static void test_own(void **state)
{
    fab_sock_ip_t ips[FAB_SOCK_IPS];
    int all = fab_sock_own_ips(NULL, NULL, ips, FAB_SOCK_IPS);

    (void) state;
    for (int i = 1; i < all; i++) {
        assert_true(ips[i - 1].net <= ips[i].net);
    }
    int lo = fab_sock_own_ips("127.0.0.0/8,::1", NULL, ips, FAB_SOCK_IPS);
    for (int i = 0; i < lo; i++) {
        assert_int_equal(ips[i].net, FAB_SOCK_NET_LOOPBACK);
    }
    assert_int_equal(fab_sock_own_ips("127.0.0.0/8,::1", "lo", ips, FAB_SOCK_IPS), 0);
    assert_int_equal(fab_sock_own_ips("no-such-if", NULL, ips, FAB_SOCK_IPS), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256),       cmocka_unit_test(test_hmac),
        cmocka_unit_test(test_seal),         cmocka_unit_test(test_lists),
        cmocka_unit_test(test_text),         cmocka_unit_test(test_sort),
        cmocka_unit_test(test_one_net),      cmocka_unit_test(test_own),
        cmocka_unit_test(test_nets_first),   cmocka_unit_test(test_link_local),
        cmocka_unit_test(test_race),         cmocka_unit_test(test_race_lost),
        cmocka_unit_test(test_race_refused), cmocka_unit_test(test_lame),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
