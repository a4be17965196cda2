#include "tests/support/tiny_model.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/safetensors_writer.h"

static void *need(void *p) {
    if (!p) {
        perror("tiny_model");
        abort();
    }
    return p;
}

static FILE *open_in(const char *folder, const char *file, const char *mode) {
    char path[320];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return need(fopen(path, mode));
}

static char *read_all(const char *folder, const char *file, size_t *len) {
    FILE *f = open_in(folder, file, "rb");
    fseek(f, 0, SEEK_END);
    *len = (size_t)ftell(f);
    rewind(f);
    char *data = need(malloc(*len + 1));
    size_t got = fread(data, 1, *len, f);
    assert(got == *len);
    (void)got;
    data[*len] = 0;
    fclose(f);
    return data;
}

static void read_tensors(tiny_model *m) {
    size_t len;
    char *text = read_all(m->folder, "tensors.txt", &len), *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        unsigned long long seed;
        if (sscanf(line, "# seed %llu", &seed) == 1) m->seed = seed;
        if (line[0] == '#') continue;
        m->tensors = need(realloc(m->tensors, (size_t)(m->n_tensors + 1) * sizeof *m->tensors));
        tiny_tensor *t = &m->tensors[m->n_tensors++];
        *t = (tiny_tensor){.n_dims = 0};
        long long d[3];
        int n = sscanf(line, "%127s %f %f %lld %lld %lld", t->name, &t->offset, &t->scale, &d[0], &d[1], &d[2]);
        assert(n >= 4);
        t->n_dims = n - 3;
        for (int i = 0; i < t->n_dims; i++) t->dim[i] = d[i];
    }
    free(text);
}

static int32_t *read_ids(const char *folder, int *n) {
    size_t len;
    char *text = read_all(folder, "ids.txt", &len), *at = text, *end;
    int32_t *ids = need(malloc(len * sizeof *ids));
    *n = 0;
    for (long v = strtol(at, &end, 10); end != at; v = strtol(at, &end, 10)) ids[(*n)++] = (int32_t)v, at = end;
    free(text);
    return ids;
}

// The largest error of a run in a half type over the ids and the greedy ids: line 2 of max and mean.
static double read_error(const char *folder, const char *name) {
    double a, b, c, d;
    FILE *f = open_in(folder, name, "r");
    int n = fscanf(f, "%lf %lf %lf %lf", &a, &b, &c, &d);
    assert(n == 4);
    (void)n;
    fclose(f);
    return c;
}

tiny_model tiny_model_read(const char *variant) {
    tiny_model m = {0};
    snprintf(m.name, sizeof m.name, "%s", variant);
    snprintf(m.folder, sizeof m.folder, "tests/golden/models/%s", variant);
    read_tensors(&m);
    m.ids = read_ids(m.folder, &m.n_ids);
    size_t len;
    m.logits = (float *)(void *)read_all(m.folder, "logits.f32", &len);
    m.n_vocab = (int)(len / sizeof(float) / (size_t)m.n_ids);
    FILE *f = open_in(m.folder, "greedy.txt", "r");
    m.greedy = need(malloc(256 * sizeof *m.greedy));
    m.gap = need(malloc(256 * sizeof *m.gap));
    while (m.n_greedy < 256 && fscanf(f, "%d %f", &m.greedy[m.n_greedy], &m.gap[m.n_greedy]) == 2) m.n_greedy++;
    fclose(f);
    m.bf16_max = read_error(m.folder, "bf16.txt");
    m.f16_max = read_error(m.folder, "f16.txt");
    char *config = read_all(m.folder, "config.json", &len);
    m.config = need(json_loads(config, 0, NULL));
    free(config);
    return m;
}

void tiny_model_free(tiny_model *m) {
    free(m->tensors);
    free(m->ids);
    free(m->greedy);
    free(m->gap);
    free(m->logits);
    json_decref(m->config);
    *m = (tiny_model){0};
}

char **tiny_model_variants(int *n) {
    size_t len;
    char *text = read_all("tests/golden/models", "index.txt", &len), *save = NULL, **names = NULL;
    *n = 0;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        names = need(realloc(names, (size_t)(*n + 1) * sizeof *names));
        names[(*n)++] = need(strdup(line));
    }
    free(text);
    return names;
}

// ---- weights -------------------------------------------------------------------------------------------------------------

static uint64_t key_of(const char *name, uint64_t seed) {
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return hash_mix(h ^ hash_mix(seed));
}

static int64_t count_of(const tiny_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->n_dims; i++) n *= t->dim[i];
    return n;
}

float *tiny_tensor_values(const tiny_model *m, const tiny_tensor *t) {
    int64_t n = count_of(t);
    uint64_t key = key_of(t->name, m->seed);
    float *v = need(malloc((size_t)n * sizeof *v));
    for (int64_t i = 0; i < n; i++) {
        int q = (int)(hash_mix(key + (uint64_t)i * 0x9e3779b97f4a7c15u) >> 57) - 64;
        v[i] = t->offset + (float)q / 64.0f * t->scale;
    }
    return v;
}

static void *as_type(const float *v, int64_t n, dtype type, size_t *bytes) {
    *bytes = (size_t)dtype_row_bytes(type, n);
    void *out = need(malloc(*bytes));
    dtype_get(type)->from_f32(out, v, n);
    return out;
}

// ---- a Hugging Face folder -----------------------------------------------------------------------------------------------

static void copy_file(const char *from_folder, const char *to_folder, const char *file) {
    struct stat st;
    char path[320];
    snprintf(path, sizeof path, "%s/%s", from_folder, file);
    if (stat(path, &st) != 0) return;
    size_t len;
    char *data = read_all(from_folder, file, &len);
    FILE *f = open_in(to_folder, file, "wb");
    fwrite(data, 1, len, f);
    fclose(f);
    free(data);
}

static void shard_name(char *buf, size_t size, int shard, int n_shards) {
    if (n_shards == 1) {
        snprintf(buf, size, "model.safetensors");
    } else {
        snprintf(buf, size, "model-%05d-of-%05d.safetensors", shard + 1, n_shards);
    }
}

void tiny_model_write_folder(const tiny_model *m, const char *folder, dtype type, int n_shards) {
    mkdir(folder, 0700);
    copy_file(m->folder, folder, "config.json");
    copy_file(m->folder, folder, "generation_config.json");
    json_t *map = json_object();
    for (int s = 0; s < n_shards; s++) {
        safetensors_writer w;
        safetensors_writer_init(&w);
        char file[64], path[384];
        shard_name(file, sizeof file, s, n_shards);
        for (int i = s; i < m->n_tensors; i += n_shards) {
            const tiny_tensor *t = &m->tensors[i];
            float *v = tiny_tensor_values(m, t);
            size_t bytes;
            void *data = as_type(v, count_of(t), type, &bytes);
            safetensors_writer_tensor(&w, t->name, dtype_get(type)->name, t->n_dims, t->dim, data, bytes);
            json_object_set_new(map, t->name, json_string(file));
            free(data);
            free(v);
        }
        snprintf(path, sizeof path, "%s/%s", folder, file);
        bool saved = safetensors_writer_save(&w, path);
        assert(saved);
        (void)saved;
        safetensors_writer_deinit(&w);
    }
    if (n_shards > 1) {
        json_t *index = json_pack("{s:{}, s:o}", "metadata", "weight_map", map);
        char path[384];
        snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
        json_dump_file(index, path, 0);
        json_decref(index);
    } else {
        json_decref(map);
    }
}
