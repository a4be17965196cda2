#include "model/rope.h"

#include "base/elementary.h"

static const double TWO_PI = 6.283185307179586476925286766559;

// Llama 3: long waves are slowed by the factor, short ones kept, those between blended.
static double llama3_frequency(const rope_config *c, double freq) {
    double wavelength = TWO_PI / freq;
    if (wavelength > c->original_context / c->low_freq_factor) return freq / c->factor;
    if (wavelength < c->original_context / c->high_freq_factor) return freq;
    double s = (c->original_context / wavelength - c->low_freq_factor) / (c->high_freq_factor - c->low_freq_factor);
    return (1 - s) * freq / c->factor + s * freq;
}

// YaRN: the dimension at which a wave turns `turns` times within the original context.
static double yarn_dimension(const rope_config *c, double turns) {
    return c->dim * elementary_log_double(c->original_context / (TWO_PI * turns)) /
           (2 * elementary_log_double(c->theta));
}

static double yarn_frequency(const rope_config *c, double freq, int i) {
    double low = yarn_dimension(c, c->beta_fast), high = yarn_dimension(c, c->beta_slow);
    if (c->truncate) low = __builtin_floor(low), high = __builtin_ceil(high);
    if (low < 0) low = 0;
    if (high > c->dim - 1) high = c->dim - 1;
    if (low == high) high += 0.001;
    double ramp = (i - low) / (high - low);
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    return ramp * freq / c->factor + (1 - ramp) * freq;
}

void rope_frequencies(const rope_config *c, const float *divisors, float *inv_freq) {
    for (int i = 0; i < c->dim / 2; i++) {
        double freq = elementary_exp_double(-2.0 * i / c->dim * elementary_log_double(c->theta));
        switch (c->scaling) {
        case ROPE_DEFAULT: break;
        case ROPE_LINEAR: freq /= c->factor; break;
        case ROPE_LLAMA3: freq = llama3_frequency(c, freq); break;
        case ROPE_YARN: freq = yarn_frequency(c, freq, i); break;
        }
        if (divisors) freq /= divisors[i];
        inv_freq[i] = (float)freq;
    }
}
