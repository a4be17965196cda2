// A scalar Kalman filter over logarithms: log seconds = level + shape(m) + noise. Level and shapes have variances that grow with time (drift)
// and share a step's residual in their proportion; shape(1) is 0 by definition, so that plain steps set the level and other steps mostly
// the shape, until that is known better than the level drifts.
//
// A machine can make a step slower than it should be, never faster. So a surprisingly slow step counts as the limit of surprise, unless it
// is the third in a row; a surprisingly fast one shows that the estimate was wrong and makes all that it rests on doubtful.
#include "spec/step_times.h"

#include <math.h>

static const double first_noise = 0.01;   // 10 % between steps, later as observed
static const double least_noise = 0.0025; // 5 %
static const double most_noise = 0.09;    // 30 %
static const double level_drift = 1e-4;   // variance a step
static const double shape_drift = 4e-6;
static const double shape_variance = 0.25; // of a shape before it was seen
static const double unknown = 1e6;
static const double surprise = 2.5; // standard deviations

// The estimate's excess T(m)/T(1) - 1 is taken times a factor f; f of the estimate itself is 1 +- 3.
static const double factor_variance = 9;
// What f of one m says of another m's: a variance of this much f^2 for every octave^2 between them.
static const double octave_variance = 0.3;

static double least(double a, double b) { return a < b ? a : b; }
static double most(double a, double b) { return a > b ? a : b; }

void step_times_init(step_times *t, const double *ratio, int n) {
    *t = (step_times){.level_variance = unknown, .unit = 1, .noise = first_noise};
    t->ratio[1] = 1;
    double slope = 0.1;
    for (int m = 2; m <= STEP_TIMES_MAX; m++) {
        double r = m <= n && ratio[0] > 0 ? ratio[m - 1] / ratio[0] : t->ratio[m - 1] + slope;
        if (!isfinite(r)) r = 0;
        r = most(r, t->ratio[m - 1] + 0.001); // a factor needs something to multiply
        slope = r - t->ratio[m - 1];
        t->ratio[m] = r;
        t->prior[m] = r - 1;
        t->doubt[m] = 1;
    }
    t->doubt[1] = 1;
}

// Pools neighbours that descend into their weighted mean: the nearest ascending table.
static void make_ascending(double *r, double *weight) {
    int end[STEP_TIMES_MAX + 1],
        pools = 0; // pool i covers m in (end[i - 1], end[i]]; its values lie at r[i], weight[i]
    for (int m = 1; m <= STEP_TIMES_MAX; m++) {
        double value = r[m], w = weight[m];
        while (pools && r[pools] >= value) {
            value = (value * w + r[pools] * weight[pools]) / (w + weight[pools]);
            w += weight[pools--];
        }
        end[++pools] = m;
        r[pools] = value;
        weight[pools] = w;
    }
    for (int m = STEP_TIMES_MAX; m >= 1; m--) { // from the back: pool i lies at or before what it fills
        while (pools > 1 && end[pools - 1] >= m) pools--;
        r[m] = r[pools];
    }
}

static void spread(step_times *t) {
    double weight[STEP_TIMES_MAX + 1], factor[STEP_TIMES_MAX + 1], variance[STEP_TIMES_MAX + 1];
    int seen[STEP_TIMES_MAX + 1], n = 0;
    for (int m = 2; m <= STEP_TIMES_MAX; m++) {
        if (!t->count[m]) continue;
        double r = exp(t->shape[m]), slope = r / t->prior[m];
        seen[n] = m;
        factor[n] = (r - 1) / t->prior[m];
        variance[n++] = t->variance[m] * slope * slope;
    }
    weight[1] = unknown;
    for (int m = 2; m <= STEP_TIMES_MAX; m++) {
        double sum = 1 / factor_variance, f = sum;
        for (int i = 0; i < n; i++) {
            double octaves = 2.885 * (m - seen[i]) / (m + seen[i]); // log2(m / seen), near enough
            double w = 1 / (variance[i] + octave_variance * octaves * octaves * most(factor[i] * factor[i], 0.01));
            sum += w;
            f += w * factor[i];
        }
        t->ratio[m] = 1 + t->prior[m] * f / sum;
        t->doubt[m] = 1 / factor_variance / sum;
        weight[m] = sum / (t->prior[m] * t->prior[m]);
    }
    t->ratio[1] = 1;
    make_ascending(t->ratio, weight);
    double low = t->ratio[1]; // 1, unless noise put others below it
    for (int m = 1; m <= STEP_TIMES_MAX; m++) t->ratio[m] = most(1, t->ratio[m] / low);
}

static double ratio_of(const step_times *t, int m) {
    if (m <= STEP_TIMES_MAX) return t->ratio[m];
    enum { HALF = STEP_TIMES_MAX / 2 };
    return t->ratio[STEP_TIMES_MAX] + (m - STEP_TIMES_MAX) * (t->ratio[STEP_TIMES_MAX] - t->ratio[HALF]) / HALF;
}

// Limits a surprise `e` or widens the variances it meets.
static double judge(step_times *t, double e, double *level_variance, double *variance) {
    double sum = *level_variance + *variance + t->noise, limit = surprise * sqrt(sum);
    t->noise += 0.02 * (least(e * e, 4 * sum) - t->noise);
    t->noise = most(least_noise, least(most_noise, t->noise));
    t->slow = e > limit ? t->slow + 1 : 0;
    if (e > limit && t->slow < 3) return limit;
    if (e > limit || e < -limit) {
        double widen = e * e / sum;
        *level_variance *= widen;
        *variance *= widen;
    }
    return e;
}

void step_times_seen(step_times *t, int rows, double seconds) {
    if (rows < 1 || !(seconds > 0) || !isfinite(seconds)) return;
    t->steps++;
    if (t->level_variance < unknown) t->level_variance += level_drift;
    int m = rows <= STEP_TIMES_MAX ? rows : 0; // 0: tells of the level only
    double shape = log(ratio_of(t, rows)), variance = 0;
    if (m > 1 && t->count[m]) {
        shape = t->shape[m];
        variance = least(shape_variance, t->variance[m] + shape_drift * (double)(t->steps - t->last[m]));
    } else if (m > 1) {
        variance = shape_variance * most(t->doubt[m], 0.05);
    }
    double e = judge(t, log(seconds) - t->level - shape, &t->level_variance, &variance);
    double sum = t->level_variance + variance + t->noise;
    t->level += e * t->level_variance / sum;
    t->level_variance -= t->level_variance * t->level_variance / sum;
    if (m > 1) {
        shape += e * variance / sum;
        if (shape < 0) t->level += shape, shape = 0; // T(1) is at most T(m)
        t->shape[m] = shape;
        t->variance[m] = variance - variance * variance / sum;
    }
    if (m) {
        t->count[m]++;
        t->last[m] = t->steps;
        t->doubt[1] = 0;
    }
    t->unit = exp(t->level);
    if (m > 1) spread(t);
}

double step_times_of(const step_times *t, int m) { return t->unit * ratio_of(t, m < 1 ? 1 : m); }

double step_times_doubt(const step_times *t, int m) {
    return t->doubt[m < 1 ? 1 : m > STEP_TIMES_MAX ? STEP_TIMES_MAX : m];
}

bool step_times_stale(const step_times *t, int m) {
    if (m < 1 || m > STEP_TIMES_MAX) return false;
    int64_t last = 0, count = 0;
    for (int k = m - m / 8; k <= m + m / 8 && k <= STEP_TIMES_MAX; k++) {
        if (t->count[k] && t->last[k] > last) last = t->last[k];
        count += t->count[k];
    }
    int64_t patience = count < 4 ? 8 << count : 128;
    return !count || t->steps - last >= patience;
}
