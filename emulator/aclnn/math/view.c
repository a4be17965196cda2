#include "emulator/aclnn/math/view.h"

#include "emulator/aclnn/math/half.h"
#include "emulator/aclnn/math/lanes.h"

#include <math.h>
#include <string.h>

size_t em_dtype_size(int dtype) {
    switch (dtype) {
    case EM_I8:
    case EM_U8:
    case EM_BOOL: return 1;
    case EM_F16:
    case EM_BF16:
    case EM_I16:
    case EM_U16: return 2;
    case EM_F32:
    case EM_I32:
    case EM_U32: return 4;
    case EM_I64:
    case EM_U64:
    case EM_F64: return 8;
    default: return 0;
    }
}

const char *em_dtype_name(int dtype) {
    switch (dtype) {
    case EM_F32: return "FLOAT";
    case EM_F16: return "FLOAT16";
    case EM_BF16: return "BF16";
    case EM_F64: return "DOUBLE";
    case EM_I8: return "INT8";
    case EM_U8: return "UINT8";
    case EM_I16: return "INT16";
    case EM_U16: return "UINT16";
    case EM_I32: return "INT32";
    case EM_U32: return "UINT32";
    case EM_I64: return "INT64";
    case EM_U64: return "UINT64";
    case EM_BOOL: return "BOOL";
    default: return "another type";
    }
}

bool em_is_half(int dtype) { return dtype == EM_F16 || dtype == EM_BF16; }
bool em_is_float(int dtype) { return em_is_half(dtype) || dtype == EM_F32 || dtype == EM_F64; }
bool em_is_int(int dtype) { return em_dtype_size(dtype) && !em_is_float(dtype); }

int64_t em_count(const struct em_view *v) {
    int64_t n = 1;
    for (int i = 0; i < v->rank; i++) n *= v->dim[i];
    return n;
}

int64_t em_rows(const struct em_view *v) {
    int64_t n = 1;
    for (int i = 0; i + 1 < v->rank; i++) n *= v->dim[i];
    return n;
}

bool em_is_contiguous(const struct em_view *v) {
    int64_t step = 1;
    for (int i = v->rank - 1; i >= 0; i--) {
        if (v->dim[i] != 1 && v->stride[i] != step) return false;
        step *= v->dim[i];
    }
    return true;
}

bool em_same_shape(const struct em_view *a, const struct em_view *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

void em_make_contiguous(struct em_view *v) {
    int64_t step = 1;
    for (int i = v->rank - 1; i >= 0; i--) {
        v->stride[i] = step;
        step *= v->dim[i];
    }
}

bool em_broadcast(const struct em_view *v, int rank, const int64_t *dim, struct em_view *out) {
    struct em_view w = *v;
    int lead = rank - v->rank;
    if (lead < 0 || rank > EM_RANK) return false;
    w.rank = rank;
    for (int i = 0; i < rank; i++) {
        w.dim[i] = dim[i];
        if (i < lead)
            w.stride[i] = 0;
        else if (v->dim[i - lead] == dim[i])
            w.stride[i] = v->stride[i - lead];
        else if (v->dim[i - lead] == 1)
            w.stride[i] = 0;
        else
            return false;
    }
    *out = w;
    return true;
}

int64_t em_offset(const struct em_view *v, const int64_t *at) {
    int64_t off = 0;
    if (!v->nz) {
        for (int i = 0; i < v->rank; i++) off += at[i] * v->stride[i];
        return off;
    }
    int row = v->nz_turned ? v->rank - 1 : v->rank - 2, col = v->nz_turned ? v->rank - 2 : v->rank - 1;
    int64_t c0 = 32 / (int64_t)em_dtype_size(v->dtype), rows = (v->dim[row] + 15) / 16,
            cols = (v->dim[col] + c0 - 1) / c0;
    for (int i = 0; i + 2 < v->rank; i++) off = off * v->dim[i] + at[i];
    return ((off * cols + at[col] / c0) * rows * 16 + at[row]) * c0 + at[col] % c0;
}

void em_unravel(int64_t i, int rank, const int64_t *dim, int64_t *at) {
    for (int d = rank - 1; d >= 0; d--) {
        at[d] = i % dim[d];
        i /= dim[d];
    }
}

char *em_row(const struct em_view *v, int64_t i) {
    int64_t off = 0;
    for (int d = v->rank - 2; d >= 0; d--) {
        off += i % v->dim[d] * v->stride[d];
        i /= v->dim[d];
    }
    return v->p + off * (int64_t)em_dtype_size(v->dtype);
}

uint16_t em_to_bf16(float f) { return to_bf16(f); }
float em_from_bf16(uint16_t h) { return from_bf16(h); }
uint16_t em_to_f16(float f) { return to_f16(f); }
float em_from_f16(uint16_t h) { return from_f16(h); }

// ---- rows ----------------------------------------------------------------------------------------------------------

#define EACH(type, expression) \
    do { \
        const type *s = (const type *)(const void *)p; \
        for (int64_t i = 0; i < n; i++) { \
            type v = s[i * stride]; \
            dst[i] = expression; \
        } \
    } while (0)
#define LOAD_CASES(out) \
    case EM_F64: EACH(double, (out)v); break; \
    case EM_I8: EACH(int8_t, (out)v); break; \
    case EM_U8: EACH(uint8_t, (out)v); break; \
    case EM_BOOL: EACH(uint8_t, (out)(v != 0)); break; \
    case EM_I16: EACH(int16_t, (out)v); break; \
    case EM_U16: EACH(uint16_t, (out)v); break; \
    case EM_I32: EACH(int32_t, (out)v); break; \
    case EM_U32: EACH(uint32_t, (out)v); break; \
    case EM_I64: EACH(int64_t, (out)v); break; \
    case EM_U64: EACH(uint64_t, (out)v); break

void em_load_f32(int dtype, const char *p, int64_t stride, float *dst, int64_t n) {
    switch (dtype) {
    case EM_F32:
        if (stride == 1)
            memcpy(dst, p, (size_t)n * sizeof *dst);
        else
            EACH(float, v);
        break;
    case EM_F16:
        if (stride == 1)
            em_lanes()->widen_f16(dst, (const uint16_t *)(const void *)p, n);
        else
            EACH(uint16_t, from_f16(v));
        break;
    case EM_BF16:
        if (stride == 1)
            em_lanes()->widen_bf16(dst, (const uint16_t *)(const void *)p, n);
        else
            EACH(uint16_t, from_bf16(v));
        break;
        LOAD_CASES(float);
    default: break;
    }
}

void em_load_f64(int dtype, const char *p, int64_t stride, double *dst, int64_t n) {
    switch (dtype) {
    case EM_F32: EACH(float, (double)v); break;
    case EM_F16: EACH(uint16_t, (double)from_f16(v)); break;
    case EM_BF16:
        EACH(uint16_t, (double)from_bf16(v));
        break;
        LOAD_CASES(double);
    default: break;
    }
}

// Truncates, saturates at the ends of `lo`..`hi`, NaN gives 0.
static int64_t whole(double v, double lo, double hi, int64_t min, int64_t max) {
    if (isnan(v)) return 0;
    if (v <= lo) return min;
    if (v >= hi) return max;
    return (int64_t)v;
}

void em_load_i64(int dtype, const char *p, int64_t stride, int64_t *dst, int64_t n) {
    switch (dtype) {
    case EM_F32: EACH(float, whole((double)v, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX)); break;
    case EM_F16: EACH(uint16_t, whole((double)from_f16(v), -0x1p63, 0x1p63, INT64_MIN, INT64_MAX)); break;
    case EM_BF16: EACH(uint16_t, whole((double)from_bf16(v), -0x1p63, 0x1p63, INT64_MIN, INT64_MAX)); break;
    case EM_F64: EACH(double, whole(v, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX)); break;
    case EM_I8: EACH(int8_t, (int64_t)v); break;
    case EM_U8: EACH(uint8_t, (int64_t)v); break;
    case EM_BOOL: EACH(uint8_t, (int64_t)(v != 0)); break;
    case EM_I16: EACH(int16_t, (int64_t)v); break;
    case EM_U16: EACH(uint16_t, (int64_t)v); break;
    case EM_I32: EACH(int32_t, (int64_t)v); break;
    case EM_U32: EACH(uint32_t, (int64_t)v); break;
    case EM_I64: EACH(int64_t, v); break;
    case EM_U64: EACH(uint64_t, (int64_t)v); break;
    default: break;
    }
}

#define PUT(type, expression) \
    do { \
        type *d = (type *)(void *)p; \
        for (int64_t i = 0; i < n; i++) { \
            __typeof__(*src) v = src[i]; \
            d[i * stride] = (type)(expression); \
        } \
    } while (0)
#define PUT_WHOLE(type, min, max) \
    PUT(type, whole((double)v, (double)(min), (double)(max), (int64_t)(min), (int64_t)(max)))
#define PUT_FLOAT_TO_INT \
    case EM_I8: PUT_WHOLE(int8_t, INT8_MIN, INT8_MAX); break; \
    case EM_U8: PUT_WHOLE(uint8_t, 0, UINT8_MAX); break; \
    case EM_BOOL: PUT(uint8_t, v != 0); break; \
    case EM_I16: PUT_WHOLE(int16_t, INT16_MIN, INT16_MAX); break; \
    case EM_U16: PUT_WHOLE(uint16_t, 0, UINT16_MAX); break; \
    case EM_I32: PUT_WHOLE(int32_t, INT32_MIN, INT32_MAX); break; \
    case EM_U32: PUT_WHOLE(uint32_t, 0, UINT32_MAX); break; \
    case EM_I64: PUT(int64_t, whole((double)v, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX)); break; \
    case EM_U64: PUT(uint64_t, v >= 0x1p64 ? UINT64_MAX : v > 0 ? (uint64_t)v : 0); break

void em_store_f32(int dtype, char *p, int64_t stride, const float *src, int64_t n) {
    switch (dtype) {
    case EM_F32:
        if (stride == 1)
            memcpy(p, src, (size_t)n * sizeof *src);
        else
            PUT(float, v);
        break;
    case EM_F16:
        if (stride == 1)
            em_lanes()->narrow_f16((uint16_t *)(void *)p, src, n);
        else
            PUT(uint16_t, to_f16(v));
        break;
    case EM_BF16:
        if (stride == 1)
            em_lanes()->narrow_bf16((uint16_t *)(void *)p, src, n);
        else
            PUT(uint16_t, to_bf16(v));
        break;
    case EM_F64:
        PUT(double, v);
        break;
        PUT_FLOAT_TO_INT;
    default: break;
    }
}

void em_store_f64(int dtype, char *p, int64_t stride, const double *src, int64_t n) {
    switch (dtype) {
    case EM_F32: PUT(float, v); break;
    case EM_F16: PUT(uint16_t, to_f16((float)v)); break;
    case EM_BF16: PUT(uint16_t, to_bf16((float)v)); break;
    case EM_F64:
        PUT(double, v);
        break;
        PUT_FLOAT_TO_INT;
    default: break;
    }
}

void em_store_i64(int dtype, char *p, int64_t stride, const int64_t *src, int64_t n) {
    switch (dtype) {
    case EM_F32: PUT(float, v); break;
    case EM_F16: PUT(uint16_t, to_f16((float)v)); break;
    case EM_BF16: PUT(uint16_t, to_bf16((float)v)); break;
    case EM_F64: PUT(double, v); break;
    case EM_I8: PUT(int8_t, v); break;
    case EM_U8: PUT(uint8_t, v); break;
    case EM_BOOL: PUT(uint8_t, v != 0); break;
    case EM_I16: PUT(int16_t, v); break;
    case EM_U16: PUT(uint16_t, v); break;
    case EM_I32: PUT(int32_t, v); break;
    case EM_U32: PUT(uint32_t, v); break;
    case EM_I64: PUT(int64_t, v); break;
    case EM_U64: PUT(uint64_t, v); break;
    default: break;
    }
}

int64_t em_index(const struct em_view *v, int64_t i) {
    int64_t at[EM_RANK], off = 0, n = 0;
    em_unravel(i, v->rank, v->dim, at);
    for (int d = 0; d < v->rank; d++) off += at[d] * v->stride[d];
    em_load_i64(v->dtype, v->p + off * (int64_t)em_dtype_size(v->dtype), 1, &n, 1);
    return n;
}
