// Machines for tests of step times and of the choice of K: what m rows really cost, and what a clock says.
#ifndef TALLY_TESTS_SIMULATED_MACHINE_H
#define TALLY_TESTS_SIMULATED_MACHINE_H

#include <math.h>
#include <stdint.h>

#include "base/hash.h"

static inline double cost_flat(int m) { return 1 + 0.01 * (m - 1); }
static inline double cost_shallow(int m) { return 1 + 0.05 * (m - 1); }
static inline double cost_tiles(int m) {
    return 1 + 0.25 * ((m - 1) / 4) + 0.02 * (m - 1);
} // a tile of four rows at a time
static inline double cost_steep(int m) { return 1 + 0.75 * (m - 1); } // llama.cpp on AVX2: T(4) = 3.25 T(1)
static inline double cost_moe(int m) { return 0.3 + 0.7 * 128 * (1 - pow(1 - 8.0 / 128, m)) / 8; }

typedef struct machine {
    const char *name;
    double (*cost)(int m);
    double noise;    // standard deviation of the log
    double outliers; // share of steps that take ten times as long
    double growth;   // of all costs, over the request
} machine;

static const machine machines[] = {
    {"flat", cost_flat, 0.03, 0, 1},
    {"shallow", cost_shallow, 0.03, 0, 1},
    {"tiles", cost_tiles, 0.03, 0, 1},
    {"steep", cost_steep, 0.03, 0, 1},
    {"MoE", cost_moe, 0.03, 0, 1},
    {"flat, loaded", cost_flat, 0.15, 0.03, 2},
    {"shallow, loaded", cost_shallow, 0.15, 0.03, 2},
    {"tiles, loaded", cost_tiles, 0.15, 0.03, 2},
    {"steep, loaded", cost_steep, 0.15, 0.03, 2},
    {"MoE, loaded", cost_moe, 0.15, 0.03, 2},
};
enum { N_MACHINES = sizeof(machines) / sizeof(machines[0]) };

typedef struct dice {
    uint64_t state;
} dice;

static inline double roll(dice *d) { return (double)(hash_mix(d->state++) >> 11) * 0x1p-53; }
static inline double roll_normal(dice *d) {
    double u = roll(d) + 1e-12;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * roll(d));
}

static inline double measured(const machine *m, double seconds, dice *d) {
    double s = seconds * exp(m->noise * roll_normal(d));
    return roll(d) < m->outliers ? 10 * s : s;
}

#endif
