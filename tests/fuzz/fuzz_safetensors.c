// libFuzzer target: any bytes as the files of a Hugging Face folder.
//
// The input is cut at the marker "\n#\n": the first piece is the tensor file, the second config.json, the third
// generation_config.json, the fourth model.safetensors.index.json (then the first is the shard "s.safetensors").
// Built as fuzz_gguf.c.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "file/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64];

static void write_file(const char *name, str s) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!s.data) {
        unlink(path);
        return;
    }
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(s.data, 1, s.len, f) != s.len || fclose(f) != 0) abort();
}

// The next piece of `rest`, or one without data where there is none.
static str next_piece(str *rest) {
    str piece = *rest;
    if (!rest->data) return piece;
    ptrdiff_t at = str_find(*rest, STR("\n#\n"), 0);
    if (at < 0) {
        *rest = (str){0};
        return piece;
    }
    piece.len = (size_t)at;
    *rest = (str){rest->data + at + 3, rest->len - (size_t)at - 3};
    return piece;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static volatile unsigned sink;
    static model_config config;
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/dev/shm/tally-fuzz-XXXXXX");
        if (!mkdtemp(folder)) abort();
    }
    str rest = {(const char *)data, size};
    str tensors = next_piece(&rest), settings = next_piece(&rest), generation = next_piece(&rest),
        list = next_piece(&rest);
    write_file("model.safetensors", list.data ? (str){0} : tensors);
    write_file("s.safetensors", list.data ? tensors : (str){0});
    write_file("model.safetensors.index.json", list);
    write_file("config.json", settings.data ? settings : STR("{}"));
    write_file("generation_config.json", generation);
    checkpoint *ck;
    error err = {0};
    if (checkpoint_open(&ck, folder, NULL, 0, &err) != STATUS_OK) abort(); // there is a config.json
    if (checkpoint_config(ck, &config, &err) != STATUS_OK && (!err.text[0] || strchr(err.text, '\n'))) abort();
    err = (error){0};
    if (checkpoint_load_tensors(ck, size & 1, &err) == STATUS_OK) {
        for (int i = 0; i < checkpoint_n_tensors(ck); i++) {
            const checkpoint_tensor *t = checkpoint_tensor_at(ck, i);
            const unsigned char *p = t->data;
            sink += p[0] + p[t->n_bytes - 1];
            checkpoint_drop_range(ck, t->data, (size_t)t->n_bytes);
        }
    } else if (!err.text[0] || strchr(err.text, '\n')) {
        abort(); // a failure without its one sentence
    }
    checkpoint_close(ck);
    return 0;
}
