#include "cmd/repetition.h"

#include <stdio.h>

enum { LOOP_TIMES = 3, LOOP_TOKENS = 24, WINDOW = 128, WINDOW_AT_LEAST = 32 };

// The period in which the end repeats, 0: none.
static int loop_period(const int32_t *ids, int n) {
    for (int period = 1; period * LOOP_TIMES <= n; period++) {
        int at = n - 1;
        while (at >= period && ids[at] == ids[at - period]) at--;
        int length = n - 1 - at + period; // the first turn counts, though nothing stands before it
        if (length >= period * LOOP_TIMES && length >= LOOP_TOKENS) return period;
    }
    return 0;
}

static int count_different(const int32_t *ids, int n) {
    int different = 0;
    for (int i = 0; i < n; i++) {
        int j = 0;
        while (ids[j] != ids[i]) j++;
        different += j == i;
    }
    return different;
}

void repetition_label(const int32_t *ids, int n, char label[REPETITION_LABEL_MAX]) {
    int period = loop_period(ids, n), window = n < WINDOW ? n : WINDOW;
    if (period) {
        snprintf(label, REPETITION_LABEL_MAX, "LOOP_%d", period);
    } else if (window >= WINDOW_AT_LEAST && count_different(ids + n - window, window) * 4 < window) {
        snprintf(label, REPETITION_LABEL_MAX, "LOW_DIVERSITY");
    } else {
        snprintf(label, REPETITION_LABEL_MAX, "OK");
    }
}
