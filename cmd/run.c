// tally run: one request, its text streamed or one JSON object.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/chat_input.h"
#include "cmd/commands.h"
#include "cmd/common.h"
#include "cmd/engines.h"
#include "cmd/request.h"
#include "cmd/requests.h"
#include "cmd/result_json.h"
#include "cmd/speculation.h"

typedef struct run_state {
    const options *o;
    tally_model *model;
    draft_engine draft;
    tally_engine *engine;
    tally_generation *generation;
    int32_t *ids; // prompt
    size_t n_ids;
    tally_logit_bias *bias;
    int64_t seed;
    double load_ms;
    size_t n_shown; // bytes of text, or ids without a tokenizer, that were written
    bool interrupted;
} run_state;

static int check_options(const options *o) {
    int rc = speculation_check(o);
    if (!rc) rc = check_prompt(o, ", or --requests FILE");
    if (!rc) rc = chat_input_check(o);
    if (!rc && o->chat && o->ids) rc = usage_error("--chat needs a message as text (-p or -f), not --ids");
    if (!rc && o->logprobs && !o->json) rc = usage_error("--logprobs is printed by --json only; add --json");
    return rc ? rc : check_stops(o);
}

static int chat_prompt_ids(run_state *s) {
    const options *o = s->o;
    char *owned = NULL, *messages = NULL;
    const char *text = o->prompt;
    size_t len = text ? strlen(text) : 0;
    if (!text) {
        int rc = read_file(o->prompt_file, &owned, &len);
        if (rc) return rc;
        text = owned;
    }
    int rc = chat_messages(o->system, text, len, &messages);
    free(owned);
    if (rc) return rc;
    tally_chat chat;
    chat_input_files files;
    tally_error err;
    rc = chat_input_open(o, messages, &chat, &files);
    if (!rc && tally_chat_tokenize(s->model, &chat, &s->ids, &s->n_ids, &err) != TALLY_OK) rc = fail_with(&err);
    chat_input_close(&files);
    free(messages);
    return rc;
}

static int start(run_state *s) {
    const options *o = s->o;
    tally_error err;
    uint64_t t0 = clock_now_ns();
    if (tally_model_open(&s->model, o->model, &err) != TALLY_OK) return fail_with(&err);
    double open_ms = (double)(clock_now_ns() - t0) / 1e6;
    int rc = o->chat ? chat_prompt_ids(s) : prompt_ids(s->model, o, &s->ids, &s->n_ids);
    if (rc) return rc;
    if (s->n_ids == 0) return fail("the prompt is empty, and this tokenizer adds nothing to it; give some text");
    t0 = clock_now_ns();
    size_t needed = o->n_predict < 0 ? 0 : s->n_ids + (size_t)o->n_predict;
    rc = open_engine(s->model, o, needed, &s->draft, &s->engine);
    s->load_ms = open_ms + (double)(clock_now_ns() - t0) / 1e6;
    return rc;
}

static int enqueue(run_state *s) {
    tally_request request = request_from_options(s->o, s->bias, s->seed);
    request.ids = s->ids;
    request.n_ids = (int)s->n_ids;
    tally_error err;
    return tally_generate(s->engine, &request, &s->generation, &err) == TALLY_OK ? 0 : fail_with(&err);
}

// Writes what is new. Without a tokenizer: the ids, as --ids takes them.
static void show(run_state *s) {
    if (s->o->json) return;
    if (tally_model_has_tokenizer(s->model)) {
        size_t len = 0;
        const char *text = tally_generation_text(s->generation, &len);
        if (len == s->n_shown) return;
        fwrite(text + s->n_shown, 1, len - s->n_shown, stdout);
        s->n_shown = len;
    } else {
        int n;
        const int32_t *ids = tally_generation_ids(s->generation, &n);
        if ((size_t)n == s->n_shown) return;
        for (size_t i = s->n_shown; i < (size_t)n; i++) printf("%s%d", i ? "," : "", (int)ids[i]);
        s->n_shown = (size_t)n;
    }
    fflush(stdout);
}

static int advance(run_state *s) {
    tally_error err;
    while (!tally_generation_done(s->generation)) {
        if (interrupt_pending()) {
            s->interrupted = true;
            break;
        }
        if (tally_engine_step(s->engine, NULL, &err) != TALLY_OK) return fail_with(&err);
        show(s);
        if (ferror(stdout)) return EXIT_FAILED; // main tells why
    }
    show(s);
    return 0;
}

static int print_json(const run_state *s) {
    result_source r = {s->model, s->generation, s->ids, s->n_ids, s->seed, s->o->logprobs, s->load_ms};
    json_t *root = result_json(&r);
    int rc =
        root && json_dumpf(root, stdout, RESULT_JSON_FLAGS) == 0 ? 0 : fail("the result could not be written as JSON");
    json_decref(root);
    if (!rc) putchar('\n');
    return rc;
}

static void print_speed(const run_state *s) {
    tally_timings t;
    tally_generation_timings(s->generation, &t);
    fprintf(stderr, "prompt: %d tokens in %.1f ms, %.1f tokens/s; decode: %d tokens in %.1f ms, %.1f tokens/s",
            t.n_prompt, t.prompt_ms, t.prompt_ms > 0 ? 1e3 * t.n_prompt / t.prompt_ms : 0, t.n_decode, t.decode_ms,
            decode_speed(&t));
    tally_spec_counts counts;
    tally_generation_spec_counts(s->generation, &counts);
    speculation_print(stderr, "; ", &counts);
    if (s->o->temperature > 0) fprintf(stderr, "; seed %lld", (long long)s->seed);
    fputc('\n', stderr);
}

static int finish(run_state *s) {
    tally_error err = {0};
    if (tally_generation_status(s->generation, &err) != TALLY_OK) {
        if (s->n_shown) putchar('\n');
        return fail_with(&err);
    }
    int rc = 0;
    if (s->o->json) {
        rc = print_json(s);
    } else if (s->n_shown || !s->interrupted) {
        putchar('\n');
        fflush(stdout);
    }
    print_speed(s);
    return rc ? rc : s->interrupted ? EXIT_INTERRUPTED : EXIT_DONE;
}

int cmd_run(const options *o) {
    if (o->requests) return requests_run(o);
    int rc = check_options(o);
    if (rc) return rc;
    run_state s = {.o = o};
    rc = request_biases(o, &s.bias);
    if (!rc) rc = request_seed(o->seed, &s.seed);
    if (!rc) rc = start(&s);
    if (!rc) rc = enqueue(&s);
    if (!rc) rc = advance(&s);
    if (!rc) rc = finish(&s);
    tally_generation_close(s.generation);
    close_engine(s.engine);
    close_draft(&s.draft);
    tally_free(s.ids);
    free(s.bias);
    tally_model_close(s.model);
    return rc;
}
