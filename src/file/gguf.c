#include "file/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "file/check.h"
#include "file/gguf_internal.h"

enum {
    MIN_KEY_BYTES = 8 + 4 + 1,            // an empty key with a u8
    MIN_TENSOR_BYTES = 8 + 4 + 8 + 4 + 8, // an empty name with one dimension
    MAX_PARTS = 99999,                    // five digits in the file names
    DEFAULT_ALIGNMENT = 32,
};

// Where in a file reading has got to. Every length is checked against what is left before anything is done with it.
typedef struct cursor {
    const gguf_part *part;
    uint64_t pos;
    error *err;
} cursor;

static uint64_t left(const cursor *c) { return c->part->map.size - c->pos; }

static status cut(const cursor *c, const char *what) {
    return error_set(c->err, STATUS_BAD_FILE,
                     "%s: the file ends at byte %zu inside %s that starts at byte %" PRIu64
                     "; it is cut off or damaged, fetch it again",
                     c->part->path, c->part->map.size, what, c->pos);
}

static status take(cursor *c, void *out, size_t n, const char *what) {
    if (left(c) < n) return cut(c, what);
    memcpy(out, c->part->map.data + c->pos, n);
    c->pos += n;
    return STATUS_OK;
}

static status take_str(cursor *c, str *out, const char *what) {
    uint64_t len = 0;
    TRY(take(c, &len, 8, what));
    if (len > left(c)) {
        return error_set(c->err, STATUS_BAD_FILE,
                         "%s: %s at byte %" PRIu64 " claims %" PRIu64 " bytes, the file has %" PRIu64
                         " left; it is cut off or damaged",
                         c->part->path, what, c->pos - 8, len, left(c));
    }
    *out = (str){(const char *)c->part->map.data + c->pos, (size_t)len};
    c->pos += len;
    return STATUS_OK;
}

static status take_string_array(cursor *c, gguf_part *part, gguf_value *v) {
    v->first_string = part->n_strings;
    for (int64_t i = 0; i < v->n; i++) {
        if (part->n_strings == part->cap_strings) {
            size_t cap = part->cap_strings ? part->cap_strings * 2 : 256;
            str *grown = realloc(part->strings, cap * sizeof *grown);
            if (!grown) return error_no_memory(c->err, cap * sizeof *grown);
            part->strings = grown;
            part->cap_strings = cap;
        }
        TRY(take_str(c, &part->strings[part->n_strings], "a string of an array"));
        part->n_strings++;
    }
    return STATUS_OK;
}

static status take_array(cursor *c, gguf_part *part, gguf_value *v) {
    uint32_t elem;
    uint64_t n;
    TRY(take(c, &elem, 4, "an array's type"));
    TRY(take(c, &n, 8, "an array's length"));
    shown_name key = show_name(v->key);
    if (elem >= GGUF_N_VALUE_TYPES) {
        return error_set(c->err, STATUS_BAD_FILE,
                         "%s: key %s is an array of type %" PRIu32 ", which GGUF does not define", part->path, key.text,
                         elem);
    }
    if (elem == GGUF_ARRAY) {
        return error_set(c->err, STATUS_UNSUPPORTED, "%s: key %s is an array of arrays, which tally does not read",
                         part->path, key.text);
    }
    uint64_t smallest = elem == GGUF_STRING ? 8 : gguf_value_types[elem].size;
    if (n > left(c) / smallest) {
        return error_set(c->err, STATUS_BAD_FILE,
                         "%s: key %s claims %" PRIu64 " elements of %s, the file has %" PRIu64
                         " bytes left; it is cut off or damaged",
                         part->path, key.text, n, gguf_value_types[elem].name, left(c));
    }
    v->elem = (gguf_type)elem;
    v->n = (int64_t)n;
    v->data = part->map.data + c->pos;
    if (elem == GGUF_STRING) return take_string_array(c, part, v);
    c->pos += n * smallest;
    return STATUS_OK;
}

static status take_value(cursor *c, gguf_part *part, gguf_value *v) {
    uint32_t type;
    TRY(take_str(c, &v->key, "a key"));
    TRY(take(c, &type, 4, "a value's type"));
    if (type >= GGUF_N_VALUE_TYPES) {
        return error_set(c->err, STATUS_BAD_FILE, "%s: key %s has type %" PRIu32 ", which GGUF does not define",
                         part->path, show_name(v->key).text, type);
    }
    v->type = v->elem = (gguf_type)type;
    v->n = 1;
    if (type == GGUF_ARRAY) return take_array(c, part, v);
    if (type == GGUF_STRING) {
        str s;
        TRY(take_str(c, &s, "a string value"));
        v->data = (const unsigned char *)s.data;
        v->len = s.len;
        return STATUS_OK;
    }
    if (left(c) < gguf_value_types[type].size) return cut(c, "a value");
    v->data = part->map.data + c->pos;
    c->pos += gguf_value_types[type].size;
    return STATUS_OK;
}

static status take_keys(cursor *c, gguf_part *part, uint64_t n) {
    if (n > left(c) / MIN_KEY_BYTES) {
        return error_set(c->err, STATUS_BAD_FILE, "%s: claims %" PRIu64 " keys, which cannot fit into its %zu bytes",
                         part->path, n, part->map.size);
    }
    part->values = calloc(n ? n : 1, sizeof *part->values);
    if (!part->values) return error_no_memory(c->err, n * sizeof *part->values);
    for (uint64_t i = 0; i < n; i++) {
        gguf_value *v = &part->values[i];
        TRY(take_value(c, part, v));
        part->n_values++;
        if (map_get(&part->keys, v->key, NULL)) {
            return error_set(c->err, STATUS_BAD_FILE, "%s: key %s stands twice", part->path, show_name(v->key).text);
        }
        if (!map_put(&part->keys, v->key, (int64_t)i)) return error_no_memory(c->err, part->keys.n_slots * 64);
    }
    return STATUS_OK;
}

static status read_alignment(const gguf_part *part, uint64_t *out, error *err) {
    *out = DEFAULT_ALIGNMENT;
    const gguf_value *v = gguf_find_value(part, "general.alignment");
    if (!v) return STATUS_OK;
    if (v->type != GGUF_U32) {
        return error_set(err, STATUS_BAD_FILE, "%s: general.alignment is %s, expected u32", part->path,
                         gguf_value_types[v->type].name);
    }
    uint32_t alignment;
    memcpy(&alignment, v->data, 4);
    if (alignment == 0 || alignment % 8) {
        return error_set(err, STATUS_BAD_FILE, "%s: general.alignment is %" PRIu32 ", expected a multiple of 8",
                         part->path, alignment);
    }
    *out = alignment;
    return STATUS_OK;
}

// Bytes of the tensor's data; refuses what is no whole number of blocks or does not fit 63 bits.
static status tensor_bytes(const gguf_part *part, gguf_tensor *t, error *err) {
    const dtype_info *info = dtype_get(t->type);
    int64_t n = t->dim[0];
    if (n % info->block_elems) {
        return error_set(err, STATUS_BAD_FILE,
                         "%s: tensor %s has rows of %" PRId64 " numbers, no multiple of the %d of a %s block",
                         part->path, show_name(t->name).text, n, info->block_elems, info->name);
    }
    int64_t bytes;
    bool overflow = __builtin_mul_overflow(n / info->block_elems, (int64_t)info->block_bytes, &bytes);
    for (int d = 1; d < t->n_dims; d++) overflow = overflow || __builtin_mul_overflow(bytes, t->dim[d], &bytes);
    if (overflow) {
        return error_set(err, STATUS_BAD_FILE, "%s: the dimensions of tensor %s multiply to more than 2^63 bytes",
                         part->path, show_name(t->name).text);
    }
    t->n_bytes = (uint64_t)bytes;
    return STATUS_OK;
}

static status take_tensor(cursor *c, const gguf_part *part, gguf_tensor *t) {
    uint32_t n_dims;
    TRY(take_str(c, &t->name, "a tensor's name"));
    TRY(take(c, &n_dims, 4, "a tensor's description"));
    shown_name name = show_name(t->name);
    if (n_dims < 1 || n_dims > 4) {
        return error_set(c->err, STATUS_BAD_FILE, "%s: tensor %s has %" PRIu32 " dimensions, expected 1 to 4",
                         part->path, name.text, n_dims);
    }
    t->n_dims = (int)n_dims;
    for (uint32_t d = 0; d < n_dims; d++) {
        uint64_t dim;
        TRY(take(c, &dim, 8, "a tensor's description"));
        if (dim == 0 || dim > INT64_MAX) {
            return error_set(c->err, STATUS_BAD_FILE,
                             "%s: dimension %" PRIu32 " of tensor %s is %" PRIu64 ", expected 1 or more", part->path, d,
                             name.text, dim);
        }
        t->dim[d] = (int64_t)dim;
    }
    TRY(take(c, &t->file_type, 4, "a tensor's description"));
    TRY(take(c, &t->offset, 8, "a tensor's description"));
    const char *type_name;
    t->supported = gguf_type_from_id(t->file_type, &t->type, &type_name);
    return t->supported ? tensor_bytes(part, t, c->err) : STATUS_OK;
}

// Turns offsets from the data's start into offsets from the file's, and checks them.
static status place_tensors(gguf_part *part, uint64_t alignment, error *err) {
    uint64_t size = part->map.size, room = part->data_start <= size ? size - part->data_start : 0;
    extent *e = calloc(part->n_tensors ? part->n_tensors : 1, sizeof *e);
    if (!e) return error_no_memory(err, part->n_tensors * sizeof *e);
    size_t n = 0;
    status code = STATUS_OK;
    for (size_t i = 0; i < part->n_tensors && code == STATUS_OK; i++) {
        gguf_tensor *t = &part->tensors[i];
        if (t->offset % alignment) {
            code = error_set(err, STATUS_BAD_FILE,
                             "%s: tensor %s starts at offset %" PRIu64 ", no multiple of the alignment %" PRIu64,
                             part->path, show_name(t->name).text, t->offset, alignment);
        } else if (t->offset > room || t->n_bytes > room - t->offset) {
            code = error_set(err, STATUS_BAD_FILE,
                             "%s: tensor %s needs %" PRIu64 " bytes at offset %" PRIu64 " of the data, "
                             "which has %" PRIu64 "; the file is cut off or damaged, fetch it again",
                             part->path, show_name(t->name).text, t->n_bytes, t->offset, room);
        } else {
            t->offset += part->data_start;
            if (t->supported) e[n++] = (extent){t->offset, t->offset + t->n_bytes, i};
        }
    }
    size_t a, b;
    if (code == STATUS_OK && !extents_disjoint(e, n, &a, &b)) {
        code = error_set(err, STATUS_BAD_FILE, "%s: tensors %s and %s overlap", part->path,
                         show_name(part->tensors[a].name).text, show_name(part->tensors[b].name).text);
    }
    free(e);
    return code;
}

static status take_tensors(cursor *c, gguf_part *part, uint64_t n) {
    if (n > left(c) / MIN_TENSOR_BYTES) {
        return error_set(c->err, STATUS_BAD_FILE, "%s: claims %" PRIu64 " tensors, which cannot fit into its %zu bytes",
                         part->path, n, part->map.size);
    }
    part->tensors = calloc(n ? n : 1, sizeof *part->tensors);
    if (!part->tensors) return error_no_memory(c->err, n * sizeof *part->tensors);
    for (uint64_t i = 0; i < n; i++) {
        TRY(take_tensor(c, part, &part->tensors[i]));
        part->n_tensors++;
    }
    uint64_t alignment;
    TRY(read_alignment(part, &alignment, c->err));
    part->data_start = (c->pos + alignment - 1) / alignment * alignment;
    return place_tensors(part, alignment, c->err);
}

static status read_header(cursor *c, uint64_t *n_tensors, uint64_t *n_keys) {
    const char *path = c->part->path;
    unsigned char magic[4];
    uint32_t version;
    TRY(take(c, magic, 4, "the magic number"));
    if (memcmp(magic, "GGUF", 4) != 0 && memcmp(magic, "FUGG", 4) != 0) {
        return error_set(c->err, STATUS_BAD_FILE,
                         "%s: not a GGUF file: it starts with %02x %02x %02x %02x instead of \"GGUF\"", path, magic[0],
                         magic[1], magic[2], magic[3]);
    }
    TRY(take(c, &version, 4, "the version"));
    uint32_t swapped = __builtin_bswap32(version);
    if (magic[0] == 'F' || (swapped >= 1 && swapped <= 3)) {
        return error_set(c->err, STATUS_UNSUPPORTED, "%s: a big-endian GGUF file; tally reads little-endian ones",
                         path);
    }
    if (version != 2 && version != 3) {
        return error_set(c->err, STATUS_UNSUPPORTED, "%s: GGUF version %" PRIu32 "; tally reads versions 2 and 3", path,
                         version);
    }
    TRY(take(c, n_tensors, 8, "the number of tensors"));
    return take(c, n_keys, 8, "the number of keys");
}

static void part_close(gguf_part *part) {
    free(part->path);
    free(part->values);
    free(part->strings);
    free(part->tensors);
    map_deinit(&part->keys);
    mapfile_close(&part->map);
    *part = (gguf_part){0};
}

// What was opened until a failure is released by part_close.
static status part_open(gguf_part *part, const char *path, error *err) {
    part->path = strdup(path);
    if (!part->path) return error_no_memory(err, strlen(path) + 1);
    TRY(mapfile_open(&part->map, path, err));
    cursor c = {part, 0, err};
    uint64_t n_tensors, n_keys;
    TRY(read_header(&c, &n_tensors, &n_keys));
    TRY(take_keys(&c, part, n_keys));
    return take_tensors(&c, part, n_tensors);
}

static void make_getter(gguf *view, const gguf_part *part) {
    *view = (gguf){.parts = (gguf_part *)(uintptr_t)part, .n_parts = 1};
}

// Split files: reads number and count of one file; both 0 and 1 where it is no part of a set.
static status split_numbers(const gguf_part *part, int64_t *no, int64_t *count, error *err) {
    gguf view;
    make_getter(&view, part);
    bool has_no, has_count;
    TRY(gguf_get_int(&view, "split.no", no, &has_no, err));
    TRY(gguf_get_int(&view, "split.count", count, &has_count, err));
    if (!has_no) *no = 0;
    if (!has_count || *count == 0) *count = 1;
    if (*count < 1 || *count > MAX_PARTS || *no < 0 || *no >= *count) {
        return error_set(err, STATUS_BAD_FILE,
                         "%s: split.no %" PRId64 " and split.count %" PRId64 " do not go together", part->path, *no,
                         *count);
    }
    return STATUS_OK;
}

// "NAME-00001-of-00005.gguf" -> the same for part `no`, counted from 0.
static status part_path(char *out, size_t size, const gguf_part *first, int64_t no, int64_t count, error *err) {
    char tail[40];
    snprintf(tail, sizeof tail, "-%05d-of-%05d.gguf", 1, (int)count);
    str path = str_from(first->path);
    if (!str_ends(path, str_from(tail)) || path.len + 1 > size) {
        return error_set(err, STATUS_BAD_FILE,
                         "%s: is the first of %" PRId64 " files of a split set, so its name must end in %s",
                         first->path, count, tail);
    }
    snprintf(out, size, "%.*s-%05d-of-%05d.gguf", (int)(path.len - strlen(tail)), first->path, (int)no + 1, (int)count);
    return STATUS_OK;
}

static status open_other_parts(gguf *g, int64_t count, error *err) {
    for (int64_t i = 1; i < count; i++) {
        char path[4096];
        TRY(part_path(path, sizeof path, &g->parts[0], i, count, err));
        gguf_part *grown = realloc(g->parts, (size_t)(i + 1) * sizeof *grown);
        if (!grown) return error_no_memory(err, (size_t)(i + 1) * sizeof *grown);
        g->parts = grown;
        g->parts[i] = (gguf_part){0};
        g->n_parts++;
        status code = part_open(&g->parts[i], path, err);
        if (code == STATUS_NOT_FOUND) {
            return error_set(err, STATUS_NOT_FOUND,
                             "%s: missing; the model is split into %" PRId64 " files and this is number %" PRId64, path,
                             count, i + 1);
        }
        if (code != STATUS_OK) return code;
        int64_t no, its_count;
        TRY(split_numbers(&g->parts[i], &no, &its_count, err));
        if (no != i || its_count != count) {
            return error_set(err, STATUS_BAD_FILE,
                             "%s: says split.no %" PRId64 " of %" PRId64 ", expected %" PRId64 " of %" PRId64, path, no,
                             its_count, i, count);
        }
    }
    return STATUS_OK;
}

static status index_tensors(gguf *g, error *err) {
    int64_t total = 0;
    for (int p = 0; p < g->n_parts; p++) {
        const gguf_part *part = &g->parts[p];
        for (size_t i = 0; i < part->n_tensors; i++, total++) {
            str name = part->tensors[i].name;
            if (map_get(&g->tensor_names, name, NULL)) {
                return error_set(err, STATUS_BAD_FILE, "%s: tensor %s stands twice", part->path, show_name(name).text);
            }
            if (!map_put(&g->tensor_names, name, (int64_t)p << 40 | (int64_t)i)) {
                return error_no_memory(err, g->tensor_names.n_slots * 64);
            }
        }
    }
    int64_t want;
    bool found;
    TRY(gguf_get_int(g, "split.tensors.count", &want, &found, err));
    if (found && want != total && g->n_parts > 1) {
        return error_set(err, STATUS_BAD_FILE,
                         "%s: split.tensors.count is %" PRId64 ", the %d files have %" PRId64 " tensors",
                         g->parts[0].path, want, g->n_parts, total);
    }
    return STATUS_OK;
}

static status open_all(gguf *g, const char *path, error *err) {
    g->parts = calloc(1, sizeof *g->parts);
    if (!g->parts) return error_no_memory(err, sizeof *g->parts);
    g->n_parts = 1;
    TRY(part_open(&g->parts[0], path, err));
    int64_t no, count;
    TRY(split_numbers(&g->parts[0], &no, &count, err));
    if (no != 0) {
        return error_set(err, STATUS_BAD_ARGUMENT,
                         "%s: is file %" PRId64 " of %" PRId64 " of a split model; name the first one", path, no + 1,
                         count);
    }
    TRY(open_other_parts(g, count, err));
    return index_tensors(g, err);
}

status gguf_open(gguf **out, const char *path, error *err) {
    *out = NULL;
    gguf *g = calloc(1, sizeof *g);
    if (!g) return error_no_memory(err, sizeof *g);
    status code = open_all(g, path, err);
    if (code != STATUS_OK) {
        gguf_close(g);
        return code;
    }
    *out = g;
    return STATUS_OK;
}

void gguf_close(gguf *g) {
    if (!g) return;
    for (int i = 0; i < g->n_parts; i++) part_close(&g->parts[i]);
    free(g->parts);
    map_deinit(&g->tensor_names);
    free(g);
}

const gguf_tensor *gguf_find_tensor(const gguf *g, const char *name) {
    int64_t at;
    if (!map_get(&g->tensor_names, str_from(name), &at)) return NULL;
    return &g->parts[at >> 40].tensors[at & (((int64_t)1 << 40) - 1)];
}
