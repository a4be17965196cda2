// Completes a text and prints the words as they come: what a program needs of libtally, in order.
//
//     cc -std=c11 -o complete complete.c $(pkg-config --cflags --libs tally)
//     ./complete model.gguf "The sea is" 32
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tally.h>

// Prints the text behind the first `shown` bytes and returns how much is shown now. The text only grows, by whole characters.
static size_t show(const tally_generation *g, size_t shown) {
    size_t len;
    const char *text = tally_generation_text(g, &len);
    fwrite(text + shown, 1, len - shown, stdout);
    fflush(stdout);
    return len;
}

// A request is answered step by step; between steps the program may do what it likes, also start further requests.
static tally_status answer(tally_engine *engine, const tally_request *request, tally_error *err) {
    tally_generation *g = NULL;
    tally_status s = tally_generate(engine, request, &g, err);
    if (s != TALLY_OK) return s;
    for (size_t shown = 0; s == TALLY_OK && !tally_generation_done(g);) {
        s = tally_engine_step(engine, NULL, err);
        shown = show(g, shown);
    }
    if (s == TALLY_OK) s = tally_generation_status(g, err); // this request's own failure, if it had one
    tally_generation_close(g);
    return s;
}

int main(int argc, char **argv) {
    int n_new = argc > 3 ? atoi(argv[3]) : 64;
    if (argc < 3 || argc > 4 || n_new < 1) {
        fprintf(stderr, "usage: complete MODEL PROMPT [TOKENS]\n");
        return 2;
    }
    tally_error err;
    tally_model *model = NULL;
    tally_engine *engine = NULL;
    int32_t *ids = NULL;
    size_t n_ids = 0;

    tally_status s = tally_model_open(&model, argv[1], &err); // no weights are read yet
    if (s == TALLY_OK) s = tally_tokenize(model, argv[2], strlen(argv[2]), TALLY_ADD_SPECIAL, &ids, &n_ids, &err);
    if (s == TALLY_OK) {
        tally_engine_options options = {.context = (int)n_ids + n_new}; // all else as by default
        s = tally_engine_open(&engine, model, &options, &err);
    }
    if (s == TALLY_OK) { // greedy; fields of request.sampling change that
        tally_request request = {.ids = ids, .n_ids = (int)n_ids, .max_tokens = n_new};
        s = answer(engine, &request, &err);
        putchar('\n');
    }
    if (s != TALLY_OK) fprintf(stderr, "complete: %s\n", err.text); // one sentence: what is wrong and what to change

    tally_engine_close(engine); // NULL is fine everywhere here
    tally_free(ids);
    tally_model_close(model);
    return s == TALLY_OK && fflush(stdout) == 0 ? 0 : 1;
}
