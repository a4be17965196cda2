#include "backend/ascend/call.h"

#include <stdio.h>

ascend_view ascend_view_of(void *data, aclDataType type, const int64_t dim[VIEW_MAX_DIMS]) {
    ascend_view v = {.data = data, .type = type};
    while (v.rank < VIEW_MAX_DIMS && dim[v.rank]) v.dim[v.rank] = dim[v.rank], v.rank++;
    int64_t step = 1;
    for (int i = v.rank - 1; i >= 0; i--) v.stride[i] = step, step *= v.dim[i];
    return v;
}

const char *ascend_type_name(aclDataType type) {
    switch (type) {
    case ACL_FLOAT: return "FLOAT";
    case ACL_FLOAT16: return "FLOAT16";
    case ACL_BF16: return "BF16";
    case ACL_INT32: return "INT32";
    case ACL_INT64: return "INT64";
    case ACL_BOOL: return "BOOL";
    default: return "another type";
    }
}

// ---- descriptors ---------------------------------------------------------------------------------------------------------

static aclTensor *make_tensor(ascend_call *c, const ascend_view *v) {
    int64_t length = v->offset + 1; // up to the last number the view reaches
    for (int i = 0; i < v->rank; i++) length += (v->dim[i] - 1) * v->stride[i];
    if (c->n_tensors == 0) c->type = v->type;
    aclTensor *t = c->device->lib.aclCreateTensor(v->dim, (uint64_t)v->rank, v->type, v->stride, v->offset,
                                                  ACL_FORMAT_ND, &length, 1, v->data);
    if (!t) c->no_memory = true;
    return t;
}

aclTensor *ascend_tensor(ascend_call *c, const ascend_view *v) {
    aclTensor *t = c->n_tensors < CALL_MAX_TENSORS ? make_tensor(c, v) : NULL;
    if (t) c->tensor[c->n_tensors++] = t;
    return t;
}

aclTensorList *ascend_list(ascend_call *c, const ascend_view *v) {
    const aclTensor *t = c->n_lists < CALL_MAX_OTHERS ? make_tensor(c, v) : NULL;
    aclTensorList *list = t ? c->device->lib.aclCreateTensorList(&t, 1) : NULL;
    if (list) c->list[c->n_lists++] = list; // destroying it destroys the tensor
    if (t && !list) c->device->lib.aclDestroyTensor(t), c->no_memory = true;
    return list;
}

aclIntArray *ascend_ints(ascend_call *c, const int64_t *values, int n) {
    aclIntArray *a = c->n_ints < CALL_MAX_OTHERS ? c->device->lib.aclCreateIntArray(values, (uint64_t)n) : NULL;
    if (a) c->ints[c->n_ints++] = a;
    if (!a) c->no_memory = true;
    return a;
}

aclScalar *ascend_scalar(ascend_call *c, float value) {
    aclScalar *s = c->n_scalars < CALL_MAX_OTHERS ? c->device->lib.aclCreateScalar(&value, ACL_FLOAT) : NULL;
    if (s) c->scalar[c->n_scalars++] = s;
    if (!s) c->no_memory = true;
    return s;
}

static void destroy_descriptors(ascend_call *c) {
    const ascend_library *lib = &c->device->lib;
    for (int i = 0; i < c->n_tensors; i++) lib->aclDestroyTensor(c->tensor[i]);
    for (int i = 0; i < c->n_lists; i++) lib->aclDestroyTensorList(c->list[i]);
    for (int i = 0; i < c->n_ints; i++) lib->aclDestroyIntArray(c->ints[i]);
    for (int i = 0; i < c->n_scalars; i++) lib->aclDestroyScalar(c->scalar[i]);
    c->n_tensors = c->n_lists = c->n_ints = c->n_scalars = 0;
    c->executor = NULL;
    c->no_memory = false;
}

// ---- the two phases ------------------------------------------------------------------------------------------------------

static void describe(const ascend_call *c, char *text, size_t size) {
    if (!c->o) {
        snprintf(text, size, "%s", ascend_type_name(c->type));
    } else if (c->o->layer < 0) {
        snprintf(text, size, "%s, operation %s (%s)", ascend_type_name(c->type), c->o->label, opcode_name(c->o->code));
    } else {
        snprintf(text, size, "%s, operation %s (%s) of layer %d", ascend_type_name(c->type), c->o->label,
                 opcode_name(c->o->code), c->o->layer);
    }
}

static status fail(const ascend_call *c, const char *name, const char *phase, int code, error *err) {
    char what[160];
    describe(c, what, sizeof what);
    status s = ascend_check(c->device, code, phase, err);
    return error_prefix(err, s, "%s (%s)", name, what);
}

status ascend_call_missing(const ascend_call *c, const char *name, error *err) {
    char text[128], what[160];
    describe(c, what, sizeof what);
    return error_set(
        err, STATUS_UNSUPPORTED,
        "%s is not there for %s: neither chip nor library offers it, and there is no composition (needed for %s)", name,
        ascend_device_text(c->device, text), what);
}

static status grow_workspace(ascend_call *c, error *err) {
    if (c->need <= c->workspace_bytes) return STATUS_OK;
    TRY(ascend_device_sync(c->device, err));
    if (c->workspace) ascend_device_free(c->device, c->workspace);
    c->workspace = NULL, c->workspace_bytes = 0;
    TRY(ascend_device_alloc(c->device, (int64_t)c->need, "the operators' workspace", &c->workspace, err));
    c->workspace_bytes = c->need;
    c->growths++;
    return STATUS_OK;
}

static status launch(ascend_call *c, const char *name, ascend_phase_2 *phase_2, error *err) {
    TRY(grow_workspace(c, err));
    aclOpExecutor *e = c->executor;
    c->executor = NULL; // phase 2 takes it
    int code = phase_2(c->need ? c->workspace : NULL, c->need, e, c->device->stream);
    c->launches++;
    return code ? fail(c, name, "phase 2", code, err) : STATUS_OK;
}

status ascend_call_finish(ascend_call *c, const char *name, int code, ascend_phase_2 *phase_2, error *err) {
    status s = STATUS_OK;
    if (c->no_memory) {
        s = error_set(err, STATUS_NO_MEMORY, "%s: a descriptor could not be made", name);
    } else if (code) {
        s = fail(c, name, "phase 1", code, err);
    }
    if (!s && c->need > c->largest_workspace) c->largest_workspace = c->need;
    if (!s && !c->dry) s = launch(c, name, phase_2, err);
    if (c->executor && !code) c->device->lib.aclDestroyAclOpExecutor(c->executor);
    destroy_descriptors(c);
    c->need = 0;
    return s;
}
