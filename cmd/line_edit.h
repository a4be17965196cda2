// Lines that a user types: with editing and a history on a terminal when libedit was there at build, plainly otherwise.
#ifndef TALLY_CMD_LINE_EDIT_H
#define TALLY_CMD_LINE_EDIT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct line_edit line_edit;

typedef enum edit_state {
    EDIT_LINE,
    EDIT_INTERRUPTED, // Ctrl-C; what was typed is dropped
    EDIT_END,         // Ctrl-D, or the input's end
    EDIT_FAILED,      // errno says why
} edit_state;

// Reads standard input. NULL when memory ran out.
line_edit *line_edit_open(const char *prompt);
void line_edit_close(line_edit *e);

// One line without its end, valid until the next call, not terminated. SIGINT must be held back (interrupt_hold).
edit_state line_edit_read(line_edit *e, const char **line, size_t *len);

#endif
