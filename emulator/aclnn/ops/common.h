// What the operators' files share: from the runtime's tensors to views, from results to the runtime's codes.
#ifndef EMULATOR_ACLNN_OPS_COMMON_H
#define EMULATOR_ACLNN_OPS_COMMON_H

#include "cann/aclnn_ops.h"
#include "emulator/aclnn/math/math.h"
#include "emulator/aclnn/op.h"

#define WS uint64_t *workspaceSize, aclOpExecutor **executor
#define MIB (UINT64_C(1) << 20)

// The view of the slot's tensor `i`; absent: `absent` is set and p is NULL.
struct em_view op_view_at(const emu_run *run, int slot, int i);
static inline struct em_view op_view(const emu_run *run, int slot) { return op_view_at(run, slot, 0); }
// Pointer to `v` after it was filled, or NULL where the argument is absent.
const struct em_view *op_optional(const emu_run *run, int slot, struct em_view *v);
aclError op_done(const emu_run *run, int rc); // from EM_OK and the others

static inline struct em_order op_order(const emu_run *run) { return em_order(run->perturb); }

// A dimension counted from the end when negative; refuses what is outside of the rank.
int op_dim(emu_op *op, int64_t dim, const emu_view *v);
// The shape that a and b broadcast to; refuses shapes that do not fit, and a result of another shape.
void op_broadcast_to(emu_op *op, const emu_view *a, const emu_view *b, const emu_view *out);
void op_no_nz(emu_op *op, const char *arg, const emu_view *v);
// FRACTAL_NZ: element (r, c) of an (R, C) matrix lies at [c / c0][r / 16][r % 16][c % c0], c0 = 32 bytes, padding is zero. Elements of
// the matrices of a shape, padding included.
int64_t op_nz_elements(const int64_t *dim, int rank, int64_t c0);
// Strides tell that the transposed matrix is what is stored.
bool op_nz_turned(const emu_view *v);
// A FRACTAL_NZ tensor is whole, and its storage holds the padding, too; what it spans in memory from now on.
void op_need_nz(emu_op *op, const char *arg, const emu_view *v, bool turned);
// Arguments that this emulator has no arithmetic for must be absent.
void op_absent(emu_op *op, const char *arg, const void *value);

// A scalar operand, kept in an operator's attributes: F32, or int64 where both it and its tensor are whole numbers.
typedef struct {
    bool whole;
    float f;
    int64_t i;
} op_scalar;
op_scalar op_scalar_arg(emu_op *op, const char *arg, const aclScalar *scalar, const emu_view *with);
struct em_view op_scalar_view(const op_scalar *s); // strides of 0

#endif
