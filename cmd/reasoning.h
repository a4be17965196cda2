// What a model thinks between <think> and </think>, shown dimmed on a terminal. Tags may come in pieces.
#ifndef TALLY_CMD_REASONING_H
#define TALLY_CMD_REASONING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct reasoning {
    FILE *out; // borrowed
    bool dims; // false: text goes through as it is
    bool inside;
    size_t held; // bytes at the end that may be the start of a tag
} reasoning;

// inside: the answer begins within the tags, because the prompt opened them.
void reasoning_begin(reasoning *r, FILE *out, bool dims, bool inside);
void reasoning_write(reasoning *r, const char *text, size_t len);
void reasoning_end(reasoning *r); // what was held back; brightness as before

#endif
