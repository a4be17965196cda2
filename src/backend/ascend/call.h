// Calling a two-phase operator: descriptors, phase 1, workspace, phase 2, and the end of the descriptors.
//
//     ASCEND_CALL(c, aclnnRmsNorm, tensor_of(c, x), tensor_of(c, gamma), eps, tensor_of(c, y), tensor_of(c, rstd));
//
// Descriptors are made while the arguments are evaluated and destroyed when the call is over, or kept with the executor, which a later
// call with the same arguments then launches again without a phase 1 (executors.h). For that the arguments are evaluated twice, the
// first time only to be compared: they must have no effects, and what is no tensor, array or scalar must follow from the place in the
// source and the operation. In a dry run phase 2 is left out: what it leaves is the largest workspace that was asked for, and whether
// chip and library take the operator at all.
#ifndef TALLY_BACKEND_ASCEND_CALL_H
#define TALLY_BACKEND_ASCEND_CALL_H

#include "backend/ascend/device.h"
#include "backend/ascend/executors.h"
#include "op/op.h"

enum { VIEW_MAX_DIMS = 4, NZ_UNIT = 16 }; // NZ_UNIT: rows, and numbers of 2 bytes in a row, of a fractal

typedef struct ascend_view { // numbers on the device
    void *data;              // start of the storage, 32-byte aligned
    aclDataType type;
    int rank;
    int64_t dim[VIEW_MAX_DIMS], stride[VIEW_MAX_DIMS]; // stride in numbers
    int64_t offset;                                    // numbers from data to the first element
    bool nz; // FRACTAL_NZ: of the matrix as it is stored, turned back if need be
} ascend_view;

// Contiguous [dim0, dim1, ...]; dims that are 0 end the list.
ascend_view ascend_view_of(void *data, aclDataType type, const int64_t dim[VIEW_MAX_DIMS]);
#define VIEW(data, type, ...) ascend_view_of(data, type, (const int64_t[VIEW_MAX_DIMS]){__VA_ARGS__})

typedef struct ascend_call {
    ascend_device *device;
    bool dry;
    void *workspace;
    uint64_t workspace_bytes, largest_workspace;
    int64_t calls, growths; // calls: those of dry runs, too; growths: of the workspace after the dry run
    ascend_executors executors;
    const op *o; // at hand, for messages; NULL: none
    // of the operator that is being called
    uint64_t need;
    aclOpExecutor *executor;
    ascend_made made;
    bool no_memory, launched;
    aclDataType type; // of the first tensor
    bool compares;    // arguments are evaluated for the key alone
    bool repeatable;  // what they say of that
    ascend_key key;
} ascend_call;

// Descriptors for the arguments of ASCEND_CALL. NULL after a failure, which the call reports, and where arguments are compared.
aclTensor *ascend_tensor(ascend_call *c, const ascend_view *v);
aclTensorList *ascend_list(ascend_call *c, const ascend_view *v); // of one tensor
aclIntArray *ascend_ints(ascend_call *c, const int64_t *values, int n);
aclScalar *ascend_scalar(ascend_call *c, float value);

typedef aclnnStatus ascend_phase_2(void *workspace, uint64_t bytes, aclOpExecutor *executor, aclrtStream stream);
// What follows phase 1. The workspace is the call's; one that is too small is replaced after the stream has been waited for. The dry
// run's sizes leave room, so that this is rare; captured graphs that hold the old one are then of no use.
status ascend_call_finish(ascend_call *c, const char *name, int code, ascend_phase_2 *phase_2, error *err);
status ascend_call_missing(const ascend_call *c, const char *name, error *err);

// Whether the call's arguments are to be evaluated for its key: then ascend_call_kept tells whether it was seen before.
bool ascend_call_compares(ascend_call *c, const char *site);
void ascend_call_evaluate(int n, ...); // nothing
ascend_kept *ascend_call_kept(ascend_call *c);
status ascend_call_repeat(ascend_call *c, const char *name, ascend_kept *kept, ascend_phase_2 *phase_2, error *err);

#define ASCEND_HAS(c, name) ((c)->device->lib.name != NULL)
#define ASCEND_CALL(c, name, ...) ASCEND_CALL_(c, true, name, __VA_ARGS__)
// Not to be repeated: operators that copy between views of one buffer, as into a tensor with strides that they also read, may fail
// to say that their executors are good for one launch only (docs/ascend.md).
#define ASCEND_CALL_ONCE(c, name, ...) ASCEND_CALL_(c, false, name, __VA_ARGS__)
#define ASCEND_CALL_(c, again, name, ...) \
    do { \
        static const char site_[] = #name; /* its address is this place's own */ \
        const ascend_library *lib_ = &(c)->device->lib; \
        if (!lib_->name || !lib_->name##GetWorkspaceSize) return ascend_call_missing((c), #name, err); \
        if ((again) && ascend_call_compares((c), site_)) { \
            ascend_call_evaluate(0, __VA_ARGS__); \
            ascend_kept *kept_ = ascend_call_kept(c); \
            if (kept_) { \
                TRY(ascend_call_repeat((c), #name, kept_, lib_->name, err)); \
                break; \
            } \
        } \
        int code_ = lib_->name##GetWorkspaceSize(__VA_ARGS__, &(c)->need, &(c)->executor); \
        TRY(ascend_call_finish((c), #name, code_, lib_->name, err)); \
    } while (0)

const char *ascend_type_name(aclDataType type);

#endif
