#include "emulator/core/fail.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "emulator/core/recent.h"
#include "emulator/core/settings.h"
#include "emulator/core/state.h"
#include "emulator/core/tally_emu.h"

static const struct {
    const char *id;
    int code;
    const char *text;
} rules[] = {
#define EMU_RULE_ROW(id, code, text) {#id, code, text},
    EMU_RULES(EMU_RULE_ROW)
#undef EMU_RULE_ROW
};

const char *emu_rule_id(emu_rule rule) { return rules[rule].id; }
const char *emu_rule_text(emu_rule rule) { return rules[rule].text; }
int emu_rule_code(emu_rule rule) { return rules[rule].code; }

enum { TEXT = EMU_RECENT_MAX };

// What a thread is doing and what went wrong last.
typedef struct thread_report {
    char recent[TEXT], given[TEXT]; // the recent message; the one last handed out
    const char *rule;
    const char *call;
    char args[256];
    uint64_t began;
    int depth;
    bool counted;
} thread_report;

static thread_report *report(void) {
    static _Thread_local thread_report r;
    return &r;
}

static struct {
    FILE *file;
    uint64_t began;
} trace;

void emu_lock(void) { pthread_mutex_lock(&emu()->lock); }
void emu_unlock(void) { pthread_mutex_unlock(&emu()->lock); }

bool emu_tracing(void) { return trace.file != NULL; }

void emu_trace_open(const char *path) {
    if (trace.file) fclose(trace.file);
    trace.file = *path ? fopen(path, "w") : NULL;
    if (trace.file) setvbuf(trace.file, NULL, _IOLBF, 0);
    trace.began = emu_now_ns();
}

static void vtrace(const char *format, va_list args) {
    if (!trace.file) return;
    fprintf(trace.file, "%12.6f t%" PRIu64 " ", (double)(emu_now_ns() - trace.began) * 1e-9, emu_self()->id);
    vfprintf(trace.file, format, args);
    fputc('\n', trace.file);
}

void emu_trace(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vtrace(format, args);
    va_end(args);
}

void emu_enter(const char *call, const char *format, ...) {
    emu_lock();
    emu_settings_ready();
    thread_report *r = report();
    if (r->depth++) return;
    r->counted = false;
    r->call = call;
    r->began = emu_now_ns();
    if (!emu_tracing()) return;
    va_list args;
    va_start(args, format);
    vsnprintf(r->args, sizeof r->args, format, args);
    va_end(args);
}

int emu_leave(int code) {
    thread_report *r = report();
    if (--r->depth == 0 && emu_tracing()) {
        emu_trace("%s(%s) = %d %.1f us%s%s", r->call, r->args, code, (double)(emu_now_ns() - r->began) * 1e-3,
                  code ? " " : "", code ? r->recent : "");
    }
    if (r->depth == 0) r->call = NULL;
    emu_unlock();
    return code;
}

bool emu_call_counts(void) {
    thread_report *r = report();
    bool first = r->depth && !r->counted;
    r->counted = true;
    return first;
}

// The letters the vendor's libraries begin their messages with.
static const char *family(int code) {
    if (code == ACLNN_ERR_INNER_TILING_ERROR) return "E89999";
    if (code / 1000 == 161) return "EZ1001";
    if (code / 1000 == 561 || code / 1000 == 361) return "EZ9999";
    if (code / 1000 == 107) return "EE1001";
    if (code / 1000 == 207 || code / 1000 == 507) return "EE9999";
    return "EH9999";
}

int emu_vfail_as(int code, emu_rule rule, const char *format, va_list args) {
    thread_report *r = report();
    emu_state *s = emu();
    s->broken[rule]++;
    r->rule = rules[rule].id;
    int n = snprintf(r->recent, TEXT, "%s: %s%s", family(code), r->call ? r->call : "", r->call ? ": " : "");
    n += vsnprintf(r->recent + n, (size_t)(TEXT - n), format, args);
    if (n < TEXT) snprintf(r->recent + n, (size_t)(TEXT - n), " [%d, rule %s]", code, rules[rule].id);
    if (emu_tracing()) emu_trace("  broken %s: %s", rules[rule].id, r->recent);
    return code;
}

int emu_fail_as(int code, emu_rule rule, const char *format, ...) {
    va_list args;
    va_start(args, format);
    emu_vfail_as(code, rule, format, args);
    va_end(args);
    return code;
}

int emu_fail(emu_rule rule, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int code = emu_vfail_as(rules[rule].code, rule, format, args);
    va_end(args);
    return code;
}

const char *aclGetRecentErrMsg(void) {
    thread_report *r = report();
    memcpy(r->given, r->recent, TEXT);
    r->recent[0] = '\0';
    return r->given;
}

const char *tally_emu_last_rule(void) { return report()->rule ? report()->rule : ""; }

int tally_emu_rule_count(const char *id) {
    int n = -1;
    emu_lock();
    for (int i = 0; i < EMU_RULE_COUNT; i++) {
        if (strcmp(id, rules[i].id) == 0) n = (int)emu()->broken[i];
    }
    emu_unlock();
    return n;
}

void emu_report_forget(void) {
    thread_report *r = report();
    r->recent[0] = '\0';
    r->rule = NULL;
}

void emu_recent_get(emu_recent *out) {
    memcpy(out->text, report()->recent, TEXT);
    out->rule = report()->rule;
}

void emu_recent_set(const emu_recent *r) {
    memcpy(report()->recent, r->text, TEXT);
    report()->rule = r->rule;
}
