#include "cmd/spec_plain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cpuinfo.h"
#include "cmd/common.h"

static const char *text_or(const char *text, const char *otherwise) { return text ? text : otherwise; }

// The number of threads, a kernel level with the common bits and the sequences at once decide nothing.
static void describe(spec_plain *k, const options *o, int n_gen) {
    const char *slash = strrchr(o->model, '/');
    struct stat st = {0};
    stat(o->model, &st);
    snprintf(
        k->setting, sizeof k->setting,
        "%s of %lld bytes on %s, dtype %s, cache %s/%s, %d tokens%s, temperature %g, top-k %d, top-p %g, min-p %g, "
        "penalties %g/%g/%g, %d biases",
        slash && slash[1] ? slash + 1 : o->model, (long long)st.st_size, text_or(o->device, "cpu"),
        text_or(o->dtype, "-"), text_or(o->cache_k, "-"), text_or(o->cache_v, "-"), n_gen,
        o->spec_stops ? " or until a stop" : "", o->temperature, o->top_k, o->top_p, o->min_p, o->repeat_penalty,
        o->presence_penalty, o->frequency_penalty, o->logit_bias.n);
    size_t len = strlen(k->setting);
    cpu_level level;
    if (o->cpu_level && cpu_level_from_name(str_from(o->cpu_level), &level) && !cpu_level_is_common(level))
        snprintf(k->setting + len, sizeof k->setting - len, ", level %s", o->cpu_level);
    len = strlen(k->setting);
    if (o->exact && strcmp(o->exact, "off") == 0) snprintf(k->setting + len, sizeof k->setting - len, ", exact off");
}

static int not_ours(const spec_plain *k, const char *what) {
    return fail("%s holds no plain answers of --spec-suite: %s; name another file with --spec-plain", k->path, what);
}

int spec_plain_open(spec_plain *k, const char *path, const options *o, int n_gen) {
    *k = (spec_plain){.path = path};
    if (!path) return 0;
    describe(k, o, n_gen);
    if (access(path, F_OK) != 0) {
        k->answers = json_object();
        return k->answers ? 0 : fail("memory ran out");
    }
    char *data;
    size_t len;
    int rc = read_file(path, &data, &len);
    if (rc) return rc;
    json_error_t at;
    json_t *root = json_loadb(data, len, JSON_REJECT_DUPLICATES, &at);
    free(data);
    const char *setting = json_string_value(json_object_get(root, "setting"));
    json_t *answers = json_object_get(root, "answers");
    if (!root) {
        rc = not_ours(k, at.text);
    } else if (!setting || !json_is_object(answers)) {
        rc = not_ours(k, "it lacks the field setting or answers");
    } else if (strcmp(setting, k->setting) != 0) {
        rc = fail("%s holds plain answers of '%s', and these are '%s'; name another file with --spec-plain", path,
                  setting, k->setting);
    } else {
        k->answers = json_incref(answers);
    }
    json_decref(root);
    return rc;
}

void spec_plain_close(spec_plain *k) {
    json_decref(k->answers);
    *k = (spec_plain){0};
}

static void name_of(const spec_plain_key *key, char *name, size_t size) {
    snprintf(name, size, "%s/%s", key->prompt->class_name, key->prompt->name);
}

static json_t *hex(uint64_t v) {
    char text[20];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)v);
    return json_string(text);
}

// False: the field is missing or no hexadecimal number.
static bool hex_value(const json_t *o, const char *field, uint64_t *v) {
    const char *text = json_string_value(json_object_get(o, field));
    char *end;
    if (!text || strlen(text) != 16) return false;
    *v = strtoull(text, &end, 16);
    return !*end;
}

// Why an answer ended, as a string that outlives the file.
static const char *reason_of(const json_t *o) {
    static const char *const reasons[] = {"stop", "length"};
    const char *text = json_string_value(json_object_get(o, "finish_reason"));
    for (int i = 0; text && i < 2; i++) {
        if (strcmp(text, reasons[i]) == 0) return reasons[i];
    }
    return NULL;
}

int spec_plain_find(const spec_plain *k, const spec_plain_key *key, spec_answer *a) {
    char name[256];
    uint64_t prompt, seed;
    name_of(key, name, sizeof name);
    const json_t *o = json_object_get(k->answers, name);
    const json_t *ids = json_object_get(o, "ids");
    *a = (spec_answer){.reason = reason_of(o), .has_digests = true};
    if (!a->reason || !json_is_array(ids) || !hex_value(o, "prompt", &prompt) || prompt != key->ids_hash ||
        !hex_value(o, "seed", &seed) || seed != key->seed || !hex_value(o, "logprobs", &a->logprobs_digest) ||
        !hex_value(o, "logits", &a->logits_digest))
        return 0;
    a->n = (int)json_array_size(ids);
    a->ids = malloc((size_t)a->n * sizeof *a->ids + 1);
    if (!a->ids) return -1;
    for (int i = 0; i < a->n; i++) a->ids[i] = (int32_t)json_integer_value(json_array_get(ids, (size_t)i));
    return 1;
}

bool spec_plain_add(spec_plain *k, const spec_plain_key *key, const spec_answer *a) {
    if (!k->path) return true;
    char name[256];
    name_of(key, name, sizeof name);
    json_t *ids = json_array();
    for (int i = 0; i < a->n; i++) {
        if (json_array_append_new(ids, json_integer(a->ids[i])) != 0) {
            json_decref(ids);
            return false;
        }
    }
    json_t *o = json_pack("{s:o, s:o, s:s, s:o, s:o, s:o}", "prompt", hex(key->ids_hash), "seed", hex(key->seed),
                          "finish_reason", a->reason, "logprobs", hex(spec_answer_logprobs_digest(a)), "logits",
                          hex(spec_answer_logits_digest(a)), "ids", ids);
    if (!o || json_object_set_new(k->answers, name, o) != 0) return false;
    k->changed = true;
    return true;
}

int spec_plain_write(spec_plain *k) {
    if (!k->path || !k->changed) return 0;
    char part[4096];
    if ((size_t)snprintf(part, sizeof part, "%s.part", k->path) >= sizeof part)
        return fail("the path %.100s... is too long", k->path);
    json_t *root = json_pack("{s:s, s:O}", "setting", k->setting, "answers", k->answers);
    if (!root) return fail("memory ran out for the file %s", k->path);
    errno = 0;
    bool written = json_dump_file(root, part, JSON_COMPACT) == 0 && rename(part, k->path) == 0;
    int why = errno;
    json_decref(root);
    if (!written) {
        remove(part);
        return fail("%s cannot be written: %s", k->path, why ? strerror(why) : "the file's end could not be stored");
    }
    k->changed = false;
    return 0;
}
