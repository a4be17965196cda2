// Graphs: captured or built lists of tasks that are replayed whole.
//
// The tasks of a graph lie in lanes, one per stream that took part, and are ordered by clocks over lanes as eager tasks are by clocks
// over streams; a replay runs them in any order the clocks allow, by the seed.
#ifndef TALLY_EMULATOR_CORE_GRAPH_H
#define TALLY_EMULATOR_CORE_GRAPH_H

#include "emulator/core/state.h"

typedef struct emu_lane {
    emu_stream *stream; // while captured
    int stream_id;
    uint64_t n; // tasks so far
    emu_clock clock;
    bool rejoined; // to the origin
    bool ended;    // aclmdlRIEndTask
} emu_lane;

struct emu_graph {
    emu_object head;
    int references; // the program's handle, and replays and updates in flight
    bool ready, alive;
    int device;
    emu_task **nodes;
    int n_nodes, cap_nodes;
    emu_lane *lanes;
    int n_lanes;
    bool waits_outside; // for an external event
};

struct emu_group {
    emu_object head;
    emu_graph *graph;
    int first, n; // nodes
};

struct emu_capture {
    emu_capture *next;
    emu_stream *origin; // NULL: a build
    aclmdlRICaptureMode mode;
    uint64_t thread;
    bool build, invalid;
    emu_graph *graph;
};

// While something is captured.
int emu_capture_record(emu_task *t);                                    // owns the task
int emu_capture_event(emu_stream *s, emu_event *e, emu_task_kind kind); // record, wait or reset
int emu_capture_forbids_stream(emu_stream *s);                          // synchronising and querying it
int emu_capture_forbids_device(int device);
int emu_capture_forbids_unsafe(const char *what); // by the modes
int emu_capture_refuse(const emu_stream *s, emu_rule rule,
                       const char *text);          // breaks the rule and invalidates the capture
void emu_capture_invalidate(const emu_capture *c); // if it is still there
void emu_capture_forget_stream(emu_stream *s);
void emu_captures_forget(void); // all of them

// Replays.
emu_graph *emu_graph_create(int device);
emu_lane *emu_graph_lane(emu_graph *g, emu_stream *s); // made if need be; NULL: no memory
bool emu_graph_add(emu_graph *g, emu_task *t);         // owns the task if true
int emu_graph_n_nodes(const emu_graph *g);
const emu_task *emu_graph_node(const emu_graph *g, int i);
void emu_graph_drop(emu_graph *g); // gives up one reference
bool emu_graph_ready(const emu_graph *g);
int emu_graph_run(emu_graph *g, bool *hangs); // hangs: an operator did, and what comes behind it has not run

// Task groups.
int emu_group_issue(emu_stream *s, emu_launch *launch); // phase 2 on a stream that updates; owns the launch
int emu_group_apply(emu_task *update);

#endif
