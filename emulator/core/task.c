#include "emulator/core/task.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "emulator/aclnn/executor.h"
#include "emulator/core/graph.h"
#include "emulator/core/memory.h"
#include "emulator/core/recent.h"
#include "emulator/core/stream.h"

emu_text emu_task_text(const emu_task *t) {
    static const char *const kinds[] = {"an operator",     "a copy",         "a memset",
                                        "an event record", "an event wait",  "an event reset",
                                        "a graph",         "a graph update", "a callback"};
    emu_text out;
    const char *name = t->kind == EMU_TASK_LAUNCH ? emu_launch_name(t->launch) : kinds[t->kind];
    snprintf(out.text, sizeof out.text, "%s (task %" PRIu64 " of stream %d)", name, t->number,
             t->stream ? t->stream->id : -1);
    return out;
}

emu_task *emu_task_create(emu_stream *s, emu_task_kind kind, int max_ranges) {
    emu_task *t = calloc(1, sizeof *t + (size_t)max_ranges * sizeof(emu_range));
    if (!t) {
        emu_fail(EMU_RULE_out_of_memory, "the machine that emulates has no memory for a task");
        return NULL;
    }
    t->kind = kind;
    t->stream = s;
    t->device = s ? s->context->device : 0;
    t->ranges = (emu_range *)(t + 1);
    return t;
}

void emu_task_range(emu_task *t, uint64_t start, uint64_t size, int access, const char *what) {
    t->ranges[t->n_ranges++] = (emu_range){
        .lo = start, .hi = start + size, .width = size, .pitch = size, .access = (unsigned char)access, .what = what};
}

void emu_task_free(emu_task *t) {
    if (!t) return;
    if (t->kind == EMU_TASK_WAIT && !t->done && t->event) t->event->waits--;
    if (t->kind == EMU_TASK_COPY && t->user) free(t->user); // staged host bytes
    emu_launch_drop(t->launch);
    emu_mark_drop(t->mark);
    if (t->graph) emu_graph_drop(t->graph);
    emu_clock_free(&t->clock);
    free(t);
}

static uint64_t first_row_after(const emu_range *r, uint64_t address) { // whose end is behind the address
    if (address < r->lo + r->width) return r->lo;
    return r->lo + ((address - r->lo - r->width) / r->pitch + 1) * r->pitch;
}

// Whether rows of two ranges share a byte. Rows lie in order of address, so the two lists are walked like lists to be merged; what
// would take too many steps counts as shared.
static bool overlap(const emu_range *a, const emu_range *b) {
    if (a->lo >= b->hi || b->lo >= a->hi) return false;
    uint64_t from = a->lo > b->lo ? a->lo : b->lo;
    uint64_t x = first_row_after(a, from), y = first_row_after(b, from);
    for (int steps = 0; x < a->hi && y < b->hi; steps++) {
        if ((x < y + b->width && y < x + a->width) || steps == 65536) return true;
        if (x + a->width <= y) {
            x = first_row_after(a, y);
        } else {
            y = first_row_after(b, x);
        }
    }
    return false;
}

static bool conflict(const emu_range *a, const emu_range *b) {
    return ((a->access | b->access) & EMU_WRITES) && a->host == b->host && overlap(a, b);
}

// A graph's ranges are those of its nodes.
static bool one_against(const emu_range *r, const emu_task *t, const char **what) {
    for (int i = 0; i < t->n_ranges; i++) {
        if (conflict(r, &t->ranges[i])) return *what = t->ranges[i].what, true;
    }
    if (t->kind != EMU_TASK_GRAPH) return false;
    for (int n = 0; n < emu_graph_n_nodes(t->graph); n++) {
        if (one_against(r, emu_graph_node(t->graph, n), what)) return true;
    }
    return false;
}

bool emu_ranges_conflict(const emu_task *a, const emu_task *b, const char **what) {
    if (a->unclear || b->unclear) return false;
    for (int i = 0; i < a->n_ranges; i++) {
        if (one_against(&a->ranges[i], b, what)) return true;
    }
    if (a->kind != EMU_TASK_GRAPH) return false;
    for (int n = 0; n < emu_graph_n_nodes(a->graph); n++) {
        if (emu_ranges_conflict(emu_graph_node(a->graph, n), b, what)) return true;
    }
    return false;
}

const emu_task *emu_in_flight(uint64_t lo, uint64_t hi, int access, bool host) {
    emu_range r = {
        .lo = lo, .hi = hi, .width = hi - lo, .pitch = hi - lo, .access = (unsigned char)access, .host = host};
    const emu_state *s = emu();
    const char *what;
    for (int i = 0; i < s->n_slots; i++) {
        for (const emu_task *t = s->streams[i] ? s->streams[i]->first : NULL; t; t = t->link) {
            if (t->number > emu_clock_get(&s->host, i) && one_against(&r, t, &what)) return t;
        }
    }
    return NULL;
}

static int check_races(const emu_task *t, const emu_clock *clock) {
    const emu_state *s = emu();
    const char *what = "";
    for (int i = 0; i < s->n_slots; i++) {
        const emu_stream *q = s->streams[i];
        if (!q || q == t->stream || !q->last || q->last->number <= emu_clock_get(clock, i)) continue;
        for (const emu_task *u = q->first; u; u = u->link) {
            if (u->number <= emu_clock_get(clock, i) || !emu_ranges_conflict(t, u, &what)) continue;
            bool update = t->kind == EMU_TASK_UPDATE || u->kind == EMU_TASK_UPDATE;
            return emu_hazard(update ? EMU_RULE_update_race : EMU_RULE_race,
                              "%s of stream %d and %s use %s, and no event orders them", emu_task_text(t).text,
                              t->stream->id, emu_task_text(u).text, what ? what : "the same memory");
        }
    }
    return 0;
}

// A wait of which the order is not known yet: for what is not recorded, or was recorded where something was unclear.
static bool awaits(const emu_task *t) {
    return t->kind == EMU_TASK_WAIT && !t->done && (!t->mark->submitted || t->mark->unclear);
}

// The stream's clock is whole again when everything it waits for has been recorded. (Waits that ran have told, by run_wait.)
static bool clear_up(emu_stream *s) {
    if (!s->unclear) return true;
    for (const emu_task *t = s->next; t; t = t->link) {
        if (awaits(t)) return true;
    }
    s->unclear = false;
    bool ok = true;
    for (const emu_task *t = s->next; t && ok; t = t->link) {
        if (t->kind == EMU_TASK_WAIT) ok = emu_clock_join(&s->clock, &t->mark->clock);
    }
    return ok;
}

static int queue(emu_task *t) {
    emu_stream *s = t->stream;
    emu_clock *c = &t->clock;
    bool ok = clear_up(s);
    t->number = s->submitted + 1;
    t->unclear |= s->unclear || awaits(t);
    ok = ok && emu_clock_join(c, &s->clock) && emu_clock_join(c, &emu()->host);
    if (t->kind == EMU_TASK_WAIT && t->mark->submitted) ok = ok && emu_clock_join(c, &t->mark->clock);
    ok = ok && emu_clock_set(c, s->slot, t->number);
    if (t->kind == EMU_TASK_RECORD) ok = ok && emu_clock_join(&t->mark->clock, c);
    ok = ok && emu_clock_join(&s->clock, c);
    if (!ok) {
        emu_task_free(t);
        return emu_fail(EMU_RULE_out_of_memory, "the machine that emulates has no memory for a task");
    }
    int code = check_races(t, c);
    if (code) {
        emu_task_free(t);
        return code;
    }
    if (awaits(t)) s->unclear = true;
    if (t->kind == EMU_TASK_RECORD) {
        t->mark->submitted = true;
        t->mark->unclear = t->unclear;
        t->mark->slot = s->slot;
        t->mark->number = t->number;
        t->mark->stream_id = s->id;
    }
    s->submitted = t->number;
    t->order = ++emu()->order;
    if (s->last) {
        s->last->link = t;
    } else {
        s->first = t;
    }
    s->last = t;
    if (!s->next) s->next = t;
    pthread_cond_broadcast(&emu()->changed);
    emu_some_progress(false);
    return 0;
}

int emu_task_submit(emu_task *t) {
    emu_stream *s = t->stream;
    if (s->capture) return emu_capture_record(t);
    return queue(t);
}

// ---- running ----
static int run_copy(const emu_task *t) {
    const emu_copy *c = &t->copy;
    int device = t->device, code;
    for (size_t row = 0; row < c->height; row++) {
        const unsigned char *src = (const unsigned char *)c->src + row * c->spitch;
        unsigned char *dst = (unsigned char *)c->dst + row * c->dpitch;
        if (c->src_device) {
            if ((code = emu_range_need((uint64_t)(uintptr_t)src, c->width, device, "source of a copy"))) return code;
            src = emu_reach((uint64_t)(uintptr_t)src);
        }
        if (c->dst_device) {
            if ((code = emu_range_need((uint64_t)(uintptr_t)dst, c->width, device, "destination of a copy")))
                return code;
            dst = emu_reach((uint64_t)(uintptr_t)dst);
        }
        memmove(dst, src, c->width);
    }
    return 0;
}

static int run_set(const emu_task *t) {
    int code = emu_range_need((uint64_t)(uintptr_t)t->set.dst, t->set.count, t->device, "memset");
    if (code) return code;
    memset(emu_reach((uint64_t)(uintptr_t)t->set.dst), t->set.value, t->set.count);
    return 0;
}

static int run_launch(emu_task *t) {
    emu_state *s = emu();
    s->executions++;
    s->n_op++;
    if (s->n_op == s->config.fail_op) {
        return emu_fail_as(ACL_ERROR_RT_AICORE_EXCEPTION, EMU_RULE_injected,
                           "injected: %s, operator %" PRIu64 " that runs, fails", emu_launch_name(t->launch), s->n_op);
    }
    return emu_launch_run(t->launch, t->device);
}

// What a wait did not know when it was queued it knows now, and so does all that comes behind it.
static int run_wait(emu_task *t) {
    if (t->event) t->event->waits--;
    if (!t->unclear) return 0;
    const emu_clock *c = &t->mark->clock;
    bool ok = emu_clock_join(&t->stream->clock, c);
    for (emu_task *u = t; u && ok; u = u->link) {
        ok = emu_clock_join(&u->clock, c);
        if (u->kind == EMU_TASK_RECORD) ok = ok && emu_clock_join(&u->mark->clock, c);
    }
    return ok ? 0 : emu_fail(EMU_RULE_out_of_memory, "the machine that emulates has no memory for a task");
}

int emu_task_run(emu_task *t) {
    switch (t->kind) {
    case EMU_TASK_LAUNCH: return run_launch(t);
    case EMU_TASK_COPY: return run_copy(t);
    case EMU_TASK_SET: return run_set(t);
    case EMU_TASK_RECORD:
        t->mark->done = true;
        t->mark->unclear = false;
        t->mark->ns = emu_now_ns();
        return 0;
    case EMU_TASK_WAIT: return run_wait(t);
    case EMU_TASK_RESET: return 0;
    case EMU_TASK_GRAPH: return emu_graph_run(t->graph, &t->hangs);
    case EMU_TASK_UPDATE: return emu_group_apply(t);
    case EMU_TASK_CALLBACK: t->callback(t->user); return 0;
    }
    return 0;
}

static bool ready(const emu_task *t) {
    if (t->hangs) return false;
    if (t->kind == EMU_TASK_WAIT) return t->mark->done;
    if (t->kind == EMU_TASK_GRAPH) return emu_graph_ready(t->graph);
    return !(t->kind == EMU_TASK_CALLBACK && t->by_report && !t->reported);
}

static void failed(emu_stream *s, int code) {
    if (s->error) return;
    s->error = code;
    emu_recent_get(&s->error_report);
    if (s->context->stop_on_failure) s->context->stopped = code;
}

static void finish(emu_stream *s, emu_task *t) {
    t->done = true;
    s->executed = t->number;
    s->next = t->link;
}

bool emu_op_hangs(void) {
    emu_state *s = emu();
    if (!s->config.hang || s->n_op + 1 != s->config.hang) return false;
    s->n_op++;
    return true;
}

static void run_next(emu_stream *s) {
    emu_task *t = s->next;
    if (t->kind == EMU_TASK_LAUNCH && emu_op_hangs()) {
        t->hangs = true;
        return;
    }
    emu_recent kept;
    emu_recent_get(&kept);
    uint64_t began = emu_tracing() ? emu_now_ns() : 0;
    int code = emu_task_run(t);
    if (emu_tracing())
        emu_trace("  ran %s = %d %.1f us", emu_task_text(t).text, code, (double)(emu_now_ns() - began) * 1e-3);
    if (!t->hangs) finish(s, t);
    if (code) failed(s, code);
    emu_recent_set(&kept);
}

// A stream whose next task may run, by the seed; NULL: none.
static emu_stream *pick(void) {
    const emu_state *s = emu();
    emu_stream *chosen = NULL;
    uint64_t n = 0;
    for (int i = 0; i < s->n_slots; i++) {
        emu_stream *q = s->streams[i];
        if (!q || !q->next || emu()->device[q->context->device].lost || !ready(q->next)) continue;
        n++;
        if (n == 1 || emu_random(n) == 0) chosen = q;
    }
    return chosen;
}

int emu_hazard(emu_rule rule, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int code = emu_vfail_as(emu_rule_code(rule), rule, format, args);
    va_end(args);
    if (!emu()->config.lenient) return code;
    for (emu_stream *s; (s = pick());) run_next(s);
    return 0;
}

void emu_some_progress(bool at_least_one) {
    uint64_t n = at_least_one;
    emu_order order = emu()->config.order;
    if (order == EMU_ORDER_EAGER) n = UINT64_MAX;
    if (order == EMU_ORDER_RANDOM && emu_random(4) == 0) n += emu_random(8);
    for (emu_stream *s; n && (s = pick()); n--) run_next(s);
}

// ---- waiting ----
static void retire(void) {
    const emu_state *s = emu();
    for (int i = 0; i < s->n_slots; i++) {
        emu_stream *q = s->streams[i];
        while (q && q->first && q->first->done && q->first->number <= emu_clock_get(&s->host, i)) {
            emu_task *t = q->first;
            q->first = t->link;
            if (!q->first) q->last = NULL;
            emu_task_free(t);
        }
    }
}

void emu_host_knows(const emu_clock *c) {
    emu_clock_join(&emu()->host, c);
    retire();
}

// Waits for another thread to submit something; false when the time (ns, absolute) is over.
static bool wait_for_change(uint64_t until) {
    uint64_t now = emu_now_ns();
    if (now >= until) return false;
    uint64_t step = until - now > 20000000u ? 20000000u : until - now;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t ns = (uint64_t)t.tv_nsec + step;
    t.tv_sec += (time_t)(ns / 1000000000u);
    t.tv_nsec = (long)(ns % 1000000000u);
    pthread_cond_timedwait(&emu()->changed, &emu()->lock, &t);
    return true;
}

static int stuck(emu_stream *s, int ms, int code) {
    emu_task *t = s ? s->next : NULL;
    if (t && t->hangs && ms < 0) { // the watchdog ends the kernel
        t->hangs = false;
        emu_fail_as(ACL_ERROR_RT_AICORE_TIMEOUT, EMU_RULE_injected, "injected: %s hung and was given up after %d ms",
                    emu_task_text(t).text, emu()->config.watchdog_ms);
        finish(s, t);
        failed(s, ACL_ERROR_RT_AICORE_TIMEOUT);
        return 0;
    }
    if (t && t->hangs)
        return emu_fail_as(code, EMU_RULE_timeout, "%s did not end within %d ms", emu_task_text(t).text, ms);
    if (t && t->kind == EMU_TASK_WAIT) {
        return emu_fail_as(code, EMU_RULE_deadlock, "%s waits for an event that nothing queued will record",
                           emu_task_text(t).text);
    }
    return emu_fail_as(code, EMU_RULE_timeout, "%s did not end within %d ms", t ? emu_task_text(t).text : "work",
                       ms < 0 ? emu()->config.watchdog_ms : ms);
}

static uint64_t deadline(int ms) {
    return emu_now_ns() + (uint64_t)(ms < 0 ? emu()->config.watchdog_ms : ms) * 1000000u;
}

// Runs tasks until the stream has run number. Returns 0 or the code of a timeout.
static int drain(emu_stream *s, uint64_t number, int ms) {
    uint64_t until = deadline(ms);
    while (s->executed < number) {
        emu_stream *q = pick();
        if (q) {
            run_next(q);
        } else if (!wait_for_change(until)) {
            int code = stuck(s, ms, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
            if (code) return code;
            until = deadline(ms);
        }
    }
    return 0;
}

int emu_stream_take_error(emu_stream *s) {
    int code = s->error;
    if (code) emu_recent_set(&s->error_report);
    s->error = 0;
    return code;
}

static int lose(int device) {
    emu_device_lose(device);
    return emu_fail(EMU_RULE_device_lost, "injected: device %d was lost", device);
}

int emu_wait_stream(emu_stream *s, int ms) {
    if (emu_inject(&emu()->n_sync, emu()->config.lost)) return lose(s->context->device);
    int code = drain(s, s->submitted, ms);
    if (code) return code;
    emu_host_knows(&s->clock);
    return emu_stream_take_error(s);
}

int emu_wait_all(int ms) {
    int code;
    const emu_context *c = emu_need_device(&code);
    if (!c) return code;
    if (emu_inject(&emu()->n_sync, emu()->config.lost)) return lose(c->device);
    int found = 0;
    emu_recent first;
    for (int i = 0; i < emu()->n_slots; i++) {
        emu_stream *s = emu()->streams[i];
        if (!s || s->context->device != c->device || s->capture) continue;
        if ((code = drain(s, s->submitted, ms))) return code;
        emu_host_knows(&s->clock);
        if ((code = emu_stream_take_error(s)) && !found) {
            found = code;
            emu_recent_get(&first);
        }
    }
    if (found) emu_recent_set(&first);
    return found;
}

int emu_wait_mark(emu_mark *m, int ms) {
    uint64_t until = deadline(ms);
    while (!m->done) {
        emu_stream *q = pick();
        if (q) {
            run_next(q);
        } else if (!wait_for_change(until)) {
            emu_stream *s = m->submitted && m->slot < emu()->n_slots ? emu()->streams[m->slot] : NULL;
            int code = stuck(s, ms, ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
            if (code) return code;
            until = deadline(ms);
        }
    }
    emu_host_knows(&m->clock);
    return 0;
}

emu_mark *emu_mark_create(void) {
    emu_mark *m = calloc(1, sizeof *m);
    if (!m) {
        emu_fail(EMU_RULE_out_of_memory, "the machine that emulates has no memory for an event");
        return NULL;
    }
    m->references = 1;
    return m;
}

void emu_mark_drop(emu_mark *m) {
    if (!m || --m->references) return;
    emu_clock_free(&m->clock);
    free(m);
}
