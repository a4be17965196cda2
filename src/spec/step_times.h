// T(m): what a step of m rows costs, in seconds, learnt from the steps that run anyway. Loading runs no probe: the table starts from the
// caller's estimate of T(m)/T(1), and the first real steps scale it.
#ifndef TALLY_SPEC_STEP_TIMES_H
#define TALLY_SPEC_STEP_TIMES_H

#include <stdbool.h>
#include <stdint.h>

enum { STEP_TIMES_MAX = 64 }; // rows; beyond it the last slope goes on

// What is known: x[1] = log T(1) and x[m] = log T(m)/T(1), m > 1, with their covariance. Steps of any m move log T(1), so that a growing
// context moves all m alike; the shape learns from steps of that m and, less, of others. See step_times.c.
typedef struct step_times {
    double x[STEP_TIMES_MAX + 1];
    double covariance[STEP_TIMES_MAX + 1][STEP_TIMES_MAX + 1];
    double first_variance[STEP_TIMES_MAX + 1]; // [m] of x[m], of the estimate alone
    double noise;                              // variance of the log of a step's time
    double ratio[STEP_TIMES_MAX + 1];          // [m] T(m)/T(1), ascending
    double unit;                               // T(1)
    int64_t steps;                             // all that were seen
    int64_t last[STEP_TIMES_MAX + 1];          // [m] number of the last step of m rows
    int32_t count[STEP_TIMES_MAX + 1];         // [m] steps of m rows
    double level_then[STEP_TIMES_MAX + 1];     // [m] log T(1) as known behind that step
    int slow;                                  // surprisingly slow steps in a row
} step_times;

// ratio[m - 1], m = 1 .. n: an estimate of T(m)/T(1), ascending; beyond n the last slope goes on. n = 0: T(m) = T(1) (1 + 0.1 (m - 1)).
void step_times_init(step_times *t, const double *ratio, int n);
// A step of `rows` rows, none of them of a prompt's chunk, took so long.
void step_times_seen(step_times *t, int rows, double seconds);
// Expected seconds of a step of m >= 1 rows; never falls with m. Before anything was seen: in units of T(1).
double step_times_of(const step_times *t, int m);
// How little is known of T(m)/T(1): 0 measured .. 1 the estimate alone.
double step_times_doubt(const step_times *t, int m);
// Whether steps of m rows were seen at all often.
bool step_times_measured(const step_times *t, int m);
// Standard deviation of what is known of log T(b)/T(a), a < b.
double step_times_unsure(const step_times *t, int a, int b);
// Whether a step of about m rows should run to measure it: hardly seen yet, not for long, or not since T(1) seems to have changed.
bool step_times_stale(const step_times *t, int m);

#endif
