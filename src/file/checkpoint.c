#include "file/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "file/check.h"
#include "file/gguf_internal.h"
#include "file/hf.h"
#include "file/safetensors.h"

enum { PATH_BYTES = 4096, MAX_TEXT_FILE = 256 << 20 }; // the largest tokenizer.json known has 33 MB

typedef struct lost_range {
    int file;
    size_t offset, len;
} lost_range;

struct checkpoint {
    char *path;       // owned
    gguf *gguf;       // of a GGUF checkpoint
    safetensors *st;  // of a folder, once its tensors were loaded
    mapfile *memory;  // use_mmap false: one per file, the bytes that tensors point to
    int n_files;      // of `memory`
    lost_range *lost; // owned; what was dropped of `memory`
    int n_lost, lost_cap;
    bool keeps_data; // nothing more is dropped of `memory`
    arena names;     // translated ones
    checkpoint_tensor *tensors;
    int n_tensors;
    struct map index; // into tensors
    uint64_t n_bytes;
    bool loaded;
};

static bool file_exists(const char *folder, const char *name) {
    char path[PATH_BYTES];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path && access(path, F_OK) == 0;
}

static bool is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

// A folder without config.json that holds one GGUF model (one file, or one split set) stands for that model.
static bool only_gguf(char *out, size_t size, const char *folder) {
    DIR *d = opendir(folder);
    if (!d) return false;
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) {
        str name = str_from(e->d_name);
        int no, count;
        if (!str_ends(name, STR(".gguf"))) continue;
        const char *tail = name.len > 20 ? e->d_name + name.len - 20 : "";
        if (sscanf(tail, "-%5d-of-%5d.gguf", &no, &count) == 2 && no != 1) continue;
        if (snprintf(out, size, "%s/%s", folder, e->d_name) < (int)size) n++;
    }
    closedir(d);
    return n == 1;
}

// A folder: a Hugging Face one, or the place of one GGUF model.
static status open_folder(checkpoint *ck, const char *folder, error *err) {
    char path[PATH_BYTES];
    bool hf = file_exists(folder, "config.json") || file_exists(folder, "tokenizer.json") ||
              file_exists(folder, "tokenizer_config.json");
    if (!hf && only_gguf(path, sizeof path, folder)) {
        ck->path = strdup(path);
        if (!ck->path) return error_no_memory(err, strlen(path) + 1);
        return gguf_open(&ck->gguf, path, err);
    }
    if (!hf) {
        return error_set(err, STATUS_NOT_FOUND,
                         "%s: a folder without config.json, tokenizer.json or exactly one GGUF model", folder);
    }
    ck->path = strdup(folder);
    return ck->path ? STATUS_OK : error_no_memory(err, strlen(folder) + 1);
}

// A file: GGUF by its first bytes or its name, or a safetensors file, which stands for its folder.
static status open_file(checkpoint *ck, const char *name, error *err) {
    str s = str_from(name);
    if (str_ends(s, STR(".safetensors")) || str_ends(s, STR(".safetensors.index.json")) ||
        str_ends(s, STR("/config.json")) || str_is(s, "config.json")) {
        const char *slash = strrchr(name, '/');
        char folder[PATH_BYTES];
        if (snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - name) : 1, slash ? name : ".") >=
            (int)sizeof folder) {
            return error_set(err, STATUS_BAD_ARGUMENT, "%s: the path is too long", name);
        }
        return open_folder(ck, slash == name ? "/" : folder, err);
    }
    ck->path = strdup(name);
    if (!ck->path) return error_no_memory(err, s.len + 1);
    return gguf_open(&ck->gguf, name, err);
}

static status open_named(checkpoint *ck, const char *name, const char *const *cache_dirs, int n_cache_dirs,
                         error *err) {
    if (is_folder(name)) return open_folder(ck, name, err);
    if (access(name, F_OK) == 0) return open_file(ck, name, err);
    if (errno != ENOENT && errno != ENOTDIR) {
        return error_set(err, STATUS_IO, "%s: cannot be opened: %s", name, strerror(errno));
    }
    if (!hf_is_model_name(name)) { return error_set(err, STATUS_NOT_FOUND, "%s: no such file or folder", name); }
    char folder[PATH_BYTES];
    TRY(hf_cache_find(folder, sizeof folder, name, cache_dirs, n_cache_dirs, err));
    return open_folder(ck, folder, err);
}

status checkpoint_open(checkpoint **out, const char *name, const char *const *cache_dirs, int n_cache_dirs,
                       error *err) {
    *out = NULL;
    checkpoint *ck = calloc(1, sizeof *ck);
    if (!ck) return error_no_memory(err, sizeof *ck);
    arena_init(&ck->names);
    map_init(&ck->index);
    status code = open_named(ck, name, cache_dirs, n_cache_dirs, err);
    if (code != STATUS_OK) {
        checkpoint_close(ck);
        return code;
    }
    *out = ck;
    return STATUS_OK;
}

// Forgets the tensors; afterwards they can be loaded anew.
static void unload(checkpoint *ck) {
    for (int i = 0; i < ck->n_files; i++) mapfile_close(&ck->memory[i]);
    free(ck->memory);
    ck->memory = NULL;
    free(ck->lost);
    ck->lost = NULL;
    ck->n_lost = ck->lost_cap = 0;
    ck->n_files = 0;
    free(ck->tensors);
    ck->tensors = NULL;
    ck->n_tensors = 0;
    ck->n_bytes = 0;
    map_deinit(&ck->index);
    arena_deinit(&ck->names);
    safetensors_close(ck->st);
    ck->st = NULL;
}

void checkpoint_close(checkpoint *ck) {
    if (!ck) return;
    unload(ck);
    gguf_close(ck->gguf);
    free(ck->path);
    free(ck);
}

const char *checkpoint_path(const checkpoint *ck) { return ck->path; }
const gguf *checkpoint_gguf(const checkpoint *ck) { return ck->gguf; }

status checkpoint_read_file(const checkpoint *ck, const char *file_name, char **data, size_t *len, error *err) {
    *data = NULL;
    *len = 0;
    if (ck->gguf) return error_set(err, STATUS_NOT_FOUND, "%s: a GGUF file has no %s beside it", ck->path, file_name);
    char path[PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/%s", ck->path, file_name) >= (int)sizeof path) {
        return error_set(err, STATUS_BAD_ARGUMENT, "%s: the path of %s is too long", ck->path, file_name);
    }
    mapfile m;
    TRY(mapfile_read(&m, path, MAX_TEXT_FILE, err));
    *data = (char *)(uintptr_t)m.data; // bytes of its own, which mapfile_close would only free
    *len = m.size;
    return STATUS_OK;
}

status checkpoint_config(const checkpoint *ck, model_config *out, error *err) {
    if (ck->gguf) return gguf_read_config(ck->gguf, out, err);
    char path[PATH_BYTES], generation_path[PATH_BYTES], *data, *generation_data = NULL;
    snprintf(path, sizeof path, "%s/config.json", ck->path);
    snprintf(generation_path, sizeof generation_path, "%s/generation_config.json", ck->path);
    hf_text config = {.path = path}, generation = {.path = generation_path};
    TRY(checkpoint_read_file(ck, "config.json", &data, &config.len, err));
    config.data = data;
    status code = checkpoint_read_file(ck, "generation_config.json", &generation_data, &generation.len, err);
    generation.data = generation_data;
    if (code == STATUS_OK || code == STATUS_NOT_FOUND) {
        code = hf_read_config(out, &config, generation_data ? &generation : NULL, err);
    }
    free(generation_data);
    free(data);
    return code;
}

// Loading tensors.

static const mapfile *file_map(const checkpoint *ck, int file) {
    return ck->gguf ? &ck->gguf->parts[file].map : &ck->st->files[file].map;
}

const char *checkpoint_file_name(const checkpoint *ck, int file) {
    int n = ck->gguf ? ck->gguf->n_parts : ck->st ? ck->st->n_files : 0;
    if (file < 0 || file >= n) return ck->path;
    return ck->gguf ? ck->gguf->parts[file].path : ck->st->files[file].path;
}

static status read_into_memory(checkpoint *ck, error *err) {
    int n = ck->gguf ? ck->gguf->n_parts : ck->st->n_files;
    ck->memory = calloc((size_t)n, sizeof *ck->memory);
    if (!ck->memory) return error_no_memory(err, (size_t)n * sizeof *ck->memory);
    ck->n_files = n;
    for (int i = 0; i < n; i++) {
        TRY(mapfile_read(&ck->memory[i], checkpoint_file_name(ck, i), SIZE_MAX, err));
        if (ck->memory[i].size < file_map(ck, i)->size) {
            return error_set(err, STATUS_IO, "%s: shrank while it was read", checkpoint_file_name(ck, i));
        }
    }
    return STATUS_OK;
}

static status reserve_tensors(checkpoint *ck, size_t n, error *err) {
    if (n > INT_MAX)
        return error_set(err, STATUS_UNSUPPORTED, "%s: %zu tensors are more than tally counts", ck->path, n);
    ck->tensors = calloc(n ? n : 1, sizeof *ck->tensors);
    return ck->tensors ? STATUS_OK : error_no_memory(err, n * sizeof *ck->tensors);
}

static status add_tensor(checkpoint *ck, const checkpoint_tensor *t, uint64_t offset, error *err) {
    checkpoint_tensor *added = &ck->tensors[ck->n_tensors];
    *added = *t;
    added->data = (ck->memory ? ck->memory[t->file].data : file_map(ck, t->file)->data) + offset;
    if (!map_put(&ck->index, t->name, ck->n_tensors)) return error_no_memory(err, ck->index.n_slots * 64);
    ck->n_tensors++;
    ck->n_bytes += t->n_bytes;
    return STATUS_OK;
}

static status add_gguf_tensor(checkpoint *ck, int file, const gguf_tensor *t, error *err) {
    const char *type_name;
    dtype type;
    if (!gguf_type_from_id(t->file_type, &type, &type_name)) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: tensor %s has the type %s (%u), which tally does not read; take a file with "
                         "another quantisation, such as Q4_K_M or Q8_0",
                         checkpoint_file_name(ck, file), show_name(t->name).text, type_name, (unsigned)t->file_type);
    }
    checkpoint_tensor out = {.type = type, .n_dims = t->n_dims, .n_bytes = t->n_bytes, .file = file};
    bool known;
    if (!tensor_name_from_gguf(&ck->names, t->name, &out.name, &known)) return error_no_memory(err, 64);
    if (map_get(&ck->index, out.name, NULL)) { // a file may spell out the name that another one is translated to
        return error_set(err, STATUS_BAD_FILE, "%s: two tensors stand for %s", checkpoint_file_name(ck, file),
                         show_name(out.name).text);
    }
    for (int d = 0; d < t->n_dims; d++) out.dim[d] = t->dim[t->n_dims - 1 - d];
    return add_tensor(ck, &out, t->offset, err);
}

static status add_gguf(checkpoint *ck, error *err) {
    size_t n = 0;
    for (int p = 0; p < ck->gguf->n_parts; p++) n += ck->gguf->parts[p].n_tensors;
    TRY(reserve_tensors(ck, n, err));
    for (int p = 0; p < ck->gguf->n_parts; p++) {
        const gguf_part *part = &ck->gguf->parts[p];
        for (size_t i = 0; i < part->n_tensors; i++) TRY(add_gguf_tensor(ck, p, &part->tensors[i], err));
    }
    return STATUS_OK;
}

static status add_safetensors(checkpoint *ck, error *err) {
    const safetensors *s = ck->st;
    TRY(reserve_tensors(ck, s->n_entries, err));
    for (size_t i = 0; i < s->n_entries; i++) {
        const safetensors_entry *e = &s->entries[i];
        bool weight = hf_tensor_is_weight(e->name.data);
        if (weight && (!e->supported || e->type == DTYPE_I32)) {
            return error_set(err, STATUS_UNSUPPORTED,
                             "%s: tensor %s is %s with %d dimensions; tally reads weights of F32, F16 and "
                             "BF16 that are not empty",
                             checkpoint_file_name(ck, e->file), show_name(e->name).text, e->type_name, e->n_dims);
        }
        if (!e->supported) continue;
        checkpoint_tensor t = {
            .name = e->name, .type = e->type, .n_dims = e->n_dims, .n_bytes = e->n_bytes, .file = e->file};
        memcpy(t.dim, e->dim, sizeof t.dim);
        TRY(add_tensor(ck, &t, e->offset, err));
    }
    return STATUS_OK;
}

static status restore_lost(checkpoint *ck, error *err) {
    for (; ck->n_lost > 0; ck->n_lost--) {
        const lost_range *r = &ck->lost[ck->n_lost - 1];
        TRY(mapfile_reread(&ck->memory[r->file], checkpoint_file_name(ck, r->file), r->offset, r->len, err));
    }
    return STATUS_OK;
}

status checkpoint_load_tensors(checkpoint *ck, bool use_mmap, error *err) {
    if (ck->loaded) return restore_lost(ck, err);
    status code = ck->gguf ? STATUS_OK : safetensors_open(&ck->st, ck->path, err);
    if (code == STATUS_OK && !use_mmap) code = read_into_memory(ck, err);
    if (code == STATUS_OK) code = ck->gguf ? add_gguf(ck, err) : add_safetensors(ck, err);
    ck->loaded = code == STATUS_OK;
    if (code != STATUS_OK) unload(ck);
    return code;
}

int checkpoint_n_tensors(const checkpoint *ck) { return ck->n_tensors; }
uint64_t checkpoint_n_bytes(const checkpoint *ck) { return ck->n_bytes; }

uint64_t checkpoint_fingerprint(const checkpoint *ck) {
    enum { SAMPLES = 64, SAMPLE_BYTES = 64 }; // few, because each reads a page of the file
    uint64_t h = (uint64_t)ck->n_tensors;
    int step = (ck->n_tensors + SAMPLES - 1) / SAMPLES;
    for (int i = 0; i < ck->n_tensors; i++) {
        const checkpoint_tensor *t = &ck->tensors[i];
        h = hash_mix(h ^ hash_bytes(t->name.data, t->name.len));
        h = hash_mix(h ^ hash_bytes(t->dim, sizeof t->dim)) + (uint64_t)t->type;
        if (i % step != 0) continue;
        size_t n = t->n_bytes < SAMPLE_BYTES ? (size_t)t->n_bytes : SAMPLE_BYTES;
        h = hash_mix(h ^ hash_bytes((const char *)t->data + (t->n_bytes - n) / 2, n));
    }
    return h;
}

const checkpoint_tensor *checkpoint_tensor_at(const checkpoint *ck, int i) {
    return i >= 0 && i < ck->n_tensors ? &ck->tensors[i] : NULL;
}

const checkpoint_tensor *checkpoint_find(const checkpoint *ck, str name) {
    int64_t i;
    return map_get(&ck->index, name, &i) ? &ck->tensors[i] : NULL;
}

static int n_mapped(const checkpoint *ck) { return !ck->loaded ? 0 : ck->gguf ? ck->gguf->n_parts : ck->st->n_files; }

void checkpoint_drop_all(const checkpoint *ck) {
    for (int file = 0; file < n_mapped(ck); file++) mapfile_drop(file_map(ck, file), 0, file_map(ck, file)->size);
}

void checkpoint_keep_data(checkpoint *ck) { ck->keeps_data = true; }

// Room for one more; without it, the data stays.
static bool reserve_lost(checkpoint *ck) {
    if (ck->n_lost < ck->lost_cap) return true;
    int cap = ck->lost_cap ? ck->lost_cap * 2 : 64;
    lost_range *lost = realloc(ck->lost, (size_t)cap * sizeof *lost);
    if (!lost) return false;
    ck->lost = lost;
    ck->lost_cap = cap;
    return true;
}

static void drop_memory(checkpoint *ck, const void *data, size_t n_bytes) {
    for (int file = 0; file < ck->n_files; file++) {
        const mapfile *m = &ck->memory[file];
        uintptr_t offset = (uintptr_t)data - (uintptr_t)m->data;
        lost_range r = {file, offset, n_bytes};
        if (offset >= m->size || ck->keeps_data || !reserve_lost(ck)) continue;
        if (mapfile_give_back(m, &r.offset, &r.len)) ck->lost[ck->n_lost++] = r;
    }
}

void checkpoint_drop_range(checkpoint *ck, const void *data, size_t n_bytes) {
    if (ck->memory) {
        drop_memory(ck, data, n_bytes);
        return;
    }
    for (int file = 0; file < n_mapped(ck); file++) {
        const mapfile *m = file_map(ck, file);
        uintptr_t offset = (uintptr_t)data - (uintptr_t)m->data;
        if (offset < m->size) mapfile_drop(m, offset, n_bytes);
    }
}
