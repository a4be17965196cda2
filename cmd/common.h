// What the subcommands share: messages and exit codes, files, ids, interruption.
#ifndef TALLY_CMD_COMMON_H
#define TALLY_CMD_COMMON_H

#include <stddef.h>

#include "cmd/args.h"
#include "tally.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

// Each prints "tally: sentence" to stderr and returns its exit code.
int fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int usage_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int fail_with(const tally_error *err); // EXIT_INTERRUPTED for TALLY_CANCELLED

// The whole of a file, or of standard input for "-": zero-terminated, owned by the caller (free). 0 or an exit code.
int read_file(const char *path, char **data, size_t *len);

// "1,2,3" to ids, owned by the caller (free). 0 or an exit code.
int parse_ids(const char *text, int32_t **ids, size_t *n);

// The prompt of `run` and `eval` that -p, -f or --ids gives; exactly one must. Owned by the caller (tally_free).
int prompt_ids(const tally_model *model, const options *o, int32_t **ids, size_t *n);
// Checks that exactly one of -p, -f, --ids (and --perplexity) is there, before anything is opened; `also` ends the message. 0 or an
// exit code.
int check_prompt(const options *o, const char *also);

int check_stops(const options *o); // that no --stop is empty

// Tokens per second of what was decoded; 0: nothing was.
double decode_speed(const tally_timings *t);

// Whether progress and colours can be drawn there.
bool is_terminal(int fd);

// Ctrl-C becomes something to ask for between steps. Called before the engine starts its threads, which inherit it.
void interrupt_hold(void);
bool interrupt_pending(void);
bool interrupt_take(void); // the same, and forgets it
// Makes writing to a pipe that nobody reads an error like a full disk is, instead of the program's end.
void ignore_closed_pipe(void);

#endif
