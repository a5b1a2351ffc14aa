/* SPDX-License-Identifier: BSD-3-Clause */
#include "sock/sock_ip.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

bool fab_sock_ip_is_v4(const uint8_t *ip)
{
    return 0 == memcmp(ip, v4_prefix, sizeof(v4_prefix));
}

bool fab_sock_ip_of(const struct sockaddr *sa, uint8_t *ip)
{
    if (NULL != sa && AF_INET == sa->sa_family) {
        memcpy(ip, v4_prefix, sizeof(v4_prefix));
        memcpy(ip + 12, &((const struct sockaddr_in *) sa)->sin_addr, 4);
        return true;
    }
    if (NULL != sa && AF_INET6 == sa->sa_family) {
        memcpy(ip, &((const struct sockaddr_in6 *) sa)->sin6_addr, 16);
        return true;
    }
    return false;
}

socklen_t fab_sock_ip_sockaddr(const fab_sock_ip_t *ip, struct sockaddr_storage *out)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *) out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *) out;

    memset(out, 0, sizeof(*out));
    if (fab_sock_ip_is_v4(ip->ip)) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(ip->port);
        memcpy(&v4->sin_addr, ip->ip + 12, 4);
        return sizeof(*v4);
    }
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(ip->port);
    memcpy(&v6->sin6_addr, ip->ip, 16);
    return sizeof(*v6);
}

const char *fab_sock_ip_text(const fab_sock_ip_t *ip, char *buf, size_t size)
{
    bool is_v4 = fab_sock_ip_is_v4(ip->ip);
    char text[INET6_ADDRSTRLEN] = "?";

    (void) inet_ntop(is_v4 ? AF_INET : AF_INET6, is_v4 ? ip->ip + 12 : ip->ip, text, sizeof(text));
    snprintf(buf, size, is_v4 ? "%s:%u" : "[%s]:%u", text, ip->port);
    return buf;
}

const char *fab_sock_peer_text(int fd, char *buf, size_t size)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);
    fab_sock_ip_t ip = {.port = 0};

    snprintf(buf, size, "address unknown");
    if (0 == getpeername(fd, (struct sockaddr *) &sa, &len) &&
        fab_sock_ip_of((struct sockaddr *) &sa, ip.ip)) {
        ip.port = ntohs(AF_INET6 == sa.ss_family ? ((struct sockaddr_in6 *) &sa)->sin6_port
                                                 : ((struct sockaddr_in *) &sa)->sin_port);
        (void) fab_sock_ip_text(&ip, buf, size);
    }
    return buf;
}

/* ---- lists -------------------------------------------------------------- */

static bool is_in_net(const uint8_t *ip, const uint8_t *net, unsigned prefix)
{
    unsigned bytes = prefix / 8, bits = prefix % 8;

    return 0 == memcmp(ip, net, bytes) &&
           (0 == bits || 0 == (ip[bytes] ^ net[bytes]) >> (8 - bits));
}

/* "10.1.0.0/16", or an address alone. False: it is none. */
static bool parse_net(const char *text, size_t len, uint8_t *ip, unsigned *prefix)
{
    char copy[INET6_ADDRSTRLEN + 8];
    char *slash, *end;
    bool is_v4;

    if (len >= sizeof(copy)) {
        return false;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    slash = strchr(copy, '/');
    if (NULL != slash) {
        *slash = '\0';
    }
    is_v4 = 1 == inet_pton(AF_INET, copy, ip + 12);
    if (is_v4) {
        memcpy(ip, v4_prefix, sizeof(v4_prefix));
    } else if (1 != inet_pton(AF_INET6, copy, ip)) {
        return false;
    }
    *prefix = 128;
    if (NULL != slash) {
        unsigned long value = strtoul(slash + 1, &end, 10);
        if ('\0' == slash[1] || '\0' != *end || '-' == slash[1] || value > (is_v4 ? 32 : 128)) {
            return false;
        }
        *prefix = (unsigned) value + (is_v4 ? 96 : 0);
    }
    return true;
}

/* What could be the name of an interface. */
static bool is_name(const char *text, size_t len)
{
    return 0 < len && len < IF_NAMESIZE && strcspn(text, "/ ,") >= len;
}

bool fab_sock_list_is_sound(const char *list)
{
    uint8_t ip[16];
    unsigned prefix;

    while (NULL != list && '\0' != *list) {
        size_t len = strcspn(list, ",");
        if (!is_name(list, len) && !parse_net(list, len, ip, &prefix)) {
            return false;
        }
        list += len + (',' == list[len]);
    }
    return true;
}

bool fab_sock_list_has(const char *list, const char *interface, const uint8_t *ip)
{
    uint8_t net[16];
    unsigned prefix;

    while (NULL != list && '\0' != *list) {
        size_t len = strcspn(list, ",");
        if (strlen(interface) == len && 0 == strncmp(interface, list, len)) {
            return true;
        }
        if (parse_net(list, len, net, &prefix) && is_in_net(ip, net, prefix)) {
            return true;
        }
        list += len + (',' == list[len]);
    }
    return false;
}

/* Is it no network, and no interface of this host? */
static bool is_unknown(const char *item, size_t len)
{
    char name[IF_NAMESIZE];
    uint8_t net[16];
    unsigned prefix;

    if (!is_name(item, len) || parse_net(item, len, net, &prefix)) {
        return false;
    }
    memcpy(name, item, len);
    name[len] = '\0';
    return 0 == if_nametoindex(name);
}

bool fab_sock_list_unknown(const char *list, char *buf, size_t size)
{
    while (NULL != list && '\0' != *list) {
        size_t len = strcspn(list, ",");
        if (is_unknown(list, len)) {
            struct if_nameindex *all = if_nameindex();
            int used = snprintf(buf, size, "%.*s; this host has", (int) len, list);
            for (int i = 0; NULL != all && 0 != all[i].if_index && (size_t) used < size; i++) {
                used += snprintf(buf + used, size - (size_t) used, "%s %s", 0 == i ? "" : ",",
                                 all[i].if_name);
            }
            if (NULL != all) {
                if_freenameindex(all);
            }
            return true;
        }
        list += len + (',' == list[len]);
    }
    return false;
}

/* ---- this host ---------------------------------------------------------- */

static unsigned prefix_of(const struct sockaddr *mask)
{
    uint8_t ip[16];
    unsigned prefix = 0;

    if (NULL == mask || !fab_sock_ip_of(mask, ip)) {
        return 128;
    }
    memset(ip, 0xff, AF_INET == mask->sa_family ? 12 : 0);
    while (prefix < 128 && 0 != (ip[prefix / 8] & (0x80 >> prefix % 8))) {
        prefix++;
    }
    return prefix;
}

/* What the kernel calls the driver of the interface; "": it does not say. */
static void driver_of(const char *name, char driver[32])
{
    struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
    struct ifreq request = {.ifr_data = (void *) &info};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    if (fd < 0 || 0 != ioctl(fd, SIOCETHTOOL, &request)) {
        info.driver[0] = '\0';
    }
    if (fd >= 0) {
        close(fd);
    }
    memcpy(driver, info.driver, sizeof(info.driver));
}

static bool is_one_of(const char *word, const char *const *words)
{
    while (NULL != *words && 0 != strcmp(word, *words)) {
        words++;
    }
    return NULL != *words;
}

/* Has the bridge a port that is no container's or virtual machine's? */
static bool has_plain_port(const char *bridge)
{
    static const char *const virtual_ports[] = {"veth", "tun", NULL};
    char path[64], driver[32];
    const struct dirent *entry;
    bool has = false;
    DIR *dir;

    snprintf(path, sizeof(path), "/sys/class/net/%s/brif", bridge);
    dir = opendir(path);
    while (NULL != dir && !has && NULL != (entry = readdir(dir))) {
        if ('.' != entry->d_name[0]) {
            driver_of(entry->d_name, driver);
            has = !is_one_of(driver, virtual_ports);
        }
    }
    if (NULL != dir) {
        closedir(dir);
    }
    return has;
}

/*
 * Does the interface lead to containers and virtual machines of this host, or through a tunnel?  A
 * bridge that a network card is part of leads to that card's network.
 */
static bool is_bridge(const char *name, unsigned flags)
{
    static const char *const tunnels[] = {"tun",         "vxlan",     "geneve",
                                          "openvswitch", "wireguard", NULL};
    char driver[32];

    driver_of(name, driver);
    return 0 != (flags & IFF_POINTOPOINT) || is_one_of(driver, tunnels) ||
           (0 == strcmp(driver, "bridge") && !has_plain_port(name)) ||
           0 == strncmp(name, "vmnet", 5) || 0 == strncmp(name, "vboxnet", 7); /* it cannot say */
}

bool fab_sock_ip_is_link_local(const uint8_t *ip)
{
    return fab_sock_ip_is_v4(ip) ? 169 == ip[12] && 254 == ip[13]
                                 : 0xfe == ip[0] && 0x80 == (ip[1] & 0xc0);
}

static bool is_loopback(const uint8_t *ip)
{
    static const uint8_t v6[16] = {[15] = 1};

    return fab_sock_ip_is_v4(ip) ? 127 == ip[12] : 0 == memcmp(ip, v6, sizeof(v6));
}

/*
 * Another address of the loopback interface is that of the host, which it has by all its networks,
 * or one that several hosts have.
 */
static fab_sock_net_t net_of(const struct ifaddrs *at, const uint8_t *ip)
{
    if (0 != (at->ifa_flags & IFF_LOOPBACK)) {
        return is_loopback(ip) ? FAB_SOCK_NET_LOOPBACK : FAB_SOCK_NET_BRIDGE;
    }
    return is_bridge(at->ifa_name, at->ifa_flags) ? FAB_SOCK_NET_BRIDGE : FAB_SOCK_NET_PLAIN;
}

/*
 * May the address be used, and has its interface these flags?  An IPv6 link-local address means
 * nothing without its interface, so it is never used.
 */
static bool is_usable(const struct ifaddrs *at, unsigned flags, const char *include,
                      const char *exclude, uint8_t *ip)
{
    bool has_include = NULL != include && '\0' != *include;

    return flags == (at->ifa_flags & flags) && fab_sock_ip_of(at->ifa_addr, ip) &&
           (!has_include || fab_sock_list_has(include, at->ifa_name, ip)) &&
           !fab_sock_list_has(exclude, at->ifa_name, ip) &&
           (fab_sock_ip_is_v4(ip) || !fab_sock_ip_is_link_local(ip));
}

/*
 * The kind of an address among others, smaller is better.  An interface that was never configured
 * has a link-local address, and so has that of a management controller on all hosts.
 */
enum { NUM_KINDS = 4 };
static int kind_of(fab_sock_net_t net, const uint8_t *ip)
{
    return FAB_SOCK_NET_LOOPBACK == net    ? 3
           : fab_sock_ip_is_link_local(ip) ? 2
           : FAB_SOCK_NET_BRIDGE == net    ? 1
                                           : 0;
}

/*
 * Mbit/s of an interface, 0: unknown.  By ethtool(8)'s call, since /sys may show the interfaces of
 * another network namespace.  The first call says how long the answer is.
 */
static uint32_t speed_of(int fd, const char *interface)
{
    _Alignas(struct ethtool_link_settings) char
        room[sizeof(struct ethtool_link_settings) + 3 * INT8_MAX * sizeof(uint32_t)] = {0};
    struct ethtool_link_settings *link = (struct ethtool_link_settings *) room;
    struct ifreq req = {.ifr_data = room};

    link->cmd = ETHTOOL_GLINKSETTINGS;
    snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", interface);
    if (0 != ioctl(fd, SIOCETHTOOL, &req)) {
        return 0;
    }
    link->cmd = ETHTOOL_GLINKSETTINGS;
    link->link_mode_masks_nwords = (int8_t) -link->link_mode_masks_nwords;
    return 0 == ioctl(fd, SIOCETHTOOL, &req) && (uint32_t) SPEED_UNKNOWN != link->speed
               ? link->speed
               : 0;
}

/* Sort those whose speed is known, the fast ones first; the others stay where they are. */
static void sort_by_speed(fab_sock_ip_t *ips, int num)
{
    for (int i = 0; i < num; i++) {
        for (int k = i; k > 0 && 0 != ips[i].speed;) {
            int last = k - 1;
            while (last > 0 && 0 == ips[last].speed) {
                last--;
            }
            if (0 == ips[last].speed || ips[last].speed >= ips[k].speed) {
                break;
            }
            fab_sock_ip_t faster = ips[k];
            ips[k] = ips[last];
            ips[last] = faster;
            k = last;
        }
    }
}

/* As fab_sock_own_ips(), of interfaces with these flags. */
static int list_ips(const struct ifaddrs *all, unsigned flags, const char *include,
                    const char *exclude, fab_sock_ip_t *out, int max)
{
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    uint8_t ip[16];
    int num = 0;

    for (int rank = 0; rank < 2 * NUM_KINDS; rank++) {
        const int first = num;
        for (const struct ifaddrs *at = all; NULL != at && num < max; at = at->ifa_next) {
            fab_sock_net_t net;
            if (!is_usable(at, flags, include, exclude, ip)) {
                continue;
            }
            net = net_of(at, ip);
            if (rank == 2 * kind_of(net, ip) + !fab_sock_ip_is_v4(ip)) {
                out[num] = (fab_sock_ip_t){.prefix = (uint8_t) prefix_of(at->ifa_netmask),
                                           .net = (uint8_t) net,
                                           .speed = speed_of(fd, at->ifa_name)};
                memcpy(out[num++].ip, ip, sizeof(ip));
            }
        }
        sort_by_speed(out + first, num - first);
    }
    if (fd >= 0) {
        close(fd);
    }
    return num;
}

int fab_sock_own_ips(const char *include, const char *exclude, fab_sock_ip_t *out, int max)
{
    struct ifaddrs *all = NULL;
    int num;

    (void) getifaddrs(&all);
    num = list_ips(all, IFF_UP | IFF_RUNNING, include, exclude, out, max);
    if (0 == num || 0 != kind_of((fab_sock_net_t) out[0].net, out[0].ip)) {
        num = list_ips(all, IFF_UP, include, exclude, out, max);
    }
    freeifaddrs(all);
    return num;
}

/*
 * Is the address in none of these networks? The prefix of one that is near is of this host, too.
 */
static bool is_other_net(const fab_sock_ip_t *ip, const fab_sock_ip_t *nets, int num)
{
    for (int i = 0; i < num; i++) {
        if (is_in_net(nets[i].ip, ip->ip, ip->prefix)) {
            return false;
        }
    }
    return true;
}

void fab_sock_nets_first(fab_sock_ip_t *ips, int num)
{
    int firsts = 0;

    for (int i = 0; i < num; i++) {
        if (is_other_net(&ips[i], ips, i)) {
            fab_sock_ip_t ip = ips[i];
            memmove(&ips[firsts + 1], &ips[firsts], (size_t) (i - firsts) * sizeof(ip));
            ips[firsts++] = ip;
        }
    }
}

/* ---- a peer ------------------------------------------------------------- */

static bool is_own(const fab_sock_ip_t *own, int num_own, const fab_sock_ip_t *ip)
{
    for (int i = 0; i < num_own; i++) {
        if (0 == memcmp(own[i].ip, ip->ip, sizeof(ip->ip))) {
            return true;
        }
    }
    return false;
}

bool fab_sock_is_one_net(const fab_sock_ip_t *own, int num_own, const fab_sock_ip_t *ips, int num)
{
    bool has_plain = false;

    for (int i = 0; i < num; i++) {
        bool is_plain = FAB_SOCK_NET_PLAIN == ips[i].net;
        if (is_plain && !is_own(own, num_own, &ips[i])) {
            return false;
        }
        has_plain = has_plain || is_plain;
    }
    return has_plain;
}

/* The order in which a peer's address is tried, smaller first; -1: not at all. */
static int choice_of(const fab_sock_ip_t *own, int num_own, bool is_same_host,
                     const fab_sock_ip_t *ip)
{
    bool is_near = false, has_family = false;

    if (!is_same_host && is_own(own, num_own, ip)) {
        return -1;
    }
    for (int i = 0; i < num_own; i++) {
        bool is_family = fab_sock_ip_is_v4(own[i].ip) == fab_sock_ip_is_v4(ip->ip);
        bool is_loopback = FAB_SOCK_NET_LOOPBACK == own[i].net;
        has_family = has_family || (is_family && (is_same_host || !is_loopback));
        is_near = is_near || (is_family && own[i].prefix == ip->prefix &&
                              is_in_net(ip->ip, own[i].ip, ip->prefix));
    }
    if (!has_family || (!is_same_host && FAB_SOCK_NET_LOOPBACK == ip->net)) {
        return -1;
    }
    return 2 * kind_of(ip->net, ip->ip) + !is_near;
}

int fab_sock_sort_ips(const fab_sock_ip_t *own, int num_own, bool is_same_host, fab_sock_ip_t *ips,
                      int num)
{
    fab_sock_ip_t sorted[FAB_SOCK_IPS];
    int left = 0;

    for (int choice = 0; choice < 2 * NUM_KINDS; choice++) {
        for (int i = 0; i < num; i++) {
            if (choice == choice_of(own, num_own, is_same_host, &ips[i])) {
                sorted[left++] = ips[i];
            }
        }
    }
    memcpy(ips, sorted, (size_t) left * sizeof(*ips));
    return left;
}

/* Mbit/s of both ends of a connection to this address; 0: unknown, or they differ. */
static uint32_t link_speed(const fab_sock_ip_t *own, int num_own, const fab_sock_ip_t *ip)
{
    for (int i = 0; i < num_own; i++) {
        if (own[i].speed == ip->speed && own[i].prefix == ip->prefix &&
            is_in_net(ip->ip, own[i].ip, ip->prefix)) {
            return ip->speed;
        }
    }
    return 0;
}

int fab_sock_other_nets(const fab_sock_ip_t *own, int num_own, const fab_sock_ip_t *ips, int num,
                        const uint8_t *first, fab_sock_ip_t *out, int max)
{
    const fab_sock_ip_t *used = NULL;
    uint32_t speed = 0;
    int left = 0;

    for (int i = 0; i < num; i++) {
        used = 0 == memcmp(ips[i].ip, first, sizeof(ips[i].ip)) ? &ips[i] : used;
    }
    speed = NULL != used ? link_speed(own, num_own, used) : 0;
    for (int i = 0; i < num && 0 != speed && left < max; i++) {
        bool is_near = 2 * used->net == choice_of(own, num_own, false, &ips[i]);
        if (is_near && speed == link_speed(own, num_own, &ips[i]) &&
            fab_sock_ip_is_v4(first) == fab_sock_ip_is_v4(ips[i].ip) &&
            is_other_net(&ips[i], used, 1) && is_other_net(&ips[i], out, left)) {
            out[left++] = ips[i];
        }
    }
    return left;
}
