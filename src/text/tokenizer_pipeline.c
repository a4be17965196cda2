// tokenizer.json: normalizer, pre_tokenizer, post_processor and decoder. What tally does not do is refused by name.
#include "text/tokenizer_parts.h"

enum { MAX_NESTING = 8 }; // Sequences inside Sequences

static status type_of(const json_t *o, const char *where, str *type, error *err) {
    if (!json_is_object(o)) {
        return error_set(err, STATUS_BAD_FILE, "%s must be an object, but it is %s", where, json_kind(o));
    }
    TRY(json_field_str(o, where, "type", type, err));
    return type->len ? STATUS_OK : error_set(err, STATUS_BAD_FILE, "%s.type is missing", where);
}

static status unsupported(const char *where, str type, const char *supported, error *err) {
    return error_set(err, STATUS_UNSUPPORTED, "%s is of type %.*s, which tally does not support here (it knows %s)",
                     where, STR_ARG(type), supported);
}

// One of the four parts of a file: its key, the key of the list in a Sequence of it, and what reads one object that is none.
typedef struct pipeline_part {
    const char *key, *list;
    status (*each)(tokenizer *t, const json_t *o, const char *where, error *err);
    bool needed;
} pipeline_part;

// Reads an object, or the members of a Sequence one by one.
static status walk(tokenizer *t, const pipeline_part *part, const json_t *o, const char *where, int depth, error *err) {
    str type;
    TRY(type_of(o, where, &type, err));
    if (!str_is(type, "Sequence")) return part->each(t, o, where, err);
    if (depth == MAX_NESTING) return error_set(err, STATUS_UNSUPPORTED, "%s nests Sequences too deeply", where);
    const json_t *list;
    TRY(json_field_array(o, where, part->list, &list, err));
    for (size_t i = 0; i < json_array_size(list); i++) {
        char inner[192];
        snprintf(inner, sizeof inner, "%s.%s[%zu]", where, part->list, i);
        TRY(walk(t, part, json_array_get(list, i), inner, depth + 1, err));
    }
    return STATUS_OK;
}

static status read_normalizer(tokenizer *t, const json_t *o, const char *where, error *err) {
    static const char *const name[] = {"NFC", "NFD", "NFKC", "NFKD"};
    static const normal_form form[] = {NORMAL_NFC, NORMAL_NFD, NORMAL_NFKC, NORMAL_NFKD};
    str type;
    TRY(type_of(o, where, &type, err));
    for (int i = 0; i < 4; i++) {
        if (!str_is(type, name[i])) continue;
        if (t->norm.n_steps == NORMALIZER_MAX_STEPS) {
            return error_set(err, STATUS_UNSUPPORTED, "%s: more than %d normalisations in a row", where,
                             NORMALIZER_MAX_STEPS);
        }
        t->norm.step[t->norm.n_steps++] = form[i];
        return STATUS_OK;
    }
    return unsupported(where, type, "NFC, NFD, NFKC, NFKD, Sequence", err);
}

static status split_behavior_from(str name, const char *where, split_behavior *out, error *err) {
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    static const split_behavior values[] = {SPLIT_ISOLATED, SPLIT_REMOVED, SPLIT_MERGED_WITH_PREVIOUS,
                                            SPLIT_MERGED_WITH_NEXT, SPLIT_CONTIGUOUS};
    for (int i = 0; i < 5; i++) {
        if (str_is(name, names[i])) return *out = values[i], STATUS_OK;
    }
    return error_set(err, STATUS_BAD_FILE, "%s.behavior is \"%.*s\", which is no known behaviour", where,
                     STR_ARG(name));
}

static status read_split(tokenizer *t, const json_t *o, const char *where, error *err) {
    pretokenizer_step step = {0};
    str behavior, regex_text, string_text;
    const json_t *pattern;
    char inner[160];
    snprintf(inner, sizeof inner, "%s.pattern", where);
    TRY(json_field_str(o, where, "behavior", &behavior, err));
    TRY(split_behavior_from(behavior, where, &step.behavior, err));
    TRY(json_field_bool(o, where, "invert", false, &step.invert, err));
    TRY(json_field_object(o, where, "pattern", &pattern, err));
    if (!pattern) return error_set(err, STATUS_BAD_FILE, "%s is missing", inner);
    TRY(json_field_str(pattern, inner, "Regex", &regex_text, err));
    TRY(json_field_str(pattern, inner, "String", &string_text, err));
    if (!regex_text.len && !string_text.len)
        return error_set(err, STATUS_BAD_FILE, "%s has no Regex and no String", inner);
    status st = regex_open(&step.re, regex_text.len ? regex_text : string_text, !regex_text.len, err);
    if (st != STATUS_OK) return error_prefix(err, st, "%s", where);
    return pretokenizer_add(&t->pre, step, err);
}

static status read_pre_tokenizer(tokenizer *t, const json_t *o, const char *where, error *err) {
    if (t->byte_level)
        return error_set(err, STATUS_UNSUPPORTED, "%s stands behind ByteLevel, which must be last", where);
    str type;
    TRY(type_of(o, where, &type, err));
    if (str_is(type, "Split")) return read_split(t, o, where, err);
    if (str_is(type, "Digits")) {
        bool individual;
        TRY(json_field_bool(o, where, "individual_digits", false, &individual, err));
        return pretokenizer_add_regex(&t->pre, STR("\\p{N}"), individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS, err);
    }
    if (!str_is(type, "ByteLevel")) return unsupported(where, type, "Split, Digits, ByteLevel, Sequence", err);
    bool prefix_space, use_regex;
    TRY(json_field_bool(o, where, "add_prefix_space", true, &prefix_space, err));
    TRY(json_field_bool(o, where, "use_regex", true, &use_regex, err));
    t->byte_level = true;
    if (prefix_space) TRY(pretokenizer_add(&t->pre, (pretokenizer_step){0}, err));
    return use_regex ? pretokenizer_add_regex(&t->pre, str_from(PRETOKENIZER_GPT2), SPLIT_ISOLATED, err) : STATUS_OK;
}

static status affix_add(token_affix *a, const char *where, int64_t id, const tokenizer *t, error *err) {
    if (id < 0 || id >= t->n_tokens) {
        return error_set(err, STATUS_BAD_FILE, "%s adds token %lld, which is not in the vocabulary", where,
                         (long long)id);
    }
    if (a->n == TOKENIZER_MAX_AFFIX) {
        return error_set(err, STATUS_UNSUPPORTED, "%s adds more than %d tokens", where, TOKENIZER_MAX_AFFIX);
    }
    a->id[a->n++] = (int32_t)id;
    return STATUS_OK;
}

// {"SpecialToken": {"id": NAME}}: the ids that special_tokens[NAME].ids lists.
static status template_token(tokenizer *t, const json_t *o, const json_t *special, const char *where, token_affix *a,
                             error *err) {
    str name;
    const json_t *entry, *ids;
    TRY(json_field_str(special, where, "id", &name, err));
    const json_t *known;
    TRY(json_field_object(o, where, "special_tokens", &known, err));
    if (!known) return error_set(err, STATUS_BAD_FILE, "%s.special_tokens is missing", where);
    TRY(json_field_object(known, where, name.data, &entry, err));
    if (!entry) return error_set(err, STATUS_BAD_FILE, "%s.special_tokens lacks \"%.*s\"", where, STR_ARG(name));
    TRY(json_field_array(entry, where, "ids", &ids, err));
    for (size_t i = 0; i < json_array_size(ids); i++) {
        if (!json_is_integer(json_array_get(ids, i))) {
            return error_set(err, STATUS_BAD_FILE, "%s.special_tokens[\"%.*s\"].ids[%zu] must be an integer", where,
                             STR_ARG(name), i);
        }
        TRY(affix_add(a, where, json_integer_value(json_array_get(ids, i)), t, err));
    }
    return STATUS_OK;
}

static status read_template(tokenizer *t, const json_t *o, const char *where, error *err) {
    const json_t *single;
    TRY(json_field_array(o, where, "single", &single, err));
    bool behind = false; // the text itself has been seen
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *item = json_array_get(single, i);
        const json_t *special = json_object_get(item, "SpecialToken"), *sequence = json_object_get(item, "Sequence");
        if (json_is_object(special)) {
            TRY(template_token(t, o, special, where, behind ? &t->suffix : &t->prefix, err));
        } else if (json_is_object(sequence) && !behind) {
            behind = true;
        } else {
            return error_set(err, STATUS_BAD_FILE, "%s.single[%zu] must be a SpecialToken or the one Sequence", where,
                             i);
        }
    }
    return behind ? STATUS_OK : error_set(err, STATUS_BAD_FILE, "%s.single has no Sequence", where);
}

static status read_post_processor(tokenizer *t, const json_t *o, const char *where, error *err) {
    str type;
    TRY(type_of(o, where, &type, err));
    if (str_is(type, "ByteLevel")) return STATUS_OK; // offsets only
    if (str_is(type, "TemplateProcessing")) return read_template(t, o, where, err);
    return unsupported(where, type, "ByteLevel, TemplateProcessing, Sequence", err);
}

static status read_decoder(tokenizer *t, const json_t *o, const char *where, error *err) {
    (void)t;
    str type;
    TRY(type_of(o, where, &type, err));
    return str_is(type, "ByteLevel") ? STATUS_OK : unsupported(where, type, "ByteLevel", err);
}

status tokenizer_read_pipeline(tokenizer *t, const json_t *root, error *err) {
    static const pipeline_part part[] = {
        {"normalizer", "normalizers", read_normalizer, false},
        {"pre_tokenizer", "pretokenizers", read_pre_tokenizer, true},
        {"post_processor", "processors", read_post_processor, false},
        {"decoder", "decoders", read_decoder, true},
    };
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
        const json_t *o;
        TRY(json_field_object(root, "tokenizer.json", part[i].key, &o, err));
        if (!o && part[i].needed) {
            return error_set(err, STATUS_UNSUPPORTED, "tokenizer.json has no %s; tally reads byte-level BPE only",
                             part[i].key);
        }
        char where[64];
        snprintf(where, sizeof where, "tokenizer.json: %s", part[i].key);
        if (o) TRY(walk(t, &part[i], o, where, 0, err));
    }
    if (!t->byte_level) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "tokenizer.json: pre_tokenizer has no ByteLevel; tally reads byte-level BPE only");
    }
    return STATUS_OK;
}
