// Speeds of the float matrix tiles beside the limits of the machine, measured in the same run.
#ifndef TALLY_TESTS_SUPPORT_BENCH_FLOAT_H
#define TALLY_TESTS_SUPPORT_BENCH_FLOAT_H

// Prints, for each vector level and type, GB/s with one row and GFLOP/s by number of rows. Returns the process's exit code.
int bench_float(void);

#endif
