// Drafters that know what plain decoding will say, and err on purpose.
#include <limits.h>

#include "base/hash.h"
#include "tests/support/spec_check.h"

static int32_t truth_at(const spec_plain *t, int at) { return at < t->n_prompt + t->n ? t->token[at] : 0; }

static int32_t error_at(const spec_plain *t, int at) { return truth_at(t, at) == 7 ? 8 : 7; }

static uint64_t next(spec_run *run) { return hash_mix(run->seed++); }

// A chain of n tokens of which those with a bit in `right` are true.
static void chain(draft *out, const spec_plain *t, int at, int n, uint32_t right) {
    *out = (draft){.n = n};
    for (int i = 0; i < n; i++) {
        out->token[i] = right >> i & 1 ? truth_at(t, at + i) : error_at(t, at + i);
        out->parent[i] = (int8_t)(i - 1);
    }
}

bool spec_perfect(spec_run *run, const spec_plain *t, int at, int max, draft *out) {
    (void)run;
    chain(out, t, at, max, UINT32_MAX);
    return true;
}

bool spec_wrong(spec_run *run, const spec_plain *t, int at, int max, draft *out) {
    (void)run;
    chain(out, t, at, max, 0);
    return true;
}

bool spec_wrong_first(spec_run *run, const spec_plain *t, int at, int max, draft *out) {
    (void)run;
    chain(out, t, at, max, ~UINT32_C(1));
    return true;
}

bool spec_right_first(spec_run *run, const spec_plain *t, int at, int max, draft *out) {
    (void)run;
    chain(out, t, at, max, 1);
    return true;
}

bool spec_repeat_last(spec_run *run, const spec_plain *t, int at, int max, draft *out) {
    (void)run;
    chain(out, t, at, max, 0);
    for (int i = 0; i < max; i++) out->token[i] = t->token[at - 1];
    return true;
}

// Numbers that are no ids, more tokens than asked for, parents that are none.
bool spec_hostile(spec_run *run, const spec_plain *t, int at, int max, draft *out) {
    static const int32_t bad[] = {-1, INT_MAX, INT_MIN, 300, 320, 1 << 20};
    chain(out, t, at, max, (uint32_t)next(run));
    uint64_t x = next(run);
    out->token[x % (uint64_t)max] = bad[x / 64 % 6];
    out->parent[x / 1024 % (uint64_t)max] = (int8_t)(x >> 40);
    out->kind = (int)(x >> 32);
    if (x % 5 == 0) out->n = x % 10 == 0 ? -3 : DRAFT_MAX + 7;
    for (int i = max; i < DRAFT_MAX; i++) out->token[i] = (int32_t)next(run), out->parent[i] = (int8_t)(i - 1);
    return true;
}

// Stop ids of the models that tests use, behind tokens that are right.
bool spec_stop_ids(spec_run *run, const spec_plain *t, int at, int max, draft *out) {
    static const int32_t stop[] = {256, 257, 3};
    chain(out, t, at, max, UINT32_MAX);
    for (int i = (int)(next(run) % (uint64_t)max); i < max; i++) out->token[i] = stop[i % 3];
    return true;
}

bool spec_random(spec_run *run, const spec_plain *t, int at, int max, draft *out) {
    int n = (int)(next(run) % (uint64_t)(max + 1));
    chain(out, t, at, n, next(run) % 2 ? (uint32_t)(next(run) | next(run)) : UINT32_MAX >> (next(run) % 32));
    return true;
}

// Again what was proposed last and did not come true.
bool spec_rejected(spec_run *run, const spec_plain *t, int at, int max, draft *out) {
    int used = at - run->last_at;
    if (run->last.n == 0 || used < 1 || used - 1 >= run->last.n) {
        chain(out, t, at, max, UINT32_MAX >> (next(run) % 32));
        return true;
    }
    *out = (draft){0};
    for (int i = used - 1; i < run->last.n && out->n < max; i++, out->n++)
        out->token[out->n] = run->last.token[i], out->parent[out->n] = (int8_t)(out->n - 1);
    return true;
}

// 0, 1, ..., K right, then again.
bool spec_in_turn(spec_run *run, const spec_plain *t, int at, int max, draft *out) {
    int right = run->n_proposed % (max + 1);
    chain(out, t, at, max, right ? UINT32_MAX >> (32 - right) : 0);
    return true;
}

// Right until a placeholder of -1.
bool spec_placeholder(spec_run *run, const spec_plain *t, int at, int max, draft *out) {
    chain(out, t, at, max, UINT32_MAX);
    out->token[next(run) % (uint64_t)max] = -1;
    return true;
}

// A random tree, whose nodes are true now and then.
bool spec_tree(spec_run *run, const spec_plain *t, int at, int max, draft *out) {
    *out = (draft){.n = max};
    for (int i = 0; i < max; i++) {
        uint64_t x = next(run);
        out->parent[i] = (int8_t)((int)(x % (uint64_t)(i + 1)) - 1);
        if (x >> 32 & 1) out->parent[i] = (int8_t)(i - 1);
        int depth = 0;
        for (int node = out->parent[i]; node >= 0; node = out->parent[node]) depth++;
        bool right = (x >> 40) % 3 > 0;
        out->token[i] = right ? truth_at(t, at + depth) : (int32_t)((x >> 48) % 300);
    }
    return true;
}

bool spec_failing(spec_run *run, const spec_plain *t, int at, int max, draft *out) {
    chain(out, t, at, max, UINT32_MAX);
    return run->n_proposed < 5;
}
