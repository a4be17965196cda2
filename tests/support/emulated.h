// The emulator of the Ascend API, for tests of the backend that runs on it: its own calls, found at run time as the backend does.
#ifndef TALLY_TESTS_EMULATED_H
#define TALLY_TESTS_EMULATED_H

#include <stddef.h>
#include <stdint.h>

typedef struct emulated {
    void *library;
    int (*configure)(const char *settings);
    int (*live_objects)(char *kinds, size_t size);
    int (*rule_count)(const char *id);
    const char *(*last_rule)(void);
    uint64_t (*launches)(void);
    void (*reset)(void);
} emulated;

emulated emulated_open(void); // a failure ends the test
void emulated_close(emulated *e);
// Forgets everything, so that the next engine may have another chip; whatever was still alive fails the test.
void emulated_next(const emulated *e);

// ---- the call trace ----
// The trace goes to a new file from here on, until the next call.
void emulated_trace(const emulated *e, const char *path);
char *emulated_trace_read(const emulated *e, const char *path); // ends the trace; owned by the caller
int emulated_trace_count(const char *trace, const char *text);  // how often a text stands in it
int64_t emulated_trace_copied(const char *trace);               // bytes that asynchronous copies brought to the host

#endif
