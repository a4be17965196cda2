// Graphs: replay, destruction, groups of tasks and their update.
#include "emulator/core/graph.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/aclnn/executor.h"
#include "emulator/core/memory.h"
#include "emulator/core/task.h"

emu_graph *emu_graph_create(int device) {
    emu_graph *g = emu_object_create(EMU_GRAPH, sizeof *g, true);
    if (!g) return NULL;
    g->references = 1;
    g->device = device;
    g->alive = true;
    return g;
}

emu_lane *emu_graph_lane(emu_graph *g, emu_stream *s) {
    for (int i = 0; i < g->n_lanes; i++) {
        if (g->lanes[i].stream == s) return &g->lanes[i];
    }
    emu_lane *lanes = realloc(g->lanes, (size_t)(g->n_lanes + 1) * sizeof *lanes);
    if (!lanes) return NULL;
    g->lanes = lanes;
    lanes[g->n_lanes] = (emu_lane){.stream = s, .stream_id = s->id};
    return &lanes[g->n_lanes++];
}

bool emu_graph_add(emu_graph *g, emu_task *t) {
    if (g->n_nodes == g->cap_nodes) {
        int cap = g->cap_nodes ? 2 * g->cap_nodes : 64;
        emu_task **nodes = realloc(g->nodes, (size_t)cap * sizeof(emu_task *));
        if (!nodes) return false;
        g->nodes = nodes;
        g->cap_nodes = cap;
    }
    g->nodes[g->n_nodes++] = t;
    return true;
}

int emu_graph_n_nodes(const emu_graph *g) { return g->n_nodes; }
const emu_task *emu_graph_node(const emu_graph *g, int i) { return g->nodes[i]; }

void emu_graph_drop(emu_graph *g) {
    if (--g->references) return;
    for (int i = 0; i < g->n_nodes; i++) emu_task_free(g->nodes[i]);
    for (int i = 0; i < g->n_lanes; i++) emu_clock_free(&g->lanes[i].clock);
    free(g->nodes);
    free(g->lanes);
    emu_object_destroy(g);
}

static bool outside_done(const emu_task *node) {
    return emu_object_look(node->event, EMU_EVENT) != EMU_ALIVE || (node->event->mark && node->event->mark->done);
}

// A graph runs as one piece here, so it waits for all its external events before it begins.
bool emu_graph_ready(const emu_graph *g) {
    for (int i = 0; g->waits_outside && i < g->n_nodes; i++) {
        if (g->nodes[i]->kind == EMU_TASK_WAIT && !outside_done(g->nodes[i])) return false;
    }
    return true;
}

// Recording, waiting for and resetting external events inside a replay.
static int run_event(const emu_task *t) {
    emu_event *e = t->event;
    if (emu_object_look(e, EMU_EVENT) != EMU_ALIVE)
        return emu_fail(EMU_RULE_event_destroyed, "an external event of a graph was destroyed");
    if (t->kind == EMU_TASK_WAIT) return 0;
    emu_mark_drop(e->mark);
    e->mark = NULL;
    if (t->kind == EMU_TASK_RESET) return 0;
    if (!(e->mark = emu_mark_create())) return ACL_ERROR_RT_MEMORY_ALLOCATION;
    e->mark->submitted = e->mark->done = true;
    e->mark->ns = emu_now_ns();
    return 0;
}

static int run_node(emu_task *t) {
    if (t->event) return run_event(t);
    if (!emu_tracing()) return emu_task_run(t);
    uint64_t began = emu_now_ns();
    int code = emu_task_run(t);
    const char *name = t->kind == EMU_TASK_LAUNCH ? emu_launch_name(t->launch) : "a copy or memset";
    emu_trace("  replayed %s = %d %.1f us", name, code, (double)(emu_now_ns() - began) * 1e-3);
    return code;
}

static bool may_run(const emu_graph *g, const emu_task *t, const uint64_t *done) {
    for (int i = 0; i < g->n_lanes; i++) {
        if (i != t->lane && emu_clock_get(&t->clock, i) > done[i]) return false;
    }
    return t->number == done[t->lane] + 1;
}

static emu_task *next_of_lane(const emu_graph *g, int lane, int *from) {
    while (*from < g->n_nodes && g->nodes[*from]->lane != lane) ++*from;
    return *from < g->n_nodes ? g->nodes[*from] : NULL;
}

int emu_graph_run(emu_graph *g, bool *hangs) {
    if (!g->n_lanes) return 0;
    uint64_t *done = calloc((size_t)g->n_lanes, sizeof *done);
    int *from = calloc((size_t)g->n_lanes, sizeof *from);
    int code = done && from ? 0 : emu_fail(EMU_RULE_out_of_memory, "no memory for a replay");
    for (int left = code ? 0 : g->n_nodes; left > 0; left--) {
        emu_task *chosen = NULL;
        uint64_t n = 0;
        for (int lane = 0; lane < g->n_lanes; lane++) {
            emu_task *t = next_of_lane(g, lane, &from[lane]);
            if (!t || !may_run(g, t, done)) continue;
            n++;
            if (n == 1 || emu_random(n) == 0) chosen = t;
        }
        if (!chosen) {
            code = emu_fail(EMU_RULE_graph_state, "the tasks of a graph wait for each other");
            break;
        }
        if (chosen->kind == EMU_TASK_LAUNCH && emu_op_hangs()) {
            *hangs = true;
            break;
        }
        int failed = run_node(chosen);
        if (failed && !code) code = failed;
        done[chosen->lane]++;
        from[chosen->lane]++;
    }
    free(done);
    free(from);
    return code;
}

// ---- the program's calls ----
static emu_graph *need_graph(aclmdlRI handle, bool ready, int *code) {
    if ((*code = emu_need_init()) || (*code = emu_object_need(handle, EMU_GRAPH, "graph"))) return NULL;
    emu_graph *g = handle;
    if (!g->alive) {
        *code = emu_fail(EMU_RULE_dead_handle, "graph %p is used after it was destroyed", handle);
    } else if (ready && !g->ready) {
        *code = emu_fail(EMU_RULE_graph_state, "the graph is still being captured or built");
    }
    return *code ? NULL : g;
}

static int need_buffers(const emu_graph *g) {
    for (int n = 0; n < g->n_nodes; n++) {
        const emu_task *t = g->nodes[n];
        for (int i = 0; i < t->n_ranges; i++) {
            const emu_range *r = &t->ranges[i];
            if (r->host || !emu_range_need(r->lo, r->hi - r->lo, g->device, r->what)) continue;
            return emu_fail(EMU_RULE_graph_buffer, "%s of task %d of the graph is gone: 0x%" PRIx64, r->what, n, r->lo);
        }
    }
    return 0;
}

static int execute(aclmdlRI model, emu_stream *s) {
    int code;
    emu_graph *g = need_graph(model, true, &code);
    if (!g) return code;
    if (s->capture) return emu_capture_refuse(s, EMU_RULE_capture_task, "a graph is not captured into another");
    if (g->device != s->context->device) {
        return emu_fail_as(ACL_ERROR_RT_MODEL_CONTEXT, EMU_RULE_wrong_context,
                           "a graph of device %d is executed on device %d", g->device, s->context->device);
    }
    if ((code = need_buffers(g))) return code;
    emu_task *t = emu_task_create(s, EMU_TASK_GRAPH, 1);
    if (!t) return ACL_ERROR_RT_MEMORY_ALLOCATION;
    t->graph = g;
    g->references++;
    emu_task_range(t, (uint64_t)(uintptr_t)g, 1, EMU_READS, "a graph");
    t->ranges[0].host = true;
    return emu_task_submit(t);
}

aclError aclmdlRIExecuteAsync(aclmdlRI model, aclrtStream stream) {
    emu_enter("aclmdlRIExecuteAsync", "%p, %p", model, stream);
    int code;
    emu_stream *s = emu_need_stream(stream, &code);
    return emu_leave(s ? execute(model, s) : code);
}

aclError aclmdlRIExecute(aclmdlRI model, int32_t timeout_ms) {
    emu_enter("aclmdlRIExecute", "%p, %" PRId32, model, timeout_ms);
    int code;
    emu_stream *s = emu_need_stream(NULL, &code);
    if (!s || (code = emu_capture_forbids_device(s->context->device)) || (code = execute(model, s)))
        return emu_leave(code);
    return emu_leave(emu_wait_stream(s, timeout_ms));
}

static int destroy(aclmdlRI model) {
    int code;
    emu_graph *g = need_graph(model, true, &code);
    if (!g) return code;
    for (int i = 0; i < emu()->n_slots; i++) {
        const emu_stream *s = emu()->streams[i];
        for (const emu_task *t = s ? s->first : NULL; t; t = t->link) {
            if (t->graph == g && t->number > emu_clock_get(&emu()->host, i))
                return emu_fail(EMU_RULE_graph_busy, "%s is in flight", emu_task_text(t).text);
        }
    }
    g->alive = false;
    emu_graph_drop(g);
    return 0;
}

aclError aclmdlRIDestroy(aclmdlRI model) {
    emu_enter("aclmdlRIDestroy", "%p", model);
    return emu_leave(destroy(model));
}

static void print_nodes(const emu_graph *g, FILE *f) {
    for (int i = 0; i < g->n_nodes; i++) {
        const emu_task *t = g->nodes[i];
        const char *name = t->kind == EMU_TASK_LAUNCH ? emu_launch_name(t->launch) : "copy, memset or event";
        fprintf(f, "%s{\"lane\": %d, \"task\": %" PRIu64 ", \"name\": \"%s\"}", i ? ",\n " : "[", t->lane, t->number,
                name);
    }
    fprintf(f, "%s]\n", g->n_nodes ? "" : "[");
}

aclError aclmdlRIDebugPrint(aclmdlRI model) {
    emu_enter("aclmdlRIDebugPrint", "%p", model);
    int code;
    const emu_graph *g = need_graph(model, true, &code);
    if (g) print_nodes(g, stdout);
    return emu_leave(code);
}

aclError aclmdlRIDebugJsonPrint(aclmdlRI model, const char *path, uint32_t flags) {
    emu_enter("aclmdlRIDebugJsonPrint", "%p, %s, %" PRIu32, model, path ? path : "NULL", flags);
    int code;
    const emu_graph *g = need_graph(model, true, &code);
    FILE *f = g && path ? fopen(path, "w") : NULL;
    if (g && !f)
        code = emu_fail_as(ACL_ERROR_INVALID_FILE, EMU_RULE_bad_param, "cannot write to \"%s\"", path ? path : "");
    if (f) {
        print_nodes(g, f);
        fclose(f);
    }
    return emu_leave(code);
}

// ---- groups ----
static int begin_group(aclrtStream handle) {
    int code;
    emu_stream *s = emu_need_stream(handle, &code);
    if (!s) return code;
    if (!s->capture || s->capture->build) return emu_fail(EMU_RULE_group_state, "stream %d is not captured", s->id);
    if (s->group) return emu_capture_refuse(s, EMU_RULE_group_state, "a task group begins inside of another");
    emu_group *g = emu_object_create(EMU_GROUP, sizeof *g, false);
    if (!g) return emu_fail(EMU_RULE_out_of_memory, "no memory for a task group");
    g->graph = s->capture->graph;
    g->first = g->graph->n_nodes;
    s->group = g;
    return 0;
}

aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream) {
    emu_enter("aclmdlRICaptureTaskGrpBegin", "%p", stream);
    return emu_leave(begin_group(stream));
}

static int end_group(aclrtStream handle, aclrtTaskGrp *out) {
    int code;
    emu_stream *s = emu_need_stream(handle, &code);
    if (!s) return code;
    if (!out) return emu_fail(EMU_RULE_bad_param, "nowhere to store the group");
    if (!s->group) return emu_fail(EMU_RULE_group_state, "no task group was begun on stream %d", s->id);
    s->group->n = s->group->graph->n_nodes - s->group->first;
    *out = s->group;
    s->group = NULL;
    return 0;
}

aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp *group) {
    emu_enter("aclmdlRICaptureTaskGrpEnd", "%p", stream);
    return emu_leave(end_group(stream, group));
}

static int begin_update(aclrtStream handle, aclrtTaskGrp group) {
    int code;
    emu_stream *s = emu_need_stream(handle, &code);
    if (!s || (code = emu_object_need(group, EMU_GROUP, "task group"))) return code;
    emu_group *g = group;
    if (s->capture || s->updated)
        return emu_fail(EMU_RULE_group_state, "stream %d is captured or updates another group", s->id);
    if (emu_object_look(g->graph, EMU_GRAPH) != EMU_ALIVE || !g->graph->ready)
        return emu_fail(EMU_RULE_graph_state, "the group's graph is not there");
    s->updated = g;
    s->n_updates = 0;
    return 0;
}

aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp group) {
    emu_enter("aclmdlRICaptureTaskUpdateBegin", "%p, %p", stream, group);
    return emu_leave(begin_update(stream, group));
}

int emu_group_issue(emu_stream *s, emu_launch *launch) {
    const emu_group *g = s->updated;
    const emu_task *node = s->n_updates < g->n ? g->graph->nodes[g->first + s->n_updates] : NULL;
    s->n_updates++;
    if (!node || node->kind != EMU_TASK_LAUNCH || strcmp(emu_launch_name(node->launch), emu_launch_name(launch))) {
        int code = emu_fail(EMU_RULE_group_update, "%s is issued where the group holds %s", emu_launch_name(launch),
                            node && node->kind == EMU_TASK_LAUNCH ? emu_launch_name(node->launch) : "nothing more");
        emu_launch_drop(launch);
        s->n_updates = -1000000;
        return code;
    }
    emu_launch_drop(s->update);
    s->update = launch;
    return 0;
}

static int end_update(aclrtStream handle) {
    int code;
    emu_stream *s = emu_need_stream(handle, &code);
    if (!s) return code;
    if (!s->updated) return emu_fail(EMU_RULE_group_state, "no update was begun on stream %d", s->id);
    emu_group *g = s->updated;
    emu_launch *launch = s->update;
    int n = s->n_updates;
    s->updated = NULL;
    s->update = NULL;
    if (n != g->n)
        code = emu_fail(EMU_RULE_group_update, "an update issued %d operators for a group of %d", n < 0 ? 0 : n, g->n);
    else if (g->n != 1)
        code = emu_fail(EMU_RULE_group_many, "a group of %d operators is updated", g->n);
    emu_task *t = code ? NULL : emu_task_create(s, EMU_TASK_UPDATE, 1);
    if (!t) {
        emu_launch_drop(launch);
        return code ? code : ACL_ERROR_RT_MEMORY_ALLOCATION;
    }
    t->launch = launch;
    t->group = g;
    t->graph = g->graph;
    t->graph->references++;
    t->unclear = g->graph->waits_outside; // the program orders it by an external event
    emu_task_range(t, (uint64_t)(uintptr_t)g->graph, 1, EMU_WRITES, "a graph");
    t->ranges[0].host = true;
    return emu_task_submit(t);
}

aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream) {
    emu_enter("aclmdlRICaptureTaskUpdateEnd", "%p", stream);
    return emu_leave(end_update(stream));
}

int emu_group_apply(emu_task *update) {
    emu_graph *g = update->graph;
    emu_task **at = &g->nodes[update->group->first], *old = *at;
    emu_task *t = emu_launch_task(NULL, update->launch);
    if (!t) return ACL_ERROR_RT_MEMORY_ALLOCATION;
    update->launch = NULL;
    t->device = old->device;
    t->lane = old->lane;
    t->number = old->number;
    t->clock = old->clock;
    old->clock = (emu_clock){0};
    *at = t;
    emu_task_free(old);
    return 0;
}
