// tally_model: what is on disk, and text to ids and back.
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/fpenv.h"
#include "engine/engine.h"

#define SAME_STATUS(name, text) \
    _Static_assert((int)TALLY_##name == (int)STATUS_##name, "tally.h and status.h list the same codes");
STATUS_LIST(SAME_STATUS)
#undef SAME_STATUS
_Static_assert(sizeof(tally_error) == sizeof(error), "tally_error is an error");

const char *tally_version(void) { return TALLY_VERSION; }
void tally_free(void *p) { free(p); }

static status open_checkpoint(checkpoint **out, const char *name, error *err) {
    strbuf home_hub = {0}, user_hub = {0};
    const char *dirs[3];
    int n = 0;
    if (env_get(ENV_HF_HUB_CACHE)) dirs[n++] = env_get(ENV_HF_HUB_CACHE);
    if (env_get(ENV_HF_HOME)) {
        strbuf_addf(&home_hub, "%s/hub", env_get(ENV_HF_HOME));
        if (!home_hub.failed) dirs[n++] = strbuf_text(&home_hub);
    }
    if (env_get(ENV_HOME)) {
        strbuf_addf(&user_hub, "%s/.cache/huggingface/hub", env_get(ENV_HOME));
        if (!user_hub.failed) dirs[n++] = strbuf_text(&user_hub);
    }
    status s = home_hub.failed || user_hub.failed
                   ? error_set(err, STATUS_NO_MEMORY, "%s: out of memory while opening it", name)
                   : checkpoint_open(out, name, dirs, n, err);
    strbuf_deinit(&home_hub);
    strbuf_deinit(&user_hub);
    return s;
}

static void join_stop_ids(model_config *c, const tokenizer *tok) {
    int32_t ids[MAX_STOP_IDS];
    int n = tokenizer_stop_ids(tok, ids, MAX_STOP_IDS);
    for (int i = 0; i < n; i++) {
        bool known = false;
        for (int j = 0; j < c->n_stop_ids; j++) known |= c->stop_ids[j] == ids[i];
        if (!known && c->n_stop_ids < MAX_STOP_IDS) c->stop_ids[c->n_stop_ids++] = ids[i];
    }
}

// Whether a part could not be read for a reason that lies outside of the file.
static bool out_of_memory(const error *why, error *err) {
    if (why->code != STATUS_NO_MEMORY) return false;
    error_set(err, why->code, "%s", why->text);
    return true;
}

// A part that is absent is remembered with its reason; one that is damaged or unsupported too, because ids may still work.
static status open_parts(tally_model *m, error *err) {
    m->has_config = checkpoint_config(m->ck, &m->config, &m->why_no_config) == STATUS_OK;
    if (out_of_memory(&m->why_no_config, err)) return STATUS_NO_MEMORY;
    if (tokenizer_open(&m->tok, m->ck, &m->why_no_tokenizer) != STATUS_OK) {
        m->tok = NULL;
        m->why_no_chat = m->why_no_tokenizer;
        return out_of_memory(&m->why_no_tokenizer, err) ? STATUS_NO_MEMORY : STATUS_OK;
    }
    if (m->has_config) join_stop_ids(&m->config, m->tok);
    str source = tokenizer_chat_template(m->tok);
    if (source.len == 0) {
        error_set(&m->why_no_chat, STATUS_NOT_FOUND,
                  "%s has no chat template; give one with --chat-template-file, or prompt without --chat",
                  checkpoint_path(m->ck));
    } else if (chat_template_open(&m->chat, source, &m->why_no_chat) != STATUS_OK) {
        m->chat = NULL;
    } else if (tokenizer_tool_template(m->tok).len) {
        chat_template_open(&m->tool_chat, tokenizer_tool_template(m->tok), &m->why_no_tool_chat);
        if (out_of_memory(&m->why_no_tool_chat, err)) return STATUS_NO_MEMORY;
    }
    return out_of_memory(&m->why_no_chat, err) ? STATUS_NO_MEMORY : STATUS_OK;
}

tally_status tally_model_open(tally_model **out, const char *name, tally_error *user_err) {
    error *err = (error *)user_err;
    *out = NULL;
    tally_model *m = calloc(1, sizeof *m);
    if (!m) return (tally_status)error_no_memory(err, sizeof *m);
    fpenv_state callers = fpenv_enter(); // numbers of a configuration are rounded, too
    status s = open_checkpoint(&m->ck, name, err);
    if (!s) s = open_parts(m, err);
    fpenv_leave(callers);
    // A folder without config.json is there for its tokenizer, all else for a model.
    if (!s && !m->has_config && !m->tok) {
        const error *why = m->why_no_config.code == STATUS_NOT_FOUND ? &m->why_no_tokenizer : &m->why_no_config;
        s = error_set(err, why->code, "%s", why->text);
    }
    if (s) {
        tally_model_close(m);
        return (tally_status)s;
    }
    *out = m;
    return TALLY_OK;
}

void tally_model_close(tally_model *m) {
    if (!m) return;
    chat_template_close(m->chat);
    chat_template_close(m->tool_chat);
    if (m->tok) tokenizer_close(m->tok);
    if (m->ck) checkpoint_close(m->ck);
    free(m);
}

int tally_model_n_vocab(const tally_model *m) { return m->has_config ? m->config.n_vocab : 0; }
int tally_model_context_length(const tally_model *m) { return m->has_config ? m->config.context_length : 0; }
bool tally_model_has_tokenizer(const tally_model *m) { return m->tok != NULL; }
bool tally_model_has_chat_template(const tally_model *m) { return m->chat != NULL; }

bool tally_model_sampling(const tally_model *m, tally_sampling *out) {
    const sampling_defaults *d = &m->config.sampling;
    *out = (tally_sampling){0};
    bool samples = m->has_config && (d->do_sample || d->has_temperature || d->has_top_p || d->has_top_k);
    if (m->has_config && d->has_repetition_penalty) out->repeat_penalty = d->repetition_penalty;
    if (samples) {
        out->temperature = d->has_temperature ? d->temperature : 1;
        out->top_k = d->has_top_k ? d->top_k : 0;
        out->top_p = d->has_top_p ? d->top_p : 0;
        out->min_p = d->has_min_p ? d->min_p : 0;
    }
    return samples || out->repeat_penalty > 0;
}

// ---- text ----------------------------------------------------------------------------------------------------------------

static status need_tokenizer(const tally_model *m, error *err) {
    if (m->tok) return STATUS_OK;
    return error_set(err, m->why_no_tokenizer.code, "%s", m->why_no_tokenizer.text);
}

// Hands a token list over to the caller.
static status give_ids(token_list *l, int32_t **ids, size_t *n, error *err) {
    if (l->failed) return error_no_memory(err, l->cap * sizeof *l->data);
    *n = l->len;
    *ids = l->data ? l->data : malloc(1);
    return *ids ? STATUS_OK : error_no_memory(err, 1);
}

static status encode(const tally_model *m, str text, const unsigned char *trusted, unsigned flags, int32_t **ids,
                     size_t *n, error *err) {
    token_list l = {0};
    status s = tokenizer_encode(m->tok, text, trusted, flags, &l, err);
    if (!s) s = give_ids(&l, ids, n, err);
    if (s) token_list_deinit(&l);
    return s;
}

tally_status tally_tokenize(const tally_model *m, const char *text, size_t len, unsigned flags, int32_t **ids,
                            size_t *n, tally_error *err) {
    status s = need_tokenizer(m, (error *)err);
    unsigned f = (flags & TALLY_ADD_SPECIAL ? ENCODE_ADD_SPECIAL : 0u) |
                 (flags & TALLY_PARSE_SPECIAL ? ENCODE_PARSE_SPECIAL : 0u);
    return (tally_status)(s ? s : encode(m, (str){text, len}, NULL, f, ids, n, (error *)err));
}

// Hands a buffer's text over to the caller, zero-terminated.
static status give_text(strbuf *b, char **text, size_t *len, error *err) {
    strbuf_add(b, (str){"", 0}); // an empty result is an allocated empty string
    if (b->failed) return error_no_memory(err, b->cap);
    *text = b->data;
    if (len) *len = b->len;
    return STATUS_OK;
}

tally_status tally_detokenize(const tally_model *m, const int32_t *ids, size_t n, bool skip_special, char **text,
                              size_t *len, tally_error *user_err) {
    error *err = (error *)user_err;
    status s = need_tokenizer(m, err);
    if (s) return (tally_status)s;
    strbuf b = {0};
    s = tokenizer_decode(m->tok, ids, n, skip_special, &b, err);
    if (!s) s = give_text(&b, text, len, err);
    if (s) strbuf_deinit(&b);
    return (tally_status)s;
}

static status parse_json(const char *what, const char *text, json_t **out, error *err) {
    *out = NULL;
    if (!text) return STATUS_OK;
    json_error_t e;
    *out = json_loads(text, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &e);
    if (*out) return STATUS_OK;
    return error_set(err, STATUS_BAD_ARGUMENT, "%s is not valid JSON: line %d, column %d: %s", what, e.line, e.column,
                     e.text);
}

// A token the vocabulary does not have is an undefined variable of the template.
static str defined(str token) { return token.len ? token : (str){0}; }

static status render_with(const tally_model *m, const chat_template *t, const tally_chat *chat, chat_prompt *out,
                          error *err) {
    json_t *messages = NULL, *tools = NULL, *kwargs = NULL;
    status s = parse_json("the list of messages", chat->messages, &messages, err);
    if (!s) s = parse_json("the list of tools", chat->tools, &tools, err);
    if (!s) s = parse_json("the template's keyword arguments", chat->kwargs, &kwargs, err);
    if (!s && !json_is_array(messages))
        s = error_set(err, STATUS_BAD_ARGUMENT, "the messages must be a JSON array of objects");
    if (!s && tools && !json_is_array(tools)) s = error_set(err, STATUS_BAD_ARGUMENT, "the tools must be a JSON array");
    if (!s && kwargs && !json_is_object(kwargs))
        s = error_set(err, STATUS_BAD_ARGUMENT, "the template's keyword arguments must be a JSON object");
    if (!s) {
        chat_input in = {.messages = messages,
                         .tools = tools,
                         .kwargs = kwargs,
                         .add_generation_prompt = !chat->no_generation_prompt};
        if (m->tok) {
            in.bos_token = defined(tokenizer_bos(m->tok)), in.eos_token = defined(tokenizer_eos(m->tok));
            in.unk_token = defined(tokenizer_unk(m->tok)), in.pad_token = defined(tokenizer_pad(m->tok));
        }
        s = chat_render(t, &in, out, err);
    }
    json_decref(messages);
    json_decref(tools);
    json_decref(kwargs);
    return s;
}

static status render(const tally_model *m, const tally_chat *chat, chat_prompt *out, error *err) {
    *out = (chat_prompt){0};
    if (!chat->template_text) {
        if (!m->chat) return error_set(err, m->why_no_chat.code, "%s", m->why_no_chat.text);
        const error *why = &m->why_no_tool_chat;
        if (chat->tools && why->code) return error_set(err, why->code, "the template for tools: %s", why->text);
        return render_with(m, chat->tools && m->tool_chat ? m->tool_chat : m->chat, chat, out, err);
    }
    chat_template *own;
    TRY(chat_template_open(&own, str_from(chat->template_text), err));
    status s = render_with(m, own, chat, out, err);
    chat_template_close(own);
    return s;
}

tally_status tally_chat_render(const tally_model *m, const tally_chat *chat, char **text, size_t *len,
                               tally_error *user_err) {
    error *err = (error *)user_err;
    chat_prompt p;
    status s = render(m, chat, &p, err);
    if (!s) s = give_text(&p.text, text, len, err);
    if (!s) p.text = (strbuf){0}; // the caller's now
    chat_prompt_deinit(&p);
    return (tally_status)s;
}

tally_status tally_chat_tokenize(const tally_model *m, const tally_chat *chat, int32_t **ids, size_t *n,
                                 tally_error *user_err) {
    error *err = (error *)user_err;
    chat_prompt p = {0};
    status s = need_tokenizer(m, err);
    if (!s) s = render(m, chat, &p, err);
    if (!s)
        s = encode(m, strbuf_str(&p.text), (const unsigned char *)p.trusted.data, ENCODE_PARSE_SPECIAL, ids, n, err);
    chat_prompt_deinit(&p);
    return (tally_status)s;
}
