// The emulator's state: one per process, because the vendor's functions take no handle of it. Only files of emulator/core and the
// executor of emulator/aclnn include this. All of it is used under the lock of fail.h.
//
// Order. Every task has a place (slot of its stream, number in it) and a clock: for each stream, the last task known to run before it.
// A task on stream s of clock c comes after task n of slot k when c[k] >= n. Two tasks of different streams that touch the same
// bytes, one of them writing, must be ordered so; the host has a clock too, of what it knows to be finished.
#ifndef TALLY_EMULATOR_CORE_STATE_H
#define TALLY_EMULATOR_CORE_STATE_H

#include <pthread.h>

#include "cann/acl_mdl_ri.h"
#include "cann/acl_rt.h"
#include "emulator/core/config.h"
#include "emulator/core/fail.h"
#include "emulator/core/object.h"
#include "emulator/core/recent.h"

#define EMU_MAX_DEVICES 16

typedef struct emu_stream emu_stream;
typedef struct emu_event emu_event;
typedef struct emu_context emu_context;
typedef struct emu_task emu_task;
typedef struct emu_graph emu_graph;
typedef struct emu_capture emu_capture;
typedef struct emu_group emu_group;
typedef struct emu_launch emu_launch; // emulator/aclnn/executor.h

typedef struct emu_clock {
    int n;
    uint64_t *v; // [n]; streams beyond are 0
} emu_clock;

uint64_t emu_clock_get(const emu_clock *c, int slot);
bool emu_clock_set(emu_clock *c, int slot, uint64_t n);    // grows; false: no memory
bool emu_clock_join(emu_clock *c, const emu_clock *other); // element-wise maximum
void emu_clock_free(emu_clock *c);

typedef struct emu_device {
    bool open;      // has its memory
    bool lost;      // until it is reset
    int references; // aclrtSetDevice minus aclrtResetDevice
    uint64_t used;  // bytes of memory
    emu_context *default_context;
    bool peer[EMU_MAX_DEVICES];
} emu_device;

struct emu_context {
    emu_object head;
    int device;
    bool is_default;
    emu_stream *default_stream;
    int stopped; // the code of the failure that stopped it; 0: works
    bool stop_on_failure;
    int64_t sys_param[4];
};

struct emu_stream {
    emu_object head;
    emu_context *context;
    int id, slot;
    uint32_t flags;
    bool is_default;
    uint64_t submitted, executed; // numbers of the last tasks
    emu_task *first, *last;       // tasks the host does not know to be finished, by number
    emu_task *next;               // of these, the first that has not run
    emu_clock clock;              // of the last task
    bool unclear;                 // waited for what was not recorded then, so its clock may miss something
    int error;                    // of work that failed, told at the next synchronisation
    emu_recent error_report;
    emu_capture *capture;
    emu_group *group;   // a task group begun and not ended
    emu_group *updated; // a group being updated on this stream
    emu_launch *update; // what was issued for it
    int n_updates;
};

// One recording of an event.
typedef struct emu_mark {
    int references;
    bool submitted, done, captured;
    bool unclear; // until it has run: its clock misses something, as that of its stream did
    int slot;
    uint64_t number;
    emu_clock clock;
    uint64_t ns;          // when it ran
    emu_capture *capture; // compared, never followed
    int stream_id;
} emu_mark;

struct emu_event {
    emu_object head;
    int device;
    emu_context *context;
    bool ex;         // by aclrtCreateEventExWithFlag
    bool resettable; // by aclrtCreateEventWithFlag
    bool external;
    uint32_t flags;
    emu_mark *mark; // the latest recording, or one awaited; NULL: none
    int waits;      // queued waits that have not run
};

typedef enum emu_access { EMU_READS = 1, EMU_WRITES = 2 } emu_access;

// Bytes a task touches: rows of width bytes, pitch apart. lo, hi bound them.
typedef struct emu_range {
    uint64_t lo, hi, width, pitch;
    unsigned char access; // emu_access
    bool host;            // host memory (an asynchronous copy)
    const char *what;     // static or lives with the task
} emu_range;

typedef enum emu_task_kind {
    EMU_TASK_LAUNCH,
    EMU_TASK_COPY,
    EMU_TASK_SET,
    EMU_TASK_RECORD,
    EMU_TASK_WAIT,
    EMU_TASK_RESET,
    EMU_TASK_GRAPH,
    EMU_TASK_UPDATE,
    EMU_TASK_CALLBACK
} emu_task_kind;

typedef struct emu_copy {
    void *dst;
    const void *src;
    size_t dpitch, spitch, width, height;
    bool dst_device, src_device;
} emu_copy;

struct emu_task {
    emu_task *link; // the next of its stream
    emu_task_kind kind;
    emu_stream *stream;
    int device, lane;       // lane: of its graph
    uint64_t number, order; // in its stream or lane; of all
    emu_clock clock;
    emu_range *ranges;
    int n_ranges;
    bool unclear, hangs, done;
    emu_launch *launch;
    emu_copy copy;
    struct {
        void *dst;
        int value;
        size_t count;
    } set;
    emu_event *event;
    emu_mark *mark;
    emu_graph *graph;
    emu_group *group;
    aclrtCallback callback;
    void *user;
    bool by_report; // the callback runs in aclrtProcessReport
    bool reported;
};

typedef struct emu_state {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t epoch; // counts tally_emu_reset
    bool configured, by_call, initialised, was_initialised, nnop_initialised;
    emu_config config;
    int loaded; // version of the libraries the program loaded; -1: none told
    const emu_chip *chip;
    emu_cann cann;
    emu_device device[EMU_MAX_DEVICES];
    int64_t sys_param[4];
    int peak_references;

    emu_stream **streams; // by slot
    uint64_t *slot_base;  // [n_slots] numbers used by earlier streams of the slot
    int n_slots;
    int n_streams, n_events, next_stream_id;
    emu_clock host;
    uint64_t order; // tasks submitted
    uint64_t random;
    emu_capture *captures; // those that have begun and not ended

    int live[EMU_KIND_COUNT];
    uint64_t broken[EMU_RULE_COUNT];
    uint64_t n_call, n_alloc, n_phase1, n_launch, n_op, n_sync; // counters of fault injection
    uint64_t launches, executions;
} emu_state;

emu_state *emu(void);
uint64_t emu_now_ns(void);
uint64_t emu_random(uint64_t n); // in [0, n), of the seed of order

typedef struct emu_thread {
    uint64_t epoch;
    emu_context *context;
    aclmdlRICaptureMode capture_mode; // exchanged by aclmdlRICaptureThreadExchangeMode
    bool exchanged;
    emu_capture *capturing; // begun by this thread, not relaxed
    uint64_t id;
} emu_thread;

emu_thread *emu_self(void);

// Every call but aclInit starts so: 0, or the code of the rule that is broken.
int emu_need_init(void);
// The current context; NULL and *code otherwise. What frees and destroys needs no more than that.
emu_context *emu_need_context(int *code);
// The same, its device not lost, nothing stopped.
emu_context *emu_need_device(int *code);
// A stream handle (NULL: the default stream) of the current context, which works.
emu_stream *emu_need_stream(aclrtStream handle, int *code);
emu_event *emu_need_event(aclrtEvent handle, int *code);
// Whether the settings say that this occurrence of a kind fails: counts it.
bool emu_inject(uint64_t *counter, uint64_t nth);
// The same for the call under way, by fail_call: 0 or its code, once a call. What frees and destroys does not fail.
int emu_call_fails(void);

#endif
