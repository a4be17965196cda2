// How an operator is written: phase 1 describes and checks its arguments, phase 2 enqueues it, a kernel computes it later.
//
//     typedef struct { double epsilon; } rms_attrs;
//
//     static aclError run_rms(const emu_run *run) {
//         const rms_attrs *a = run->attrs;
//         const emu_tensor *x = emu_arg(run, 0), *gamma = emu_arg(run, 1), *y = emu_arg(run, 2);
//         ...                                      // x->data is readable host memory, x->view.stride in elements
//         return ACL_SUCCESS;
//     }
//
//     aclnnStatus aclnnRmsNormGetWorkspaceSize(const aclTensor *x, const aclTensor *gamma, double epsilon, const aclTensor *y,
//                                              const aclTensor *rstd, uint64_t *workspace_size, aclOpExecutor **executor) {
//         emu_op op;
//         rms_attrs attrs = {.epsilon = epsilon};
//         emu_op_begin(&op, "aclnnRmsNorm", workspace_size, executor);
//         const emu_view *xv = emu_op_in(&op, "x", x), *gv = emu_op_in(&op, "gamma", gamma);   // slots 0, 1
//         const emu_view *yv = emu_op_out(&op, "yOut", y), *rv = emu_op_out(&op, "rstdOut", rstd);
//         emu_op_dtype(&op, "x", xv, EMU_FLOATS);
//         emu_op_same_shape(&op, "x", xv, "yOut", yv);
//         ...
//         return emu_op_finish(&op, &(emu_op_plan){.kernel = run_rms, .attrs = &attrs, .attrs_size = sizeof attrs, .workspace = 0});
//     }
//     EMU_PHASE_2(aclnnRmsNorm)
//
// The first check that fails decides the code; later helpers do nothing then, and views of a failed op are those of an empty
// tensor, never NULL (except absent optional ones), so a phase 1 may be written straight down and ends with emu_op_finish.
// Checks that need values in control flow ask emu_op_ok first.
//
// The chip and the library version are checked by emu_op_begin from abi/operators.txt; BF16 is refused on chips without it by
// emu_op_in and emu_op_out, tensors that are not 32-byte aligned or outside of device memory at launch.
#ifndef TALLY_EMULATOR_ACLNN_OP_H
#define TALLY_EMULATOR_ACLNN_OP_H

#include "cann/aclnn_base.h"
#include "emulator/core/chip.h"
#include "emulator/core/rules.h"

#define EMU_MAX_RANK 8
#define EMU_MAX_SLOTS 48

typedef struct emu_view {
    aclDataType dtype;
    aclFormat format;
    int rank, storage_rank;
    int64_t dim[EMU_MAX_RANK], stride[EMU_MAX_RANK]; // stride in elements
    int64_t storage_dim[EMU_MAX_RANK];
    int64_t offset; // elements
    int64_t numel;  // product of dim
    int64_t span;   // elements from the first on that are touched (emu_op_span); 0: those of the view
} emu_view;

typedef struct emu_tensor { // while the kernel runs
    emu_view view;
    void *
        data; // of the view's first element (offset applied): memory of the device, readable and writable by the emulator only
} emu_tensor;

typedef struct emu_run {
    const char *name;
    const void *attrs; // what emu_op_finish was given, copied
    int n_slots;
    const int *n_tensors;             // [n_slots] 0: absent optional argument; 1: a tensor; for lists their length
    const emu_tensor *const *tensors; // [n_slots] -> the slot's tensors
    void *workspace;
    uint64_t workspace_size;
    uint64_t
        perturb; // 0: sums in their natural order; else the seed of this operator's order of sums, equal for equal signatures
    const emu_chip *chip;
    emu_cann cann;
} emu_run;

typedef aclError emu_kernel(const emu_run *run);

// NULL: the optional argument is absent, or the list is shorter.
static inline const emu_tensor *emu_arg_at(const emu_run *run, int slot, int i) {
    return slot < run->n_slots && i < run->n_tensors[slot] ? &run->tensors[slot][i] : NULL;
}
static inline const emu_tensor *emu_arg(const emu_run *run, int slot) { return emu_arg_at(run, slot, 0); }

// What a kernel returns when the data itself is wrong (an index outside of the tensor): the code seen at the next synchronisation.
aclError emu_run_fault(const emu_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Calls fn(ctx, i, thread) for i in [0, n) on the emulator's threads; results must not depend on which thread runs which i.
void emu_parallel(int n, void (*fn)(void *ctx, int i, int thread), void *ctx);
int emu_n_threads(void); // thread < emu_n_threads()

// ---- phase 1 ----
typedef struct emu_op {
    struct aclOpExecutor *executor; // NULL after a failure
    int status;                     // the first failure, or 0
    const char *name;
    uint64_t *workspace_size;
    aclOpExecutor **out;
} emu_op;

typedef struct emu_op_plan {
    emu_kernel *kernel;
    const void *attrs; // copied
    size_t attrs_size;
    uint64_t
        workspace; // bytes the kernel itself wants; what phase 1 answers is this, rounded and enlarged as hardware would
    bool no_workspace; // the vendor's operator is documented to need none, or does for these arguments
    unsigned
        varies_on; // families (EMU_ON) where, unless determinism is switched on, the order of sums differs at each run
    bool not_repeatable; // the operator copies from the host inside: aclSetAclOpExecutorRepeatable fails
} emu_op_plan;

void emu_op_begin(emu_op *op, const char *name, uint64_t *workspace_size, aclOpExecutor **executor);
static inline bool emu_op_ok(const emu_op *op) { return op->status == 0; }
const emu_chip *emu_op_chip(const emu_op *op);
emu_cann emu_op_cann(const emu_op *op);
bool emu_op_on(const emu_op *op, unsigned families); // EMU_ON(EMU_A2) | ...

// Each takes the next slot. "inout": read and written (selfRef). Optional: NULL is fine and returns NULL.
const emu_view *emu_op_in(emu_op *op, const char *arg, const aclTensor *tensor);
const emu_view *emu_op_in_opt(emu_op *op, const char *arg, const aclTensor *tensor);
const emu_view *emu_op_out(emu_op *op, const char *arg, const aclTensor *tensor);
const emu_view *emu_op_out_opt(emu_op *op, const char *arg, const aclTensor *tensor);
const emu_view *emu_op_inout(emu_op *op, const char *arg, const aclTensor *tensor);
const emu_view *emu_op_inout_opt(emu_op *op, const char *arg, const aclTensor *tensor);
// A list takes one slot; the views of its tensors lie one behind the other. *n = 0 and NULL when absent.
const emu_view *emu_op_in_list(emu_op *op, const char *arg, const aclTensorList *list, int *n);
const emu_view *emu_op_in_list_opt(emu_op *op, const char *arg, const aclTensorList *list, int *n);
const emu_view *emu_op_out_list(emu_op *op, const char *arg, const aclTensorList *list, int *n);
const emu_view *emu_op_out_list_opt(emu_op *op, const char *arg, const aclTensorList *list, int *n);

// The operator touches `elements` elements in memory from the view's first on, whatever its dimensions say (FRACTAL_NZ with its
// padding). Launches find out whether they are there, and who else uses them.
void emu_op_span(emu_op *op, const emu_view *v, int64_t elements);

// Values, copied into memory of the executor: valid for as long as the kernel may run, so attrs may point at them. All enter the
// signature that seeds perturbation.
const int64_t *emu_op_ints(emu_op *op, const char *arg, const aclIntArray *array, int *n); // mandatory
const int64_t *emu_op_ints_opt(emu_op *op, const char *arg, const aclIntArray *array, int *n);
const float *emu_op_floats_opt(emu_op *op, const char *arg, const aclFloatArray *array, int *n);
const bool *emu_op_bools_opt(emu_op *op, const char *arg, const aclBoolArray *array, int *n);
const char *emu_op_text_opt(emu_op *op, const char *arg, const char *text);      // NULL stays NULL
double emu_op_scalar(emu_op *op, const char *arg, const aclScalar *scalar);      // mandatory
int64_t emu_op_scalar_int(emu_op *op, const char *arg, const aclScalar *scalar); // the same for integers, exact
aclDataType emu_scalar_dtype(const aclScalar *scalar);
void *emu_op_alloc(emu_op *op, size_t size); // zeroed memory of the executor; NULL only after a failure
void emu_op_sign(emu_op *op, int64_t value); // adds an attribute to the signature

aclnnStatus emu_op_finish(emu_op *op, const emu_op_plan *plan);

// ---- checks ----
// code: EMU rules of the argument family: 161002 by bad_argument; emu_op_need_tiling: 561002.
#define EMU_DT(name) (UINT64_C(1) << ACL_##name)
#define EMU_HALVES (EMU_DT(FLOAT16) | EMU_DT(BF16))
#define EMU_FLOATS (EMU_DT(FLOAT) | EMU_HALVES)
#define EMU_INTS (EMU_DT(INT8) | EMU_DT(UINT8) | EMU_DT(INT16) | EMU_DT(INT32) | EMU_DT(INT64))

bool emu_op_need(emu_op *op, bool condition, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool emu_op_need_tiling(emu_op *op, bool condition, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool emu_op_need_as(emu_op *op, bool condition, emu_rule rule, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// In all of these an absent (NULL) view passes.
bool emu_op_dtype(emu_op *op, const char *arg, const emu_view *v, uint64_t dtypes);
bool emu_op_same_dtype(emu_op *op, const char *arg, const emu_view *v, const char *other, const emu_view *w);
bool emu_op_rank(emu_op *op, const char *arg, const emu_view *v, int least, int most);
bool emu_op_same_shape(emu_op *op, const char *arg, const emu_view *v, const char *other, const emu_view *w);
bool emu_op_shape(emu_op *op, const char *arg, const emu_view *v, int rank, const int64_t *dims); // -1: any
bool emu_op_contiguous(emu_op *op, const char *arg, const emu_view *v);
bool emu_op_format(emu_op *op, const char *arg, const emu_view *v, uint64_t formats); // of EMU_FORMAT
#define EMU_FORMAT(name) (UINT64_C(1) << ACL_FORMAT_##name)
bool emu_op_not_empty(emu_op *op, const char *arg, const emu_view *v);

bool emu_view_contiguous(const emu_view *v);
int emu_dtype_bits(aclDataType dtype); // 0: no such type
const char *emu_dtype_name(aclDataType dtype);
const char *emu_view_text(const emu_view *v, char text[static 160]); // "FLOAT16 [2,3]"

// ---- phase 2, the same for every operator ----
aclnnStatus emu_op_launch(const char *name, void *workspace, uint64_t workspace_size, aclOpExecutor *executor,
                          aclrtStream stream);

#define EMU_PHASE_2(name) \
    aclnnStatus name(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream); \
    aclnnStatus name(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) { \
        return emu_op_launch(#name, workspace, workspaceSize, executor, stream); \
    }

#endif
