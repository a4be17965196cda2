// Errors, the recent message of each thread, the call trace, the lock.
//
// Every function of the vendor's API is written
//
//     aclError aclrtFree(void *device) {
//         emu_enter("aclrtFree", "%p", device);
//         return emu_leave(free_block(device));
//     }
//
// Between the two the caller holds the emulator's one lock (recursive) and its call has a line in the trace, written by emu_leave.
#ifndef TALLY_EMULATOR_CORE_FAIL_H
#define TALLY_EMULATOR_CORE_FAIL_H

#include <stdarg.h>
#include <stdbool.h>

#include "emulator/core/rules.h"

void emu_enter(const char *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
int emu_leave(int code);    // returns code
bool emu_call_counts(void); // for injection: true once between the two

// Breaks a rule: counts it, puts the sentence with the rule's id into this thread's recent message, returns the rule's code (emu_fail)
// or the code given (emu_fail_as).
int emu_fail(emu_rule rule, const char *format, ...) __attribute__((format(printf, 2, 3)));
int emu_fail_as(int code, emu_rule rule, const char *format, ...) __attribute__((format(printf, 3, 4)));
int emu_vfail_as(int code, emu_rule rule, const char *format, va_list args);

void emu_lock(void);
void emu_unlock(void);
bool emu_tracing(void);
void emu_trace(const char *format, ...) __attribute__((format(printf, 1, 2))); // one line of its own

#endif
