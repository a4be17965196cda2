// Tensors, scalars, arrays and lists of them.
#include "emulator/aclnn/descriptor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/core/settings.h"
#include "emulator/core/state.h"

int emu_dtype_bits(aclDataType dtype) {
    switch (dtype) {
    case ACL_UINT1: return 1;
    case ACL_INT4:
    case ACL_FLOAT4_E2M1:
    case ACL_FLOAT4_E1M2: return 4;
    case ACL_FLOAT6_E3M2:
    case ACL_FLOAT6_E2M3: return 6;
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL:
    case ACL_HIFLOAT8:
    case ACL_FLOAT8_E5M2:
    case ACL_FLOAT8_E4M3FN:
    case ACL_FLOAT8_E8M0: return 8;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16: return 16;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
    case ACL_COMPLEX32: return 32;
    case ACL_INT64:
    case ACL_UINT64:
    case ACL_DOUBLE:
    case ACL_COMPLEX64: return 64;
    case ACL_COMPLEX128: return 128;
    default: return 0;
    }
}

const char *emu_dtype_name(aclDataType dtype) {
    static const char *const names[] = {
        "FLOAT",       "FLOAT16",       "INT8",        "INT32",       "UINT8",       "?5",          "INT16",
        "UINT16",      "UINT32",        "INT64",       "UINT64",      "DOUBLE",      "BOOL",        "STRING",
        "?14",         "?15",           "COMPLEX64",   "COMPLEX128",  "?18",         "?19",         "?20",
        "?21",         "?22",           "?23",         "?24",         "?25",         "?26",         "BF16",
        "?28",         "INT4",          "UINT1",       "?31",         "?32",         "COMPLEX32",   "HIFLOAT8",
        "FLOAT8_E5M2", "FLOAT8_E4M3FN", "FLOAT8_E8M0", "FLOAT6_E3M2", "FLOAT6_E2M3", "FLOAT4_E2M1", "FLOAT4_E1M2"};
    return (int)dtype >= 0 && (size_t)dtype < sizeof names / sizeof *names ? names[dtype] : "UNDEFINED";
}

const char *emu_view_text(const emu_view *v, char text[static 160]) {
    int n = snprintf(text, 160, "%s [", emu_dtype_name(v->dtype));
    for (int i = 0; i < v->rank && n < 150; i++)
        n += snprintf(text + n, (size_t)(160 - n), "%s%" PRId64, i ? "," : "", v->dim[i]);
    snprintf(text + n, (size_t)(160 - n), "]");
    return text;
}

int emu_descriptor_need(const void *handle, emu_kind kind, const char *what) {
    if (!handle) return emu_fail(EMU_RULE_null_argument, "%s is NULL", what);
    switch (emu_object_look(handle, kind)) {
    case EMU_ALIVE: return 0;
    case EMU_DESTROYED: return emu_fail(EMU_RULE_dead_descriptor, "%s %p was destroyed", what, handle);
    case EMU_OTHER_KIND:
        return emu_fail(EMU_RULE_bad_argument, "%s %p is a %s, not a %s", what, handle,
                        emu_kind_name((emu_kind)((const emu_object *)handle)->kind), emu_kind_name(kind));
    default: return emu_fail(EMU_RULE_bad_argument, "%s %p is no descriptor of this library", what, handle);
    }
}

// ---- tensors ----
typedef struct tensor_request {
    const int64_t *dims, *stride, *storage;
    uint64_t n, storage_n;
    aclDataType dtype;
    aclFormat format;
    int64_t offset;
    void *data;
} tensor_request;

static int fill(aclTensor *t, const tensor_request *r) {
    if (r->n > EMU_MAX_RANK || r->storage_n > EMU_MAX_RANK) {
        return emu_fail(EMU_RULE_bad_argument, "a tensor of %" PRIu64 " dimensions (storage: %" PRIu64 "); %d at most",
                        r->n, r->storage_n, EMU_MAX_RANK);
    }
    if ((r->n && !r->dims) || (r->storage_n && !r->storage))
        return emu_fail(EMU_RULE_null_argument, "the dimensions are NULL");
    if (!emu_dtype_bits(r->dtype))
        return emu_fail(EMU_RULE_bad_argument, "data type %d is none of a tensor", (int)r->dtype);
    if (r->offset < 0) return emu_fail(EMU_RULE_bad_argument, "an offset of %" PRId64, r->offset);
    emu_view v = {.dtype = r->dtype,
                  .format = r->format,
                  .rank = (int)r->n,
                  .storage_rank = (int)r->storage_n,
                  .offset = r->offset,
                  .numel = 1};
    int64_t step = 1;
    for (int i = v.rank - 1; i >= 0; i--) {
        v.dim[i] = r->dims[i];
        v.stride[i] = r->stride ? r->stride[i] : step;
        if (v.dim[i] < 0 || v.stride[i] < 0)
            return emu_fail(EMU_RULE_bad_argument, "dimension %d is %" PRId64 " with stride %" PRId64, i, v.dim[i],
                            v.stride[i]);
        step *= v.dim[i];
        v.numel *= v.dim[i];
    }
    for (int i = 0; i < v.storage_rank; i++) v.storage_dim[i] = r->storage[i];
    t->view = v;
    t->data = r->data;
    return 0;
}

aclTensor *aclCreateTensor(const int64_t *view_dims, uint64_t n, aclDataType dtype, const int64_t *stride,
                           int64_t offset, aclFormat format, const int64_t *storage_dims, uint64_t storage_n,
                           void *data) {
    emu_enter("aclCreateTensor", "%" PRIu64 " dims, %s, offset %" PRId64 ", format %d, %p", n, emu_dtype_name(dtype),
              offset, (int)format, data);
    tensor_request r = {view_dims, stride, storage_dims, n, storage_n, dtype, format, offset, data};
    aclTensor made, *t = NULL;
    if (!fill(&made, &r) && (t = emu_object_create(EMU_TENSOR, sizeof *t, true))) {
        t->view = made.view;
        t->data = made.data;
    }
    emu_leave(0);
    return t;
}

aclnnStatus aclInitTensor(aclTensor *tensor, const int64_t *view_dims, uint64_t n, aclDataType dtype,
                          const int64_t *stride, int64_t offset, aclFormat format, const int64_t *storage_dims,
                          uint64_t storage_n, void *data) {
    emu_enter("aclInitTensor", "%p, %" PRIu64 " dims", (void *)tensor, n);
    tensor_request r = {view_dims, stride, storage_dims, n, storage_n, dtype, format, offset, data};
    int code = emu_descriptor_need(tensor, EMU_TENSOR, "tensor");
    return emu_leave(code ? code : fill(tensor, &r));
}

// ---- what is created from values ----
static int scalar_size(aclDataType dtype) {
    int bits = emu_dtype_bits(dtype);
    return bits < 8 ? 0 : bits / 8;
}

aclScalar *aclCreateScalar(void *value, aclDataType dtype) {
    emu_enter("aclCreateScalar", "%s", emu_dtype_name(dtype));
    aclScalar *s = NULL;
    if (!value || !scalar_size(dtype)) {
        emu_fail(EMU_RULE_bad_argument, "no value, or no scalar of type %d", (int)dtype);
    } else if ((s = emu_object_create(EMU_SCALAR, sizeof *s, true))) {
        s->dtype = dtype;
        memcpy(s->value, value, (size_t)scalar_size(dtype));
    }
    emu_leave(0);
    return s;
}

// A new object of head_size bytes and n values behind it; NULL, with the recent message, if that cannot be.
static void *create_array(emu_kind kind, size_t head_size, const void *value, uint64_t n, size_t each) {
    if ((n && !value) || n > 65536) {
        emu_fail(EMU_RULE_bad_argument, "an array of %" PRIu64 " values at %p", n, value);
        return NULL;
    }
    unsigned char *a = emu_object_create(kind, head_size + n * each, true);
    if (a && n) memcpy(a + head_size, value, n * each);
    return a;
}

aclIntArray *aclCreateIntArray(const int64_t *value, uint64_t n) {
    emu_enter("aclCreateIntArray", "%" PRIu64, n);
    aclIntArray *a = create_array(EMU_INT_ARRAY, offsetof(aclIntArray, v), value, n, sizeof *value);
    if (a) a->n = n;
    emu_leave(0);
    return a;
}

aclFloatArray *aclCreateFloatArray(const float *value, uint64_t n) {
    emu_enter("aclCreateFloatArray", "%" PRIu64, n);
    aclFloatArray *a = create_array(EMU_FLOAT_ARRAY, offsetof(aclFloatArray, v), value, n, sizeof *value);
    if (a) a->n = n;
    emu_leave(0);
    return a;
}

aclBoolArray *aclCreateBoolArray(const bool *value, uint64_t n) {
    emu_enter("aclCreateBoolArray", "%" PRIu64, n);
    aclBoolArray *a = create_array(EMU_BOOL_ARRAY, offsetof(aclBoolArray, v), value, n, sizeof *value);
    if (a) a->n = n;
    emu_leave(0);
    return a;
}

aclTensorList *aclCreateTensorList(const aclTensor *const *tensors, uint64_t n) {
    emu_enter("aclCreateTensorList", "%" PRIu64, n);
    aclTensorList *l = NULL;
    int code = n && !tensors ? emu_fail(EMU_RULE_null_argument, "the tensors are NULL") : 0;
    for (uint64_t i = 0; !code && i < n; i++) {
        if (tensors[i] && !(code = emu_descriptor_need(tensors[i], EMU_TENSOR, "an element")) && tensors[i]->in_list) {
            code = emu_fail(EMU_RULE_list_element,
                            "element %" PRIu64 " is in another list already, which will destroy it", i);
        }
    }
    if (!code && (l = create_array(EMU_TENSOR_LIST, offsetof(aclTensorList, v), tensors, n, sizeof *tensors))) {
        l->n = n;
        for (uint64_t i = 0; i < n; i++) {
            if (l->v[i]) l->v[i]->in_list = true;
        }
    }
    emu_leave(0);
    return l;
}

aclScalarList *aclCreateScalarList(const aclScalar *const *scalars, uint64_t n) {
    emu_enter("aclCreateScalarList", "%" PRIu64, n);
    aclScalarList *l = NULL;
    int code = n && !scalars ? emu_fail(EMU_RULE_null_argument, "the scalars are NULL") : 0;
    for (uint64_t i = 0; !code && i < n; i++) code = emu_descriptor_need(scalars[i], EMU_SCALAR, "an element");
    if (!code && (l = create_array(EMU_SCALAR_LIST, offsetof(aclScalarList, v), scalars, n, sizeof *scalars))) {
        l->n = n;
        for (uint64_t i = 0; i < n; i++) l->v[i]->in_list = true;
    }
    emu_leave(0);
    return l;
}

// ---- destruction ----
static int destroy(const void *handle, emu_kind kind, bool in_list) {
    if (!handle) return 0;
    emu_look look = emu_object_look(handle, kind);
    if (look == EMU_DESTROYED)
        return emu_fail(EMU_RULE_double_destroy, "%s %p was destroyed before", emu_kind_name(kind), handle);
    if (look != EMU_ALIVE) return emu_descriptor_need(handle, kind, "what is destroyed");
    if (in_list) {
        return emu_fail(EMU_RULE_list_element, "%s %p is in a list, and destroying the list destroys it",
                        emu_kind_name(kind), handle);
    }
    emu_object_destroy((void *)(uintptr_t)handle);
    return 0;
}

static bool alive(const void *handle, emu_kind kind) { return emu_object_look(handle, kind) == EMU_ALIVE; }

aclnnStatus aclDestroyTensor(const aclTensor *tensor) {
    emu_enter("aclDestroyTensor", "%p", (const void *)tensor);
    return emu_leave(destroy(tensor, EMU_TENSOR, alive(tensor, EMU_TENSOR) && tensor->in_list));
}

aclnnStatus aclDestroyScalar(const aclScalar *scalar) {
    emu_enter("aclDestroyScalar", "%p", (const void *)scalar);
    return emu_leave(destroy(scalar, EMU_SCALAR, alive(scalar, EMU_SCALAR) && scalar->in_list));
}

aclnnStatus aclDestroyIntArray(const aclIntArray *array) {
    emu_enter("aclDestroyIntArray", "%p", (const void *)array);
    return emu_leave(destroy(array, EMU_INT_ARRAY, false));
}

aclnnStatus aclDestroyFloatArray(const aclFloatArray *array) {
    emu_enter("aclDestroyFloatArray", "%p", (const void *)array);
    return emu_leave(destroy(array, EMU_FLOAT_ARRAY, false));
}

aclnnStatus aclDestroyBoolArray(const aclBoolArray *array) {
    emu_enter("aclDestroyBoolArray", "%p", (const void *)array);
    return emu_leave(destroy(array, EMU_BOOL_ARRAY, false));
}

aclnnStatus aclDestroyTensorList(const aclTensorList *list) {
    emu_enter("aclDestroyTensorList", "%p", (const void *)list);
    for (uint64_t i = 0; alive(list, EMU_TENSOR_LIST) && i < list->n; i++) {
        if (alive(list->v[i], EMU_TENSOR)) emu_object_destroy(list->v[i]);
    }
    return emu_leave(destroy(list, EMU_TENSOR_LIST, false));
}

aclnnStatus aclDestroyScalarList(const aclScalarList *list) {
    emu_enter("aclDestroyScalarList", "%p", (const void *)list);
    for (uint64_t i = 0; alive(list, EMU_SCALAR_LIST) && i < list->n; i++) {
        if (alive(list->v[i], EMU_SCALAR)) emu_object_destroy(list->v[i]);
    }
    return emu_leave(destroy(list, EMU_SCALAR_LIST, false));
}

// ---- questions ----
static int copy_out(int64_t **out, uint64_t *n, const int64_t *values, int rank) {
    if (!out || !n) return emu_fail(EMU_RULE_null_argument, "nowhere to store the answer");
    int64_t *copy = malloc((size_t)(rank ? rank : 1) * sizeof *copy);
    if (!copy) return ACLNN_ERR_INNER;
    memcpy(copy, values, (size_t)rank * sizeof *copy);
    *out = copy;
    *n = (uint64_t)rank;
    return 0;
}

aclnnStatus aclGetViewShape(const aclTensor *tensor, int64_t **dims, uint64_t *n) {
    emu_enter("aclGetViewShape", "%p", (const void *)tensor);
    int code = emu_descriptor_need(tensor, EMU_TENSOR, "tensor");
    return emu_leave(code ? code : copy_out(dims, n, tensor->view.dim, tensor->view.rank));
}

aclnnStatus aclGetStorageShape(const aclTensor *tensor, int64_t **dims, uint64_t *n) {
    emu_enter("aclGetStorageShape", "%p", (const void *)tensor);
    int code = emu_descriptor_need(tensor, EMU_TENSOR, "tensor");
    return emu_leave(code ? code : copy_out(dims, n, tensor->view.storage_dim, tensor->view.storage_rank));
}

aclnnStatus aclGetViewStrides(const aclTensor *tensor, int64_t **strides, uint64_t *n) {
    emu_enter("aclGetViewStrides", "%p", (const void *)tensor);
    int code = emu_descriptor_need(tensor, EMU_TENSOR, "tensor");
    return emu_leave(code ? code : copy_out(strides, n, tensor->view.stride, tensor->view.rank));
}

// One answer of a descriptor of a kind.
#define EMU_GETTER(function, type, kind, out_type, expression) \
    aclnnStatus function(const type *handle, out_type *out) { \
        emu_enter(#function, "%p", (const void *)handle); \
        int code = emu_descriptor_need(handle, kind, emu_kind_name(kind)); \
        if (!code && !out) code = emu_fail(EMU_RULE_null_argument, "nowhere to store the answer"); \
        if (!code) *out = (expression); \
        return emu_leave(code); \
    }

EMU_GETTER(aclGetViewOffset, aclTensor, EMU_TENSOR, int64_t, handle->view.offset)
EMU_GETTER(aclGetFormat, aclTensor, EMU_TENSOR, aclFormat, handle->view.format)
EMU_GETTER(aclGetDataType, aclTensor, EMU_TENSOR, aclDataType, handle->view.dtype)
EMU_GETTER(aclGetIntArraySize, aclIntArray, EMU_INT_ARRAY, uint64_t, handle->n)
EMU_GETTER(aclGetFloatArraySize, aclFloatArray, EMU_FLOAT_ARRAY, uint64_t, handle->n)
EMU_GETTER(aclGetBoolArraySize, aclBoolArray, EMU_BOOL_ARRAY, uint64_t, handle->n)
EMU_GETTER(aclGetTensorListSize, aclTensorList, EMU_TENSOR_LIST, uint64_t, handle->n)
EMU_GETTER(aclGetScalarListSize, aclScalarList, EMU_SCALAR_LIST, uint64_t, handle->n)
EMU_GETTER(aclGetRawTensorAddr, aclTensor, EMU_TENSOR, void *, handle->data)

aclnnStatus aclSetRawTensorAddr(aclTensor *tensor, void *address) {
    emu_enter("aclSetRawTensorAddr", "%p, %p", (void *)tensor, address);
    int code = emu_descriptor_need(tensor, EMU_TENSOR, "tensor");
    if (!code) code = emu_call_fails();
    if (!code) tensor->data = address;
    return emu_leave(code);
}

// ---- the library ----
aclnnStatus aclnnInit(const char *configPath) {
    emu_enter("aclnnInit", "%s", configPath ? configPath : "NULL");
    int code = emu_settings_error(); // the lighter way to initialise; aclInit may come before or after
    if (!code) emu()->nnop_initialised = emu()->initialised = emu()->was_initialised = true;
    return emu_leave(code);
}

aclnnStatus aclnnFinalize(void) {
    emu_enter("aclnnFinalize", "%s", "");
    emu()->nnop_initialised = false;
    return emu_leave(0);
}
