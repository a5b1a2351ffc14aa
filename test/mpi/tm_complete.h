/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion of several requests by one kind of call, with what MPI says about their handles.
 */
#ifndef TM_COMPLETE_H
#define TM_COMPLETE_H

#include "tm_test.h"

enum {
    TM_WAIT,
    TM_WAITALL,
    TM_WAITANY,
    TM_WAITSOME,
    TM_TEST,
    TM_TESTALL,
    TM_TESTANY,
    TM_TESTSOME,
    TM_GET_STATUS, /* MPI_Request_get_status, then MPI_Test */
    TM_NCALLS
};

/*
 * Complete all n requests with one kind of call; st[i] gets the status of request i. All that are
 * not null are persistent, or none is.
 */
static inline void tm_complete(int call, int n, MPI_Request *req, MPI_Status *st,
                               bool are_persistent)
{
    int *index = tm_calloc((size_t) n, sizeof(int)), left = n, flag, which, some;
    MPI_Status *tmp = tm_calloc((size_t) n, sizeof(*tmp));
    MPI_Request *done = tm_calloc((size_t) n, sizeof(*done)); /* what becomes of them */

    for (int i = 0; i < n; i++) {
        left -= MPI_REQUEST_NULL == req[i];
        done[i] = are_persistent ? req[i] : MPI_REQUEST_NULL;
        tm_status_reset(&st[i]);
        tm_status_reset(&tmp[i]);
    }
    switch (call) {
    case TM_WAIT:
        for (int i = n - 1; i >= 0; i--) {
            TM_MPI(MPI_Wait(&req[i], &st[i]));
        }
        break;
    case TM_WAITALL:
        TM_MPI(MPI_Waitall(n, req, st));
        break;
    case TM_TESTALL:
        for (flag = 0; !flag;) {
            TM_MPI(MPI_Testall(n, req, &flag, st));
        }
        break;
    case TM_WAITANY:
    case TM_TESTANY:
        for (; left > 0; left--) {
            flag = TM_WAITANY == call;
            do {
                if (TM_WAITANY == call) {
                    TM_MPI(MPI_Waitany(n, req, &which, &tmp[0]));
                } else {
                    TM_MPI(MPI_Testany(n, req, &which, &flag, &tmp[0]));
                    TM_CHECK(flag || MPI_UNDEFINED == which,
                             "MPI_Testany completed nothing but gave index %d", which);
                }
            } while (!flag);
            if (!TM_CHECK(which >= 0 && which < n, "index %d of %d with %d to come", which, n,
                          left)) {
                break;
            }
            TM_CHECK(req[which] == done[which], "request %d is complete, with a wrong handle",
                     which);
            st[which] = tmp[0];
        }
        TM_MPI(MPI_Waitany(n, req, &which, &tmp[0]));
        TM_CHECK(MPI_UNDEFINED == which, "MPI_Waitany of complete requests gave index %d", which);
        tm_expect_empty(&tmp[0]);
        flag = 0;
        TM_MPI(MPI_Testany(n, req, &which, &flag, &tmp[0]));
        TM_CHECK(flag && MPI_UNDEFINED == which,
                 "MPI_Testany of complete requests gave flag %d index %d", flag, which);
        break;
    case TM_WAITSOME:
    case TM_TESTSOME:
        while (left > 0) {
            do {
                some = -1;
                if (TM_WAITSOME == call) {
                    TM_MPI(MPI_Waitsome(n, req, &some, index, tmp));
                    TM_CHECK(some > 0, "MPI_Waitsome completed %d with %d to come", some, left);
                } else {
                    TM_MPI(MPI_Testsome(n, req, &some, index, tmp));
                }
            } while (0 == some);
            if (!TM_CHECK(some > 0 && some <= left, "%d completed with %d to come", some, left)) {
                break;
            }
            for (int i = 0; i < some; i++) {
                TM_CHECK(req[index[i]] == done[index[i]],
                         "request %d is complete, with a wrong handle", index[i]);
                st[index[i]] = tmp[i];
            }
            left -= some;
        }
        TM_MPI(MPI_Testsome(n, req, &some, index, tmp));
        TM_CHECK(MPI_UNDEFINED == some, "MPI_Testsome of complete requests gave %d", some);
        break;
    default:
        for (int i = 0; i < n; i++) {
            MPI_Request before = req[i];

            for (flag = 0; !flag;) {
                if (TM_GET_STATUS == call) {
                    TM_MPI(MPI_Request_get_status(req[i], &flag, &tmp[0]));
                    TM_CHECK(req[i] == before, "MPI_Request_get_status changed the request");
                } else {
                    TM_MPI(MPI_Test(&req[i], &flag, &st[i]));
                    TM_CHECK(req[i] == (flag ? done[i] : before), "MPI_Test left the wrong handle");
                }
            }
            if (TM_GET_STATUS == call) {
                /* Twice the same. */
                TM_MPI(MPI_Request_get_status(req[i], &flag, &tmp[0]));
                TM_MPI(MPI_Test(&req[i], &flag, &st[i]));
                TM_CHECK(flag, "MPI_Test is false after MPI_Request_get_status was true");
                TM_CHECK(tmp[0].MPI_SOURCE == st[i].MPI_SOURCE && tmp[0].MPI_TAG == st[i].MPI_TAG,
                         "MPI_Request_get_status gave source %d tag %d, MPI_Test %d %d",
                         tmp[0].MPI_SOURCE, tmp[0].MPI_TAG, st[i].MPI_SOURCE, st[i].MPI_TAG);
            }
        }
        break;
    }
    for (int i = 0; i < n; i++) {
        TM_CHECK(req[i] == done[i], "request %d has a wrong handle in the end", i);
    }
    free(index);
    free(tmp);
    free(done);
}

#endif /* TM_COMPLETE_H */
