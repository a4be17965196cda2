#include "emulator/core/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/aclnn/executor.h"
#include "emulator/core/graph.h"
#include "emulator/core/memory.h"
#include "emulator/core/stream.h"
#include "emulator/core/state.h"
#include "emulator/core/tally_emu.h"
#include "emulator/core/task.h"
#include "emulator/core/workers.h"

static char *settings_why(void) {
    static char why[200];
    return why;
}

static void apply(const emu_config *c, bool running) {
    emu_state *s = emu();
    bool traced = strcmp(s->config.trace, c->trace) != 0;
    s->config = *c;
    s->n_call = s->n_alloc = s->n_phase1 = s->n_launch = s->n_op = s->n_sync = 0;
    if (traced || (!running && c->trace[0])) emu_trace_open(c->trace);
    s->random = c->seed;
    if (running) return;
    s->chip = c->chip;
    s->cann = c->cann >= 0 ? (emu_cann)c->cann : s->loaded >= 0 ? (emu_cann)s->loaded : EMU_CANN_9_1;
    s->configured = true;
}

static bool configure(const char *line) {
    emu_state *s = emu();
    emu_config c = s->config;
    if (!s->configured) emu_config_default(&c);
    settings_why()[0] = '\0';
    bool ok = emu_config_parse(&c, line, s->configured, settings_why());
    if (ok || !s->configured) apply(&c, s->configured);
    return ok;
}

void emu_settings_ready(void) {
    if (emu()->configured) return;
    const char *line = emu_config_environment();
    configure(line ? line : "");
}

int emu_settings_error(void) {
    emu_state *s = emu();
    if (settings_why()[0]) return emu_fail(EMU_RULE_settings, "TALLY_EMU: %s", settings_why());
    if (s->config.cann < 0 || s->loaded < 0 || s->config.cann == s->loaded) return 0;
    return emu_fail(
        EMU_RULE_settings,
        "the settings ask for cann=%s, but the libraries loaded are those of %s; load them from the folder %s",
        emu_cann_name((emu_cann)s->config.cann), emu_cann_name((emu_cann)s->loaded),
        emu_cann_name((emu_cann)s->config.cann));
}

int tally_emu_configure(const char *settings) {
    emu_lock();
    bool first = !emu()->configured, ok = configure(settings);
    if (first && emu()->configured) emu()->by_call = true;
    if (!ok) {
        emu_fail(EMU_RULE_settings, "%s", settings_why());
        settings_why()[0] = '\0';
    }
    emu_unlock();
    return ok ? 0 : -1;
}

int tally_emu_configured(void) { return emu()->configured + emu()->by_call; }

void tally_emu_loaded(const char *version);
void tally_emu_loaded(const char *version) {
    emu_lock();
    emu()->loaded = emu_cann_find(version);
    emu_unlock();
}

int tally_emu_live_objects(char *kinds, size_t size) {
    int n = 0;
    size_t at = 0;
    emu_lock();
    if (size) kinds[0] = '\0';
    for (int k = 0; k < EMU_KIND_COUNT; k++) {
        int live = emu()->live[k];
        n += live;
        if (!live || at >= size) continue;
        at += (size_t)snprintf(kinds + at, size - at, "%s%d %s", at ? ", " : "", live, emu_kind_name((emu_kind)k));
    }
    emu_unlock();
    return n;
}

uint64_t tally_emu_launches(void) { return emu()->launches; }
uint64_t tally_emu_executions(void) { return emu()->executions; }

static void forget_executor(void *e) { emu_body_drop(((aclOpExecutor *)e)->body); }
static void forget_event(void *e) { emu_mark_drop(((emu_event *)e)->mark); }

static void forget_graph(void *g) {
    ((emu_graph *)g)->references = 1;
    emu_graph_drop(g);
}

void tally_emu_reset(void) {
    emu_lock();
    emu_state *s = emu();
    emu_streams_forget();
    emu_captures_forget();
    emu_object_each(EMU_GRAPH, forget_graph);
    emu_object_each(EMU_EVENT, forget_event);
    emu_object_each(EMU_EXECUTOR, forget_executor);
    emu_memory_forget();
    emu_objects_forget();
    emu_workers_stop();
    emu_trace_open("");
    emu_report_forget();
    emu_clock_free(&s->host);
    free(s->streams);
    free(s->slot_base);
    emu_state fresh = {.lock = s->lock, .changed = s->changed, .loaded = s->loaded, .epoch = s->epoch + 1};
    memcpy((char *)s + sizeof s->lock + sizeof s->changed, (char *)&fresh + sizeof s->lock + sizeof s->changed,
           sizeof fresh - sizeof s->lock - sizeof s->changed);
    settings_why()[0] = '\0';
    emu_unlock();
}
