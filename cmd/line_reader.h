// Lines of a file, pipe or terminal, one at a time, of any length.
#ifndef TALLY_CMD_LINE_READER_H
#define TALLY_CMD_LINE_READER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct line_reader {
    int fd;     // borrowed
    char *data; // owned [cap]; bytes [at, len) were read and not handed out, those before `scanned` hold no line end
    size_t at, scanned, len, cap;
    size_t number; // of the line handed out last, from 1
    bool ended;
} line_reader;

typedef enum line_state {
    LINE_READ,
    LINE_NOT_YET, // waiting was not asked for, or Ctrl-C is pending
    LINE_END,
    LINE_FAILED, // errno says why
} line_state;

void line_reader_init(line_reader *r, int fd);
void line_reader_deinit(line_reader *r);

// The next line without its end ("\n" or "\r\n"; the last may have none), valid until the next call. Not terminated.
line_state line_reader_next(line_reader *r, bool wait, const char **line, size_t *len);

#endif
