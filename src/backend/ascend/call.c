#include "backend/ascend/call.h"

#include <stdio.h>
#include <string.h>

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

static void compare_view(ascend_call *c, const ascend_view *v) {
    ascend_key *k = &c->key;
    ascend_key_add(k, (uint64_t)(uintptr_t)v->data);
    ascend_key_add(k, (uint64_t)v->type << 8 | (uint64_t)v->nz << 7 | (uint64_t)v->rank);
    ascend_key_add(k, (uint64_t)v->offset);
    for (int i = 0; i < v->rank; i++) ascend_key_add(k, (uint64_t)v->dim[i]), ascend_key_add(k, (uint64_t)v->stride[i]);
    c->type = v->type;
}

// Storage: [columns / 16, rows / 16, 16, 16] of the matrix that was converted.
static aclTensor *make_nz(const ascend_call *c, const ascend_view *v) {
    bool turned = v->stride[1] != 1;
    int64_t rows = v->dim[turned], columns = v->dim[!turned];
    const int64_t stored[4] = {(columns + NZ_UNIT - 1) / NZ_UNIT, (rows + NZ_UNIT - 1) / NZ_UNIT, NZ_UNIT, NZ_UNIT};
    return c->device->lib.aclCreateTensor(v->dim, 2, v->type, v->stride, 0, ACL_FORMAT_FRACTAL_NZ, stored, 4, v->data);
}

static aclTensor *make_tensor(ascend_call *c, const ascend_view *v) {
    int64_t length = v->offset + 1; // up to the last number the view reaches
    for (int i = 0; i < v->rank; i++) length += (v->dim[i] - 1) * v->stride[i];
    if (c->made.n_tensors == 0) c->type = v->type;
    aclTensor *t = v->nz ? make_nz(c, v)
                         : c->device->lib.aclCreateTensor(v->dim, (uint64_t)v->rank, v->type, v->stride, v->offset,
                                                          ACL_FORMAT_ND, &length, 1, v->data);
    if (!t) c->no_memory = true;
    return t;
}

aclTensor *ascend_tensor(ascend_call *c, const ascend_view *v) {
    if (c->compares) return compare_view(c, v), NULL;
    ascend_made *m = &c->made;
    aclTensor *t = m->n_tensors < CALL_MAX_TENSORS ? make_tensor(c, v) : NULL;
    if (t) m->tensor[m->n_tensors++] = t;
    return t;
}

aclTensorList *ascend_list(ascend_call *c, const ascend_view *v) {
    if (c->compares) return compare_view(c, v), NULL;
    ascend_made *m = &c->made;
    const aclTensor *t = m->n_lists < CALL_MAX_OTHERS ? make_tensor(c, v) : NULL;
    aclTensorList *list = t ? c->device->lib.aclCreateTensorList(&t, 1) : NULL;
    if (list) m->list[m->n_lists++] = list; // destroying it destroys the tensor
    if (t && !list) c->device->lib.aclDestroyTensor(t), c->no_memory = true;
    return list;
}

aclIntArray *ascend_ints(ascend_call *c, const int64_t *values, int n) {
    ascend_made *m = &c->made;
    for (int i = -1; c->compares && i < n; i++) ascend_key_add(&c->key, (uint64_t)(i < 0 ? n : values[i]));
    if (c->compares) return NULL;
    aclIntArray *a = m->n_ints < CALL_MAX_OTHERS ? c->device->lib.aclCreateIntArray(values, (uint64_t)n) : NULL;
    if (a) m->ints[m->n_ints++] = a;
    if (!a) c->no_memory = true;
    return a;
}

aclScalar *ascend_scalar(ascend_call *c, float value) {
    ascend_made *m = &c->made;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (c->compares) return ascend_key_add(&c->key, bits), NULL;
    aclScalar *s = m->n_scalars < CALL_MAX_OTHERS ? c->device->lib.aclCreateScalar(&value, ACL_FLOAT) : NULL;
    if (s) m->scalar[m->n_scalars++] = s;
    if (!s) c->no_memory = true;
    return s;
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

static status launch(ascend_call *c, const char *name, aclOpExecutor *e, ascend_phase_2 *phase_2, error *err) {
    TRY(grow_workspace(c, err));
    c->launched = true;
    int code = phase_2(c->need ? c->workspace : NULL, c->need, e, c->device->stream);
    return code ? fail(c, name, "phase 2", code, err) : STATUS_OK;
}

status ascend_call_finish(ascend_call *c, const char *name, int code, ascend_phase_2 *phase_2, error *err) {
    const ascend_library *lib = &c->device->lib;
    status s = STATUS_OK;
    bool keeps = false;
    c->launched = false;
    if (c->no_memory) {
        s = error_set(err, STATUS_NO_MEMORY, "%s: a descriptor could not be made", name);
    } else if (code) {
        s = fail(c, name, "phase 1", code, err);
    }
    if (!s && c->need > c->largest_workspace) c->largest_workspace = c->need;
    if (!s && !c->dry) {
        keeps = c->repeatable && c->key.fits && lib->aclSetAclOpExecutorRepeatable(c->executor) == 0;
        s = launch(c, name, c->executor, phase_2, err);
    }
    if (keeps && !s) {
        ascend_executors_keep(&c->executors, &c->key,
                              &(ascend_kept){.executor = c->executor, .made = c->made, .need = c->need});
        c->made = (ascend_made){0};
    } else {
        bool taken = c->launched && !keeps; // by phase 2
        if (c->executor && !code && !taken) lib->aclDestroyAclOpExecutor(c->executor);
        ascend_made_destroy(lib, &c->made);
    }
    c->executor = NULL;
    c->no_memory = c->repeatable = false;
    c->need = 0;
    c->calls++;
    return s;
}

// ---- calls that were seen before -------------------------------------------------------------------------------------------

bool ascend_call_compares(ascend_call *c, const char *site) {
    c->compares = c->executors.cap > 0 && !c->dry;
    c->repeatable = c->compares;
    c->key.n = 0;
    ascend_key_add(&c->key, (uint64_t)(uintptr_t)site);
    ascend_key_add(&c->key, (uint64_t)(uintptr_t)c->o);
    return c->compares;
}

void ascend_call_evaluate(int n, ...) { (void)n; }

ascend_kept *ascend_call_kept(ascend_call *c) {
    c->compares = false;
    return c->repeatable && c->key.fits ? ascend_executors_find(&c->executors, &c->key) : NULL;
}

status ascend_call_repeat(ascend_call *c, const char *name, ascend_kept *kept, ascend_phase_2 *phase_2, error *err) {
    c->need = kept->need;
    status s = launch(c, name, kept->executor, phase_2, err);
    if (s) ascend_executors_drop(&c->executors, kept); // whatever state it is in
    c->need = 0;
    c->repeatable = false;
    return s;
}
