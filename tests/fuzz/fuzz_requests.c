// Fuzzes the lines of `tally run --requests`: each is read as the program reads it, and what is accepted is handed to an engine
// with a tiny model, where it advances for a step or two if its prompt is short.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cmd/line_reader.h"
#include "cmd/request_parse.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FEW_IDS = 8, STEPS = 2 };

typedef struct fixture {
    tally_model *model;
    tally_engine *engine;
} fixture;

static fixture open_fixture(void) {
    static const char TEMPLATE[] =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if tools %}{{ tools | tojson }}{% endif %}";
    fixture f;
    temp_folder folder = temp_folder_make();
    tiny_text_gguf(temp_folder_path(&folder, "tiny.gguf"), DTYPE_Q8_0, 3, TEMPLATE);
    tally_engine_options how = {.threads = 1, .context = 256};
    if (tally_model_open(&f.model, temp_folder_path(&folder, "tiny.gguf"), NULL)) abort();
    if (tally_engine_open(&f.engine, f.model, &how, NULL)) abort();
    temp_folder_remove(&folder);
    return f;
}

static void answer(const fixture *f, const tally_request *r) {
    tally_generation *g;
    tally_error err = {0};
    if (tally_generate(f->engine, r, &g, &err)) {
        if (!err.text[0] || err.code == TALLY_INTERNAL) abort();
        return;
    }
    for (int i = 0; i < STEPS && r->n_ids <= FEW_IDS && !tally_generation_done(g); i++) {
        if (tally_engine_step(f->engine, NULL, &err)) abort();
    }
    const char *reason = tally_generation_finish_reason(g);
    if (reason && strcmp(reason, "error") == 0 && tally_generation_status(g, &err) == TALLY_INTERNAL) abort();
    tally_generation_close(g);
    tally_stats stats;
    tally_engine_stats(f->engine, &stats);
    if (stats.blocks_in_use) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static fixture f;
    static options o = {.n_predict = 4, .top_p = 1, .repeat_penalty = 1, .context = CONTEXT_AUTO};
    if (!f.model) f = open_fixture();
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || (size && write(fd, data, size) != (ssize_t)size) || lseek(fd, 0, SEEK_SET)) abort();
    request_defaults defaults = {.model = f.model, .o = &o};
    line_reader lines;
    line_reader_init(&lines, fd);
    const char *line;
    size_t len;
    while (line_reader_next(&lines, true, &line, &len) == LINE_READ) {
        parsed_request r;
        tally_error err = {0};
        if (request_parse(&defaults, line, len, lines.number, &r, &err)) {
            if (strncmp(err.text, "line ", 5) != 0 || strchr(err.text, '\n') || err.code == TALLY_INTERNAL) abort();
            continue;
        }
        answer(&f, &r.request);
        parsed_request_deinit(&r);
    }
    line_reader_deinit(&lines);
    close(fd);
    return 0;
}
