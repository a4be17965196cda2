// Phase 1: what operators say about their arguments (op.h).
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "emulator/aclnn/executor.h"
#include "emulator/aclnn/operators.h"

// Stands in for the views of a phase 1 that has failed, so that it can be written without a branch after each line.
static const emu_view empty_view = {.dtype = ACL_DT_UNDEFINED, .format = ACL_FORMAT_ND};

static const emu_operator *find(const char *name) {
    const emu_operator *o = emu_operators;
    while (o->name && strcmp(o->name, name) != 0) o++;
    return o->name ? o : NULL;
}

static int version_number(emu_cann v) {
    static const int numbers[] = {801, 805, 901};
    return numbers[v];
}

static int check_offered(const char *name) {
    const emu_operator *o = find(name);
    const emu_state *s = emu();
    if (strncmp(name, "tally_emu_", 10) == 0) return 0;
    if (!o)
        return emu_fail_as(ACLNN_ERR_INNER, EMU_RULE_operator_chip, "the emulator's table has no operator %s", name);
    if (version_number(s->cann) < o->since || (o->until && version_number(s->cann) > o->until)) {
        return emu_fail(EMU_RULE_operator_chip, "CANN %s has no operator %s", emu_cann_name(s->cann), name);
    }
    if (o->families & EMU_ON(s->chip->family)) return 0;
    return emu_fail(EMU_RULE_operator_chip, "%s has no operator %s", s->chip->name, name);
}

static bool fails(emu_op *op, int code) {
    if (!op->status) op->status = code;
    return false;
}

static emu_body *body_of(const emu_op *op) { return op->executor->body; }

void emu_op_begin(emu_op *op, const char *name, uint64_t *workspace_size, aclOpExecutor **executor) {
    emu_enter(name, "phase 1");
    *op = (emu_op){.name = name, .workspace_size = workspace_size, .out = executor};
    int code;
    emu_state *s = emu();
    if (!emu_need_device(&code) || (code = check_offered(name))) {
        op->status = code;
        return;
    }
    if (!workspace_size || !executor) {
        op->status = emu_fail(EMU_RULE_null_argument, "workspaceSize or executor is NULL");
        return;
    }
    if (emu_inject(&s->n_phase1, s->config.fail_phase1)) {
        op->status =
            emu_fail_as(ACLNN_ERR_INNER, EMU_RULE_injected, "injected: phase 1 number %" PRIu64 " fails", s->n_phase1);
        return;
    }
    op->executor = emu_object_create(EMU_EXECUTOR, sizeof *op->executor, true);
    emu_body *b = op->executor ? calloc(1, sizeof *b) : NULL;
    if (!b) {
        if (op->executor) emu_object_destroy(op->executor);
        op->executor = NULL;
        op->status = emu_fail_as(ACLNN_ERR_INNER_CREATE_EXECUTOR, EMU_RULE_out_of_memory, "no memory for an executor");
        return;
    }
    b->references = 1;
    b->name = name;
    b->signature = hash_bytes(name, strlen(name));
    op->executor->body = b;
}

const emu_chip *emu_op_chip(const emu_op *op) { return (void)op, emu()->chip; }
emu_cann emu_op_cann(const emu_op *op) { return (void)op, emu()->cann; }
bool emu_op_on(const emu_op *op, unsigned families) { return (void)op, (families & EMU_ON(emu()->chip->family)) != 0; }

void emu_op_sign(emu_op *op, int64_t value) {
    if (op->executor) body_of(op)->signature = hash_mix(body_of(op)->signature ^ (uint64_t)value);
}

void *emu_op_alloc(emu_op *op, size_t size) {
    if (op->status) return NULL;
    void *p = emu_body_alloc(body_of(op), size);
    if (!p) fails(op, emu_fail_as(ACLNN_ERR_INNER, EMU_RULE_out_of_memory, "no memory for an executor"));
    return p;
}

// ---- tensors ----
static int check_view(const emu_view *v, const char *arg) {
    const emu_chip *chip = emu()->chip;
    if (v->dtype == ACL_BF16 && !chip->bf16)
        return emu_fail(EMU_RULE_dtype_chip, "%s is BF16, which %s has not", arg, chip->name);
    uint64_t first, size;
    if (v->storage_rank == 0 || v->format == ACL_FORMAT_FRACTAL_NZ || !emu_view_bytes(v, &first, &size)) return 0;
    uint64_t n = 1;
    for (int i = 0; i < v->storage_rank; i++) n *= (uint64_t)v->storage_dim[i];
    uint64_t storage = (n * (uint64_t)emu_dtype_bits(v->dtype) + 7) / 8;
    if (first + size <= storage || emu()->config.lenient) return 0;
    return emu_fail(EMU_RULE_bad_argument, "%s reaches byte %" PRIu64 " of a storage of %" PRIu64, arg, first + size,
                    storage);
}

void emu_op_span(emu_op *op, const emu_view *v, int64_t elements) {
    if (!op->status) ((emu_view *)(uintptr_t)v)->span = elements;
}

static void sign_view(emu_op *op, const emu_view *v) {
    emu_op_sign(op, (int64_t)v->dtype * 64 + v->rank);
    for (int i = 0; i < v->rank; i++) emu_op_sign(op, v->dim[i]);
    emu_op_sign(op, emu_view_contiguous(v) + 2 * (int)v->format);
}

// Remembers the descriptor of a list or value: phase 2 finds out whether it is still there.
static bool hold(emu_op *op, const char *arg, const void *handle, emu_kind kind) {
    emu_held *h = emu_op_alloc(op, sizeof *h);
    if (!h) return false;
    *h = (emu_held){.next = op->executor->held, .handle = handle, .kind = kind, .name = arg};
    op->executor->held = h;
    return true;
}

// Enters a slot with room for n tensors; NULL after a failure.
static emu_slot *take_slot(emu_op *op, const char *arg, int access, int n) {
    if (op->status) return NULL;
    emu_body *b = body_of(op);
    if (b->n_slots == EMU_MAX_SLOTS) {
        fails(op, emu_fail_as(ACLNN_ERR_INNER, EMU_RULE_bad_argument, "the emulator's %s takes too many arguments",
                              op->name));
        return NULL;
    }
    emu_view *views = emu_op_alloc(op, (size_t)(n ? n : 1) * sizeof *views);
    aclTensor **sources = views ? emu_op_alloc(op, (size_t)(b->n_tensors + n + 1) * sizeof(aclTensor *)) : NULL;
    if (!sources) return NULL;
    if (b->n_tensors) memcpy(sources, op->executor->sources, (size_t)b->n_tensors * sizeof(aclTensor *));
    op->executor->sources = sources;
    emu_slot *slot = &b->slot[b->n_slots++];
    *slot = (emu_slot){.name = arg, .access = access, .first = b->n_tensors, .n = n, .views = views};
    b->n_tensors += n;
    return slot;
}

static bool enter_tensor(emu_op *op, emu_slot *slot, int i, const aclTensor *t) {
    int code = emu_descriptor_need(t, EMU_TENSOR, slot->name);
    if (code || (code = check_view(&t->view, slot->name))) return fails(op, code);
    slot->views[i] = t->view;
    op->executor->sources[slot->first + i] = (aclTensor *)(uintptr_t)t;
    sign_view(op, &t->view);
    return true;
}

static const emu_view *argument(emu_op *op, const char *arg, const aclTensor *t, int access, bool optional) {
    if (!t && !optional && !op->status) fails(op, emu_fail(EMU_RULE_null_argument, "%s is NULL", arg));
    emu_slot *slot = take_slot(op, arg, access, t != NULL);
    if (!slot) return t || !optional ? &empty_view : NULL;
    if (!t) {
        emu_op_sign(op, -1);
        return NULL;
    }
    return enter_tensor(op, slot, 0, t) ? slot->views : &empty_view;
}

const emu_view *emu_op_in(emu_op *op, const char *arg, const aclTensor *t) {
    return argument(op, arg, t, EMU_READS, false);
}
const emu_view *emu_op_in_opt(emu_op *op, const char *arg, const aclTensor *t) {
    return argument(op, arg, t, EMU_READS, true);
}
const emu_view *emu_op_out(emu_op *op, const char *arg, const aclTensor *t) {
    return argument(op, arg, t, EMU_WRITES, false);
}
const emu_view *emu_op_out_opt(emu_op *op, const char *arg, const aclTensor *t) {
    return argument(op, arg, t, EMU_WRITES, true);
}
const emu_view *emu_op_inout(emu_op *op, const char *arg, const aclTensor *t) {
    return argument(op, arg, t, EMU_READS | EMU_WRITES, false);
}
const emu_view *emu_op_inout_opt(emu_op *op, const char *arg, const aclTensor *t) {
    return argument(op, arg, t, EMU_READS | EMU_WRITES, true);
}

static const emu_view *list_argument(emu_op *op, const char *arg, const aclTensorList *list, int access, int *n) {
    *n = 0;
    int code = op->status ? op->status : emu_descriptor_need(list, EMU_TENSOR_LIST, arg);
    if (code) return fails(op, code), &empty_view;
    emu_slot *slot = hold(op, arg, list, EMU_TENSOR_LIST) ? take_slot(op, arg, access, (int)list->n) : NULL;
    if (!slot) return &empty_view;
    slot->is_list = true;
    for (int i = 0; i < slot->n; i++) {
        if (!enter_tensor(op, slot, i, list->v[i])) return &empty_view;
    }
    *n = slot->n;
    return slot->views;
}

static const emu_view *list_optional(emu_op *op, const char *arg, const aclTensorList *list, int access, int *n) {
    if (list) return list_argument(op, arg, list, access, n);
    *n = 0;
    take_slot(op, arg, access, 0);
    return NULL;
}

const emu_view *emu_op_in_list(emu_op *op, const char *arg, const aclTensorList *list, int *n) {
    return list_argument(op, arg, list, EMU_READS, n);
}
const emu_view *emu_op_in_list_opt(emu_op *op, const char *arg, const aclTensorList *list, int *n) {
    return list_optional(op, arg, list, EMU_READS, n);
}
const emu_view *emu_op_out_list(emu_op *op, const char *arg, const aclTensorList *list, int *n) {
    return list_argument(op, arg, list, EMU_WRITES, n);
}
const emu_view *emu_op_out_list_opt(emu_op *op, const char *arg, const aclTensorList *list, int *n) {
    return list_optional(op, arg, list, EMU_WRITES, n);
}

// ---- values ----
const int64_t *emu_op_ints_opt(emu_op *op, const char *arg, const aclIntArray *array, int *n) {
    return array ? emu_op_ints(op, arg, array, n) : (*n = 0, NULL);
}

const int64_t *emu_op_ints(emu_op *op, const char *arg, const aclIntArray *array, int *n) {
    static const int64_t none[1] = {0};
    *n = 0;
    int code = op->status ? op->status : emu_descriptor_need(array, EMU_INT_ARRAY, arg);
    bool held = !code && hold(op, arg, array, EMU_INT_ARRAY);
    int64_t *copy = held ? emu_op_alloc(op, (array->n + 1) * sizeof *copy) : NULL;
    if (!copy) return fails(op, code), none;
    memcpy(copy, array->v, array->n * sizeof *copy);
    *n = (int)array->n;
    emu_op_sign(op, *n);
    for (int i = 0; i < *n; i++) emu_op_sign(op, copy[i]);
    return copy;
}

const float *emu_op_floats_opt(emu_op *op, const char *arg, const aclFloatArray *array, int *n) {
    *n = 0;
    if (!array) return NULL;
    int code = op->status ? op->status : emu_descriptor_need(array, EMU_FLOAT_ARRAY, arg);
    bool held = !code && hold(op, arg, array, EMU_FLOAT_ARRAY);
    float *copy = held ? emu_op_alloc(op, (array->n + 1) * sizeof *copy) : NULL;
    if (!copy) return fails(op, code), NULL;
    memcpy(copy, array->v, array->n * sizeof *copy);
    *n = (int)array->n;
    return copy;
}

const bool *emu_op_bools_opt(emu_op *op, const char *arg, const aclBoolArray *array, int *n) {
    *n = 0;
    if (!array) return NULL;
    int code = op->status ? op->status : emu_descriptor_need(array, EMU_BOOL_ARRAY, arg);
    bool held = !code && hold(op, arg, array, EMU_BOOL_ARRAY);
    bool *copy = held ? emu_op_alloc(op, array->n + 1) : NULL;
    if (!copy) return fails(op, code), NULL;
    memcpy(copy, array->v, array->n);
    *n = (int)array->n;
    return copy;
}

const char *emu_op_text_opt(emu_op *op, const char *arg, const char *text) {
    (void)arg;
    if (!text || op->status) return NULL;
    size_t size = strlen(text) + 1;
    char *copy = emu_op_alloc(op, size);
    if (copy) memcpy(copy, text, size);
    emu_op_sign(op, (int64_t)hash_bytes(text, size));
    return copy;
}

static float half_to_float(uint16_t h) {
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    double m = exponent == 0 ? mantissa / 1024.0 : 1 + mantissa / 1024.0;
    for (int e = exponent ? exponent : 1; e < 15; e++) m /= 2;
    for (int e = exponent; e > 15; e--) m *= 2;
    if (exponent == 31) m = mantissa ? (double)__builtin_nanf("") : (double)__builtin_inff();
    return (float)(h & 0x8000 ? -m : m);
}

static double scalar_value(const aclScalar *s, int64_t *whole) {
    union {
        float f;
        double d;
        int8_t i8;
        uint8_t u8;
        int16_t i16;
        uint16_t u16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        uint64_t u64;
    } v;
    memcpy(&v, s->value, sizeof v);
    double d = 0;
    switch (s->dtype) {
    case ACL_FLOAT: d = (double)v.f; break;
    case ACL_DOUBLE: d = v.d; break;
    case ACL_FLOAT16: d = (double)half_to_float(v.u16); break;
    case ACL_BF16: v.u32 = (uint32_t)v.u16 << 16, d = (double)v.f; break;
    case ACL_BOOL:
    case ACL_UINT8: return *whole = v.u8, (double)v.u8;
    case ACL_INT8: return *whole = v.i8, (double)v.i8;
    case ACL_INT16: return *whole = v.i16, (double)v.i16;
    case ACL_UINT16: return *whole = v.u16, (double)v.u16;
    case ACL_INT32: return *whole = v.i32, (double)v.i32;
    case ACL_UINT32: return *whole = v.u32, (double)v.u32;
    case ACL_INT64:
    case ACL_UINT64: return *whole = v.i64, (double)v.i64;
    default: break;
    }
    *whole = d >= -9e18 && d <= 9e18 ? (int64_t)d : 0;
    return d;
}

static double scalar_argument(emu_op *op, const char *arg, const aclScalar *scalar, int64_t *whole) {
    *whole = 0;
    int code = op->status ? op->status : emu_descriptor_need(scalar, EMU_SCALAR, arg);
    if (code) return fails(op, code), 0;
    if (!hold(op, arg, scalar, EMU_SCALAR)) return 0;
    emu_op_sign(op, (int64_t)hash_bytes(scalar->value, sizeof scalar->value));
    return scalar_value(scalar, whole);
}

double emu_op_scalar(emu_op *op, const char *arg, const aclScalar *scalar) {
    int64_t whole;
    return scalar_argument(op, arg, scalar, &whole);
}

int64_t emu_op_scalar_int(emu_op *op, const char *arg, const aclScalar *scalar) {
    int64_t whole;
    scalar_argument(op, arg, scalar, &whole);
    return whole;
}

aclDataType emu_scalar_dtype(const aclScalar *scalar) {
    return emu_object_look(scalar, EMU_SCALAR) == EMU_ALIVE ? scalar->dtype : ACL_DT_UNDEFINED;
}

// ---- the end ----
// What hardware asks for differs by operator and shape and has no formula here; some operators ask for nothing. Always more than the
// kernel wants, never the same for all.
static uint64_t workspace_size(const emu_body *b, const emu_op_plan *plan) {
    if (plan->no_workspace) return 0;
    uint64_t h = hash_mix(b->signature ^ 0x5757);
    if (!plan->workspace && h % 8 == 0) return 0;
    return (plan->workspace + 511) / 512 * 512 + 512 * (1 + h / 8 % 32);
}

static void trace_arguments(const emu_body *b) {
    char line[1024], text[160];
    int n = 0;
    for (int i = 0; i < b->n_slots; i++) {
        for (int j = 0; j < b->slot[i].n && n < 900; j++) {
            n += snprintf(line + n, sizeof line - (size_t)n, " %s=%s", b->slot[i].name,
                          emu_view_text(&b->slot[i].views[j], text));
        }
    }
    emu_trace("  phase 1 of %s:%s workspace=%" PRIu64, b->name, n ? line : "", b->workspace);
}

static bool end_well(emu_op *op, const emu_op_plan *plan) {
    emu_body *b = body_of(op);
    aclOpExecutor *e = op->executor;
    b->kernel = plan->kernel;
    b->not_repeatable = plan->not_repeatable;
    b->varies_on = plan->varies_on;
    b->attrs = emu_op_alloc(op, plan->attrs_size + 1);
    e->addresses = emu_op_alloc(op, (size_t)(b->n_tensors + 1) * sizeof(void *));
    if (op->status) return false;
    if (plan->attrs_size) memcpy(b->attrs, plan->attrs, plan->attrs_size);
    for (int i = 0; i < b->n_tensors; i++) e->addresses[i] = e->sources[i]->data;
    b->workspace = workspace_size(b, plan);
    *op->workspace_size = b->workspace;
    *op->out = e;
    if (emu_tracing()) trace_arguments(b);
    return true;
}

aclnnStatus emu_op_finish(emu_op *op, const emu_op_plan *plan) {
    if (op->status || !end_well(op, plan)) {
        if (op->executor) {
            emu_body_drop(op->executor->body);
            emu_object_destroy(op->executor);
        }
        if (op->out) *op->out = NULL;
    }
    return emu_leave(op->status);
}
