/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the environment asks of the device (README.md has the list), the faults among it that are
 * calls to fail, and random numbers for the others. The settings are read once and do not change
 * after that.
 */
#include "tmdev.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static tmdev_settings_t settings;
static pthread_once_t settings_once = PTHREAD_ONCE_INIT;
static atomic_uint fail_calls[TMDEV_FAIL_KINDS];
static atomic_bool has_failed; /* the device: all calls fail */

static const struct {
    const char *name;
    int error;
} fail_kinds[TMDEV_FAIL_KINDS] = {
    [TMDEV_FAIL_PD] = {"pd", ENOMEM},         [TMDEV_FAIL_MR] = {"mr", ENOMEM},
    [TMDEV_FAIL_CQ] = {"cq", ENOMEM},         [TMDEV_FAIL_CQ_EX] = {"cq_ex", EOPNOTSUPP},
    [TMDEV_FAIL_QP] = {"qp", ENOMEM},         [TMDEV_FAIL_SRQ] = {"srq", ENOMEM},
    [TMDEV_FAIL_SRQ_TM] = {"srq_tm", ENOMEM}, [TMDEV_FAIL_CHANNEL] = {"channel", EMFILE},
    [TMDEV_FAIL_TD] = {"td", EOPNOTSUPP},
};

static void settings_refuse(const char *name, const char *value, const char *wanted)
{
    fprintf(stderr, "tmdev: %s=%s is not valid: %s\n", name, value, wanted);
    exit(1);
}

static uint64_t number(const char *name, uint64_t standard, uint64_t low, uint64_t high)
{
    const char *value = getenv(name);
    if (NULL == value || '\0' == *value) {
        return standard;
    }
    char *end;
    char wanted[80];
    errno = 0;
    uint64_t n = strtoull(value, &end, 0);
    if (0 != errno || '\0' != *end || '-' == *value || n < low || n > high) {
        snprintf(wanted, sizeof(wanted), "a number from %llu to %llu is wanted",
                 (unsigned long long) low, (unsigned long long) high);
        settings_refuse(name, value, wanted);
    }
    return n;
}

/* One item of TMDEV_FAIL: kind[:first[-last]] */
static void parse_fail_item(const char *item, const char *all)
{
    static const char wanted[] =
        "kind[:first[-last]],... is wanted, of pd mr cq cq_ex qp srq srq_tm channel";
    size_t length = strcspn(item, ":");
    for (int i = 0; i < TMDEV_FAIL_KINDS; i++) {
        if (length != strlen(fail_kinds[i].name) ||
            0 != strncmp(item, fail_kinds[i].name, length)) {
            continue;
        }
        settings.fail[i].first = 1;
        settings.fail[i].last = UINT32_MAX;
        if (':' == item[length]) {
            char *end;
            settings.fail[i].first = (uint32_t) strtoul(item + length + 1, &end, 10);
            if ('-' == *end) {
                settings.fail[i].last = (uint32_t) strtoul(end + 1, &end, 10);
            }
            if ('\0' != *end || 0 == settings.fail[i].first) {
                settings_refuse("TMDEV_FAIL", all, wanted);
            }
        }
        return;
    }
    settings_refuse("TMDEV_FAIL", all, wanted);
}

static void parse_fail(void)
{
    const char *value = getenv("TMDEV_FAIL");
    if (NULL == value) {
        return;
    }
    char *copy = strdup(value), *rest = NULL;
    for (char *item = strtok_r(copy, ",", &rest); NULL != item; item = strtok_r(NULL, ",", &rest)) {
        parse_fail_item(item, value);
    }
    free(copy);
}

/* first[-last], milliseconds */
static void parse_port_down(void)
{
    const char *value = getenv("TMDEV_PORT_DOWN");
    if (NULL == value || '\0' == *value) {
        return;
    }
    char *end;
    unsigned long first = strtoul(value, &end, 10), last = 0;
    bool is_valid = end != value;
    if (is_valid && '-' == *end) {
        last = strtoul(end + 1, &end, 10);
        is_valid = last > first;
    }
    if (!is_valid || '\0' != *end || first > 1000000 || last > 1000000) {
        settings_refuse("TMDEV_PORT_DOWN", value,
                        "first[-last] is wanted, milliseconds up to 1000000");
    }
    settings.has_port_down = true;
    settings.port_down_us = first * 1000;
    settings.port_up_us = last * 1000;
}

/* 1+3,2: networks of LIDs */
static void parse_planes(void)
{
    const char *at = getenv("TMDEV_PLANES");
    uint8_t plane = 1;
    while (NULL != at && '\0' != *at) {
        char *end;
        unsigned long lid = strtoul(at, &end, 10);
        if (end == at || 0 == lid || lid >= TMDEV_PLANE_LIDS || NULL == strchr("+,", *end) ||
            ('\0' != *end && '\0' == end[1])) {
            settings_refuse("TMDEV_PLANES", getenv("TMDEV_PLANES"),
                            "LIDs up to 255 are wanted, those of a network with + between, "
                            "networks with commas");
        }
        settings.planes[lid] = plane;
        plane += ',' == *end;
        at = end + ('\0' != *end);
    }
}

/* A file with a byte for each LID, which may change at any time. */
static void parse_cut(void)
{
    const char *name = getenv("TMDEV_CUT");
    struct stat file = {.st_size = 0};
    if (NULL == name || '\0' == *name) {
        return;
    }
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    void *bytes = fd >= 0 && 0 == fstat(fd, &file) && file.st_size >= TMDEV_PLANE_LIDS
                      ? mmap(NULL, TMDEV_PLANE_LIDS, PROT_READ, MAP_SHARED, fd, 0)
                      : MAP_FAILED;
    if (MAP_FAILED == bytes) {
        settings_refuse("TMDEV_CUT", name, "a file of 256 bytes is wanted");
    }
    close(fd);
    settings.cut = bytes;
}

/* One item of a list kind[:first],...: first for this kind, 1 without it, 0: it is not there. */
static uint32_t first_of(const char *name, const char *kind)
{
    const char *at = getenv(name);
    size_t length = strlen(kind);
    for (; NULL != at; at = strchr(at, ',')) {
        at += ',' == *at;
        if (0 == strncmp(at, kind, length) && NULL != strchr(":,", at[length])) {
            return ':' == at[length] ? (uint32_t) strtoul(at + length + 1, NULL, 10) : 1;
        }
    }
    return 0;
}

static void parse_firsts(void)
{
    settings.general_error = first_of("TMDEV_TM_ERROR", "general");
    settings.command_error = first_of("TMDEV_TM_ERROR", "command");
    settings.start_error = first_of("TMDEV_POLL_ERROR", "start");
    settings.next_error = first_of("TMDEV_POLL_ERROR", "next");
    settings.poll_error = first_of("TMDEV_POLL_ERROR", "poll");
    if (NULL != getenv("TMDEV_TM_ERROR") && 0 == settings.general_error + settings.command_error) {
        settings_refuse("TMDEV_TM_ERROR", getenv("TMDEV_TM_ERROR"),
                        "general[:first] or command[:first] is wanted");
    }
    if (NULL != getenv("TMDEV_POLL_ERROR") &&
        0 == settings.start_error + settings.next_error + settings.poll_error) {
        settings_refuse("TMDEV_POLL_ERROR", getenv("TMDEV_POLL_ERROR"),
                        "start[:first], next[:first] or poll[:first] is wanted");
    }
}

static void parse_mtu(void)
{
    settings.mtu = (uint32_t) number("TMDEV_MTU", 4096, 256, 4096);
    settings.has_small_frames = NULL != getenv("TMDEV_MTU");
    settings.hole = (uint32_t) number("TMDEV_HOLE", 0, 0, 4096);
    if (0 != (settings.mtu & (settings.mtu - 1))) {
        settings_refuse("TMDEV_MTU", getenv("TMDEV_MTU"), "256, 512, 1024, 2048 or 4096 is wanted");
    }
}

/*
 * A list with one item for each device; the last one is for all others, too.  take: false if the
 * item is wrong.
 */
static void parse_devices(const char *name, const char *standard, const char *wanted,
                          bool (*take)(uint32_t device, const char *item))
{
    const char *value = getenv(name), *at = NULL != value ? value : standard;
    for (uint32_t i = 0; i < TMDEV_DEVICES; i++) {
        size_t length = strcspn(at, ",");
        char item[32];
        snprintf(item, sizeof(item), "%.*s", (int) length, at);
        if (!take(i, item)) {
            settings_refuse(name, value, wanted);
        }
        at += ',' == at[length] ? length + 1 : 0;
    }
}

static bool take_subnet(uint32_t device, const char *item)
{
    char *end;
    settings.subnet[device] = (uint32_t) strtoul(item, &end, 10);
    return end != item && '\0' == *end;
}

/* Hexadecimal numbers with commas. */
static void parse_pkeys(void)
{
    const char *value = getenv("TMDEV_PKEYS"), *at = NULL != value ? value : "ffff";
    while (settings.num_pkeys < TMDEV_PKEYS && '\0' != *at) {
        char *end;
        unsigned long pkey = strtoul(at, &end, 16);
        if (end == at || pkey > 0xffff || NULL == strchr(",", *end)) {
            settings_refuse("TMDEV_PKEYS", value, "hexadecimal numbers with commas are wanted");
        }
        settings.pkeys[settings.num_pkeys++] = (uint16_t) pkey;
        at = end + (',' == *end);
    }
}

static bool take_link(uint32_t device, const char *item)
{
    settings.is_ethernet[device] = 0 == strcmp(item, "eth");
    return settings.is_ethernet[device] || 0 == strcmp(item, "ib");
}

static bool take_speed(uint32_t device, const char *item)
{
    char *end;
    settings.speed[device] = (uint32_t) strtoul(item, &end, 10);
    return end != item && '\0' == *end;
}

/* Words, in the order of TMDEV_BROKEN_*. */
static void parse_broken(void)
{
    static const char *const words[] = {"eager", "segments", "tag", "imm",       "del",
                                        "sync",  "rndv",     "fin", "incomplete"};
    const char *at = getenv("TMDEV_TM_BROKEN");
    while (NULL != at && '\0' != *at) {
        size_t length = strcspn(at, ","), i = 0;
        while (i < sizeof(words) / sizeof(words[0]) &&
               (length != strlen(words[i]) || 0 != strncmp(at, words[i], length))) {
            i++;
        }
        if (sizeof(words) / sizeof(words[0]) == i) {
            settings_refuse("TMDEV_TM_BROKEN", getenv("TMDEV_TM_BROKEN"),
                            "a list of eager segments tag imm del sync rndv fin incomplete is "
                            "wanted");
        }
        settings.tm_broken |= 1u << i;
        at += length + (',' == at[length]);
    }
}

static bool take_lacks(uint32_t device, const char *item)
{
    static const char *const words[] = {"qp", "srq", "access"};
    uint32_t lacks = 0;
    for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        lacks |= 0 == strcmp(item, words[i]) ? 1u << i : 0;
    }
    settings.lacks[device] = lacks;
    return 0 != lacks || '\0' == *item;
}

static void read_settings(void)
{
    settings.seed = number("TMDEV_SEED", 1, 0, UINT64_MAX);
    settings.is_quiet = 0 != number("TMDEV_QUIET", 0, 0, 1);
    settings.tm_tags = (uint32_t) number("TMDEV_TM_TAGS", 127, 0, 65535);
    settings.tm_ops = (uint32_t) number("TMDEV_TM_OPS", 8192, 1, 32768);
    settings.has_tm_rndv = 0 != number("TMDEV_TM_RNDV", 1, 0, 1);
    settings.is_tm_silent = 0 != number("TMDEV_TM_SILENT", 0, 0, 1);
    settings.holds_reads = 0 != number("TMDEV_HOLD_READS", 0, 0, 1);
    settings.has_wrong_qpn = 0 != number("TMDEV_TM_QPN", 0, 0, 1);
    settings.is_rnr_misuse = 0 != number("TMDEV_RNR_IS_MISUSE", 0, 0, 1);
    settings.tm_left = (uint32_t) number("TMDEV_TM_LEFT", 1, 1, 2);
    settings.tm_blocks = (uint32_t) number("TMDEV_TM_BLOCKS", 1, 1, 64);
    settings.max_msg = number("TMDEV_MAX_MSG", 1u << 30, 4096, 1u << 31);
    settings.max_inline = (uint32_t) number("TMDEV_MAX_INLINE", 220, 0, 4096);
    settings.has_qp_ops = 0 != number("TMDEV_QP_OPS", 1, 0, 1);
    settings.max_sq = (uint32_t) number("TMDEV_MAX_SQ", UINT32_MAX, 64, UINT32_MAX);
    settings.has_poll_progress = 0 != number("TMDEV_POLL", 1, 0, 1);
    settings.delay_us = (uint32_t) number("TMDEV_DELAY_US", 0, 0, 10000000);
    settings.rtr_ms = (uint32_t) number("TMDEV_RTR_MS", 0, 0, 100000);
    settings.fin_us = (uint32_t) number("TMDEV_FIN_US", 0, 0, 10000000);
    settings.hold_us = (uint32_t) number("TMDEV_HOLD_US", 0, 0, 10000000);
    settings.rnr_permille = (uint32_t) number("TMDEV_RNR", 0, 0, 1000);
    settings.qp_error_after = (uint32_t) number("TMDEV_QP_ERROR", 0, 0, UINT32_MAX);
    settings.qp_error_which = (uint32_t) number("TMDEV_QP_ERROR_QP", 0, 0, UINT32_MAX);
    settings.devices = (uint32_t) number("TMDEV_DEVICES", 1, 0, TMDEV_DEVICES);
    settings.needs_grh = 0 != number("TMDEV_GRH", 0, 0, 1);
    settings.traffic_class = (uint32_t) number("TMDEV_TC", UINT32_MAX, 0, 255);
    settings.sl = (uint32_t) number("TMDEV_SL", UINT32_MAX, 0, 15);
    settings.gids = (uint32_t) number("TMDEV_GIDS", TMDEV_GIDS, TMDEV_GIDS, TMDEV_MAX_GIDS);
    settings.foreign_gids = (uint32_t) number("TMDEV_GID_FOREIGN", 0, 0, 2);
    settings.ports = (uint32_t) number("TMDEV_PORTS", 1, 1, TMDEV_PORTS);
    settings.device_fatal_us = 1000 * number("TMDEV_DEVICE_FATAL", 0, 0, 1000000);
    settings.has_device_fatal = NULL != getenv("TMDEV_DEVICE_FATAL") &&
                                '\0' != *getenv("TMDEV_DEVICE_FATAL");
    settings.dir = getenv("TMDEV_DIR");
    settings.report = getenv("TMDEV_REPORT");
    settings.fabric = getenv("TMDEV_FABRIC");
    if (NULL == settings.fabric) {
        settings.fabric = "0";
    }
    parse_mtu();
    parse_devices("TMDEV_LINK", "ib", "ib or eth is wanted, for each device", take_link);
    parse_devices("TMDEV_SUBNETS", "0", "numbers are wanted, for each device", take_subnet);
    parse_pkeys();
    parse_devices("TMDEV_SPEED", "100", "Gbit/s are wanted, for each device", take_speed);
    parse_devices("TMDEV_LACKS", "", "qp, srq, access or nothing is wanted, for each device",
                  take_lacks);
    parse_firsts();
    parse_fail();
    parse_port_down();
    parse_planes();
    parse_cut();
    parse_broken();
}

const tmdev_settings_t *tmdev_settings(void)
{
    pthread_once(&settings_once, read_settings);
    return &settings;
}

void tmdev_fail_all(void)
{
    atomic_store(&has_failed, true);
}

bool tmdev_fails(tmdev_fail_t what)
{
    const tmdev_settings_t *s = tmdev_settings();
    if (atomic_load(&has_failed)) {
        errno = EIO;
        return true;
    }
    uint32_t call = atomic_fetch_add(&fail_calls[what], 1) + 1;
    if (0 == s->fail[what].first || call < s->fail[what].first || call > s->fail[what].last) {
        return false;
    }
    errno = fail_kinds[what].error;
    return true;
}

/* splitmix64 */
uint64_t tmdev_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

bool tmdev_chance(uint64_t *state, uint32_t permille)
{
    return 0 != permille && tmdev_random(state) % 1000 < permille;
}

uint64_t tmdev_seed_of(uint32_t object)
{
    uint64_t state = tmdev_settings()->seed + ((uint64_t) object << 32);
    return tmdev_random(&state);
}

int tmdev_misuse(int error, const char *format, ...)
{
    const tmdev_settings_t *s = tmdev_settings();
    if (!s->is_quiet) {
        char text[400];
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        /* One call, so that lines of several processes do not mix. */
        fprintf(stderr, "tmdev: [%ld] %s\n", (long) getpid(), text);
    }
    return error;
}

void tmdev_report(uint64_t matched)
{
    const char *name = tmdev_settings()->report;
    char line[40];
    if (NULL == name) {
        return;
    }
    int length = snprintf(line, sizeof(line), "matched %llu\n", (unsigned long long) matched);
    int fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0 || length != write(fd, line, (size_t) length)) {
        tmdev_misuse(errno, "TMDEV_REPORT=%s cannot be written: %s", name, strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
}

uint64_t tmdev_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000u + (uint64_t) now.tv_nsec / 1000u;
}

enum ibv_mtu tmdev_mtu_enum(uint32_t bytes)
{
    enum ibv_mtu mtu = IBV_MTU_256;
    for (; bytes > 256; bytes /= 2) {
        mtu++;
    }
    return mtu;
}

/* Zeroed; NULL with errno ENOMEM. */
void *tmdev_alloc(size_t size)
{
    return calloc(1, size);
}
