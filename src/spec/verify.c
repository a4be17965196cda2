#include "spec/verify.h"

verify_result verify_walk(const draft *d, verify_choose *choose, void *ctx) {
    verify_result r = {0};
    bool stop = false;
    for (int at = -1;;) {
        int32_t token = choose(ctx, at + 1, &stop);
        r.n_emitted++;
        at = stop ? -1 : draft_child(d, at, token);
        if (at < 0) return r;
        r.path[r.n_accepted++] = (int8_t)at;
    }
}
