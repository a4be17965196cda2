// tally run: one request, its text streamed or one JSON object.
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/chat_input.h"
#include "cmd/commands.h"
#include "cmd/common.h"

typedef struct run_state {
    const options *o;
    tally_model *model;
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
    int rc = check_prompt(o);
    if (!rc) rc = chat_input_check(o);
    if (!rc && o->chat && o->ids) rc = usage_error("--chat needs a message as text (-p or -f), not --ids");
    if (!rc && o->logprobs && !o->json) rc = usage_error("--logprobs is printed by --json only; add --json");
    for (int i = 0; !rc && i < o->stops.n; i++) {
        if (!*o->stops.items[i]) rc = usage_error("--stop needs a text that is not empty");
    }
    return rc;
}

// "15043+1.5", "15043-inf"
static int parse_bias(const char *text, tally_logit_bias *out) {
    char *end, *sign;
    errno = 0;
    long long id = strtoll(text, &sign, 10);
    bool ok = sign != text && !errno && id >= 0 && id <= INT32_MAX && (*sign == '+' || *sign == '-');
    double bias = ok ? strtod(sign, &end) : 0;
    if (!ok || end == sign || *end || isnan(bias) || bias == INFINITY) {
        return usage_error("--logit-bias takes ID+BIAS or ID-BIAS (15043+1.5, 15043-inf), not '%s'", text);
    }
    *out = (tally_logit_bias){(int32_t)id, (float)bias};
    return 0;
}

static int parse_biases(run_state *s) {
    int n = s->o->logit_bias.n;
    s->bias = calloc((size_t)n + 1, sizeof *s->bias);
    if (!s->bias) return fail("memory ran out reading %d logit biases", n);
    for (int i = 0; i < n; i++) {
        int rc = parse_bias(s->o->logit_bias.items[i], &s->bias[i]);
        if (rc) return rc;
    }
    return 0;
}

// 53 bits, which every reader of JSON can hold.
static int choose_seed(run_state *s) {
    s->seed = s->o->seed;
    if (s->seed != SEED_RANDOM) return 0;
    uint64_t r;
    if (getrandom(&r, sizeof r, 0) != (ssize_t)sizeof r)
        return fail("the system gave no random seed; choose one with --seed");
    s->seed = (int64_t)(r >> 11);
    return 0;
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
    rc = open_engine(s->model, o, needed, &s->engine);
    s->load_ms = open_ms + (double)(clock_now_ns() - t0) / 1e6;
    return rc;
}

static int enqueue(run_state *s) {
    const options *o = s->o;
    tally_request request = {
        .ids = s->ids,
        .n_ids = (int)s->n_ids,
        .max_tokens = o->n_predict,
        .sampling = {.repeat_penalty = (float)o->repeat_penalty,
                     .presence_penalty = (float)o->presence_penalty,
                     .frequency_penalty = (float)o->frequency_penalty,
                     .logit_bias = s->bias,
                     .n_logit_bias = o->logit_bias.n,
                     .temperature = (float)o->temperature,
                     .top_k = o->top_k,
                     .top_p = (float)o->top_p,
                     .min_p = (float)o->min_p,
                     .seed = (uint64_t)s->seed},
        .stops = o->stops.items,
        .n_stops = o->stops.n,
        .ignore_eos = o->ignore_eos,
        .logprobs = o->logprobs,
    };
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

static json_t *ids_json(const int32_t *ids, size_t n) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++) json_array_append_new(list, json_integer(ids[i]));
    return list;
}

static json_t *logprobs_json(const run_state *s, int n_ids) {
    json_t *list = json_array();
    for (int i = 0; i < n_ids; i++) {
        int n = 0;
        const tally_logprob *p = tally_generation_logprobs(s->generation, i, &n);
        if (!p || n == 0) continue;
        json_t *top = json_array();
        for (int j = 1; j < n; j++) {
            json_array_append_new(top, json_pack("{s:i, s:f}", "id", (int)p[j].id, "logprob", (double)p[j].logprob));
        }
        json_array_append_new(
            list, json_pack("{s:i, s:f, s:o}", "id", (int)p[0].id, "logprob", (double)p[0].logprob, "top", top));
    }
    return list;
}

static int print_json(const run_state *s) {
    int n_ids;
    const int32_t *ids = tally_generation_ids(s->generation, &n_ids);
    json_t *text = json_null();
    if (tally_model_has_tokenizer(s->model)) {
        size_t len = 0;
        const char *t = tally_generation_text(s->generation, &len);
        text = json_stringn(t ? t : "", len);
    }
    const char *reason = tally_generation_finish_reason(s->generation);
    tally_timings t;
    tally_generation_timings(s->generation, &t);
    json_t *root = json_pack("{s:o, s:o, s:o, s:s, s:I, s:{s:f, s:f, s:f}}", "prompt_ids", ids_json(s->ids, s->n_ids),
                             "ids", ids_json(ids, (size_t)n_ids), "text", text, "finish_reason",
                             reason ? reason : "interrupted", "seed", (json_int_t)s->seed, "timings", "load_ms",
                             s->load_ms, "prompt_ms", t.prompt_ms, "decode_ms", t.decode_ms);
    if (root && s->o->logprobs) json_object_set_new(root, "logprobs", logprobs_json(s, n_ids));
    // 9 digits give a float32 back exactly.
    int rc = root && json_dumpf(root, stdout, JSON_REAL_PRECISION(9)) == 0
                 ? 0
                 : fail("the result could not be written as JSON");
    json_decref(root);
    if (!rc) putchar('\n');
    return rc;
}

static void print_speed(const run_state *s) {
    tally_timings t;
    tally_generation_timings(s->generation, &t);
    fprintf(stderr, "prompt: %d tokens in %.1f ms, %.1f tokens/s; decode: %d tokens in %.1f ms, %.1f tokens/s\n",
            t.n_prompt, t.prompt_ms, t.prompt_ms > 0 ? 1e3 * t.n_prompt / t.prompt_ms : 0, t.n_decode, t.decode_ms,
            t.decode_ms > 0 ? 1e3 * t.n_decode / t.decode_ms : 0);
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
    int rc = check_options(o);
    if (rc) return rc;
    run_state s = {.o = o};
    rc = parse_biases(&s);
    if (!rc) rc = choose_seed(&s);
    if (!rc) rc = start(&s);
    if (!rc) rc = enqueue(&s);
    if (!rc) rc = advance(&s);
    if (!rc) rc = finish(&s);
    tally_generation_close(s.generation);
    tally_engine_close(s.engine);
    tally_free(s.ids);
    free(s.bias);
    tally_model_close(s.model);
    return rc;
}
