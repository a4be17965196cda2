// Capture of streams into graphs, and the older way of building them by binding streams.
#include <inttypes.h>
#include <stdlib.h>

#include "emulator/core/graph.h"
#include "emulator/core/task.h"

void emu_capture_invalidate(const emu_capture *c) {
    for (emu_capture *a = emu()->captures; a; a = a->next) {
        if (a == c) a->invalid = true;
    }
}

static bool is_active(const emu_capture *c) {
    for (const emu_capture *a = emu()->captures; a; a = a->next) {
        if (a == c) return true;
    }
    return false;
}

int emu_capture_refuse(const emu_stream *s, emu_rule rule, const char *text) {
    s->capture->invalid = true;
    return emu_fail(rule, "stream %d is captured: %s", s->id, text);
}

int emu_capture_forbids_stream(emu_stream *s) {
    return s->capture ? emu_capture_refuse(s, EMU_RULE_capture_sync, "it can be neither synchronised nor queried") : 0;
}

int emu_capture_forbids_device(int device) {
    for (emu_capture *c = emu()->captures; c; c = c->next) {
        if (c->build || c->graph->device != device) continue;
        c->invalid = true;
        return emu_fail(EMU_RULE_capture_sync, "device %d is synchronised while stream %d is captured", device,
                        c->origin->id);
    }
    return 0;
}

int emu_capture_forbids_unsafe(const char *what) {
    const emu_thread *self = emu_self();
    for (emu_capture *c = emu()->captures; c; c = c->next) {
        bool own = c->thread == self->id;
        if (c->build || c->mode == ACL_MODEL_RI_CAPTURE_MODE_RELAXED ||
            self->capture_mode == ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
            continue;
        bool global =
            c->mode == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL && self->capture_mode == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
        if (!own && !global) continue;
        c->invalid = true;
        return emu_fail(EMU_RULE_capture_unsafe, "%s while stream %d is captured in %s mode", what, c->origin->id,
                        c->mode == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL ? "global" : "thread-local");
    }
    return 0;
}

// ---- recording ----
static int lane_index(const emu_graph *g, const emu_lane *l) { return (int)(l - g->lanes); }

// The lane of a stream that takes another task.
static emu_lane *open_lane(emu_stream *s, int *code) {
    emu_capture *c = s->capture;
    *code = 0;
    if (c->invalid) {
        *code = emu_fail(EMU_RULE_capture_invalidated,
                         "the capture of stream %d was invalidated by a call that was refused", s->id);
        return NULL;
    }
    emu_lane *l = emu_graph_lane(c->graph, s);
    if (!l) {
        *code = emu_fail(EMU_RULE_out_of_memory, "no memory for a capture");
    } else if (l->ended) {
        *code = emu_fail(EMU_RULE_graph_state, "a task comes after aclmdlRIEndTask on stream %d", s->id);
    } else if (l->rejoined) {
        *code = emu_capture_refuse(s, EMU_RULE_capture_after_join,
                                   "a task is issued on it after it came back to the origin");
    }
    return *code ? NULL : l;
}

static int check_races(const emu_graph *g, const emu_task *t) {
    const char *what = "";
    for (int i = 0; i < g->n_nodes; i++) {
        const emu_task *u = g->nodes[i];
        if (u->lane == t->lane || u->number <= emu_clock_get(&t->clock, u->lane) || !emu_ranges_conflict(t, u, &what))
            continue;
        return emu_fail(EMU_RULE_race,
                        "%s and an earlier task of the captured stream %d use %s, and no event orders them",
                        emu_task_text(t).text, g->lanes[u->lane].stream_id, what ? what : "the same memory");
    }
    return 0;
}

int emu_capture_record(emu_task *t) {
    emu_stream *s = t->stream;
    int code = 0;
    emu_lane *l = open_lane(s, &code);
    if (l && t->kind == EMU_TASK_CALLBACK)
        code = emu_capture_refuse(s, EMU_RULE_capture_task, "a callback cannot be replayed");
    if (l && s->group && t->kind != EMU_TASK_LAUNCH)
        code = emu_capture_refuse(s, EMU_RULE_capture_task, "a task group holds operators only");
    if (code) {
        emu_task_free(t);
        return code;
    }
    emu_graph *g = s->capture->graph;
    t->lane = lane_index(g, l);
    t->number = l->n + 1;
    if (!emu_clock_set(&l->clock, t->lane, t->number) || !emu_clock_join(&t->clock, &l->clock)) {
        code = emu_fail(EMU_RULE_out_of_memory, "no memory for a capture");
    }
    if (!code && (code = check_races(g, t))) s->capture->invalid = true;
    t->stream = NULL;
    if (!code && !emu_graph_add(g, t)) code = emu_fail(EMU_RULE_out_of_memory, "no memory for a capture");
    if (code) {
        emu_task_free(t);
        return code;
    }
    l->n++;
    return 0;
}

static int outside_event(emu_stream *s, emu_event *e, emu_task_kind kind) {
    emu_task *t = emu_task_create(s, kind, 0);
    if (!t) return ACL_ERROR_RT_MEMORY_ALLOCATION;
    t->event = e;
    t->done = true; // its event counts no waits of graphs
    if (kind == EMU_TASK_WAIT) s->capture->graph->waits_outside = true;
    return emu_capture_record(t);
}

static int record_inside(emu_stream *s, emu_event *e) {
    int code;
    emu_lane *l = open_lane(s, &code);
    emu_mark *m = l ? emu_mark_create() : NULL;
    if (!m) return l ? ACL_ERROR_RT_MEMORY_ALLOCATION : code;
    m->submitted = m->captured = true;
    m->capture = s->capture;
    m->slot = lane_index(s->capture->graph, l);
    m->number = l->n;
    emu_mark_drop(e->mark);
    e->mark = m;
    return emu_clock_join(&m->clock, &l->clock) ? 0 : emu_fail(EMU_RULE_out_of_memory, "no memory for a capture");
}

static int join(emu_stream *s, const emu_event *e) {
    emu_capture *c = e->mark->capture;
    if (!is_active(c)) return emu_fail(EMU_RULE_capture_event, "the event was recorded in a capture that has ended");
    if (c->invalid) return emu_fail(EMU_RULE_capture_invalidated, "the capture of the event was invalidated");
    if (s->is_default) {
        c->invalid = true;
        return emu_fail(EMU_RULE_capture_default_stream, "the default stream waits for an event of a capture");
    }
    if (s->context->device != c->graph->device)
        return emu_fail(EMU_RULE_wrong_context, "the capture is of another device");
    emu_lane *l = emu_graph_lane(c->graph, s);
    if (!l || !emu_clock_join(&l->clock, &e->mark->clock))
        return emu_fail(EMU_RULE_out_of_memory, "no memory for a capture");
    l->rejoined = false;
    s->capture = c;
    return 0;
}

static int wait_inside(emu_stream *s, const emu_event *e) {
    if (!s->capture) return join(s, e);
    emu_capture *c = s->capture;
    if (!e->mark || !e->mark->captured) {
        return emu_capture_refuse(s, EMU_RULE_capture_dependency,
                                  "it waits for an event that was not recorded in the capture");
    }
    if (e->mark->capture != c) {
        return emu_capture_refuse(s, is_active(e->mark->capture) ? EMU_RULE_capture_conflict : EMU_RULE_capture_event,
                                  "it waits for an event of another capture");
    }
    if (c->invalid) return emu_fail(EMU_RULE_capture_invalidated, "the capture of stream %d was invalidated", s->id);
    emu_graph *g = c->graph;
    emu_lane *l = emu_graph_lane(g, s);
    if (!l || !emu_clock_join(&l->clock, &e->mark->clock))
        return emu_fail(EMU_RULE_out_of_memory, "no memory for a capture");
    l->rejoined = false; // it was forked again
    emu_lane *from = &g->lanes[e->mark->slot];
    if (s == c->origin && from != l && e->mark->number == from->n) from->rejoined = true;
    return 0;
}

int emu_capture_event(emu_stream *s, emu_event *e, emu_task_kind kind) {
    if (e->external && s->capture) return outside_event(s, e, kind);
    if (kind == EMU_TASK_RECORD) return record_inside(s, e);
    if (kind == EMU_TASK_WAIT) return wait_inside(s, e);
    return emu_capture_refuse(s, EMU_RULE_capture_task, "only external events are reset in a capture");
}

// ---- begin and end ----
static void release(emu_capture *c) {
    for (int i = 0; i < c->graph->n_lanes; i++) {
        emu_stream *s = c->graph->lanes[i].stream;
        if (s && s->capture == c) {
            s->capture = NULL;
            if (s->group) emu_object_destroy(s->group);
            s->group = NULL;
        }
        c->graph->lanes[i].stream = NULL;
    }
    for (emu_capture **p = &emu()->captures; *p; p = &(*p)->next) {
        if (*p != c) continue;
        *p = c->next;
        break;
    }
    free(c);
}

static void give_up(emu_capture *c) {
    emu_graph *g = c->graph;
    release(c);
    g->alive = false;
    emu_graph_drop(g);
}

void emu_capture_forget_stream(emu_stream *s) {
    emu_capture *c = s->capture;
    if (!c) return;
    c->invalid = true;
    if (c->origin == s) {
        give_up(c);
        return;
    }
    emu_lane *l = emu_graph_lane(c->graph, s);
    if (l) l->stream = NULL;
    s->capture = NULL;
}

void emu_captures_forget(void) {
    while (emu()->captures) give_up(emu()->captures);
}

static emu_capture *start(emu_stream *s, int device, int *code) {
    emu_capture *c = calloc(1, sizeof *c);
    emu_graph *g = c ? emu_graph_create(device) : NULL;
    if (!g || (s && !emu_graph_lane(g, s))) {
        if (g) emu_graph_drop(g);
        free(c);
        *code = emu_fail(EMU_RULE_out_of_memory, "no memory for a capture");
        return NULL;
    }
    c->graph = g;
    c->origin = s;
    c->thread = emu_self()->id;
    c->next = emu()->captures;
    emu()->captures = c;
    return c;
}

static int begin(aclrtStream handle, aclmdlRICaptureMode mode) {
    int code;
    emu_stream *s = emu_need_stream(handle, &code);
    if (!s) return code;
    if (!emu()->chip->capture) return emu_fail(EMU_RULE_chip_feature, "%s cannot capture streams", emu()->chip->name);
    if ((int)mode < 0 || mode > ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
        return emu_fail(EMU_RULE_bad_param, "capture mode %d", (int)mode);
    if (s->is_default) return emu_fail(EMU_RULE_capture_default_stream, "the default stream cannot be captured");
    if (s->capture || s->updated) return emu_fail(EMU_RULE_capture_twice, "stream %d is captured already", s->id);
    emu_capture *c = start(s, s->context->device, &code);
    if (!c) return code;
    c->mode = mode;
    s->capture = c;
    return 0;
}

aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode) {
    emu_enter("aclmdlRICaptureBegin", "%p, %d", stream, (int)mode);
    return emu_leave(begin(stream, mode));
}

// Why a capture cannot end well; 0: it can.
static int check_end(const emu_capture *c) {
    const emu_graph *g = c->graph;
    if (c->invalid) return emu_fail(EMU_RULE_capture_invalidated, "a call inside of the capture was refused");
    const emu_lane *origin = emu_graph_lane(c->graph, c->origin);
    for (int i = 0; i < g->n_lanes; i++) {
        const emu_lane *l = &g->lanes[i];
        if (l->stream && l->stream->group)
            return emu_fail(EMU_RULE_group_state, "a task group on stream %d was not ended", l->stream_id);
        if (l != origin && (emu_clock_get(&origin->clock, i) < l->n || (l->n == 0 && !l->rejoined))) {
            return emu_fail(EMU_RULE_capture_unjoined,
                            "stream %d joined the capture and did not come back to stream %d", l->stream_id,
                            origin->stream_id);
        }
    }
    return 0;
}

static int end(aclrtStream handle, aclmdlRI *model) {
    int code, injected = emu_call_fails();
    emu_stream *s = emu_need_stream(handle, &code);
    if (!s) return code;
    if (!model) return emu_fail(EMU_RULE_bad_param, "nowhere to store the graph");
    emu_capture *c = s->capture;
    if (!c || c->build) return emu_fail(EMU_RULE_capture_none, "stream %d is not captured", s->id);
    if (c->origin != s)
        return emu_fail(EMU_RULE_capture_wrong_stream, "the capture began on stream %d, not on %d", c->origin->id,
                        s->id);
    if (c->mode != ACL_MODEL_RI_CAPTURE_MODE_RELAXED && c->thread != emu_self()->id) {
        return emu_fail(EMU_RULE_capture_wrong_thread, "the capture of stream %d began on another thread", s->id);
    }
    if ((code = injected) || (code = check_end(c))) { // ended badly is ended, too
        give_up(c);
        return code;
    }
    emu_graph *g = c->graph;
    release(c);
    g->ready = true;
    *model = g;
    return 0;
}

aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI *model) {
    emu_enter("aclmdlRICaptureEnd", "%p", stream);
    return emu_leave(end(stream, model));
}

aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus *status, aclmdlRI *model) {
    emu_enter("aclmdlRICaptureGetInfo", "%p", stream);
    int code;
    const emu_stream *s = emu_need_stream(stream, &code);
    if (s && !status) code = emu_fail(EMU_RULE_bad_param, "nowhere to store the status");
    if (code) return emu_leave(code);
    const emu_capture *c = s->capture;
    *status = !c           ? ACL_MODEL_RI_CAPTURE_STATUS_NONE
              : c->invalid ? ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED
                           : ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
    if (model) *model = c ? c->graph : NULL;
    return emu_leave(0);
}

aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode *mode) {
    emu_enter("aclmdlRICaptureThreadExchangeMode", "%d", mode ? (int)*mode : -1);
    int code = emu_need_init();
    if (!code && (!mode || (int)*mode < 0 || *mode > ACL_MODEL_RI_CAPTURE_MODE_RELAXED))
        code = emu_fail(EMU_RULE_bad_param, "no capture mode");
    if (!code && !emu()->chip->capture)
        code = emu_fail(EMU_RULE_chip_feature, "%s cannot capture streams", emu()->chip->name);
    if (code) return emu_leave(code);
    aclmdlRICaptureMode old = emu_self()->capture_mode;
    emu_self()->capture_mode = *mode;
    *mode = old;
    return emu_leave(0);
}

// ---- building ----
static int build_begin(aclmdlRI *model, uint32_t flag) {
    int code;
    const emu_context *d = emu_need_device(&code);
    if (!d) return code;
    if (!model || flag) return emu_fail(EMU_RULE_bad_param, "flag %" PRIu32, flag);
    emu_capture *c = start(NULL, d->device, &code);
    if (!c) return code;
    c->build = true;
    c->mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
    *model = c->graph;
    return 0;
}

aclError aclmdlRIBuildBegin(aclmdlRI *model, uint32_t flag) {
    emu_enter("aclmdlRIBuildBegin", "%" PRIu32, flag);
    return emu_leave(build_begin(model, flag));
}

static emu_capture *need_build(aclmdlRI model, int *code) {
    if ((*code = emu_need_init()) || (*code = emu_object_need(model, EMU_GRAPH, "graph"))) return NULL;
    for (emu_capture *c = emu()->captures; c; c = c->next) {
        if (c->build && c->graph == model) return c;
    }
    *code = emu_fail(EMU_RULE_graph_state, "the graph is not being built");
    return NULL;
}

static int bind_stream(aclmdlRI model, aclrtStream handle) {
    int code;
    emu_stream *s = emu_need_stream(handle, &code);
    emu_capture *c = s ? need_build(model, &code) : NULL;
    if (!c) return code;
    if (!(s->flags & ACL_STREAM_PERSISTENT))
        return emu_fail(EMU_RULE_bad_param, "stream %d was not made with ACL_STREAM_PERSISTENT", s->id);
    if (s->capture) return emu_fail(EMU_RULE_capture_twice, "stream %d is bound or captured already", s->id);
    if (!emu_graph_lane(c->graph, s)) return emu_fail(EMU_RULE_out_of_memory, "no memory");
    s->capture = c;
    return 0;
}

aclError aclmdlRIBindStream(aclmdlRI model, aclrtStream stream, uint32_t flag) {
    emu_enter("aclmdlRIBindStream", "%p, %p, 0x%" PRIx32, model, stream, flag);
    return emu_leave(bind_stream(model, stream));
}

aclError aclmdlRIEndTask(aclmdlRI model, aclrtStream stream) {
    emu_enter("aclmdlRIEndTask", "%p, %p", model, stream);
    int code;
    emu_stream *s = emu_need_stream(stream, &code);
    const emu_capture *c = s ? need_build(model, &code) : NULL;
    if (c && s->capture != c) code = emu_fail(EMU_RULE_graph_state, "stream %d is not bound to the graph", s->id);
    emu_lane *l = c && !code ? emu_graph_lane(c->graph, s) : NULL;
    if (l) l->ended = true;
    return emu_leave(code);
}

static int build_end(aclmdlRI model) {
    int code;
    emu_capture *c = need_build(model, &code);
    if (!c) return code;
    emu_graph *g = c->graph;
    bool any = false;
    for (int i = 0; i < g->n_lanes; i++) any |= g->lanes[i].ended;
    if (!any) return emu_fail(EMU_RULE_graph_state, "aclmdlRIEndTask was called on no stream of the graph");
    release(c);
    g->ready = true;
    return 0;
}

aclError aclmdlRIBuildEnd(aclmdlRI model, void *reserve) {
    emu_enter("aclmdlRIBuildEnd", "%p, %p", model, reserve);
    return emu_leave(build_end(model));
}

aclError aclmdlRIUnbindStream(aclmdlRI model, aclrtStream stream) {
    emu_enter("aclmdlRIUnbindStream", "%p, %p", model, stream);
    int code;
    emu_stream *s = emu_need_stream(stream, &code);
    if (s && !(code = emu_object_need(model, EMU_GRAPH, "graph")) && s->capture) emu_capture_forget_stream(s);
    return emu_leave(code);
}
