#include "backend/ascend/spec.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

enum { DEFAULT_TILE = 64 };

static const char *const fused_names[] = {
#define FUSED_NAME(name, text) text,
    ASCEND_FUSED(FUSED_NAME)
#undef FUSED_NAME
};

// off=rope+attention
static status parse_off(str value, unsigned *off, error *err) {
    for (size_t at = 0; at < value.len;) {
        ptrdiff_t end = str_find(value, STR("+"), at);
        str word = {value.data + at, (end < 0 ? value.len : (size_t)end) - at};
        int found = -1;
        for (int i = 0; i < ASCEND_FUSED_COUNT; i++) {
            if (str_is(word, fused_names[i])) found = i;
        }
        if (str_is(word, "all")) {
            *off = ~0u;
        } else if (found >= 0) {
            *off |= 1u << found;
        } else {
            return error_set(
                err, STATUS_BAD_ARGUMENT,
                "--device: off=%.*s is none of all, add_norm, rope, attention, swiglu, scatter, bias, moe, topk, "
                "executors, nz",
                STR_ARG(word));
        }
        at += word.len + 1;
    }
    return STATUS_OK;
}

static status parse_tile(str value, int *tile, error *err) {
    int n = 0;
    for (size_t i = 0; i < value.len && n < 10000; i++)
        n = value.data[i] >= '0' && value.data[i] <= '9' ? n * 10 + value.data[i] - '0' : 10000;
    if (n < 16 || n > 64 || n % 16)
        return error_set(err, STATUS_BAD_ARGUMENT, "--device: tile=%.*s: 16, 32, 48 or 64", STR_ARG(value));
    *tile = n;
    return STATUS_OK;
}

static status parse_graph(str value, ascend_spec *s, error *err) {
    static const char *const names[] = {"auto", "on", "off"};
    for (int i = 0; i < 3; i++) {
        if (!str_is(value, names[i])) continue;
        s->graph = i;
        return STATUS_OK;
    }
    return error_set(err, STATUS_BAD_ARGUMENT, "--device: graph=%.*s is none of auto, on, off", STR_ARG(value));
}

static bool takes(str word, const char *key, str *value) {
    size_t n = strlen(key);
    if (word.len <= n || memcmp(word.data, key, n) != 0 || word.data[n] != '=') return false;
    *value = (str){word.data + n + 1, word.len - n - 1};
    return true;
}

// A word that is not ours goes to the emulator.
static status pass_on(ascend_spec *s, str word, error *err) {
    size_t used = strlen(s->settings);
    if (!s->emulated)
        return error_set(err, STATUS_BAD_ARGUMENT,
                         "--device ascend:N knows no setting '%.*s'; exact=, graph=, head=, off=, pieces=, tile= and "
                         "timeout= are all",
                         STR_ARG(word));
    if (used + word.len + 2 > sizeof s->settings)
        return error_set(err, STATUS_BAD_ARGUMENT, "--device: the settings are longer than %zu bytes",
                         sizeof s->settings);
    if (used) s->settings[used++] = ',';
    memcpy(s->settings + used, word.data, word.len);
    s->settings[used + word.len] = 0;
    return STATUS_OK;
}

static status parse_word(ascend_spec *s, str word, error *err) {
    str value;
    if (takes(word, "off", &value)) return parse_off(value, &s->off, err);
    if (takes(word, "tile", &value)) return parse_tile(value, &s->tile, err);
    if (takes(word, "graph", &value)) return parse_graph(value, s, err);
    if (takes(word, "timeout", &value)) {
        int64_t ms = 0;
        for (size_t i = 0; i < value.len && ms >= 0 && ms <= INT_MAX; i++)
            ms = value.data[i] >= '0' && value.data[i] <= '9' ? 10 * ms + value.data[i] - '0' : -1;
        s->timeout_ms = ms > 0 && ms <= INT_MAX ? (int)ms : 0;
        if (s->timeout_ms > 0) return STATUS_OK;
        return error_set(err, STATUS_BAD_ARGUMENT,
                         "--device: timeout=%.*s: it must be a number of milliseconds, 1 to %d", STR_ARG(value),
                         INT_MAX);
    }
    if (takes(word, "head", &value)) {
        s->wide_head = str_is(value, "f32");
        if (s->wide_head || str_is(value, "half")) return STATUS_OK;
        return error_set(err, STATUS_BAD_ARGUMENT, "--device: head=%.*s is none of f32, half", STR_ARG(value));
    }
    if (takes(word, "pieces", &value)) {
        s->pieces = str_is(value, "on");
        if (s->pieces || str_is(value, "off")) return STATUS_OK;
        return error_set(err, STATUS_BAD_ARGUMENT, "--device: pieces=%.*s is none of on, off", STR_ARG(value));
    }
    if (takes(word, "exact", &value)) {
        s->exact = str_is(value, "on");
        if (s->exact || str_is(value, "off")) return STATUS_OK;
        return error_set(err, STATUS_BAD_ARGUMENT, "--device: exact=%.*s is none of on, off", STR_ARG(value));
    }
    if (s->emulated && takes(word, "cann", &value)) {
        if (!str_is(value, "8.1") && !str_is(value, "8.5") && !str_is(value, "9.1"))
            return error_set(err, STATUS_BAD_ARGUMENT, "--device: cann=%.*s is none of 8.1, 8.5, 9.1", STR_ARG(value));
        memcpy(s->cann, value.data, value.len);
        s->cann[value.len] = 0;
    }
    return pass_on(s, word, err);
}

status ascend_spec_parse(const char *text, ascend_spec *s, error *err) {
    *s = (ascend_spec){
        .cann = "9.1", .tile = DEFAULT_TILE, .exact = true, .pieces = true, .wide_head = true, .timeout_ms = 60000};
    str all = str_from(text);
    s->emulated = str_starts(all, STR("emu:"));
    if (!s->emulated && !str_starts(all, STR("ascend:")))
        return error_set(
            err, STATUS_BAD_ARGUMENT,
            "--device %s: a device is cpu, ascend:N, or emu:CHIP (such as emu:910B3); docs/ascend.md lists the chips",
            text);
    size_t at = s->emulated ? 4 : 7;
    for (bool first = true; at <= all.len; first = false) {
        ptrdiff_t end = str_find(all, STR(","), at);
        str word = {all.data + at, (end < 0 ? all.len : (size_t)end) - at};
        at += word.len + 1;
        if (!first) {
            TRY(parse_word(s, word, err));
        } else if (s->emulated) {
            if (word.len == 0)
                return error_set(err, STATUS_BAD_ARGUMENT, "--device emu: names no chip; emu:910B3 is one");
            TRY(pass_on(s, word, err));
        } else {
            char *stop;
            long n = strtol(word.data, &stop, 10);
            if (word.len == 0 || stop != word.data + word.len || n < 0 || n > 4095)
                return error_set(err, STATUS_BAD_ARGUMENT, "--device %s: the device is a number, as in ascend:0", text);
            s->device = (int)n;
        }
    }
    return STATUS_OK;
}

status ascend_spec_set(ascend_spec *s, const char *key, const char *value, error *err) {
    char word[64];
    if (!value) return STATUS_OK;
    snprintf(word, sizeof word, "%s=%s", key, value);
    return parse_word(s, str_from(word), err);
}
