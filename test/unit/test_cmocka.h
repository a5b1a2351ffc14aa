/* SPDX-License-Identifier: BSD-3-Clause */
/* cmocka, with what it wants before it, and what nearly every test uses. */
#ifndef TEST_CMOCKA_H
#define TEST_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#endif /* TEST_CMOCKA_H */
