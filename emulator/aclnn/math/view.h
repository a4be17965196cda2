// Typed strided views: what an operator's arithmetic sees of a tensor.
//
// A view is the logical shape, the strides in elements and a pointer that the processor can read; who made the tensor and
// where it lies is not known here. A FRACTAL_NZ tensor has the flag `nz` and no usable strides: its logical element
// (r, c) of the last two dimensions lies in block (c / c0, r / 16), and em_offset() knows.
#ifndef EMULATOR_ACLNN_MATH_VIEW_H
#define EMULATOR_ACLNN_MATH_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EM_RANK = 8, EM_PIECE = 1024 };

// The vendor's numbers of the types that any operator here knows.
enum em_dtype {
    EM_F32 = 0,
    EM_F16 = 1,
    EM_I8 = 2,
    EM_I32 = 3,
    EM_U8 = 4,
    EM_I16 = 6,
    EM_U16 = 7,
    EM_U32 = 8,
    EM_I64 = 9,
    EM_U64 = 10,
    EM_F64 = 11,
    EM_BOOL = 12,
    EM_BF16 = 27,
};

struct em_view {
    int dtype;
    int rank;
    bool nz;        // FRACTAL_NZ storage of the last two dimensions
    bool nz_turned; // what is stored that way is the transposed matrix
    bool absent;    // an optional argument that was not given
    int64_t dim[EM_RANK];
    int64_t stride[EM_RANK];
    char *p; // the first element
};

// Bytes of one element, 0 for a type that is not in the list.
size_t em_dtype_size(int dtype);
const char *em_dtype_name(int dtype);
bool em_is_float(int dtype); // F32, F16, BF16, F64
bool em_is_half(int dtype);  // F16, BF16
bool em_is_int(int dtype);   // whole numbers and bool

int64_t em_count(const struct em_view *v); // elements of the logical shape
int64_t em_rows(const struct em_view *v);  // elements without the last dimension
bool em_is_contiguous(const struct em_view *v);
bool em_same_shape(const struct em_view *a, const struct em_view *b);
void em_make_contiguous(struct em_view *v); // sets strides for its shape

// The view with the shape of rank `rank` and dims `dim` that broadcasting gives: strides of 0 where a 1 is repeated.
// False where the shapes do not fit.
bool em_broadcast(const struct em_view *v, int rank, const int64_t *dim, struct em_view *out);

// Offset in elements of the logical index `at`.
int64_t em_offset(const struct em_view *v, const int64_t *at);
// The `i`-th row (all dimensions but the last, row-major): address of its element 0. Not for NZ.
char *em_row(const struct em_view *v, int64_t i);
// Row-major index `i` to the logical index of the first `rank` dimensions of `dim`.
void em_unravel(int64_t i, int rank, const int64_t *dim, int64_t *at);

// Rounds to nearest even; overflow gives infinity.
uint16_t em_to_f16(float f);
uint16_t em_to_bf16(float f);
float em_from_f16(uint16_t h);
float em_from_bf16(uint16_t h);

// `n` elements `stride` elements apart, to and from F32, F64 or int64. Floats to whole numbers truncate and saturate, NaN
// gives 0 (UNVERIFIED for the vendor's processors); F64 goes to a half type through F32.
void em_load_f32(int dtype, const char *p, int64_t stride, float *dst, int64_t n);
void em_store_f32(int dtype, char *p, int64_t stride, const float *src, int64_t n);
void em_load_f64(int dtype, const char *p, int64_t stride, double *dst, int64_t n);
void em_store_f64(int dtype, char *p, int64_t stride, const double *src, int64_t n);
void em_load_i64(int dtype, const char *p, int64_t stride, int64_t *dst, int64_t n);
void em_store_i64(int dtype, char *p, int64_t stride, const int64_t *src, int64_t n);

// One element of an index tensor (I32 or I64).
int64_t em_index(const struct em_view *v, int64_t i);

#endif
