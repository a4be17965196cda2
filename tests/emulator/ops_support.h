// What the tests of the emulator's operators share: tensors on the device beside their values as doubles, and the two phases.
#ifndef TESTS_EMULATOR_OPS_SUPPORT_H
#define TESTS_EMULATOR_OPS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cann/acl_rt.h"
#include "cann/aclnn_ops.h"
#include "emulator/core/tally_emu.h"

// A fresh emulator, e.g. "910B3,cann=9.1"; device 0 set, one stream. At the end nothing may be left.
void ops_begin(const char *settings);
void ops_end(void);

struct tensor {
    aclTensor *acl;
    char *device; // what was allocated
    aclDataType dtype;
    int rank;
    int64_t dim[8], stride[8], n, offset, storage; // n: logical elements; storage: elements of the buffer
    double *v;                                     // logical, row-major, as the dtype holds them
    bool given_away;                               // a list owns the descriptor
};

#define DIMS(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

// Contiguous; uniform in [-scale, scale], or whole numbers in [0, scale) for integer types.
struct tensor *t_random(aclDataType dtype, double scale, int rank, const int64_t *dim);
struct tensor *t_filled(aclDataType dtype, double value, int rank, const int64_t *dim);
struct tensor *t_given(aclDataType dtype, const double *v, int rank, const int64_t *dim);
// The same kinds with strides (elements), on a buffer of `storage` elements.
struct tensor *t_strided(aclDataType dtype, double scale, int rank, const int64_t *dim, const int64_t *stride,
                         int64_t offset);
// A matrix [.., r, c] whose last two dimensions lie the other way round in memory.
struct tensor *t_turned(aclDataType dtype, double scale, int rank, const int64_t *dim);
void t_read(struct tensor *t);  // the device's values into v
void t_write(struct tensor *t); // and back, through the strides
void t_format(struct tensor *t, aclFormat format, int rank,
              const int64_t *storage); // a new descriptor on the same buffer
void t_free(struct tensor *t);
void t_free_all(void); // all that are left; ops_end does it

aclTensorList *t_list(int n, struct tensor **t);
aclIntArray *t_ints(int n, const int64_t *v);
aclScalar *t_scalar(double v);

// Half of one step of the dtype at v: what one rounding may be off.
double t_half_step(aclDataType dtype, double v);
double t_round(aclDataType dtype, double v);
// |got - want| is at most one rounding and `slack`.
void t_near(const struct tensor *got, int64_t i, double want, double slack);

extern aclrtStream ops_stream;
// Phase 2 and a synchronisation; the code of whichever fails.
// ops_ws and ops_executor are what phase 1 just left.
int ops_finish(const char *name, aclnnStatus phase1,
               aclnnStatus (*phase2)(void *, uint64_t, aclOpExecutor *, aclrtStream));
int ops_refused(const char *name, aclnnStatus phase1, int code);
extern uint64_t ops_ws;
extern aclOpExecutor *ops_executor;

#define RUN_CODE(op, ...) ops_finish(#op, op##GetWorkspaceSize(__VA_ARGS__, &ops_ws, &ops_executor), op)
#define RUN(op, ...) assert_int_equal(RUN_CODE(op, __VA_ARGS__), 0)
// Phase 1 must answer with this code.
#define REFUSE(code, op, ...) \
    assert_true(ops_refused(#op, op##GetWorkspaceSize(__VA_ARGS__, &ops_ws, &ops_executor), code))

double ops_random(void); // [0, 1), the same in every run

#endif
