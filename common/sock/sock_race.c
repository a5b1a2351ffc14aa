/* SPDX-License-Identifier: BSD-3-Clause */
#include "sock/sock_race.h"

#include <string.h>

static uint64_t attempt_us(const fab_sock_race_t *race)
{
    return race->timeout / 4 < FAB_SOCK_ATTEMPT_US ? race->timeout / 4 : FAB_SOCK_ATTEMPT_US;
}

static unsigned num_of(const fab_sock_race_t *race, fab_sock_runner_t what)
{
    unsigned num = 0;

    for (int i = 0; i < race->num; i++) {
        num += what == race->runners[i];
    }
    return num;
}

static void set(fab_sock_race_t *race, int at, fab_sock_runner_t what, uint64_t now)
{
    race->runners[at] = (uint8_t) what;
    race->since[at] = now;
}

void fab_sock_race_begin(fab_sock_race_t *race, int num, uint64_t now, uint64_t timeout_us)
{
    *race = (fab_sock_race_t){.num = (uint8_t) num, .timeout = timeout_us};
    fab_sock_race_extend(race, now);
}

void fab_sock_race_extend(fab_sock_race_t *race, uint64_t now)
{
    race->give_up = now + race->timeout;
}

/* Has every address that was started had its time alone? */
static bool may_start(const fab_sock_race_t *race, uint64_t now)
{
    bool may = now >= race->next_round &&
               num_of(race, FAB_SOCK_RUN_CONNECTING) < FAB_SOCK_AT_A_TIME;

    for (int i = 0; i < race->num; i++) {
        uint64_t alone = FAB_SOCK_RUN_CONNECTING == race->runners[i] ? FAB_SOCK_HEAD_US
                         : FAB_SOCK_RUN_GREETED == race->runners[i]  ? attempt_us(race)
                                                                     : 0;
        may = may && now - race->since[i] >= alone;
    }
    return may;
}

int fab_sock_race_next(fab_sock_race_t *race, uint64_t now)
{
    for (int i = 0; i < race->num && may_start(race, now); i++) {
        if (FAB_SOCK_RUN_WAITING == race->runners[i]) {
            set(race, i, FAB_SOCK_RUN_CONNECTING, now);
            return i;
        }
    }
    return -1;
}

int fab_sock_race_late(const fab_sock_race_t *race, uint64_t now)
{
    for (int i = 0; i < race->num; i++) {
        if (FAB_SOCK_RUN_CONNECTING == race->runners[i] &&
            now - race->since[i] > attempt_us(race)) {
            return i;
        }
    }
    return -1;
}

void fab_sock_race_greeted(fab_sock_race_t *race, int at, uint64_t now)
{
    set(race, at, FAB_SOCK_RUN_GREETED, now);
}

void fab_sock_race_failed(fab_sock_race_t *race, int at, bool may_try_again)
{
    race->runners[at] = FAB_SOCK_RUN_FAILED;
    race->may_try_again = race->may_try_again || may_try_again;
}

/* All that failed are tried again, from this time on. */
static void begin_round(fab_sock_race_t *race, uint64_t at)
{
    race->may_try_again = false;
    race->next_round = at;
    for (int i = 0; i < race->num; i++) {
        if (FAB_SOCK_RUN_FAILED == race->runners[i]) {
            race->runners[i] = FAB_SOCK_RUN_WAITING;
        }
    }
}

void fab_sock_race_again(fab_sock_race_t *race, uint64_t now, unsigned jitter)
{
    memset(race->runners, FAB_SOCK_RUN_FAILED, sizeof(race->runners));
    begin_round(race, now + FAB_SOCK_PAUSE_US * (1 + jitter));
}

/* All have failed.  Is it certain by now that none will be reached? */
static bool is_lost(fab_sock_race_t *race, uint64_t now)
{
    if (race->may_try_again) {
        race->refused_until = 0;
    } else if (0 == race->refused_until) {
        race->refused_until = now + FAB_SOCK_REFUSED_US;
    }
    return now >= race->give_up || (0 != race->refused_until && now >= race->refused_until);
}

bool fab_sock_race_go_on(fab_sock_race_t *race, uint64_t now, unsigned jitter)
{
    if (num_of(race, FAB_SOCK_RUN_WAITING) + num_of(race, FAB_SOCK_RUN_CONNECTING) > 0) {
        return true;
    }
    if (num_of(race, FAB_SOCK_RUN_GREETED) > 0) {
        if (may_start(race, now)) { /* they have had their time */
            begin_round(race, now + attempt_us(race));
        }
        return true;
    }
    if (is_lost(race, now)) {
        return false;
    }
    begin_round(race, now + FAB_SOCK_PAUSE_US * (1 + jitter));
    return true;
}

/* ---- addresses that led nowhere ------------------------------------------ */

static unsigned slot_of(const uint8_t *ip)
{
    uint32_t sum = 0;

    for (int i = 0; i < 16; i++) {
        sum = sum * 31 + ip[i];
    }
    return sum & (FAB_SOCK_LAME - 1);
}

void fab_sock_lame_set(fab_sock_lame_t *lame, const uint8_t *ip, uint64_t until)
{
    unsigned slot = slot_of(ip);

    memcpy(lame->slots[slot].ip, ip, sizeof(lame->slots[slot].ip));
    lame->slots[slot].until = until;
}

static bool is_lame(const fab_sock_lame_t *lame, const uint8_t *ip, uint64_t now)
{
    unsigned slot = slot_of(ip);

    return now < lame->slots[slot].until && 0 == memcmp(lame->slots[slot].ip, ip, 16);
}

void fab_sock_lame_clear(fab_sock_lame_t *lame, const uint8_t *ip)
{
    if (is_lame(lame, ip, 0)) {
        lame->slots[slot_of(ip)].until = 0;
    }
}

void fab_sock_lame_sort(const fab_sock_lame_t *lame, uint64_t now, fab_sock_ip_t *ips, int num)
{
    fab_sock_ip_t sorted[FAB_SOCK_IPS];
    int left = 0;

    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < num; i++) {
            if ((1 == turn) == is_lame(lame, ips[i].ip, now)) {
                sorted[left++] = ips[i];
            }
        }
    }
    memcpy(ips, sorted, (size_t) num * sizeof(*ips));
}
