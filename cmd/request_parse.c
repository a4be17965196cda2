#include "cmd/request_parse.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cmd/chat_input.h"
#include "cmd/common.h"
#include "cmd/request.h"
#include "cmd/speculation.h"

static const char *const fields[] = {"prompt",
                                     "ids",
                                     "messages",
                                     "tools",
                                     "template_kwargs",
                                     "n",
                                     "temp",
                                     "top_k",
                                     "top_p",
                                     "min_p",
                                     "repeat_penalty",
                                     "seed",
                                     "stop",
                                     "logprobs",
                                     "ignore_eos",
                                     "presence_penalty",
                                     "frequency_penalty",
                                     "logit_bias",
                                     "spec",
                                     NULL};

// What other engines call some of them.
static const char *const other_names[][2] = {{"max_tokens", "n"},
                                             {"max_completion_tokens", "n"},
                                             {"n_predict", "n"},
                                             {"temperature", "temp"},
                                             {"prompt_token_ids", "ids"},
                                             {"repetition_penalty", "repeat_penalty"},
                                             {"chat_template_kwargs", "template_kwargs"},
                                             {NULL, NULL}};

typedef struct line_parser {
    const request_defaults *d;
    parsed_request *out;
    const json_t *root;
    char where[32]; // "line 7"
    error *err;
} line_parser;

static status check_fields(const line_parser *p) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)p->root, name, value) {
        bool known = false;
        for (int i = 0; fields[i]; i++) known |= strcmp(fields[i], name) == 0;
        if (known) continue;
        const char *near = NULL;
        for (int i = 0; other_names[i][0] && !near; i++) {
            if (strcmp(other_names[i][0], name) == 0) near = other_names[i][1];
        }
        if (!near) near = args_nearest(name, fields);
        return error_set(p->err, STATUS_BAD_ARGUMENT, "%s: there is no field \"%.60s\"%s%s%s", p->where, name,
                         near ? "; did you mean \"" : "; 'tally help run' lists them", near ? near : "",
                         near ? "\"?" : "");
    }
    return STATUS_OK;
}

// A string without zero bytes, which C's functions read whole; NULL: anything else.
static const char *plain_string(const json_t *v) {
    const char *text = json_string_value(v);
    return text && strlen(text) == json_string_length(v) ? text : NULL;
}

// ---- the prompt ----------------------------------------------------------------------------------------------------------

static status id_list(const line_parser *p, const json_t *list) {
    if (!json_is_array(list))
        return error_set(p->err, STATUS_BAD_ARGUMENT, "%s: ids is %s, expected an array of token ids", p->where,
                         json_kind(list));
    size_t n = json_array_size(list);
    if (n > INT_MAX) return error_set(p->err, STATUS_BAD_ARGUMENT, "%s: %zu ids are too many", p->where, n);
    int32_t *ids = p->out->ids = malloc((n + 1) * sizeof *ids);
    if (!ids) return error_no_memory(p->err, n * sizeof *ids);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, i);
        json_int_t v = json_is_integer(item) ? json_integer_value(item) : -1;
        if (v < 0 || v > INT32_MAX)
            return error_set(p->err, STATUS_BAD_ARGUMENT, "%s: entry %zu of ids (from 0) is no token id", p->where, i);
        ids[i] = (int32_t)v;
    }
    p->out->request.n_ids = (int)n;
    return STATUS_OK;
}

static status take_ids(const line_parser *p, tally_status st, size_t n) {
    if (st) return error_prefix(p->err, (status)st, "%s", p->where);
    if (n > INT_MAX) return error_set(p->err, STATUS_BAD_ARGUMENT, "%s: %zu tokens are too many", p->where, n);
    p->out->request.n_ids = (int)n;
    return STATUS_OK;
}

static status chat_ids(const line_parser *p, const char *messages) {
    const options *o = p->d->o;
    char *tools = NULL, *kwargs = NULL;
    const json_t *own_tools = json_object_get(p->root, "tools"), *own = json_object_get(p->root, "template_kwargs");
    if (own_tools && !json_is_null(own_tools)) tools = json_dumps(own_tools, JSON_ENCODE_ANY);
    if (own && !json_is_null(own)) kwargs = json_dumps(own, JSON_ENCODE_ANY);
    tally_chat chat = {.messages = messages,
                       .tools = tools ? tools : o->tools,
                       .kwargs = kwargs ? kwargs : o->template_kwargs,
                       .template_text = p->d->template_text};
    size_t n = 0;
    tally_status st = tally_chat_tokenize(p->d->model, &chat, &p->out->ids, &n, (tally_error *)p->err);
    free(tools);
    free(kwargs);
    return take_ids(p, st, n);
}

static status message_list(const line_parser *p, const json_t *list) {
    if (!json_is_array(list) || json_array_size(list) == 0) {
        return error_set(p->err, STATUS_BAD_ARGUMENT, "%s: messages is %s, expected a list of {\"role\", \"content\"}",
                         p->where, json_is_array(list) ? "empty" : json_kind(list));
    }
    char *text = json_dumps(list, 0);
    if (!text) return error_set(p->err, STATUS_NO_MEMORY, "%s: memory ran out", p->where);
    status st = chat_ids(p, text);
    free(text);
    return st;
}

static status prompt_text(const line_parser *p, const json_t *value) {
    const options *o = p->d->o;
    if (!json_is_string(value))
        return error_set(p->err, STATUS_BAD_ARGUMENT, "%s: prompt is %s, expected a string", p->where,
                         json_kind(value));
    const char *text = json_string_value(value);
    size_t len = json_string_length(value), n = 0;
    if (o->chat) {
        char *messages;
        if (chat_messages(o->system, text, len, &messages))
            return error_set(p->err, STATUS_BAD_ARGUMENT, "%s: the messages could not be written", p->where);
        status st = chat_ids(p, messages);
        free(messages);
        return st;
    }
    unsigned flags = TALLY_ADD_SPECIAL | (o->no_parse_special ? 0 : TALLY_PARSE_SPECIAL);
    tally_status st = tally_tokenize(p->d->model, text, len, flags, &p->out->ids, &n, (tally_error *)p->err);
    return take_ids(p, st, n);
}

static const json_t *given(const line_parser *p, const char *field) {
    const json_t *v = json_object_get(p->root, field);
    return v && !json_is_null(v) ? v : NULL;
}

static status parse_prompt(const line_parser *p) {
    const json_t *prompt = given(p, "prompt"), *ids = given(p, "ids"), *messages = given(p, "messages");
    int n = (prompt != NULL) + (ids != NULL) + (messages != NULL);
    if (n != 1) {
        return error_set(p->err, STATUS_BAD_ARGUMENT, "%s: %s of prompt, ids and messages; give one", p->where,
                         n ? "holds several" : "holds none");
    }
    TRY(prompt ? prompt_text(p, prompt) : ids ? id_list(p, ids) : message_list(p, messages));
    p->out->request.ids = p->out->ids;
    if (p->out->request.n_ids > 0) return STATUS_OK;
    return error_set(p->err, STATUS_BAD_ARGUMENT, "%s: the prompt is empty; at least one token is needed", p->where);
}

// ---- numbers and lists ---------------------------------------------------------------------------------------------------

static status get_real(const line_parser *p, const char *field, double min, double max, float *value) {
    double v = 0;
    bool found;
    TRY(json_get_number(p->root, p->where, field, &v, &found, p->err));
    if (!found) return STATUS_OK;
    if (!(v >= min && v <= max))
        return error_set(p->err, STATUS_BAD_ARGUMENT, "%s: %s is %g, expected %g to %g", p->where, field, v, min, max);
    *value = (float)v;
    return STATUS_OK;
}

static status get_int(const line_parser *p, const char *field, int64_t min, int64_t max, int *value) {
    int64_t v = *value;
    bool found;
    TRY(json_get_int(p->root, p->where, field, min, max, &v, &found, p->err));
    *value = (int)v;
    return STATUS_OK;
}

static status parse_numbers(const line_parser *p) {
    tally_request *r = &p->out->request;
    tally_sampling *s = &r->sampling;
    bool found;
    TRY(get_int(p, "n", -1, INT_MAX, &r->max_tokens));
    TRY(get_int(p, "logprobs", 0, 1000, &r->logprobs));
    TRY(get_int(p, "top_k", 0, INT_MAX, &s->top_k));
    TRY(get_real(p, "temp", 0, 1000, &s->temperature));
    TRY(get_real(p, "top_p", 0, 1, &s->top_p));
    TRY(get_real(p, "min_p", 0, 1, &s->min_p));
    TRY(get_real(p, "repeat_penalty", 0.01, 100, &s->repeat_penalty));
    TRY(get_real(p, "presence_penalty", -100, 100, &s->presence_penalty));
    TRY(get_real(p, "frequency_penalty", -100, 100, &s->frequency_penalty));
    TRY(json_get_bool(p->root, p->where, "ignore_eos", &r->ignore_eos, &found, p->err));
    TRY(json_get_int(p->root, p->where, "seed", -1, INT64_MAX, &p->out->seed, &found, p->err));
    if (request_seed(p->out->seed, &p->out->seed))
        return error_set(p->err, STATUS_IO, "%s: the system gave no random seed", p->where);
    s->seed = (uint64_t)p->out->seed;
    return STATUS_OK;
}

static status parse_stops(const line_parser *p) {
    const json_t *v = given(p, "stop");
    if (!v) return STATUS_OK;
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    p->out->stops = calloc(n + 1, sizeof *p->out->stops);
    if (!p->out->stops) return error_no_memory(p->err, n * sizeof *p->out->stops);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_is_array(v) ? json_array_get(v, i) : v;
        const char *text = plain_string(item);
        if (!text || !*text)
            return error_set(p->err, STATUS_BAD_ARGUMENT,
                             "%s: stop must be a text that is not empty and has no \\u0000, or a list of such",
                             p->where);
        p->out->stops[i] = text;
    }
    p->out->request.stops = p->out->stops;
    p->out->request.n_stops = (int)n;
    return STATUS_OK;
}

// {"15043": 1.5, "7": "-inf"}
static status parse_bias(const line_parser *p) {
    const json_t *v = given(p, "logit_bias");
    if (!v) return STATUS_OK;
    if (!json_is_object(v))
        return error_set(p->err, STATUS_BAD_ARGUMENT,
                         "%s: logit_bias is %s, expected an object such as {\"15043\": 1.5, \"7\": \"-inf\"}", p->where,
                         json_kind(v));
    size_t n = 0;
    tally_logit_bias *bias = p->out->bias = calloc(json_object_size(v) + 1, sizeof *bias);
    if (!bias) return error_no_memory(p->err, json_object_size(v) * sizeof *bias);
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)v, name, value) {
        char *end;
        long long id = *name >= '0' && *name <= '9' ? strtoll(name, &end, 10) : -1;
        const char *word = plain_string(value);
        bool forbids = word && strcmp(word, "-inf") == 0;
        if (id < 0 || *end || id > INT32_MAX || (!forbids && !json_is_number(value)))
            return error_set(p->err, STATUS_BAD_ARGUMENT,
                             "%s: logit_bias \"%.40s\": expected a token id and a number or \"-inf\"", p->where, name);
        bias[n++] = (tally_logit_bias){(int32_t)id, forbids ? -INFINITY : (float)json_number_value(value)};
    }
    p->out->request.sampling.logit_bias = bias;
    p->out->request.sampling.n_logit_bias = (int)n;
    return STATUS_OK;
}

static status parse_spec(const line_parser *p) {
    const json_t *v = given(p, "spec");
    if (!v) return STATUS_OK;
    const char *name = plain_string(v);
    p->out->request.speculation = speculation_mode(name);
    if (p->out->request.speculation == TALLY_SPEC_DEFAULT)
        return error_set(p->err, STATUS_BAD_ARGUMENT,
                         "%s: spec is %s%.40s, expected \"off\", \"auto\", \"lookup\", \"draft\" or \"tree\"", p->where,
                         name                ? ""
                         : json_is_string(v) ? "a string with \\u0000"
                                             : json_kind(v),
                         name ? name : "");
    if (p->out->request.speculation == TALLY_SPEC_DRAFT && !p->d->o->model_draft)
        return error_set(p->err, STATUS_BAD_ARGUMENT,
                         "%s: spec is draft, but there is no draft model; give one with -md", p->where);
    return STATUS_OK;
}

tally_status request_parse(const request_defaults *d, const char *line, size_t len, size_t number, parsed_request *out,
                           tally_error *err) {
    *out = (parsed_request){.request = request_from_options(d->o, d->bias, 0), .seed = d->o->seed};
    line_parser p = {.d = d, .out = out, .err = (error *)err};
    snprintf(p.where, sizeof p.where, "line %zu", number);
    status st = json_parse_object(&out->root, line, len, JSON_ALLOW_NUL, p.where, p.err);
    p.root = out->root;
    if (!st) st = check_fields(&p);
    if (!st) st = parse_numbers(&p);
    if (!st) st = parse_stops(&p);
    if (!st) st = parse_bias(&p);
    if (!st) st = parse_spec(&p);
    if (!st) st = parse_prompt(&p);
    if (st) parsed_request_deinit(out);
    return (tally_status)st;
}

void parsed_request_deinit(parsed_request *p) {
    tally_free(p->ids);
    free(p->bias);
    free(p->stops);
    json_decref(p->root);
    *p = (parsed_request){0};
}
