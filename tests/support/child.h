// A running tally program to talk with, over pipes or as on a terminal. Failures end the test, and what was read is shown.
#ifndef TALLY_TESTS_CHILD_H
#define TALLY_TESTS_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct child {
    pid_t pid;
    int in, out; // one descriptor of the terminal, or the two pipes; standard error goes to the terminal, or nowhere
    char *read;  // owned; everything read so far, terminated
    size_t n_read, seen; // seen: how far child_expect has come
} child;

// Skips the running test on a machine without pseudo terminals (a bare root, say). First thing in a test that wants one.
void child_need_terminal(void);

// The program under test with a NULL-terminated list of arguments.
void child_start(child *c, const char *const *args, bool terminal);
#define CHILD(c, terminal, ...) child_start(c, (const char *const[]){__VA_ARGS__, NULL}, terminal)

void child_write(child *c, const char *text);
void child_write_end(child *c); // pipes: end of file
// Waits (10 s at most; more under sanitizers) until the text comes behind what was expected before.
void child_expect(child *c, const char *text);
// Waits until so many bytes more have come, whatever they are.
void child_expect_more(child *c, size_t n);
// Reads to the end and returns the exit code, or minus the signal that ended the program.
int child_end(child *c);
void child_free(child *c);

#endif
