/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What others than libmca_common_tm may use: the components, and the provider verbs, which is an
 * object of its own.
 */
#ifndef FAB_EXPORT_H
#define FAB_EXPORT_H

#define FAB_EXPORT __attribute__((visibility("default")))

#endif /* FAB_EXPORT_H */
