// A Kalman filter over logarithms: log seconds = x[1] + x[m] + noise, x[1] alone for one row. The covariance starts as a belief about cost
// tables: the estimate may be off by much, but then it is off alike for neighbouring m. log T(1) drifts with every step, the shape hardly
// does. Keeping the whole covariance matters: while no plain step runs, an error of T(1) goes into the shape, and the next plain step
// takes it out again.
//
// A machine can make a step slower than it should be, never faster. So a surprisingly slow step counts as the limit of surprise, unless it
// is the third in a row; a surprisingly fast one shows that what was known is wrong.
#include "spec/step_times.h"

#include <math.h>

enum { N = STEP_TIMES_MAX };

static const double first_noise = 0.01;   // 10 % between steps, later as observed
static const double least_noise = 0.0025; // 5 %
static const double most_noise = 0.09;    // 30 %
static const double unknown = 100;        // variance of log T(1)
static const double level_drift = 1e-4;   // variance a step
static const double shape_drift = 1e-6;
static const double surprise = 2.5; // standard deviations

// The estimate of x[m] is off by 0.1 + 0.3 ln m, the correlation of two m falls with the octaves between them, and each has 10 % of its own.
static const double octaves_alike = 3;
static const double own_variance = 0.01;

enum {
    first_steps = 3, // of one m, before it is taken as known
    longest_unseen = 128,
};
static const double level_moved = 0.2; // log T(1), since m was seen: it is to be seen again

static double least(double a, double b) { return a < b ? a : b; }
static double most(double a, double b) { return a > b ? a : b; }

static double off_by(int m) { return 0.1 + 0.3 * log(m); }

// The belief about shapes before any was seen; T(1) is another matter.
static void forget_shapes(step_times *t) {
    for (int m = 2; m <= N; m++) {
        for (int k = 2; k <= m; k++) {
            double octaves = log2((double)m / k) / octaves_alike;
            t->covariance[m][k] = t->covariance[k][m] = off_by(m) * off_by(k) * exp(-octaves * octaves / 2);
        }
        t->covariance[m][m] += own_variance;
        t->covariance[1][m] = t->covariance[m][1] = 0;
    }
}

void step_times_init(step_times *t, const double *ratio, int n) {
    *t = (step_times){.unit = 1, .noise = first_noise};
    t->ratio[1] = 1;
    t->covariance[1][1] = t->first_variance[1] = unknown;
    double slope = 0.1;
    for (int m = 2; m <= N; m++) {
        double r = m <= n && ratio[0] > 0 ? ratio[m - 1] / ratio[0] : t->ratio[m - 1] + slope;
        r = isfinite(r) ? most(r, t->ratio[m - 1]) : t->ratio[m - 1];
        slope = r - t->ratio[m - 1];
        t->ratio[m] = r;
        t->x[m] = log(r);
    }
    forget_shapes(t);
    for (int m = 2; m <= N; m++) t->first_variance[m] = t->covariance[m][m];
}

// ratio[], the nearest ascending table: neighbours that descend are pooled into their mean, weighted by what is known of them.
static void make_ascending(step_times *t) {
    double value[N + 1], weight[N + 1];
    int end[N + 1], pools = 1;                  // pool i covers m in (end[i - 1], end[i]]
    value[1] = 1, weight[1] = 1e12, end[1] = 1; // T(1)/T(1) is certain
    for (int m = 2; m <= N; m++) {
        double v = exp(t->x[m]), w = 1 / (t->covariance[m][m] * v * v);
        while (pools && value[pools] >= v) {
            v = (v * w + value[pools] * weight[pools]) / (w + weight[pools]);
            w += weight[pools--];
        }
        value[++pools] = v, weight[pools] = w, end[pools] = m;
    }
    for (int i = 1, m = 1; i <= pools; i++) {
        for (; m <= end[i]; m++) t->ratio[m] = value[i] / value[1];
    }
}

static double ratio_of(const step_times *t, int m) {
    return m <= N ? t->ratio[m] : t->ratio[N] + (m - N) * (t->ratio[N] - t->ratio[N / 2]) / (N - N / 2);
}

// The filter's step: a measurement of x[1] if `plain` and of x[m] if m > 1, of variance `noise`, differs by e from what was expected.
static void update(step_times *t, bool plain, int m, double e, double noise) {
    double gain[N + 1], with[N + 1]; // covariance with what was measured
    for (int i = 1; i <= N; i++) with[i] = (plain ? t->covariance[1][i] : 0) + (m > 1 ? t->covariance[m][i] : 0);
    double sum = (plain ? with[1] : 0) + (m > 1 ? with[m] : 0) + noise;
    for (int i = 1; i <= N; i++) {
        gain[i] = with[i] / sum;
        t->x[i] += gain[i] * e;
    }
    for (int i = 1; i <= N; i++) {
        for (int k = 1; k <= N; k++) t->covariance[i][k] -= gain[i] * with[k];
    }
}

static double expected_variance(const step_times *t, int m) {
    double sum = t->covariance[1][1] + t->noise;
    return m > 1 ? sum + t->covariance[m][m] + 2 * t->covariance[1][m] : sum;
}

// Limits a surprise e, or forgets what it proves wrong: T(1), because the context grew or another request began, and the shape, if this m
// was hardly seen.
static double judge(step_times *t, int m, double e) {
    double sum = expected_variance(t, m), limit = surprise * sqrt(sum);
    t->noise *= 1 + 0.02 * (least(e * e / sum, 4) - 1); // noise has its share of the surprise
    t->noise = most(least_noise, least(most_noise, t->noise));
    t->slow = e > limit ? t->slow + 1 : 0;
    if (e > limit && t->slow < 3) return limit;
    if (e > limit || e < -limit) {
        t->covariance[1][1] += e * e - sum;
        if (m > 1 && t->count[m] < first_steps) forget_shapes(t);
    }
    return e;
}

void step_times_seen(step_times *t, int rows, double seconds) {
    if (rows < 1 || !(seconds > 0) || !isfinite(seconds)) return;
    int m = rows <= N ? rows : 1; // beyond the table: as one row, by the ratio known
    double e = log(seconds) - t->x[1] - (rows <= N && m > 1 ? t->x[m] : log(ratio_of(t, rows)));
    t->steps++;
    for (int i = 2; i <= N; i++) t->covariance[i][i] += shape_drift;
    t->covariance[1][1] = least(unknown, t->covariance[1][1] + level_drift);
    e = judge(t, m, e);
    double doubt = e > 0 && t->count[m] < first_steps ? e * e / 4 : 0; // a first step that was slow may be an accident
    update(t, true, m, e, t->noise + doubt);
    if (m > 1 && t->x[m] < 0)
        update(t, false, m, -t->x[m], t->covariance[m][m]); // T(m) is no less than T(1): T(1) was too high
    if (rows == m) {
        t->count[m]++;
        t->last[m] = t->steps;
        t->level_then[m] = t->x[1];
    }
    t->unit = exp(t->x[1]);
    make_ascending(t);
}

double step_times_of(const step_times *t, int m) { return t->unit * ratio_of(t, m < 1 ? 1 : m); }

double step_times_doubt(const step_times *t, int m) {
    if (m < 1) m = 1;
    if (m > N) m = N;
    double doubt = t->covariance[m][m] / t->first_variance[m];
    return most(0, least(1, doubt));
}

bool step_times_measured(const step_times *t, int m) { return m < 1 || m > N || t->count[m] >= first_steps; }

double step_times_unsure(const step_times *t, int a, int b) {
    if (a < 1 || b > N || a >= b) return 0;
    double variance = t->covariance[b][b];
    if (a > 1) variance += t->covariance[a][a] - 2 * t->covariance[a][b];
    return sqrt(most(0, variance));
}

bool step_times_stale(const step_times *t, int m) {
    if (m < 1 || m > N) return false;
    int newest = 0;
    int64_t count = 0;
    for (int k = m - m / 8; k <= m + m / 8 && k <= N; k++) {
        if (t->count[k] && (!newest || t->last[k] > t->last[newest])) newest = k;
        count += t->count[k];
    }
    if (count < first_steps || fabs(t->x[1] - t->level_then[newest]) > level_moved) return true;
    return t->steps - t->last[newest] >= longest_unseen;
}
