// Fuzzes the command line: the first byte chooses a subcommand, the rest is its arguments, one a line.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/args.h"
#include "cmd/chat_input.h"
#include "cmd/common.h"
#include "cmd/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_ARGS = 64 };

// The texts in options that have a form of their own.
static void use(const options *o) {
    int32_t *ids;
    size_t n;
    if (o->ids && parse_ids(o->ids, &ids, &n) == 0) {
        for (size_t i = 0; i < n; i++) {
            if (ids[i] < 0) abort();
        }
        free(ids);
    }
    tally_logit_bias *bias;
    if (request_biases(o, &bias) == 0) {
        tally_request r = request_from_options(o, bias, 7);
        for (int i = 0; i < r.sampling.n_logit_bias; i++) {
            if (r.sampling.logit_bias[i].id < 0) abort();
        }
        free(bias);
    }
    chat_input_check(o);
    check_prompt(o, "");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"run", "eval", "tokenize", "detokenize", "inspect", "chat", "bench", "plan"};
    if (size == 0) return 0;
    command cmd = {.name = names[data[0] % 8], .bit = 1u << data[0] % 8, .usage = "", .summary = ""};
    char *text = malloc(size);
    if (!text) abort();
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    char *args[MOST_ARGS + 1] = {0};
    int n = 0;
    for (char *at = text; at && n < MOST_ARGS; n++) {
        args[n] = at;
        at = strchr(at, '\n');
        if (at) *at++ = 0;
    }
    options o;
    bool help;
    int rc = args_parse(&cmd, n, args, &o, &help);
    if (rc != 0 && rc != EXIT_USAGE) abort();
    if (rc == 0 && !help) {
        if (!o.model && !o.machine) abort();
        use(&o);
    }
    args_deinit(&o);
    free(text);
    return 0;
}
