// Indexing, sorting, moving elements, constants, reductions.
#include "tests/emulator/ops_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const aclDataType types[3] = {ACL_FLOAT16, ACL_BF16, ACL_FLOAT};

static void gather(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    for (int t = 0; t < 3; t++)
        for (int wide = 0; wide < 2; wide++) {
            struct tensor *w = t_strided(types[t], 1, DIMS(10, 12), (const int64_t[]){20, 1}, 4),
                          *i = t_random(wide ? ACL_INT64 : ACL_INT32, 10, DIMS(2, 3)),
                          *o = t_filled(types[t], 0, DIMS(2, 3, 12)),
                          *i1 = t_random(wide ? ACL_INT64 : ACL_INT32, 12, DIMS(5)),
                          *c = t_filled(types[t], 0, DIMS(10, 5));
            RUN(aclnnEmbedding, w->acl, i->acl, o->acl);
            t_read(o);
            for (int k = 0; k < 72; k++) assert_true(o->v[k] == w->v[(int)i->v[k / 12] * 12 + k % 12]);
            RUN(aclnnGatherV2, w->acl, 0, i->acl, o->acl);
            RUN(aclnnIndexSelect, w->acl, 1, i1->acl, c->acl);
            t_read(c);
            for (int k = 0; k < 50; k++) assert_true(c->v[k] == w->v[k / 5 * 12 + (int)i1->v[k % 5]]);
            REFUSE(161002, aclnnIndexSelect, w->acl, 0, i->acl, o->acl);
            REFUSE(161002, aclnnIndexSelect, w->acl, 2, i1->acl, c->acl);
            REFUSE(161002, aclnnEmbedding, w->acl, w->acl, o->acl);
            REFUSE(161002, aclnnGatherV2, w->acl, 0, i->acl, c->acl);
            t_free_all();
        }
    struct tensor *w = t_random(ACL_BF16, 1, DIMS(10, 12)), *i = t_filled(ACL_INT32, 10, DIMS(3)),
                  *o = t_filled(ACL_BF16, 0, DIMS(3, 12));
    assert_int_equal(RUN_CODE(aclnnEmbedding, w->acl, i->acl, o->acl), 507015); // seen when the work runs
    t_free_all();
    tally_emu_reset();
}

static void scatter(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    struct tensor *x = t_random(ACL_BF16, 1, DIMS(6, 8)), *i = t_given(ACL_INT64, (const double[]){4, 0, 5}, DIMS(3)),
                  *s = t_random(ACL_BF16, 1, DIMS(3, 8)), *o = t_filled(ACL_BF16, 0, DIMS(6, 8));
    double before[48];
    memcpy(before, x->v, sizeof before);
    RUN(aclnnIndexCopy, x->acl, 0, i->acl, s->acl, o->acl);
    RUN(aclnnInplaceIndexCopy, x->acl, 0, i->acl, s->acl);
    t_read(x), t_read(o);
    for (int k = 0; k < 48; k++) {
        int row = k / 8, from = row == 4 ? 0 : row == 0 ? 1 : row == 5 ? 2 : -1;
        assert_true(x->v[k] == (from < 0 ? before[k] : s->v[from * 8 + k % 8]) && o->v[k] == x->v[k]);
    }
    REFUSE(161002, aclnnInplaceIndexCopy, x->acl, 1, i->acl, s->acl);
    // two leading indices, the rest broadcast; accumulated
    struct tensor *c = t_filled(ACL_FLOAT, 1, DIMS(4, 3, 2)), *v = t_random(ACL_FLOAT, 1, DIMS(5, 2)),
                  *ix[2] = {t_random(ACL_INT64, 4, DIMS(5)), t_random(ACL_INT64, 3, DIMS(5))};
    double want[24];
    for (int k = 0; k < 24; k++) want[k] = 1;
    for (int k = 0; k < 10; k++) want[((int)ix[0]->v[k / 2] * 3 + (int)ix[1]->v[k / 2]) * 2 + k % 2] += v->v[k];
    aclTensorList *list = t_list(2, ix);
    RUN(aclnnIndexPutImpl, c->acl, list, v->acl, true, false);
    t_read(c);
    for (int k = 0; k < 24; k++) t_near(c, k, want[k], 1e-6);
    aclDestroyTensorList(list);
    aclIntArray *rows = t_ints(2, (const int64_t[]){1, 3});
    aclScalar *five = t_scalar(5);
    RUN(aclnnInplaceIndexFillTensor, x->acl, 0, rows, five);
    t_read(x);
    for (int k = 0; k < 48; k++) assert_int_equal(x->v[k] == 5, k / 8 == 1 || k / 8 == 3);
    aclDestroyIntArray(rows), aclDestroyScalar(five);
    ops_end();
}

// Which of two values stays where indices are equal is undefined: seen when the work runs.
static void duplicates(void **state) {
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        ops_begin("910B3,cann=9.1");
        struct tensor *x = t_random(ACL_BF16, 1, DIMS(6, 8)),
                      *i = t_given(ACL_INT64, (const double[]){4, kind == 1 ? -2 : 0, kind ? 5 : 4}, DIMS(3)),
                      *s = t_random(ACL_BF16, 1, DIMS(3, 8)), *o = t_filled(ACL_BF16, 0, DIMS(6, 8)),
                      *column = t_given(ACL_INT64, (const double[]){2, 2, 2}, DIMS(3)),
                      *v = t_random(ACL_BF16, 1, DIMS(3)),
                      *rows = t_given(ACL_INT64, (const double[]){4, 0, 4}, DIMS(3)),
                      *own = t_given(ACL_INT64, (const double[]){4, 0, 5}, DIMS(3)), *at[2] = {own, column},
                      *twice[2] = {rows, t_given(ACL_INT64, (const double[]){2, 2, 2}, DIMS(3))};
        aclTensorList *places = t_list(2, at), *same = t_list(2, twice);
        int code = 0;
        if (kind == 0) code = RUN_CODE(aclnnInplaceIndexCopy, x->acl, 0, i->acl, s->acl);
        if (kind == 1) code = RUN_CODE(aclnnIndexCopy, x->acl, 0, i->acl, s->acl, o->acl); // 4 of 6 and -2
        if (kind == 2) code = RUN_CODE(aclnnIndexPutImpl, x->acl, same, v->acl, false, false);
        if (kind == 3) code = RUN_CODE(aclnnIndexPutImpl, x->acl, places, v->acl, false, false);
        assert_int_equal(code, kind < 3 ? 507015 : 0);
        if (kind == 3) RUN(aclnnIndexPutImpl, x->acl, same, v->acl, true, false); // added up
        aclDestroyTensorList(places), aclDestroyTensorList(same);
        t_free_all();
        tally_emu_reset();
    }
}

static void cache(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    for (int heads_first = 0; heads_first < 2; heads_first++) {
        struct tensor *k = t_strided(ACL_BF16, 1, DIMS(3, 2, 16), (const int64_t[]){96, 16, 1}, 32),
                      *v = t_strided(ACL_BF16, 1, DIMS(3, 2, 16), (const int64_t[]){96, 16, 1}, 64);
        struct tensor *kc =
            heads_first ? t_filled(ACL_BF16, 0, DIMS(4, 2, 8, 16)) : t_filled(ACL_BF16, 0, DIMS(4, 8, 2, 16));
        struct tensor *vc =
            heads_first ? t_filled(ACL_BF16, 0, DIMS(4, 2, 8, 16)) : t_filled(ACL_BF16, 0, DIMS(4, 8, 2, 16));
        struct tensor *slot = t_given(ACL_INT32, (const double[]){31, 0, 9}, DIMS(3));
        char *mode = heads_first ? (char *)"NHSD" : NULL;
        RUN(aclnnScatterPaKvCache, k->acl, kc->acl, slot->acl, v->acl, vc->acl, NULL, NULL, NULL, mode, NULL, NULL,
            NULL);
        t_read(kc), t_read(vc);
        double sum = 0, want = 0;
        for (int i = 0; i < 96; i++) {
            int s = (int)slot->v[i / 32], h = i / 16 % 2,
                at = heads_first ? ((s / 8 * 2 + h) * 8 + s % 8) * 16 + i % 16 : (s * 2 + h) * 16 + i % 16;
            assert_true(kc->v[at] == k->v[i] && vc->v[at] == v->v[i]);
            want += fabs(k->v[i]);
        }
        for (int i = 0; i < 1024; i++) sum += fabs(kc->v[i]); // and nowhere else
        assert_true(fabs(sum - want) < 1e-9);
        REFUSE(161002, aclnnScatterPaKvCache, k->acl, kc->acl, slot->acl, v->acl, vc->acl, NULL, NULL, NULL,
               (char *)"PA_NZ", NULL, NULL, NULL);
        REFUSE(161001, aclnnScatterPaKvCache, k->acl, kc->acl, slot->acl, v->acl, NULL, NULL, NULL, NULL, mode, NULL,
               NULL, NULL);
        if (!heads_first) continue;
        slot->v[1] = 9, t_write(slot); // two rows for one slot
        assert_int_equal(RUN_CODE(aclnnScatterPaKvCache, k->acl, kc->acl, slot->acl, v->acl, vc->acl, NULL, NULL, NULL,
                                  mode, NULL, NULL, NULL),
                         507015);
    }
    t_free_all();
    tally_emu_reset();
}

static void sorting(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    for (int t = 0; t < 3; t++) {
        struct tensor *x = t_random(types[t], 1, DIMS(3, 50)), *v = t_filled(types[t], 0, DIMS(3, 50)),
                      *i = t_filled(ACL_INT64, 0, DIMS(3, 50)), *kv = t_filled(types[t], 0, DIMS(3, 7)),
                      *ki = t_filled(ACL_INT64, 0, DIMS(3, 7)), *m = t_filled(ACL_INT32, 0, DIMS(3)),
                      *m1 = t_filled(ACL_INT64, 0, DIMS(1, 50)), *mv = t_filled(types[t], 0, DIMS(3, 1)),
                      *mi = t_filled(ACL_INT64, 0, DIMS(3, 1));
        for (int k = 0; k < 20; k++) x->v[k * 7 % 50] = 0.5; // ties
        x->v[30] = x->v[20] = x->v[40] = 1, x->v[70] = x->v[90] = 1;
        t_write(x);
        for (int down = 0; down < 2; down++) {
            RUN(aclnnSort, x->acl, true, -1, down, v->acl, i->acl);
            t_read(v), t_read(i);
            for (int k = 0; k < 150; k++) {
                assert_true(v->v[k] == x->v[k / 50 * 50 + (int)i->v[k]]);
                if (k % 50 == 0) continue;
                assert_true(down ? v->v[k] <= v->v[k - 1] : v->v[k] >= v->v[k - 1]);
                assert_true(v->v[k] != v->v[k - 1] || i->v[k] > i->v[k - 1]);
            }
            RUN(aclnnTopk, x->acl, 7, 1, down, true, kv->acl, ki->acl);
            t_read(kv), t_read(ki);
            for (int k = 0; k < 21; k++)
                assert_true(kv->v[k] == v->v[k / 7 * 50 + k % 7] && x->v[k / 7 * 50 + (int)ki->v[k]] == kv->v[k]);
            RUN(aclnnArgsort, x->acl, 1, down, i->acl);
        }
        RUN(aclnnArgMax, x->acl, -1, false, m->acl);
        RUN(aclnnMaxDim, x->acl, 1, true, mv->acl, mi->acl);
        RUN(aclnnArgMax, x->acl, 0, true, m1->acl);
        t_read(m), t_read(mv), t_read(mi), t_read(m1);
        for (int k = 0; k < 3; k++) assert_true(mi->v[k] == m->v[k] && mv->v[k] == kv->v[k * 7]);
        assert_true(m->v[0] == 20 && m->v[1] == 20); // the first of equals
        for (int k = 0; k < 50; k++)
            for (int r = 0; r < 3; r++) assert_true(x->v[r * 50 + k] <= x->v[(int)m1->v[k] * 50 + k]);
        REFUSE(161002, aclnnTopk, x->acl, 7, 1, true, false, kv->acl, ki->acl);
        REFUSE(161002, aclnnTopk, x->acl, 8, 1, true, true, kv->acl, ki->acl);
        REFUSE(161002, aclnnTopk, x->acl, 51, 1, true, true, kv->acl, ki->acl);
        REFUSE(161002, aclnnArgMax, x->acl, -1, true, m->acl);
        REFUSE(161002, aclnnArgMax, x->acl, -1, false, mv->acl);
        t_free_all();
    }
    struct tensor *x = t_random(ACL_BF16, 1, DIMS(3, 1)), *v = t_filled(ACL_BF16, 0, DIMS(3, 1)),
                  *i = t_filled(ACL_INT64, 0, DIMS(3, 1));
    REFUSE(161002, aclnnSort, x->acl, true, -1, true, v->acl, i->acl);
    ops_end();
}

// Of 200 numbers 20 are the largest: the documents do not say which of them Topk finds, nor in which order.
static void ties(void **state) {
    (void)state;
    for (int perturbed = 0; perturbed < 2; perturbed++) {
        ops_begin(perturbed ? "910B3,cann=9.1,perturb=on" : "910B3,cann=9.1,perturb=off");
        for (int n = 5; n <= 30; n += 25) { // found on the way, and by sorting all
            struct tensor *x = t_filled(ACL_FLOAT, 0, DIMS(2, 200)), *v = t_filled(ACL_FLOAT, 0, DIMS(2, n)),
                          *i = t_filled(ACL_INT64, 0, DIMS(2, n));
            for (int k = 0; k < 400; k++) x->v[k] = k % 10 ? -k : 3;
            t_write(x);
            RUN(aclnnTopk, x->acl, n, 1, true, true, v->acl, i->acl);
            t_read(v), t_read(i);
            bool found[400] = {false}, ascending = true;
            for (int k = 0; k < 2 * n; k++) {
                int at = k / n * 200 + (int)i->v[k];
                assert_true(v->v[k] == x->v[at] && !found[at] && (v->v[k] == 3) == (k % n < 20));
                found[at] = true;
                if (k % n && k % n < 20) ascending &= i->v[k] > i->v[k - 1];
            }
            assert_int_equal(ascending, !perturbed);
            t_free_all();
        }
        ops_end();
    }
}

// ---- moving ------------------------------------------------------------------------------------------------------------

static void moving(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    struct tensor *x = t_random(ACL_BF16, 1, DIMS(2, 3, 4)), *p = t_filled(ACL_BF16, 0, DIMS(4, 2, 3)),
                  *s = t_filled(ACL_BF16, 0, DIMS(2, 2, 4)), *r = t_filled(ACL_BF16, 0, DIMS(3, 2, 6, 4)),
                  *n = t_filled(ACL_BF16, 0, DIMS(2, 6, 4)), *o = t_filled(ACL_BF16, 0, DIMS(2, 3, 4)),
                  *d = t_filled(ACL_BF16, 0, DIMS(2, 4, 7)), *m = t_filled(ACL_BF16, 0, DIMS(2, 3, 8)),
                  *c = t_filled(ACL_BF16, 0, DIMS(2, 5, 4));
    aclIntArray *a = t_ints(3, (const int64_t[]){2, 0, 1}), *twice = t_ints(3, (const int64_t[]){2, 2, 1}),
                *times = t_ints(4, (const int64_t[]){3, 1, 2, 1}), *by = t_ints(2, (const int64_t[]){1, -1}),
                *dims = t_ints(2, (const int64_t[]){1, 2}), *pad = t_ints(4, (const int64_t[]){1, 2, 0, 1}),
                *two = t_ints(2, (const int64_t[]){3, 1}), *four = t_ints(2, (const int64_t[]){4, 0});
    aclScalar *v = t_scalar(9);
#define AT(t, i, j, k) ((t)->v[((i) * (t)->dim[1] + (j)) * (t)->dim[2] + (k)])
#define EVERY(t) \
    for (int i = 0; i < (t)->dim[0]; i++) \
        for (int j = 0; j < (t)->dim[1]; j++) \
            for (int k = 0; k < (t)->dim[2]; k++)
    RUN(aclnnPermute, x->acl, a, p->acl);
    t_read(p);
    EVERY(p) assert_true(AT(p, i, j, k) == AT(x, j, k, i));
    RUN(aclnnSlice, x->acl, 1, 0, 3, 2, s->acl);
    t_read(s);
    EVERY(s) assert_true(AT(s, i, j, k) == AT(x, i, j * 2, k));
    RUN(aclnnRepeat, x->acl, times, r->acl);
    t_read(r);
    for (int q = 0; q < r->n; q++) assert_true(r->v[q] == AT(x, q / 24 % 2, q / 4 % 6 % 3, q % 4));
    RUN(aclnnRepeatInterleaveIntWithDim, x->acl, 2, 1, 6, n->acl);
    t_read(n);
    EVERY(n) assert_true(AT(n, i, j, k) == AT(x, i, j / 2, k));
    RUN(aclnnRoll, x->acl, by, dims, o->acl);
    t_read(o);
    EVERY(o) assert_true(AT(o, i, (j + 1) % 3, (k + 3) % 4) == AT(x, i, j, k));
    RUN(aclnnConstantPadNd, x->acl, pad, v, d->acl);
    t_read(d);
    EVERY(d) assert_true(AT(d, i, j, k) == (j < 3 && k >= 1 && k < 5 ? AT(x, i, j, k - 1) : 9));
    RUN(aclnnReflectionPad1d, x->acl, two, m->acl);
    t_read(m);
    EVERY(m) assert_true(AT(m, i, j, k) == AT(x, i, j, k < 3 ? 3 - k : k < 7 ? k - 3 : 2));
    struct tensor *y = t_random(ACL_BF16, 1, DIMS(2, 2, 4)), *pair[2] = {y, t_turned(ACL_BF16, 1, DIMS(2, 3, 4))};
    aclTensorList *list = t_list(2, pair);
    RUN(aclnnCat, list, 1, c->acl);
    t_read(c);
    EVERY(c) assert_true(AT(c, i, j, k) == (j < 2 ? AT(y, i, j, k) : AT(pair[1], i, j - 2, k)));
    REFUSE(161002, aclnnCat, list, 2, c->acl);
    aclDestroyTensorList(list);
    RUN(aclnnTriu, x->acl, 1, o->acl);
    t_read(o);
    EVERY(o) assert_true(AT(o, i, j, k) == (k - j >= 1 ? AT(x, i, j, k) : 0));
    RUN(aclnnTril, x->acl, 1, o->acl);
    t_read(o);
    EVERY(o) assert_true(AT(o, i, j, k) == (k - j <= 1 ? AT(x, i, j, k) : 0));
    RUN(aclnnInplaceTriu, o->acl, 0);
    t_read(o);
    EVERY(o) assert_true(AT(o, i, j, k) == (k - j == 0 || k - j == 1 ? AT(x, i, j, k) : 0));
    REFUSE(161002, aclnnPermute, x->acl, twice, p->acl);
    REFUSE(161002, aclnnPermute, x->acl, a, o->acl);
    REFUSE(161002, aclnnSlice, x->acl, 1, 0, 3, 0, s->acl);
    REFUSE(161002, aclnnRepeat, x->acl, dims, r->acl);
    REFUSE(161002, aclnnReflectionPad1d, x->acl, four, m->acl);
    REFUSE(161002, aclnnTriu, x->acl, 1, p->acl);
    aclIntArray *all[] = {a, twice, times, by, dims, pad, two, four};
    for (int i = 0; i < 8; i++) aclDestroyIntArray(all[i]);
    aclDestroyScalar(v);
    ops_end();
}

static void constants(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    aclScalar *start = t_scalar(2), *end = t_scalar(5), *step = t_scalar(0.5);
    struct tensor *f = t_filled(ACL_FLOAT, 0, DIMS(6)), *seven = t_filled(ACL_FLOAT, 0, DIMS(7)),
                  *h = t_strided(ACL_BF16, 1, DIMS(3, 4), (const int64_t[]){10, 2}, 1);
    RUN(aclnnArange, start, end, step, f->acl);
    t_read(f);
    for (int i = 0; i < 6; i++) assert_true(f->v[i] == 2 + 0.5 * i);
    REFUSE(161002, aclnnArange, start, end, step, seven->acl);
    RUN(aclnnInplaceFillScalar, h->acl, step);
    t_read(h);
    for (int i = 0; i < 12; i++) assert_true(h->v[i] == 0.5);
    RUN(aclnnInplaceZero, h->acl);
    t_read(h);
    for (int i = 0; i < 12; i++) assert_true(h->v[i] == 0);
    struct tensor *x = t_random(ACL_FLOAT, 1, DIMS(1, 2, 3, 4)), *y = t_filled(ACL_FLOAT, 0, DIMS(1, 2, 6, 10));
    aclIntArray *size = t_ints(2, (const int64_t[]){6, 10});
    RUN(aclnnUpsampleNearest2d, x->acl, size, y->acl);
    t_read(y);
    for (int i = 0; i < 120; i++) assert_true(y->v[i] == x->v[i / 60 * 12 + i / 10 % 6 / 2 * 4 + i % 10 * 4 / 10]);
    aclDestroyIntArray(size), aclDestroyScalar(start), aclDestroyScalar(end), aclDestroyScalar(step);
    ops_end();
}

static void reducing(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    aclScalar *p2 = t_scalar(2), *p1 = t_scalar(1);
    for (int t = 0; t < 3; t++)
        for (int dim = 0; dim < 4; dim++) { // 3: all
            int64_t shape[3] = {4, 5, 33}, kept[3] = {4, 5, 33}, n = dim == 3 ? 660 : shape[dim];
            for (int d = 0; d < 3; d++)
                if (d == dim || dim == 3) kept[d] = 1;
            aclIntArray *a = t_ints(dim == 3 ? 0 : 1, (const int64_t[]){dim});
            struct tensor *x = t_random(types[t], 1, 3, shape), *s = t_filled(ACL_FLOAT, 0, 3, kept),
                          *m = t_filled(types[t], 0, 3, kept), *w = t_filled(types[t], 0, 3, kept),
                          *nn = t_filled(types[t], 0, 3, kept), *n1 = t_filled(types[t], 0, 3, kept);
            RUN(aclnnReduceSum, x->acl, a, true, ACL_FLOAT, s->acl);
            RUN(aclnnMean, x->acl, a, true, types[t], m->acl);
            RUN(aclnnAmax, x->acl, a, true, w->acl);
            RUN(aclnnNorm, x->acl, p2, a, true, nn->acl);
            RUN(aclnnNorm, x->acl, p1, a, true, n1->acl);
            t_read(s), t_read(m), t_read(w), t_read(nn), t_read(n1);
            for (int64_t i = 0; i < s->n; i++) {
                double sum = 0, top = -9, sq = 0, ab = 0;
                for (int64_t j = 0; j < 660; j++) {
                    int64_t at[3] = {j / 165, j / 33 % 5, j % 33}, to = 0;
                    for (int d = 0; d < 3; d++) to = to * kept[d] + (kept[d] == 1 ? 0 : at[d]);
                    if (to != i) continue;
                    sum += x->v[j], top = fmax(top, x->v[j]), sq += x->v[j] * x->v[j], ab += fabs(x->v[j]);
                }
                t_near(s, i, sum, ab * 0x1p-20), t_near(m, i, sum / (double)n, ab * 0x1p-20),
                    t_near(nn, i, sqrt(sq), sqrt(sq) * 0x1p-20);
                t_near(n1, i, ab, ab * 0x1p-18);
                assert_true(w->v[i] == top);
            }
            aclDestroyIntArray(a);
            t_free_all();
        }
    struct tensor *x = t_random(ACL_FLOAT, 1, DIMS(3, 6)), *c = t_filled(ACL_FLOAT, 0, DIMS(3, 6)),
                  *flat = t_filled(ACL_FLOAT, 0, DIMS(3)), *i = t_random(ACL_INT64, 9, DIMS(3, 6)),
                  *is = t_filled(ACL_INT64, 0, DIMS(3)), *ic = t_filled(ACL_INT64, 0, DIMS(3, 6));
    aclIntArray *last = t_ints(1, (const int64_t[]){-1}), *both = t_ints(2, (const int64_t[]){1, -1}),
                *out = t_ints(1, (const int64_t[]){2});
    RUN(aclnnCumsum, x->acl, 1, ACL_FLOAT, c->acl);
    RUN(aclnnCumsum, i->acl, 0, ACL_INT64, ic->acl);
    RUN(aclnnReduceSum, x->acl, last, false, ACL_FLOAT, flat->acl);
    RUN(aclnnReduceSum, i->acl, last, false, ACL_INT64, is->acl);
    t_read(c), t_read(flat), t_read(is), t_read(ic);
    for (int r = 0; r < 3; r++) {
        double sum = 0, whole = 0;
        for (int k = 0; k < 6; k++) {
            sum += x->v[r * 6 + k], whole += i->v[r * 6 + k];
            t_near(c, r * 6 + k, sum, 1e-6);
            assert_true(ic->v[r * 6 + k] == i->v[k] + (r > 0 ? i->v[6 + k] : 0) + (r > 1 ? i->v[12 + k] : 0));
        }
        t_near(flat, r, sum, 1e-6);
        assert_true(is->v[r] == whole);
    }
    aclIntArray *all = t_ints(0, NULL);
    struct tensor *total = t_filled(ACL_FLOAT, 0, DIMS(1));
    RUN(aclnnReduceSum, x->acl, all, false, ACL_FLOAT, total->acl);
    t_read(total);
    t_near(total, 0, c->v[5] + c->v[11] + c->v[17], 1e-5);
    aclDestroyIntArray(all);
    REFUSE(161002, aclnnReduceSum, x->acl, both, false, ACL_FLOAT, flat->acl);
    REFUSE(161002, aclnnReduceSum, x->acl, out, false, ACL_FLOAT, flat->acl);
    REFUSE(161002, aclnnReduceSum, x->acl, last, false, ACL_FLOAT16, flat->acl);
    REFUSE(161002, aclnnReduceSum, x->acl, last, true, ACL_FLOAT, flat->acl);
    REFUSE(161001, aclnnReduceSum, x->acl, NULL, true, ACL_FLOAT, flat->acl);
    aclDestroyIntArray(last), aclDestroyIntArray(both), aclDestroyIntArray(out), aclDestroyScalar(p1),
        aclDestroyScalar(p2);
    ops_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gather), cmocka_unit_test(scatter),   cmocka_unit_test(duplicates),
        cmocka_unit_test(cache),  cmocka_unit_test(sorting),   cmocka_unit_test(ties),
        cmocka_unit_test(moving), cmocka_unit_test(constants), cmocka_unit_test(reducing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
