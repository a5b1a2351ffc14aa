/* SPDX-License-Identifier: BSD-3-Clause */
/* How a connection ends in order. */
#include "verbs/verbs_end.h"

#include <stdbool.h>

static fab_verbs_end_t on_evict(unsigned side)
{
    if (0 != (side & FAB_VERBS_SIDE_EVICTING)) {
        return FAB_VERBS_END_OVER;
    }
    return 0 != (side & (FAB_VERBS_SIDE_CLOSING | FAB_VERBS_SIDE_BUSY)) ? FAB_VERBS_END_DECLINE
                                                                        : FAB_VERBS_END_AGREE;
}

fab_verbs_end_t fab_verbs_on_end(unsigned side, uint8_t id)
{
    bool is_evicting = 0 != (side & FAB_VERBS_SIDE_EVICTING);
    bool is_closing = 0 != (side & FAB_VERBS_SIDE_CLOSING);

    switch (id) {
    case FAB_VERBS_ID_EVICT:
        return on_evict(side);
    case FAB_VERBS_ID_EVICTED:
        return is_evicting ? FAB_VERBS_END_OVER : FAB_VERBS_END_WRONG;
    case FAB_VERBS_ID_STAY:
        return is_evicting ? FAB_VERBS_END_GO_ON : FAB_VERBS_END_WRONG;
    case FAB_VERBS_ID_CLOSE:
        return is_closing ? FAB_VERBS_END_OVER : FAB_VERBS_END_CLOSED;
    case FAB_VERBS_ID_CLOSED:
        return is_closing ? FAB_VERBS_END_OVER : FAB_VERBS_END_WRONG;
    default:
        return FAB_VERBS_END_WRONG;
    }
}
