// Queued work: what it touches, in which order it may run, when the host knows that it has run.
#ifndef TALLY_EMULATOR_CORE_TASK_H
#define TALLY_EMULATOR_CORE_TASK_H

#include "emulator/core/state.h"

typedef struct emu_text {
    char text[192];
} emu_text;

emu_text emu_task_text(const emu_task *t); // "aclnnAdd (task 12 of stream 3)"

// A task of a stream, not yet submitted, with room for ranges. NULL: no memory (and the rule out_of_memory is broken).
emu_task *emu_task_create(emu_stream *s, emu_task_kind kind, int max_ranges);
void emu_task_range(emu_task *t, uint64_t start, uint64_t size, int access, const char *what); // a plain range
void emu_task_free(emu_task *t);

// Queues it, or records it if the stream is captured. Owns the task from here on, whatever it returns.
int emu_task_submit(emu_task *t);
// Runs it now; 0 or the code of what went wrong, with the recent message set. A graph may hang in one of its operators.
int emu_task_run(emu_task *t);
// Whether the settings have the operator that is about to run hang; it counts as one that ran then.
bool emu_op_hangs(void);

bool emu_ranges_conflict(const emu_task *a, const emu_task *b, const char **what);
// A task the host does not know to be finished that touches bytes of [lo, hi); access: what the host would do there.
const emu_task *emu_in_flight(uint64_t lo, uint64_t hi, int access, bool host);

// Breaks a rule of order. With strict=off the work in question is run now and 0 returned, so that the program gets what it hoped for.
int emu_hazard(emu_rule rule, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Runs work until the stream, everything, or a recording is done, at most ms (-1: forever); tells errors of streams.
int emu_wait_stream(emu_stream *s, int ms);
int emu_wait_all(int ms); // of the current context's device
int emu_wait_mark(emu_mark *m, int ms);
int emu_stream_take_error(emu_stream *s);  // 0, or the code, with the recent message set; forgets it
void emu_some_progress(bool at_least_one); // runs some tasks, as many as the order says
void emu_host_knows(const emu_clock *c);   // that what is before c has run

emu_mark *emu_mark_create(void);
void emu_mark_drop(emu_mark *m); // gives up one reference; NULL is fine

#endif
