// Messages to prompt. What transformers' apply_chat_template does to its inputs before it renders is done here: keys of a message
// whose value is null are dropped, and a message's reasoning is passed under both names that templates read.
#include "text/chat.h"

#include <stdlib.h>

#include "text/jinja_run.h"

struct chat_template {
    arena mem;
    jinja_list body;
};

enum { CHAT_JSON_DEPTH = 256 };

status chat_template_open(chat_template **out, str source, error *err) {
    chat_template *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t) return error_no_memory(err, sizeof *t);
    arena_init(&t->mem);
    status st = jinja_parse(&t->mem, source, &t->body, err);
    if (st != STATUS_OK) {
        chat_template_close(t);
        return st;
    }
    *out = t;
    return STATUS_OK;
}

void chat_template_close(chat_template *t) {
    if (!t) return;
    arena_deinit(&t->mem);
    free(t);
}

void chat_prompt_deinit(chat_prompt *p) {
    strbuf_deinit(&p->text);
    strbuf_deinit(&p->trusted);
}

static status from_json(jinja_run *r, const json_t *j, int depth, jinja_value *out);

static status from_object(jinja_run *r, const json_t *j, int depth, jinja_value *out) {
    const char *key;
    json_t *value;
    TRY(jinja_make_dict(r, json_object_size(j), out));
    jinja_dict *d = out->u.dict;
    // jansson's iteration macros take no const; nothing is changed.
    json_object_foreach((json_t *)(uintptr_t)j, key, value) {
        str name = {key, json_object_iter_key_len(json_object_key_to_iter(key))};
        if (d->n == d->cap) return jinja_fail(r, STATUS_INTERNAL, "a JSON object changed while it was read");
        TRY(jinja_make_string(r, name, false, &d->keys[d->n]));
        TRY(from_json(r, value, depth + 1, &d->values[d->n]));
        d->n++;
    }
    return STATUS_OK;
}

static status from_json(jinja_run *r, const json_t *j, int depth, jinja_value *out) {
    if (depth > CHAT_JSON_DEPTH) {
        return error_set(r->err, STATUS_BAD_ARGUMENT, "the messages or tools are nested more than %d levels deep",
                         CHAT_JSON_DEPTH);
    }
    TRY(jinja_step(r, 1));
    switch (json_typeof(j)) {
    case JSON_OBJECT: TRY(from_object(r, j, depth, out)); break;
    case JSON_ARRAY:
        TRY(jinja_make_seq(r, JINJA_LIST, json_array_size(j), out));
        for (size_t i = 0; i < out->u.seq->n; i++)
            TRY(from_json(r, json_array_get(j, i), depth + 1, &out->u.seq->items[i]));
        break;
    case JSON_STRING: return jinja_make_string(r, (str){json_string_value(j), json_string_length(j)}, false, out);
    case JSON_INTEGER: *out = jinja_int(json_integer_value(j)); break;
    case JSON_REAL: *out = jinja_float(json_real_value(j)); break;
    case JSON_TRUE:
    case JSON_FALSE: *out = jinja_bool(json_is_true(j)); break;
    case JSON_NULL: *out = jinja_none(); break;
    }
    out->trusted = false;
    return STATUS_OK;
}

static void drop_nulls(jinja_dict *d) {
    size_t n = 0;
    for (size_t i = 0; i < d->n; i++) {
        if (d->values[i].type == JINJA_NONE) continue;
        d->keys[n] = d->keys[i];
        d->values[n++] = d->values[i];
    }
    d->n = n;
}

// {"thinking": reasoning, **message, "reasoning_content": reasoning}, reasoning being the first there is of the three names.
static status alias_reasoning(jinja_run *r, jinja_value *message) {
    static const char *const fields[] = {"reasoning_content", "thinking", "reasoning"};
    const jinja_dict *d = message->u.dict;
    ptrdiff_t at = -1;
    for (size_t i = 0; at < 0 && i < 3; i++) at = jinja_dict_find(d, str_from(fields[i]));
    if (at < 0) return STATUS_OK;
    jinja_value copy, reasoning = d->values[at];
    TRY(jinja_make_dict(r, d->n + 2, &copy));
    TRY(jinja_dict_set(r, copy.u.dict, jinja_text(STR("thinking"), false), reasoning));
    for (size_t i = 0; i < d->n; i++) TRY(jinja_dict_set(r, copy.u.dict, d->keys[i], d->values[i]));
    TRY(jinja_dict_set(r, copy.u.dict, jinja_text(STR("reasoning_content"), false), reasoning));
    copy.trusted = false;
    *message = copy;
    return STATUS_OK;
}

static status set_messages(jinja_run *r, const json_t *messages) {
    jinja_value v;
    if (!json_is_array(messages))
        return error_set(r->err, STATUS_BAD_ARGUMENT, "the messages of a chat must be an array");
    if (json_array_size(messages) == 0) {
        return error_set(r->err, STATUS_BAD_ARGUMENT, "the chat has no messages; give at least one");
    }
    TRY(from_json(r, messages, 0, &v));
    for (size_t i = 0; i < v.u.seq->n; i++) {
        jinja_value *message = &v.u.seq->items[i];
        if (message->type != JINJA_DICT) {
            return error_set(r->err, STATUS_BAD_ARGUMENT,
                             "message %zu of the chat is a %s; every message must be an object", i,
                             jinja_type_name(message));
        }
        drop_nulls(message->u.dict);
        TRY(alias_reasoning(r, message));
    }
    return jinja_set(r, r->scope, STR("messages"), v);
}

static status set_tools(jinja_run *r, const json_t *tools) {
    jinja_value v = jinja_none();
    if (tools && !json_is_null(tools)) {
        if (!json_is_array(tools))
            return error_set(r->err, STATUS_BAD_ARGUMENT, "the tools of a chat must be an array");
        for (size_t i = 0; i < json_array_size(tools); i++) {
            if (json_is_object(json_array_get(tools, i))) continue;
            return error_set(r->err, STATUS_BAD_ARGUMENT, "tool %zu of the chat is no object; every tool must be one",
                             i);
        }
        TRY(from_json(r, tools, 0, &v));
    }
    return jinja_set(r, r->scope, STR("tools"), v);
}

static status set_token(jinja_run *r, const char *name, str token) {
    if (!token.data) return STATUS_OK;
    jinja_value v;
    TRY(jinja_make_string(r, token, true, &v));
    return jinja_set(r, r->scope, str_from(name), v);
}

// Keyword arguments are untrusted like messages, except that they may replace special tokens: those name the model's own.
static status set_kwargs(jinja_run *r, const json_t *kwargs) {
    jinja_value v;
    if (!kwargs || json_is_null(kwargs)) return STATUS_OK;
    if (!json_is_object(kwargs))
        return error_set(r->err, STATUS_BAD_ARGUMENT, "the template's keyword arguments must be an object");
    TRY(from_json(r, kwargs, 0, &v));
    for (size_t i = 0; i < v.u.dict->n; i++) {
        str name = jinja_str(&v.u.dict->keys[i]);
        jinja_value value = v.u.dict->values[i];
        if (str_is(name, "messages") || str_is(name, "tools")) {
            return error_set(r->err, STATUS_BAD_ARGUMENT,
                             "'%.*s' cannot be given as a keyword argument of the template", STR_ARG(name));
        }
        bool token = str_is(name, "bos_token") || str_is(name, "eos_token") || str_is(name, "unk_token") ||
                     str_is(name, "pad_token");
        if (token) value.trusted = true;
        TRY(jinja_set(r, r->scope, name, value));
    }
    return STATUS_OK;
}

static status set_variables(jinja_run *r, const chat_input *in) {
    TRY(jinja_push_scope(r, NULL));
    TRY(set_messages(r, in->messages));
    TRY(set_tools(r, in->tools));
    TRY(jinja_set(r, r->scope, STR("documents"), jinja_none()));
    TRY(jinja_set(r, r->scope, STR("add_generation_prompt"), jinja_bool(in->add_generation_prompt)));
    TRY(set_token(r, "bos_token", in->bos_token));
    TRY(set_token(r, "eos_token", in->eos_token));
    TRY(set_token(r, "unk_token", in->unk_token));
    TRY(set_token(r, "pad_token", in->pad_token));
    TRY(set_kwargs(r, in->kwargs));
    return jinja_push_scope(r, r->scope); // what the template sets at its top level
}

status chat_render(const chat_template *t, const chat_input *in, chat_prompt *out, error *err) {
    arena mem;
    arena_init(&mem);
    strbuf_clear(&out->text);
    strbuf_clear(&out->trusted);
    jinja_run r = {.mem = &mem, .err = err, .text = &out->text, .mask = &out->trusted, .line = 1};
    status st = set_variables(&r, in);
    if (st == STATUS_OK) st = jinja_exec(&r, &t->body);
    arena_deinit(&mem);
    if (st != STATUS_OK) {
        strbuf_clear(&out->text);
        strbuf_clear(&out->trusted);
        return st;
    }
    // The buffers also served as scratch space behind their end: terminate them again.
    strbuf_add(&out->text, STR(""));
    strbuf_add(&out->trusted, STR(""));
    return out->text.failed || out->trusted.failed ? error_no_memory(err, out->text.len) : STATUS_OK;
}
