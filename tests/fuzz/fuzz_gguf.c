// libFuzzer target: any bytes as a GGUF file. Opens it, reads its configuration and touches every tensor.
//
//     clang -g -O1 -std=c11 -D_GNU_SOURCE -Isrc -I. -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined
//         tests/fuzz/fuzz_gguf.c src/base/*.c src/tensor/*.c src/file/*.c -ljansson -lm -o fuzz_gguf
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "file/checkpoint.h"
#include "file/gguf_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Reads what the getters give for every key, so that the sanitizers see each byte that they point to.
static unsigned touch_values(const gguf *g) {
    unsigned sum = 0;
    for (size_t i = 0; i < g->parts[0].n_values; i++) {
        const gguf_value *v = &g->parts[0].values[i];
        char *key = strndup(v->key.data, v->key.len);
        if (!key) abort();
        int64_t n = 0;
        double d = 0;
        bool found, b;
        str s = {0};
        gguf_type elem;
        gguf_get_int(g, key, &n, &found, NULL);
        gguf_get_float(g, key, &d, &found, NULL);
        gguf_get_bool(g, key, &b, &found, NULL);
        if (gguf_get_str(g, key, &s, &found, NULL) == STATUS_OK && found && s.len)
            sum += (unsigned char)s.data[s.len - 1];
        if (gguf_get_array(g, key, &elem, &n, &found, NULL) == STATUS_OK && found && n > 0) {
            s = gguf_array_str(g, key, n - 1);
            if (s.len) sum += (unsigned char)s.data[s.len - 1];
            sum += (unsigned)gguf_array_int(g, key, n - 1);
            if (gguf_array_float(g, key, n - 1) > 0) sum++;
        }
        free(key);
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static volatile unsigned sink;
    static model_config config;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || (size && write(fd, data, size) != (ssize_t)size)) abort();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    checkpoint *ck;
    error err = {0};
    if (checkpoint_open(&ck, path, NULL, 0, &err) == STATUS_OK) {
        sink += touch_values(checkpoint_gguf(ck));
        checkpoint_config(ck, &config, &err);
        if (checkpoint_load_tensors(ck, size & 1, &err) == STATUS_OK) {
            for (int i = 0; i < checkpoint_n_tensors(ck); i++) {
                const checkpoint_tensor *t = checkpoint_tensor_at(ck, i);
                const unsigned char *p = t->data;
                sink += p[0] + p[t->n_bytes - 1];
                if (checkpoint_find(ck, t->name) != t) abort();
                checkpoint_drop_range(ck, t->data, (size_t)t->n_bytes);
            }
        }
        checkpoint_close(ck);
    } else if (!err.text[0] || strchr(err.text, '\n')) {
        abort(); // a failure without its one sentence
    }
    close(fd);
    return 0;
}
