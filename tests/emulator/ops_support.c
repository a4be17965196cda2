#include "tests/emulator/ops_support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

aclrtStream ops_stream;
uint64_t ops_ws;
aclOpExecutor *ops_executor;
static struct tensor *live[256];
static uint64_t state;

double ops_random(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 33) / 2147483648.0;
}

void ops_begin(const char *settings) {
    tally_emu_reset();
    state = 1;
    if (tally_emu_configure(settings)) fail_msg("%s: %s", settings, aclGetRecentErrMsg());
    if (aclInit(NULL)) fail_msg("%s: %s", settings, aclGetRecentErrMsg());
    assert_int_equal(aclrtSetDevice(0), 0);
    assert_int_equal(aclrtCreateStream(&ops_stream), 0);
}

void ops_end(void) {
    char kinds[200];
    t_free_all();
    assert_int_equal(aclrtDestroyStream(ops_stream), 0);
    if (tally_emu_live_objects(kinds, sizeof kinds)) fail_msg("left: %s", kinds);
    assert_int_equal(aclrtResetDevice(0), 0);
    assert_int_equal(aclFinalize(), 0);
}

static size_t size_of(aclDataType t) {
    switch (t) {
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL: return 1;
    case ACL_FLOAT16:
    case ACL_BF16: return 2;
    case ACL_INT64: return 8;
    default: return 4;
    }
}

static bool is_float(aclDataType t) { return t == ACL_FLOAT || t == ACL_FLOAT16 || t == ACL_BF16; }

// One step (unit in the last place) of the type at v.
static double step_of(aclDataType t, double v) {
    int bits = t == ACL_FLOAT ? 23 : t == ACL_FLOAT16 ? 10 : 7, least = t == ACL_FLOAT16 ? -24 : -149, e;
    if (!is_float(t)) return 0;
    frexp(v, &e);
    e = e - 1 - bits;
    return ldexp(1, e < least ? least : e);
}

double t_half_step(aclDataType t, double v) { return step_of(t, v) / 2; }

double t_round(aclDataType t, double v) {
    double s = step_of(t, v);
    if (!is_float(t) || v == 0 || !isfinite(v)) return v;
    v = nearbyint(v / s) * s;
    return t == ACL_FLOAT16 && fabs(v) > 65504 ? copysign(INFINITY, v) : v;
}

static double get(aclDataType t, const char *p) {
    uint16_t h;
    float f;
    int32_t i;
    int64_t l;
    switch (t) {
    case ACL_BF16: {
        memcpy(&h, p, 2);
        uint32_t u = (uint32_t)h << 16;
        memcpy(&f, &u, 4);
        return (double)f;
    }
    case ACL_FLOAT16: {
        memcpy(&h, p, 2);
        int e = h >> 10 & 31, m = h & 1023;
        double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
        return h & 0x8000 ? -v : v;
    }
    case ACL_FLOAT: memcpy(&f, p, 4); return (double)f;
    case ACL_INT8: return *(const int8_t *)p;
    case ACL_UINT8:
    case ACL_BOOL: return *(const uint8_t *)p;
    case ACL_INT64: memcpy(&l, p, 8); return (double)l;
    default: memcpy(&i, p, 4); return i;
    }
}

static void put(aclDataType t, char *p, double v) {
    float f = (float)v;
    uint32_t u;
    uint16_t h;
    int32_t i = (int32_t)(is_float(t) ? 0 : v);
    int64_t l = (int64_t)(is_float(t) ? 0 : v);
    memcpy(&u, &f, 4);
    switch (t) {
    case ACL_BF16:
        h = (uint16_t)(u >> 16);
        memcpy(p, &h, 2);
        break;
    case ACL_FLOAT16: {
        int e;
        double m = frexp(fabs(v), &e); // in [0.5, 1)
        h = signbit(v) ? 0x8000 : 0;
        if (isnan(v))
            h |= 0x7e00;
        else if (isinf(v))
            h |= 0x7c00;
        else if (m != 0 && e < -13)
            h |= (uint16_t)ldexp(m, e + 24);
        else if (m != 0)
            h |= (uint16_t)((e + 14) << 10 | ((int)ldexp(m, 11) & 1023));
        memcpy(p, &h, 2);
        break;
    }
    case ACL_FLOAT: memcpy(p, &f, 4); break;
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL: *p = (char)i; break;
    case ACL_INT64: memcpy(p, &l, 8); break;
    default: memcpy(p, &i, 4);
    }
}

static int64_t at(const struct tensor *t, int64_t i) {
    int64_t off = t->offset;
    for (int d = t->rank - 1; d >= 0; d--) {
        off += i % t->dim[d] * t->stride[d];
        i /= t->dim[d];
    }
    return off;
}

static struct tensor *make(aclDataType dtype, int rank, const int64_t *dim, const int64_t *stride, int64_t offset) {
    struct tensor *t = calloc(1, sizeof *t);
    assert_non_null(t);
    int slot = 0;
    while (live[slot]) assert_true(++slot < 256);
    live[slot] = t;
    t->dtype = dtype, t->rank = rank, t->n = 1, t->offset = offset;
    int64_t last = offset;
    for (int d = rank - 1; d >= 0; d--) {
        t->dim[d] = dim[d];
        t->stride[d] = stride ? stride[d] : t->n;
        t->n *= dim[d];
        if (dim[d]) last += (dim[d] - 1) * t->stride[d];
    }
    t->storage = last + 1;
    t->v = calloc((size_t)t->n + 1, sizeof *t->v);
    assert_non_null(t->v);
    assert_int_equal(
        aclrtMalloc((void **)&t->device, (size_t)t->storage * size_of(dtype) + 32, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    t->acl =
        aclCreateTensor(t->dim, (uint64_t)rank, dtype, t->stride, offset, ACL_FORMAT_ND, &t->storage, 1, t->device);
    assert_non_null(t->acl);
    return t;
}

static void fill(struct tensor *t, double scale) {
    for (int64_t i = 0; i < t->n; i++)
        t->v[i] = is_float(t->dtype) ? t_round(t->dtype, (2 * ops_random() - 1) * scale) : floor(ops_random() * scale);
    t_write(t);
}

struct tensor *t_random(aclDataType dtype, double scale, int rank, const int64_t *dim) {
    return t_strided(dtype, scale, rank, dim, NULL, 0);
}

struct tensor *t_strided(aclDataType dtype, double scale, int rank, const int64_t *dim, const int64_t *stride,
                         int64_t offset) {
    struct tensor *t = make(dtype, rank, dim, stride, offset);
    fill(t, scale);
    return t;
}

struct tensor *t_turned(aclDataType dtype, double scale, int rank, const int64_t *dim) {
    int64_t stride[8], step = dim[rank - 1] * dim[rank - 2];
    stride[rank - 1] = dim[rank - 2], stride[rank - 2] = 1;
    for (int d = rank - 3; d >= 0; d--) stride[d] = step, step *= dim[d];
    return t_strided(dtype, scale, rank, dim, stride, 0);
}

struct tensor *t_filled(aclDataType dtype, double value, int rank, const int64_t *dim) {
    struct tensor *t = make(dtype, rank, dim, NULL, 0);
    for (int64_t i = 0; i < t->n; i++) t->v[i] = value;
    t_write(t);
    return t;
}

struct tensor *t_given(aclDataType dtype, const double *v, int rank, const int64_t *dim) {
    struct tensor *t = make(dtype, rank, dim, NULL, 0);
    for (int64_t i = 0; i < t->n; i++) t->v[i] = t_round(dtype, v[i]);
    t_write(t);
    return t;
}

void t_read(struct tensor *t) {
    size_t size = size_of(t->dtype);
    char *host = malloc((size_t)t->storage * size);
    assert_non_null(host);
    assert_int_equal(
        aclrtMemcpy(host, (size_t)t->storage * size, t->device, (size_t)t->storage * size, ACL_MEMCPY_DEVICE_TO_HOST),
        0);
    for (int64_t i = 0; i < t->n; i++) t->v[i] = get(t->dtype, host + at(t, i) * (int64_t)size);
    free(host);
}

void t_write(struct tensor *t) {
    size_t size = size_of(t->dtype), bytes = (size_t)t->storage * size;
    char *host = malloc(bytes);
    assert_non_null(host);
    memset(host, 0xff, bytes); // NaN between the strides
    for (int64_t i = 0; i < t->n; i++) put(t->dtype, host + at(t, i) * (int64_t)size, t->v[i]);
    assert_int_equal(aclrtMemcpy(t->device, bytes, host, bytes, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    free(host);
}

void t_format(struct tensor *t, aclFormat format, int rank, const int64_t *storage) {
    assert_int_equal(aclDestroyTensor(t->acl), 0);
    t->acl =
        aclCreateTensor(t->dim, (uint64_t)t->rank, t->dtype, t->stride, 0, format, storage, (uint64_t)rank, t->device);
    assert_non_null(t->acl);
}

void t_free(struct tensor *t) {
    for (int i = 0; i < 256; i++)
        if (live[i] == t) live[i] = NULL;
    if (!t->given_away) assert_int_equal(aclDestroyTensor(t->acl), 0);
    assert_int_equal(aclrtFree(t->device), 0);
    free(t->v);
    free(t);
}

void t_free_all(void) {
    for (int i = 0; i < 256; i++)
        if (live[i]) t_free(live[i]);
}

aclTensorList *t_list(int n, struct tensor **t) {
    const aclTensor *acl[64];
    for (int i = 0; i < n; i++) acl[i] = t[i]->acl, t[i]->given_away = true;
    aclTensorList *list = aclCreateTensorList(acl, (uint64_t)n);
    assert_non_null(list);
    return list;
}

aclIntArray *t_ints(int n, const int64_t *v) { return aclCreateIntArray(v, (uint64_t)n); }

aclScalar *t_scalar(double v) {
    float f = (float)v;
    return aclCreateScalar(&f, ACL_FLOAT);
}

void t_near(const struct tensor *got, int64_t i, double want, double slack) {
    double g = got->v[i], off = fabs(g - want), may = t_half_step(got->dtype, want) * 1.0001 + slack;
    if (isinf(want) || isinf(g) ? g != want : !(off <= may))
        fail_msg("element %lld is %.9g, not %.9g: off by %.3g, may %.3g", (long long)i, g, want, off, may);
}

int ops_finish(const char *name, aclnnStatus phase1,
               aclnnStatus (*phase2)(void *, uint64_t, aclOpExecutor *, aclrtStream)) {
    uint64_t ws = ops_ws;
    aclOpExecutor *executor = ops_executor;
    void *workspace = NULL;
    int rc = phase1;
    if (rc) {
        fprintf(stderr, "%s phase 1: %d, %s\n", name, rc, aclGetRecentErrMsg());
        return rc;
    }
    if (ws) assert_int_equal(aclrtMalloc(&workspace, ws, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    rc = phase2(workspace, ws, executor, ops_stream);
    if (rc) fprintf(stderr, "%s phase 2: %d, %s\n", name, rc, aclGetRecentErrMsg());
    if (!rc) rc = aclrtSynchronizeStream(ops_stream);
    if (workspace) assert_int_equal(aclrtFree(workspace), 0);
    return rc;
}

int ops_refused(const char *name, aclnnStatus phase1, int code) {
    if (phase1 != code) fprintf(stderr, "%s: %d instead of %d; %s\n", name, phase1, code, aclGetRecentErrMsg());
    return phase1 == code;
}
