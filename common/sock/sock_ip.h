/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IP addresses: those of this host, which of them are used, and which of a peer's to try first.
 */
#ifndef FAB_SOCK_IP_H
#define FAB_SOCK_IP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "fabric/fab_export.h"

enum { FAB_SOCK_IPS = 16 }; /* addresses of a process at most */

typedef enum fab_sock_net {
    FAB_SOCK_NET_PLAIN = 0,
    /* of containers and virtual machines, or a tunnel: often the same on all hosts, or slow */
    FAB_SOCK_NET_BRIDGE = 1,
    FAB_SOCK_NET_LOOPBACK = 2,
} fab_sock_net_t;

/* Where a process listens.  It is a wire format. */
typedef struct fab_sock_ip {
    uint8_t ip[16]; /* IPv4 as ::ffff:a.b.c.d */
    uint16_t port;
    uint8_t prefix; /* bits of its network: 0 to 128, with IPv4 96 more than the user sees */
    uint8_t net;    /* fab_sock_net_t */
    uint32_t speed; /* of its interface, Mbit/s; 0: unknown */
} fab_sock_ip_t;

_Static_assert(24 == sizeof(fab_sock_ip_t), "fab_sock_ip_t is a wire format");

FAB_EXPORT bool fab_sock_ip_is_v4(const uint8_t *ip);
/* Not routed; of IPv6, it means nothing without its interface. */
FAB_EXPORT bool fab_sock_ip_is_link_local(const uint8_t *ip);

/* From a socket address.  False: of another family. */
FAB_EXPORT bool fab_sock_ip_of(const struct sockaddr *sa, uint8_t *ip);

/* To one; returns its length. */
FAB_EXPORT socklen_t fab_sock_ip_sockaddr(const fab_sock_ip_t *ip, struct sockaddr_storage *out);

/* As text, "[::1]:4000" or "10.0.0.1:4000"; returns buf. */
const char *fab_sock_ip_text(const fab_sock_ip_t *ip, char *buf, size_t size);

/* The same of the other end of a connection; "address unknown" if the kernel has forgotten it. */
const char *fab_sock_peer_text(int fd, char *buf, size_t size);

/*
 * A list "eth0,10.1.0.0/16,fd00::/8": is it well formed?  An interface that no host has is no
 * error, as hosts differ.
 */
bool fab_sock_list_is_sound(const char *list);

/* Does the list name this interface, or a network that the address is in? */
FAB_EXPORT bool fab_sock_list_has(const char *list, const char *interface, const uint8_t *ip);

/*
 * The first interface that the list names and this host does not have, and those that it has:
 * "nosuch0; this host has lo, eth0".  False: there is none, buf is not written.
 */
bool fab_sock_list_unknown(const char *list, char *buf, size_t size);

/*
 * The addresses of this host, the best first, max at most: of interfaces that are up and have a
 * carrier, in include (if that is not empty) and not in exclude, IPv4 before IPv6, bridges after
 * others, then link-local IPv4, loopback last.  Link-local IPv6 is left out.  All else equal, fast
 * interfaces come before slower ones, where the kernel knows their speed.  If no plain address has
 * a carrier, none needs one: a link that is lost for a moment comes back.  Their port is 0.
 * Returns how many.
 */
FAB_EXPORT int fab_sock_own_ips(const char *include, const char *exclude, fab_sock_ip_t *out,
                                int max);

/*
 * Put the first address of each network before further ones of a network; their order stays
 * otherwise.
 */
FAB_EXPORT void fab_sock_nets_first(fab_sock_ip_t *ips, int num);

/*
 * Does the peer with these addresses use this host's network?  Another host has a plain address
 * that this one has not, or cannot be reached.
 */
FAB_EXPORT bool fab_sock_is_one_net(const fab_sock_ip_t *own, int num_own, const fab_sock_ip_t *ips,
                                    int num);

/*
 * Sort the addresses of a peer into the order in which to try them, and drop those that cannot lead
 * to it; own are this process's addresses.  On the same host any address works.  For another host,
 * loopback and addresses of this host itself are dropped, and addresses in a network of this host
 * come first.  Returns how many are left.
 */
FAB_EXPORT int fab_sock_sort_ips(const fab_sock_ip_t *own, int num_own, bool is_same_host,
                                 fab_sock_ip_t *ips, int num);

/*
 * Addresses of a peer on another host for connections over other links than one to the address
 * first: of the same family, kind and speed as that, each in a further network that this host is
 * in, too, and none link-local.  The speed must be known, and be that of this host's interface.
 * max at most; returns how many.
 */
int fab_sock_other_nets(const fab_sock_ip_t *own, int num_own, const fab_sock_ip_t *ips, int num,
                        const uint8_t *first, fab_sock_ip_t *out, int max);

#endif /* FAB_SOCK_IP_H */
