// exp, log, sine and cosine of tally's own, the same bits on every machine: nothing on the step path calls libm for them.
#ifndef TALLY_BASE_ELEMENTARY_H
#define TALLY_BASE_ELEMENTARY_H

// e^x in f32, the scalar text of what the vector kernels compute lane by lane (same fma sequence): error <= 2 ulp; -inf and
// x < -87.33654 give 0 (a result below the normal range is 0, by selection), x > 88.72 gives inf, NaN gives NaN.
float elementary_exp(float x);

// e^x and ln x in double, error <= 2 ulp in the range the sampler uses; plain double arithmetic, no fma.
double elementary_exp_double(double x);
double elementary_log_double(double x); // x > 0

// Sine and cosine of a finite f32 angle up to 2^31, computed in double with argument reduction, rounded to f32.
void elementary_sincos(float angle, float *sine, float *cosine);

#endif
