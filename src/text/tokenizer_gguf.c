// A tokenizer from the keys of a GGUF file.
#include "text/tokenizer_parts.h"
#include "text/utf8.h"

// What tokenizer.ggml.pre stands for. Facts: each family's tokenizer.json; names: llama.cpp's llama-vocab.cpp.
typedef struct splitter {
    const char *name;
    const char *digits, *regex, *regex2; // steps in this order; NULL: none
    bool nfc, whole_pieces, add_bos;     // add_bos: when the file does not say
} splitter;

static const char DIGIT[] = "\\p{N}", DIGITS_3[] = "\\p{N}{1,3}";
static const char DEEPSEEK_CJK[] = "[\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-\xe3\x82\x9f\xe3\x82\xa0-\xe3\x83\xbf]+";
static const char DEEPSEEK_WORDS[] =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
    " ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";

static const splitter SPLITTERS[] = {
    {.name = "qwen2", .regex = PRETOKENIZER_QWEN2, .nfc = true},
    {.name = "deepseek-r1-qwen", .regex = PRETOKENIZER_QWEN2, .nfc = true},
    {.name = "megrez", .regex = PRETOKENIZER_QWEN2, .nfc = true},
    {.name = "qwen35", .regex = PRETOKENIZER_QWEN35, .nfc = true},
    {.name = "llama-bpe", .regex = PRETOKENIZER_LLAMA3, .whole_pieces = true, .add_bos = true},
    {.name = "llama3", .regex = PRETOKENIZER_LLAMA3, .whole_pieces = true, .add_bos = true},
    {.name = "llama-v3", .regex = PRETOKENIZER_LLAMA3, .whole_pieces = true, .add_bos = true},
    {.name = "smollm", .digits = DIGIT, .regex = PRETOKENIZER_GPT2},
    {.name = "starcoder", .digits = DIGIT, .regex = PRETOKENIZER_GPT2},
    {.name = "gpt-2", .regex = PRETOKENIZER_GPT2},
    {.name = "deepseek-v3", .digits = DIGITS_3, .regex = DEEPSEEK_CJK, .regex2 = DEEPSEEK_WORDS},
};
enum { N_SPLITTERS = sizeof SPLITTERS / sizeof SPLITTERS[0] };

static const char TOKENS[] = "tokenizer.ggml.tokens", TYPES[] = "tokenizer.ggml.token_type",
                  MERGES[] = "tokenizer.ggml.merges";

static status unknown_splitter(str name, bool found, error *err) {
    strbuf known = {0};
    for (int i = 0; i < N_SPLITTERS; i++) strbuf_addf(&known, "%s%s", i ? ", " : "", SPLITTERS[i].name);
    status st =
        found
            ? error_set(
                  err, STATUS_UNSUPPORTED,
                  "tokenizer.ggml.pre is \"%.*s\", a way to cut text that tally does not know (it knows %s); use token "
                  "ids, or set the key if the vocabulary is one of these",
                  STR_ARG(name), strbuf_text(&known))
            : error_set(err, STATUS_UNSUPPORTED,
                        "tokenizer.ggml.pre is missing, so how text is cut is unknown; use token ids, or convert the "
                        "model again with a current llama.cpp so that the key is one of %s",
                        strbuf_text(&known));
    strbuf_deinit(&known);
    return st;
}

static status read_splitter(tokenizer *t, const gguf *g, const splitter **out, error *err) {
    str name = {0};
    bool found;
    TRY(gguf_get_str(g, "tokenizer.ggml.pre", &name, &found, err));
    const splitter *s = NULL;
    for (int i = 0; found && i < N_SPLITTERS; i++) {
        if (str_is(name, SPLITTERS[i].name)) s = &SPLITTERS[i];
    }
    if (!s) return unknown_splitter(name, found, err);
    const char *steps[] = {s->digits, s->regex, s->regex2};
    for (int i = 0; i < 3; i++) {
        if (steps[i]) TRY(pretokenizer_add_regex(&t->pre, str_from(steps[i]), SPLIT_ISOLATED, err));
    }
    if (s->nfc) t->norm = (normalizer){.n_steps = 1, .step = {NORMAL_NFC}};
    t->whole_pieces = s->whole_pieces;
    *out = s;
    return STATUS_OK;
}

static status check_array(const gguf *g, const char *key, bool strings, int64_t *n, bool *found, error *err) {
    gguf_type elem;
    TRY(gguf_get_array(g, key, &elem, n, found, err));
    if (!*found) return STATUS_OK;
    bool integer =
        elem != GGUF_STRING && elem != GGUF_ARRAY && elem != GGUF_F32 && elem != GGUF_F64 && elem != GGUF_BOOL;
    if (strings ? elem == GGUF_STRING : integer) return STATUS_OK;
    return error_set(err, STATUS_BAD_FILE, "%s must be an array of %s", key, strings ? "strings" : "integers");
}

// The kinds of tokenizer.ggml.token_type, by number. A byte token ("<0x0A>") has no place in a byte-level vocabulary: text.
static token_kind kind_of(int64_t type) {
    switch (type) {
    case 2:
    case 3: return TOKEN_SPECIAL; // unknown, control
    case 4: return TOKEN_USER;
    case 5: return TOKEN_UNUSED;
    default: return TOKEN_NORMAL;
    }
}

static status read_tokens(tokenizer *t, const gguf *g, error *err) {
    int64_t n, n_types;
    bool found, typed;
    TRY(check_array(g, TOKENS, true, &n, &found, err));
    if (!found || n == 0) return error_set(err, STATUS_BAD_FILE, "%s is missing or empty", TOKENS);
    TRY(check_array(g, TYPES, false, &n_types, &typed, err));
    if (typed && n_types != n) {
        return error_set(err, STATUS_BAD_FILE, "%s has %lld entries and %s %lld; they must be equal", TYPES,
                         (long long)n_types, TOKENS, (long long)n);
    }
    if (!map_reserve(&t->by_spelling, (size_t)n) || (t->whole_pieces && !map_reserve(&t->by_bytes, (size_t)n)))
        return error_no_memory(err, (unsigned long long)n * 64);
    for (int64_t i = 0; i < n; i++) {
        str text = gguf_array_str(g, TOKENS, i);
        token_kind kind = typed ? kind_of(gguf_array_int(g, TYPES, i)) : TOKEN_NORMAL;
        if (utf8_valid_prefix(text) != text.len) {
            return error_set(err, STATUS_BAD_FILE, "%s[%lld] is not valid UTF-8", TOKENS, (long long)i);
        }
        if (kind == TOKEN_SPECIAL || kind == TOKEN_USER) {
            if (i > TOKENIZER_MAX_ID) return error_set(err, STATUS_BAD_FILE, "%s has too many entries", TOKENS);
            TRY(tokenizer_add(t, (added_token){.content = text, .id = (int32_t)i, .special = kind == TOKEN_SPECIAL},
                              err));
        } else {
            TRY(tokenizer_set_token(t, i, text, kind, err));
        }
    }
    return STATUS_OK;
}

static status read_merges(tokenizer *t, const gguf *g, error *err) {
    int64_t n;
    bool found;
    TRY(check_array(g, MERGES, true, &n, &found, err));
    if (!found) return error_set(err, STATUS_BAD_FILE, "%s is missing", MERGES);
    if (n > INT32_MAX || !bpe_reserve(&t->bpe, (size_t)n))
        return error_no_memory(err, (unsigned long long)n * sizeof(bpe_pair));
    strbuf joined = {0};
    status st = STATUS_OK;
    for (int64_t i = 0; i < n && st == STATUS_OK; i++) {
        str merge = gguf_array_str(g, MERGES, i);
        ptrdiff_t space = str_find(merge, STR(" "), merge.len ? 1 : 0);
        if (space < 0) {
            st = error_set(err, STATUS_BAD_FILE, "%s[%lld] must be two tokens with a space between", MERGES,
                           (long long)i);
            break;
        }
        str left = {merge.data, (size_t)space}, right = {merge.data + space + 1, merge.len - (size_t)space - 1};
        strbuf_clear(&joined);
        strbuf_add(&joined, left);
        strbuf_add(&joined, right);
        st = joined.failed ? error_no_memory(err, merge.len)
                           : tokenizer_merge(t, left, right, strbuf_str(&joined), (uint32_t)i, err);
    }
    strbuf_deinit(&joined);
    return st;
}

// The token that a key names, -1 if the key is absent or, as converters write for tokens that are not set, names none.
static status token_key(const tokenizer *t, const gguf *g, const char *key, int32_t *id, error *err) {
    int64_t value = -1;
    bool found;
    TRY(gguf_get_int(g, key, &value, &found, err));
    *id = found && value >= 0 && value < t->n_tokens ? (int32_t)value : -1;
    return STATUS_OK;
}

static status read_special(tokenizer *t, const gguf *g, const splitter *s, error *err) {
    int32_t bos, eos, eot, eom, unk, pad;
    TRY(token_key(t, g, "tokenizer.ggml.bos_token_id", &bos, err));
    TRY(token_key(t, g, "tokenizer.ggml.eos_token_id", &eos, err));
    TRY(token_key(t, g, "tokenizer.ggml.eot_token_id", &eot, err));
    TRY(token_key(t, g, "tokenizer.ggml.eom_token_id", &eom, err));
    TRY(token_key(t, g, "tokenizer.ggml.unknown_token_id", &unk, err));
    TRY(token_key(t, g, "tokenizer.ggml.padding_token_id", &pad, err));
    tokenizer_add_stop(t, eos);
    tokenizer_add_stop(t, eot);
    tokenizer_add_stop(t, eom);
    if (bos >= 0) t->bos = t->tokens[bos].bytes;
    if (eos >= 0) t->eos = t->tokens[eos].bytes;
    if (unk >= 0) t->unk = t->tokens[unk].bytes;
    if (pad >= 0) t->pad = t->tokens[pad].bytes;
    bool add_bos = s->add_bos, add_eos = false, found, value;
    TRY(gguf_get_bool(g, "tokenizer.ggml.add_bos_token", &value, &found, err));
    if (found) add_bos = value;
    TRY(gguf_get_bool(g, "tokenizer.ggml.add_eos_token", &value, &found, err));
    if (found) add_eos = value;
    if (add_bos && bos >= 0) t->prefix = (token_affix){{bos}, 1};
    if (add_eos && eos >= 0) t->suffix = (token_affix){{eos}, 1};
    return STATUS_OK;
}

static status build(tokenizer *t, const gguf *g, error *err) {
    str text = {0};
    bool found;
    TRY(gguf_get_str(g, "tokenizer.ggml.model", &text, &found, err));
    if (!str_is(text, "gpt2")) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "tokenizer.ggml.model is \"%.*s\"; tally reads byte-level BPE (\"gpt2\") only; use token ids",
                         STR_ARG(text));
    }
    const splitter *s = NULL;
    TRY(read_splitter(t, g, &s, err));
    TRY(read_tokens(t, g, err));
    TRY(read_merges(t, g, err));
    TRY(read_special(t, g, s, err));
    TRY(gguf_get_str(g, "tokenizer.chat_template", &t->chat_template, &found, err));
    if (!found) t->chat_template = STR("");
    TRY(gguf_get_str(g, "tokenizer.chat_template.tool_use", &t->tool_template, &found, err));
    if (!found) t->tool_template = STR("");
    return tokenizer_finish(t, err);
}

status tokenizer_from_gguf(tokenizer **out, const gguf *g, error *err) {
    *out = NULL;
    if (!gguf_has(g, "tokenizer.ggml.model")) {
        return error_set(err, STATUS_NOT_FOUND,
                         "the file has no tokenizer (no key tokenizer.ggml.model); use token ids");
    }
    tokenizer *t;
    status st = tokenizer_new(&t, err);
    if (st == STATUS_OK) st = build(t, g, err);
    if (st != STATUS_OK) {
        tokenizer_close(t);
        return st;
    }
    *out = t;
    return STATUS_OK;
}
