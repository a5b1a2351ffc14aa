/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Marks what libmca_common_tm exports, to the components and to the providers that are separate
 * DSOs.
 */
#ifndef FAB_EXPORT_H
#define FAB_EXPORT_H

#define FAB_EXPORT __attribute__((visibility("default")))

#endif /* FAB_EXPORT_H */
