// Fuzzes snapshots of sessions. The input is laid over a true snapshot, whose first fields no fuzzer would guess: bytes 0..3 are what
// the length differs by, 4..7 go over the count of tokens, 8..11 over that of cached positions, the rest over tokens and cache.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "tally.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { COUNTS = 24, BODY = 32, N_TOKENS = 3 }; // places of the snapshot's fields; tokens of the true one

typedef struct fixture {
    tally_model *model;
    tally_engine *engine;
    tally_session *session;
    void *bytes;
    size_t n;
} fixture;

static fixture open_fixture(void) {
    fixture f;
    temp_folder folder = temp_folder_make();
    const char *path = temp_folder_path(&folder, "tiny.gguf");
    tiny_random_gguf(path, DTYPE_Q8_0, false, 3);
    tally_engine_options options = {.threads = 1, .context = 128};
    if (tally_model_open(&f.model, path, NULL) || tally_engine_open(&f.engine, f.model, &options, NULL)) abort();
    if (tally_session_open(&f.session, f.engine, NULL)) abort();
    if (tally_session_sync(f.session, (const int32_t[]){1, 2, 3}, N_TOKENS, NULL)) abort();
    if (tally_session_save(f.session, &f.bytes, &f.n, NULL)) abort();
    temp_folder_remove(&folder);
    return f;
}

static void overlay(char *at, size_t room, const uint8_t *data, size_t size) {
    memcpy(at, data, size < room ? size : room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static fixture f;
    if (!f.model) f = open_fixture();
    int32_t differs = 0;
    memcpy(&differs, data, size < 4 ? size : 4);
    size_t n = f.n + (size_t)(differs % 4096);
    if (n > 4 * f.n) n = 0;
    char *bytes = calloc(1, n + BODY);
    if (!bytes) abort();
    memcpy(bytes, f.bytes, n < f.n ? n : f.n);
    if (size > 4) overlay(bytes + COUNTS, BODY - COUNTS, data + 4, size - 4);
    if (size > 12 && n > BODY) overlay(bytes + BODY, n - BODY, data + 12, size - 12);
    bytes = realloc(bytes, n ? n : 1); // so that reading past the end is seen
    tally_error err = {0};
    tally_status st = tally_session_restore(f.session, bytes, n, &err);
    if (st && (!err.text[0] || st == TALLY_INTERNAL)) abort();
    const float *logits;
    int length = tally_session_length(f.session);
    if (!st && length > 0) {
        st = tally_session_logits(f.session, &logits, &err);
        if (st == TALLY_INTERNAL) abort();
        int32_t again[] = {1, 2, 3, 4};
        st = tally_session_sync(f.session, again, 4, &err); // goes on from what was restored
        if (st == TALLY_INTERNAL) abort();
    }
    free(bytes);
    return 0;
}
