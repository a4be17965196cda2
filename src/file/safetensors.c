#include "file/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/json.h"
#include "file/check.h"

enum {
    MAX_HEADER_BYTES = 100 * 1000 * 1000, // the format's own limit
    MAX_INDEX_BYTES = 64 << 20,
    MAX_SHARDS = 10000,
};

static status reserve_entry(safetensors *s, safetensors_entry **out, error *err) {
    if (s->n_entries == s->cap_entries) {
        size_t cap = s->cap_entries ? s->cap_entries * 2 : 256;
        safetensors_entry *grown = realloc(s->entries, cap * sizeof *grown);
        if (!grown) return error_no_memory(err, cap * sizeof *grown);
        s->entries = grown;
        s->cap_entries = cap;
    }
    *out = &s->entries[s->n_entries];
    return STATUS_OK;
}

// Bytes of one number by the format's type name, 0 for a name that the format does not define.
static int type_bytes(const char *name, dtype *type, bool *supported, const char **known) {
    static const struct {
        const char *name;
        int bytes;
        int type; // a dtype, or -1
    } types[] = {
        {"F32", 4, DTYPE_F32},  {"F16", 2, DTYPE_F16},  {"BF16", 2, DTYPE_BF16}, {"I32", 4, DTYPE_I32},
        {"F64", 8, -1},         {"I64", 8, -1},         {"I16", 2, -1},          {"I8", 1, -1},
        {"U8", 1, -1},          {"U16", 2, -1},         {"U32", 4, -1},          {"U64", 8, -1},
        {"BOOL", 1, -1},        {"F8_E4M3", 1, -1},     {"F8_E5M2", 1, -1},      {"F8_E8M0", 1, -1},
        {"F8_E4M3FNUZ", 1, -1}, {"F8_E5M2FNUZ", 1, -1}, {"C64", 8, -1},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(name, types[i].name) != 0) continue;
        *supported = types[i].type >= 0;
        if (*supported) *type = (dtype)types[i].type;
        *known = types[i].name;
        return types[i].bytes;
    }
    return 0;
}

static status read_shape(safetensors_entry *e, const json_t *shape, int elem_bytes, const char *path, error *err) {
    if (!json_is_array(shape)) {
        return error_set(err, STATUS_BAD_FILE, "%s: tensor %s has no array \"shape\"", path, show_name(e->name).text);
    }
    size_t n = json_array_size(shape);
    int64_t bytes = elem_bytes;
    e->n_dims = n <= 4 ? (int)n : 0;
    if (n < 1 || n > 4) e->supported = false;
    for (size_t d = 0; d < n; d++) {
        const json_t *v = json_array_get(shape, d);
        int64_t dim = json_integer_value(v);
        if (!json_is_integer(v) || dim < 0) {
            return error_set(err, STATUS_BAD_FILE, "%s: dimension %zu of tensor %s is no whole number", path, d,
                             show_name(e->name).text);
        }
        if (d < 4) e->dim[d] = dim;
        if (dim == 0) e->supported = false;
        if (__builtin_mul_overflow(bytes, dim, &bytes)) {
            return error_set(err, STATUS_BAD_FILE, "%s: the dimensions of tensor %s multiply to more than 2^63 bytes",
                             path, show_name(e->name).text);
        }
    }
    e->n_bytes = (uint64_t)bytes;
    return STATUS_OK;
}

static status read_offsets(safetensors_entry *e, const json_t *offsets, uint64_t room, const char *path, error *err) {
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    shown_name name = show_name(e->name);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last)) {
        return error_set(err, STATUS_BAD_FILE, "%s: tensor %s has no \"data_offsets\" of two whole numbers", path,
                         name.text);
    }
    int64_t start = json_integer_value(first), end = json_integer_value(last);
    if (start < 0 || end < start || (uint64_t)end > room) {
        return error_set(err, STATUS_BAD_FILE,
                         "%s: tensor %s spans bytes %" PRId64 " to %" PRId64 " of the data, which has %" PRIu64
                         "; the file is cut off or damaged, fetch it again",
                         path, name.text, start, end, room);
    }
    if ((uint64_t)(end - start) != e->n_bytes) {
        return error_set(err, STATUS_BAD_FILE,
                         "%s: tensor %s spans %" PRId64 " bytes, its shape and type %s need %" PRIu64, path, name.text,
                         end - start, e->type_name, e->n_bytes);
    }
    e->offset = (uint64_t)start;
    return STATUS_OK;
}

static status read_entry(safetensors *s, int file, const char *key, const json_t *v, uint64_t data_start, error *err) {
    const safetensors_file *f = &s->files[file];
    shown_name name = show_name(str_from(key));
    safetensors_entry *e = NULL;
    TRY(reserve_entry(s, &e, err));
    *e = (safetensors_entry){.name = arena_str(&s->arena, str_from(key)), .file = file};
    if (!e->name.data) return error_no_memory(err, strlen(key));
    const char *type = json_string_value(json_object_get(v, "dtype"));
    int elem_bytes = type ? type_bytes(type, &e->type, &e->supported, &e->type_name) : 0;
    if (elem_bytes == 0) {
        return error_set(err, STATUS_BAD_FILE, "%s: tensor %s has the type \"%s\", which safetensors does not define",
                         f->path, name.text, type ? show_name(str_from(type)).text : "");
    }
    TRY(read_shape(e, json_object_get(v, "shape"), elem_bytes, f->path, err));
    TRY(read_offsets(e, json_object_get(v, "data_offsets"), f->map.size - data_start, f->path, err));
    e->offset += data_start;
    int64_t other;
    if (map_get(&s->names, e->name, &other)) {
        return error_set(err, STATUS_BAD_FILE, "%s: tensor %s is also in %s", f->path, name.text,
                         s->files[s->entries[other].file].path);
    }
    if (!map_put(&s->names, e->name, (int64_t)s->n_entries)) return error_no_memory(err, s->names.n_slots * 64);
    s->n_entries++;
    return STATUS_OK;
}

static status check_overlaps(const safetensors *s, size_t from, error *err) {
    size_t n = 0, a, b;
    extent *e = calloc(s->n_entries - from + 1, sizeof *e);
    if (!e) return error_no_memory(err, (s->n_entries - from + 1) * sizeof *e);
    for (size_t i = from; i < s->n_entries; i++) {
        const safetensors_entry *t = &s->entries[i];
        if (t->n_bytes) e[n++] = (extent){t->offset, t->offset + t->n_bytes, i};
    }
    bool ok = extents_disjoint(e, n, &a, &b);
    free(e);
    if (ok) return STATUS_OK;
    return error_set(err, STATUS_BAD_FILE, "%s: tensors %s and %s overlap", s->files[s->entries[a].file].path,
                     show_name(s->entries[a].name).text, show_name(s->entries[b].name).text);
}

static status read_header(safetensors *s, int file, error *err) {
    safetensors_file *f = &s->files[file];
    uint64_t len;
    if (f->map.size < 8) {
        return error_set(err, STATUS_BAD_FILE,
                         "%s: %zu bytes are no safetensors file, which begins with an 8-byte length", f->path,
                         f->map.size);
    }
    memcpy(&len, f->map.data, 8);
    if (len == 0 || len > f->map.size - 8 || len > MAX_HEADER_BYTES) {
        return error_set(err, STATUS_BAD_FILE,
                         "%s: claims a header of %" PRIu64 " bytes, expected 1 to %zu; the file is cut off, "
                         "damaged, or no safetensors file",
                         f->path, len, f->map.size - 8 < MAX_HEADER_BYTES ? f->map.size - 8 : (size_t)MAX_HEADER_BYTES);
    }
    json_t *root;
    TRY(json_parse_object(&root, (const char *)f->map.data + 8, (size_t)len, 0, f->path, err));
    size_t first = s->n_entries;
    status code = STATUS_OK;
    const char *key;
    json_t *v;
    json_object_foreach(root, key, v) {
        if (strcmp(key, "__metadata__") == 0) continue;
        code = read_entry(s, file, key, v, 8 + len, err);
        if (code != STATUS_OK) break;
    }
    json_decref(root);
    return code == STATUS_OK ? check_overlaps(s, first, err) : code;
}

static status add_file(safetensors *s, const char *folder, const char *name, int *index, error *err) {
    safetensors_file *grown = realloc(s->files, (size_t)(s->n_files + 1) * sizeof *grown);
    if (!grown) return error_no_memory(err, (size_t)(s->n_files + 1) * sizeof *grown);
    s->files = grown;
    *index = s->n_files++;
    safetensors_file *f = &s->files[*index];
    *f = (safetensors_file){.path = arena_printf(&s->arena, "%s/%s", folder, name)};
    if (!f->path) return error_no_memory(err, strlen(folder) + strlen(name) + 2);
    return mapfile_open(&f->map, f->path, err);
}

// A shard's name comes from a downloaded file: it must stay inside the folder. (What a link in the folder points to is the
// owner's decision; the Hugging Face cache is made of links.)
static bool plain_file_name(const char *name) {
    return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

// One line of the weight map: opens the shard at its first mention.
static status note_listed(safetensors *s, struct map *shards, const char *folder, const char *index_path,
                          const char *tensor, const json_t *v, error *err) {
    const char *shard = json_string_value(v);
    shown_name name = show_name(str_from(shard ? shard : ""));
    if (!shard || !plain_file_name(shard)) {
        return error_set(err, STATUS_BAD_FILE,
                         "%s: tensor %s is listed in \"%s\", which is no name of a file in the folder", index_path,
                         show_name(str_from(tensor)).text, name.text);
    }
    if (map_get(shards, str_from(shard), NULL)) return STATUS_OK;
    if (s->n_files == MAX_SHARDS) {
        return error_set(err, STATUS_UNSUPPORTED, "%s: lists more than %d files", index_path, MAX_SHARDS);
    }
    int file;
    status code = add_file(s, folder, shard, &file, err);
    if (code == STATUS_NOT_FOUND) {
        return error_set(err, STATUS_NOT_FOUND, "%s/%s: missing; %s lists it, so the download is incomplete", folder,
                         name.text, index_path);
    }
    if (code != STATUS_OK) return code;
    if (!map_put(shards, str_from(shard), file)) return error_no_memory(err, shards->n_slots * 64);
    return read_header(s, file, err);
}

static status check_listed(const safetensors *s, const struct map *shards, const json_t *weight_map,
                           const char *index_path, error *err) {
    const char *tensor;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)weight_map, tensor, v) {
        int64_t file = -1, entry;
        map_get(shards, str_from(json_string_value(v)), &file);
        if (map_get(&s->names, str_from(tensor), &entry) && s->entries[entry].file == file) continue;
        return error_set(err, STATUS_BAD_FILE, "%s: lists tensor %s in %s, which does not hold it", index_path,
                         show_name(str_from(tensor)).text, show_name(str_from(json_string_value(v))).text);
    }
    return STATUS_OK;
}

static status open_listed(safetensors *s, const char *folder, const char *index_path, const json_t *index, error *err) {
    const json_t *weight_map = json_object_get(index, "weight_map");
    if (!json_is_object(weight_map) || json_object_size(weight_map) == 0) {
        return error_set(err, STATUS_BAD_FILE, "%s: has no object \"weight_map\" that lists tensors", index_path);
    }
    struct map shards;
    map_init(&shards);
    status code = STATUS_OK;
    const char *tensor;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)weight_map, tensor, v) {
        code = note_listed(s, &shards, folder, index_path, tensor, v, err);
        if (code != STATUS_OK) break;
    }
    if (code == STATUS_OK) code = check_listed(s, &shards, weight_map, index_path, err);
    map_deinit(&shards);
    return code;
}

static status open_sharded(safetensors *s, const char *folder, error *err) {
    const char *path = arena_printf(&s->arena, "%s/model.safetensors.index.json", folder);
    if (!path) return error_no_memory(err, strlen(folder) + 32);
    mapfile text;
    TRY(mapfile_read(&text, path, MAX_INDEX_BYTES, err));
    json_t *index;
    status code = json_parse_object(&index, (const char *)text.data, text.size, 0, path, err);
    mapfile_close(&text);
    if (code != STATUS_OK) return code;
    code = open_listed(s, folder, path, index, err);
    json_decref(index);
    return code;
}

// Says what the folder holds instead of safetensors.
static status nothing_to_open(safetensors *s, const char *folder, error *err) {
    static const char *const others[] = {
        "consolidated.safetensors", "pytorch_model.bin", "pytorch_model.bin.index.json",
        "consolidated.00.pth",      "tf_model.h5",       "flax_model.msgpack"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const char *path = arena_printf(&s->arena, "%s/%s", folder, others[i]);
        if (!path || access(path, F_OK) != 0) continue;
        return error_set(err, STATUS_NOT_FOUND,
                         "%s: holds %s but no model.safetensors; tally reads weights from safetensors (or "
                         "GGUF), so fetch or convert to those",
                         folder, others[i]);
    }
    return error_set(err, STATUS_NOT_FOUND, "%s: holds neither model.safetensors nor model.safetensors.index.json",
                     folder);
}

static status open_folder(safetensors *s, const char *folder, error *err) {
    int file;
    status code = add_file(s, folder, "model.safetensors", &file, err);
    if (code == STATUS_OK) return read_header(s, file, err);
    if (code != STATUS_NOT_FOUND) return code;
    s->n_files = 0;
    code = open_sharded(s, folder, err);
    return code == STATUS_NOT_FOUND && s->n_files == 0 ? nothing_to_open(s, folder, err) : code;
}

status safetensors_open(safetensors **out, const char *folder, error *err) {
    *out = NULL;
    safetensors *s = calloc(1, sizeof *s);
    if (!s) return error_no_memory(err, sizeof *s);
    arena_init(&s->arena);
    map_init(&s->names);
    status code = open_folder(s, folder, err);
    if (code != STATUS_OK) {
        safetensors_close(s);
        return code;
    }
    *out = s;
    return STATUS_OK;
}

void safetensors_close(safetensors *s) {
    if (!s) return;
    for (int i = 0; i < s->n_files; i++) mapfile_close(&s->files[i].map);
    free(s->files);
    free(s->entries);
    map_deinit(&s->names);
    arena_deinit(&s->arena);
    free(s);
}
