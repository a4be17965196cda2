// T(m): what a step of m rows costs, in seconds, learnt from the steps that run anyway. Loading runs no probe: the table starts from the
// caller's estimate of T(m)/T(1), and the first real steps scale it.
#ifndef TALLY_SPEC_STEP_TIMES_H
#define TALLY_SPEC_STEP_TIMES_H

#include <stdbool.h>
#include <stdint.h>

enum { STEP_TIMES_MAX = 64 }; // rows; beyond it the last slope goes on

// T(m) = level (1 + (m - 1) x excess of m): the level follows every step, so that a growing context moves all m alike; the shape follows
// the steps of that m and its neighbours. See step_times.c.
typedef struct step_times {
    double prior[STEP_TIMES_MAX + 1];    // [m] T(m)/T(1) - 1 as estimated
    double shape[STEP_TIMES_MAX + 1];    // [m] log of T(m)/T(1), learnt
    double variance[STEP_TIMES_MAX + 1]; // [m] of shape
    double ratio[STEP_TIMES_MAX + 1];    // [m] T(m)/T(1), what is seen spread over what is not, ascending
    int64_t seen[STEP_TIMES_MAX + 1];    // [m] number of the last step of m rows, 0: none
    int64_t steps;
    double level, level_variance; // log T(1)
} step_times;

// ratio[m - 1], m = 1 .. n: an estimate of T(m)/T(1), ascending; beyond n the last slope goes on. n = 0: T(m) = T(1) (1 + 0.1 (m - 1)).
void step_times_init(step_times *t, const double *ratio, int n);
// A step of `rows` rows, none of them of a prompt's chunk, took so long.
void step_times_seen(step_times *t, int rows, double seconds);
// Expected seconds of a step of m >= 1 rows; never falls with m. Before anything was seen: in units of T(1).
double step_times_of(const step_times *t, int m);
// How little is known of T(m)/T(1): 0 measured .. 1 the estimate alone.
double step_times_doubt(const step_times *t, int m);
// Steps since one of about m rows was seen; INT64_MAX: never.
int64_t step_times_age(const step_times *t, int m);

#endif
