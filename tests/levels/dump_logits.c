// Writes the logits of tiny models at every kernel level of this processor, to be compared with those of other processors:
//
//   dump_logits FOLDER
//
// FOLDER/TYPE-dense.LEVEL and FOLDER/TYPE-moe.LEVEL: float32 [64][vocabulary] of a random model whose weights have that type.
// Levels whose order sheets are their own are left out. scripts/check-levels.sh compares.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cpuinfo.h"
#include "base/hash.h"
#include "tests/support/eval.h"
#include "tests/support/tiny_model.h"

enum { N_IDS = 64, VOCAB = 300 };

static void write_file(const char *path, const float *logits) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(logits, sizeof *logits, (size_t)N_IDS * VOCAB, f), N_IDS * VOCAB);
    assert_int_equal(fclose(f), 0);
}

static void dump_model(const char *folder, dtype type, bool moe) {
    char model[512], path[512];
    int32_t ids[N_IDS];
    const char *kind = moe ? "moe" : "dense", *name = dtype_get(type)->name;
    for (int i = 0; i < N_IDS; i++) ids[i] = (int32_t)(hash_mix((uint64_t)i + 1) % VOCAB);
    snprintf(model, sizeof model, "%s/%s-%s.model.gguf", folder, name, kind);
    tiny_random_gguf(model, type, moe, 7);
    for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
        if (!cpu_level_available((cpu_level)level) || !cpu_level_is_common((cpu_level)level)) continue;
        tally_engine_options o = {
            .threads = 1, .cpu_level = cpu_level_name((cpu_level)level), .context = N_IDS, .logit_rows = N_IDS};
        test_engine e = test_engine_open(model, &o);
        float *logits = test_eval(&e, ids, N_IDS, 13); // 4 rows of 13, then 12: tiles of several heights
        snprintf(path, sizeof path, "%s/%s-%s.%s", folder, name, kind, cpu_level_name((cpu_level)level));
        write_file(path, logits);
        float *at_once = test_eval(&e, ids, N_IDS, N_IDS); // groups of groups of rows, which have tiles of their own
        assert_memory_equal(at_once, logits, sizeof *logits * N_IDS * VOCAB);
        free(at_once);
        free(logits);
        test_engine_close(&e);
    }
    remove(model);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: dump_logits FOLDER\n");
        return 2;
    }
    for (int type = 0; type < DTYPE_COUNT; type++) {
        if (type == DTYPE_I32) continue;
        dump_model(argv[1], (dtype)type, false);
        dump_model(argv[1], (dtype)type, true);
    }
    return 0;
}
