// T(m): what a step of m rows costs, in seconds, learnt from the steps that run anyway. Loading runs no probe: the table starts from the
// caller's estimate of T(m)/T(1), and the first real steps scale it.
#ifndef TALLY_SPEC_STEP_TIMES_H
#define TALLY_SPEC_STEP_TIMES_H

#include <stdbool.h>
#include <stdint.h>

enum { STEP_TIMES_MAX = 64 }; // rows; beyond it the last slope goes on

// T(m) = T(1) ratio(m). log T(1) follows every step of any m, so that a growing context moves all m alike; the shape of m follows the steps
// of m, and what is known of some m is spread over the others. Both by a scalar filter with a limit on surprises, see step_times.c.
typedef struct step_times {
    double prior[STEP_TIMES_MAX + 1];    // [m] T(m)/T(1) - 1 as estimated
    double shape[STEP_TIMES_MAX + 1];    // [m] log T(m)/T(1) of the m that were seen
    double variance[STEP_TIMES_MAX + 1]; // [m] of shape
    double ratio[STEP_TIMES_MAX + 1];    // [m] T(m)/T(1), ascending
    double doubt[STEP_TIMES_MAX + 1];    // [m] step_times_doubt
    int64_t last[STEP_TIMES_MAX + 1];    // [m] number of the last step of m rows
    int32_t count[STEP_TIMES_MAX + 1];   // [m] steps of m rows
    int64_t steps;                       // all of them
    int slow;                            // surprisingly slow steps in a row
    double level, level_variance;        // log T(1)
    double unit;                         // T(1)
    double noise;                        // variance of the log of a step's time
} step_times;

// ratio[m - 1], m = 1 .. n: an estimate of T(m)/T(1), ascending; beyond n the last slope goes on. n = 0: T(m) = T(1) (1 + 0.1 (m - 1)).
void step_times_init(step_times *t, const double *ratio, int n);
// A step of `rows` rows, none of them of a prompt's chunk, took so long.
void step_times_seen(step_times *t, int rows, double seconds);
// Expected seconds of a step of m >= 1 rows; never falls with m. Before anything was seen: in units of T(1).
double step_times_of(const step_times *t, int m);
// How little is known of T(m)/T(1): 0 measured .. 1 the estimate alone.
double step_times_doubt(const step_times *t, int m);
// Whether a step of about m rows should run to measure it: never seen, or not for long: soon after the first, later every 128 steps.
bool step_times_stale(const step_times *t, int m);

#endif
