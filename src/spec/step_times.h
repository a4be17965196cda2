// T(m): what a step of m rows costs, in seconds, learnt from the steps that run anyway. Loading runs no probe: the table starts from the
// caller's estimate of T(m)/T(1), and the first real steps scale it.
#ifndef TALLY_SPEC_STEP_TIMES_H
#define TALLY_SPEC_STEP_TIMES_H

#include <stdbool.h>
#include <stdint.h>

enum { STEP_TIMES_MAX = 64 }; // rows; beyond it the last slope goes on

typedef struct step_times {
    double seconds[STEP_TIMES_MAX + 1]; // [m] running mean of what was seen, 0: not seen
    double weight[STEP_TIMES_MAX + 1];  // [m] how much was seen, decaying
    double prior[STEP_TIMES_MAX + 1];   // [m] T(m)/T(1) as estimated
} step_times;

// ratio[m - 1], m = 1 .. n: an estimate of T(m)/T(1), ascending; beyond n the last slope goes on. n = 0: T(m) = T(1) (1 + 0.1 (m - 1)).
void step_times_init(step_times *t, const double *ratio, int n);
// A step of `rows` rows, none of them of a prompt's chunk, took so long.
void step_times_seen(step_times *t, int rows, double seconds);
// Expected seconds of a step of m >= 1 rows; never falls with m. Before anything was seen: in units of T(1).
double step_times_of(const step_times *t, int m);

#endif
