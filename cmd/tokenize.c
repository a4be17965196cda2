// tally tokenize and detokenize: text to ids and back, without weights.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/chat_input.h"
#include "cmd/commands.h"
#include "cmd/common.h"

static void print_ids(const int32_t *ids, size_t n) {
    putchar('[');
    for (size_t i = 0; i < n; i++) printf("%s%d", i ? ", " : "", (int)ids[i]);
    putchar(']');
}

static int tokenize_text(const tally_model *model, const options *o, const char *text, size_t len) {
    unsigned flags = (o->no_special ? 0 : TALLY_ADD_SPECIAL) | (o->no_parse_special ? 0 : TALLY_PARSE_SPECIAL);
    int32_t *ids;
    size_t n;
    tally_error err;
    if (tally_tokenize(model, text, len, flags, &ids, &n, &err) != TALLY_OK) return fail_with(&err);
    print_ids(ids, n);
    tally_free(ids);
    return 0;
}

// The JSON array on standard input, or NULL after telling what is wrong.
static json_t *parse_array(const char *data, size_t len, const char *of) {
    json_error_t at;
    json_t *root = json_loadb(data, len, JSON_ALLOW_NUL, &at);
    if (!root) {
        fail("standard input is not JSON (line %d, column %d: %s); a JSON array of %s is needed", at.line, at.column,
             at.text, of);
    } else if (!json_is_array(root)) {
        fail("standard input is JSON but no array; a JSON array of %s is needed", of);
        json_decref(root);
        root = NULL;
    }
    return root;
}

static int tokenize_batch(const tally_model *model, const options *o, const char *data, size_t len) {
    json_t *root = parse_array(data, len, "texts");
    if (!root) return EXIT_FAILED;
    int rc = 0;
    size_t i;
    json_t *item;
    json_array_foreach(root, i, item) {
        if (!json_is_string(item)) rc = fail("entry %zu of the array (from 0) is no text", i);
    }
    if (!rc) putchar('[');
    json_array_foreach(root, i, item) {
        if (rc) break;
        if (i) fputs(", ", stdout);
        rc = tokenize_text(model, o, json_string_value(item), json_string_length(item));
    }
    if (!rc) puts("]");
    json_decref(root);
    return rc;
}

static int tokenize_chat(const tally_model *model, const options *o, const char *messages, size_t len) {
    if (strlen(messages) != len)
        return fail("the messages hold a zero byte outside of JSON's escapes; write it as \\u0000");
    tally_chat chat;
    chat_input_files files;
    int rc = chat_input_open(o, messages, &chat, &files);
    if (rc) return rc;
    tally_error err;
    if (o->text) {
        char *text;
        size_t n;
        rc = tally_chat_render(model, &chat, &text, &n, &err) == TALLY_OK ? 0 : fail_with(&err);
        if (!rc) {
            fwrite(text, 1, n, stdout);
            tally_free(text);
        }
    } else {
        int32_t *ids;
        size_t n;
        rc = tally_chat_tokenize(model, &chat, &ids, &n, &err) == TALLY_OK ? 0 : fail_with(&err);
        if (!rc) {
            print_ids(ids, n);
            putchar('\n');
            tally_free(ids);
        }
    }
    chat_input_close(&files);
    return rc;
}

int cmd_tokenize(const options *o) {
    int rc = chat_input_check(o);
    if (rc) return rc;
    if (o->chat && o->batch_json) return usage_error("--batch and --chat exclude each other; give one chat at a time");
    tally_model *model;
    tally_error err;
    if (tally_model_open(&model, o->model, &err) != TALLY_OK) return fail_with(&err);
    char *data = NULL;
    size_t len;
    rc = read_file("-", &data, &len);
    if (!rc && o->chat) {
        rc = tokenize_chat(model, o, data, len);
    } else if (!rc && o->batch_json) {
        rc = tokenize_batch(model, o, data, len);
    } else if (!rc) {
        rc = tokenize_text(model, o, data, len);
        if (!rc) putchar('\n');
    }
    free(data);
    tally_model_close(model);
    return rc;
}

// The text of a JSON array of ids: *text owned by the caller (tally_free).
static int detokenize_array(const tally_model *model, const options *o, const json_t *list, char **text, size_t *len) {
    size_t n = json_array_size(list);
    int32_t *ids = malloc((n + 1) * sizeof *ids);
    if (!ids) return fail("memory ran out reading %zu ids", n);
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        const json_t *item = json_array_get(list, i);
        json_int_t v = json_is_integer(item) ? json_integer_value(item) : -1;
        if (v < 0 || v > INT32_MAX) {
            rc = fail("entry %zu of the ids (from 0) is no token id", i);
        } else {
            ids[i] = (int32_t)v;
        }
    }
    tally_error err;
    if (!rc && tally_detokenize(model, ids, n, o->skip_special, text, len, &err) != TALLY_OK) rc = fail_with(&err);
    free(ids);
    return rc;
}

static int detokenize_batch(const tally_model *model, const options *o, const json_t *root) {
    json_t *texts = json_array();
    int rc = texts ? 0 : fail("memory ran out");
    size_t i;
    json_t *item;
    json_array_foreach(root, i, item) {
        if (rc) break;
        char *text;
        size_t len;
        rc = json_is_array(item) ? detokenize_array(model, o, item, &text, &len)
                                 : fail("entry %zu of the array (from 0) is no array of ids", i);
        if (rc) break;
        json_t *s = json_stringn(text, len);
        tally_free(text);
        if (!s || json_array_append_new(texts, s) != 0) rc = fail("memory ran out");
    }
    if (!rc) {
        if (json_dumpf(texts, stdout, 0) != 0) rc = fail("the texts could not be written as JSON");
        putchar('\n');
    }
    json_decref(texts);
    return rc;
}

int cmd_detokenize(const options *o) {
    tally_model *model;
    tally_error err;
    if (tally_model_open(&model, o->model, &err) != TALLY_OK) return fail_with(&err);
    char *data = NULL;
    size_t len;
    int rc = read_file("-", &data, &len);
    json_t *root = rc ? NULL : parse_array(data, len, o->batch_json ? "arrays of ids" : "ids");
    if (!root) {
        rc = EXIT_FAILED;
    } else if (o->batch_json) {
        rc = detokenize_batch(model, o, root);
    } else {
        char *text;
        size_t n;
        rc = detokenize_array(model, o, root, &text, &n);
        if (!rc) {
            fwrite(text, 1, n, stdout);
            tally_free(text);
        }
    }
    json_decref(root);
    free(data);
    tally_model_close(model);
    return rc;
}
