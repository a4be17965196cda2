// The values of GGUF keys, and what GGUF's type numbers mean.

#include "file/check.h"
#include "file/gguf_internal.h"

const gguf_value_type gguf_value_types[GGUF_N_VALUE_TYPES] = {
    [GGUF_U8] = {"u8", 1},         [GGUF_I8] = {"i8", 1},       [GGUF_U16] = {"u16", 2}, [GGUF_I16] = {"i16", 2},
    [GGUF_U32] = {"u32", 4},       [GGUF_I32] = {"i32", 4},     [GGUF_F32] = {"f32", 4}, [GGUF_BOOL] = {"bool", 1},
    [GGUF_STRING] = {"string", 0}, [GGUF_ARRAY] = {"array", 0}, [GGUF_U64] = {"u64", 8}, [GGUF_I64] = {"i64", 8},
    [GGUF_F64] = {"f64", 8},
};
bool gguf_type_from_id(uint32_t id, dtype *out, const char **name) {
    static const struct {
        const char *name;
        int8_t type; // a dtype, or -1
    } types[] = {
        [0] = {"F32", DTYPE_F32},    [1] = {"F16", DTYPE_F16},    [2] = {"Q4_0", DTYPE_Q4_0},
        [3] = {"Q4_1", DTYPE_Q4_1},  [4] = {"Q4_2", -1},          [5] = {"Q4_3", -1},
        [6] = {"Q5_0", DTYPE_Q5_0},  [7] = {"Q5_1", DTYPE_Q5_1},  [8] = {"Q8_0", DTYPE_Q8_0},
        [9] = {"Q8_1", -1},          [10] = {"Q2_K", DTYPE_Q2_K}, [11] = {"Q3_K", DTYPE_Q3_K},
        [12] = {"Q4_K", DTYPE_Q4_K}, [13] = {"Q5_K", DTYPE_Q5_K}, [14] = {"Q6_K", DTYPE_Q6_K},
        [15] = {"Q8_K", -1},         [16] = {"IQ2_XXS", -1},      [17] = {"IQ2_XS", -1},
        [18] = {"IQ3_XXS", -1},      [19] = {"IQ1_S", -1},        [20] = {"IQ4_NL", DTYPE_IQ4_NL},
        [21] = {"IQ3_S", -1},        [22] = {"IQ2_S", -1},        [23] = {"IQ4_XS", DTYPE_IQ4_XS},
        [24] = {"I8", -1},           [25] = {"I16", -1},          [26] = {"I32", DTYPE_I32},
        [27] = {"I64", -1},          [28] = {"F64", -1},          [29] = {"IQ1_M", -1},
        [30] = {"BF16", DTYPE_BF16}, [31] = {"Q4_0_4_4", -1},     [32] = {"Q4_0_4_8", -1},
        [33] = {"Q4_0_8_8", -1},     [34] = {"TQ1_0", -1},        [35] = {"TQ2_0", -1},
        [36] = {"IQ4_NL_4_4", -1},   [37] = {"IQ4_NL_4_8", -1},   [38] = {"IQ4_NL_8_8", -1},
        [39] = {"MXFP4", -1},        [40] = {"NVFP4", -1},        [41] = {"Q1_0", -1},
    };
    bool defined = id < sizeof types / sizeof *types;
    *name = defined ? types[id].name : "unknown";
    if (!defined || types[id].type < 0) return false;
    *out = (dtype)types[id].type;
    return true;
}

const gguf_value *gguf_find_value(const gguf_part *part, const char *key) {
    int64_t i;
    return map_get(&part->keys, str_from(key), &i) ? &part->values[i] : NULL;
}

static status wrong_type(const gguf *g, const gguf_value *v, const char *expected, error *err) {
    return error_set(err, STATUS_BAD_FILE, "%s: key %s is %s%s, expected %s", g->parts[0].path, show_name(v->key).text,
                     v->type == GGUF_ARRAY ? "an array of " : "", gguf_value_types[v->elem].name, expected);
}

static bool is_int(gguf_type t) {
    return t != GGUF_BOOL && t != GGUF_F32 && t != GGUF_F64 && gguf_value_types[t].size != 0;
}

// An integer of any width; a u64 beyond 63 bits becomes INT64_MAX, *fits false.
static int64_t load_int(gguf_type type, const unsigned char *p, bool *fits) {
    uint64_t u = 0;
    memcpy(&u, p, gguf_value_types[type].size);
    *fits = type != GGUF_U64 || u <= INT64_MAX;
    switch (type) {
    case GGUF_I8: return (int8_t)u;
    case GGUF_I16: return (int16_t)u;
    case GGUF_I32: return (int32_t)u;
    default: return *fits ? (int64_t)u : INT64_MAX;
    }
}

static double load_float(gguf_type type, const unsigned char *p) {
    if (type == GGUF_F32) {
        float f;
        memcpy(&f, p, 4);
        return (double)f;
    }
    if (type == GGUF_F64) {
        double d;
        memcpy(&d, p, 8);
        return d;
    }
    bool fits;
    return (double)load_int(type, p, &fits);
}

bool gguf_has(const gguf *g, const char *key) { return gguf_find_value(&g->parts[0], key) != NULL; }

status gguf_get_int(const gguf *g, const char *key, int64_t *value, bool *found, error *err) {
    const gguf_value *v = gguf_find_value(&g->parts[0], key);
    *found = v != NULL;
    if (!v) return STATUS_OK;
    if (!is_int(v->type)) return wrong_type(g, v, "an integer", err);
    bool fits;
    *value = load_int(v->type, v->data, &fits);
    if (!fits) return error_set(err, STATUS_BAD_FILE, "%s: key %s is beyond 2^63 - 1", g->parts[0].path, key);
    return STATUS_OK;
}

status gguf_get_float(const gguf *g, const char *key, double *value, bool *found, error *err) {
    const gguf_value *v = gguf_find_value(&g->parts[0], key);
    *found = v != NULL;
    if (!v) return STATUS_OK;
    if (!is_int(v->type) && v->type != GGUF_F32 && v->type != GGUF_F64) return wrong_type(g, v, "a number", err);
    *value = load_float(v->type, v->data);
    return STATUS_OK;
}

status gguf_get_bool(const gguf *g, const char *key, bool *value, bool *found, error *err) {
    const gguf_value *v = gguf_find_value(&g->parts[0], key);
    *found = v != NULL;
    if (!v) return STATUS_OK;
    if (v->type != GGUF_BOOL) return wrong_type(g, v, "bool", err);
    *value = *v->data != 0;
    return STATUS_OK;
}

status gguf_get_str(const gguf *g, const char *key, str *value, bool *found, error *err) {
    const gguf_value *v = gguf_find_value(&g->parts[0], key);
    *found = v != NULL;
    if (!v) return STATUS_OK;
    if (v->type != GGUF_STRING) return wrong_type(g, v, "string", err);
    *value = (str){(const char *)v->data, v->len};
    return STATUS_OK;
}

status gguf_get_array(const gguf *g, const char *key, gguf_type *elem, int64_t *n, bool *found, error *err) {
    const gguf_value *v = gguf_find_value(&g->parts[0], key);
    *found = v != NULL;
    if (!v) return STATUS_OK;
    if (v->type != GGUF_ARRAY) return wrong_type(g, v, "an array", err);
    *elem = v->elem;
    *n = v->n;
    return STATUS_OK;
}

// The element's bytes; NULL when the key is no array of numbers or has no such element.
static const gguf_value *element(const gguf *g, const char *key, int64_t i) {
    const gguf_value *v = gguf_find_value(&g->parts[0], key);
    return v && v->type == GGUF_ARRAY && i >= 0 && i < v->n ? v : NULL;
}

str gguf_array_str(const gguf *g, const char *key, int64_t i) {
    const gguf_value *v = element(g, key, i);
    if (!v || v->elem != GGUF_STRING) return (str){0};
    return g->parts[0].strings[v->first_string + (size_t)i];
}

int64_t gguf_array_int(const gguf *g, const char *key, int64_t i) {
    const gguf_value *v = element(g, key, i);
    if (!v || (!is_int(v->elem) && v->elem != GGUF_BOOL)) return 0;
    bool fits;
    return load_int(v->elem, v->data + i * gguf_value_types[v->elem].size, &fits);
}

double gguf_array_float(const gguf *g, const char *key, int64_t i) {
    const gguf_value *v = element(g, key, i);
    if (!v || v->elem == GGUF_STRING) return 0;
    return load_float(v->elem, v->data + i * gguf_value_types[v->elem].size);
}
