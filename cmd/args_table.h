// Every option of every subcommand. Names that llama.cpp has are llama.cpp's.
#ifndef TALLY_CMD_ARGS_TABLE_H
#define TALLY_CMD_ARGS_TABLE_H

#include <stddef.h>

#include "cmd/args.h"

typedef enum option_kind { OPTION_FLAG, OPTION_INT, OPTION_INT64, OPTION_REAL, OPTION_TEXT, OPTION_TEXTS } option_kind;

typedef struct option_row {
    const char *group;    // heading in the help text
    const char *names;    // "-m, --model"
    const char *arg;      // name of the value in the help text; NULL for a flag
    option_kind kind;     // type of the field
    size_t offset;        // of the field in options
    unsigned commands;    // CMD_* that take it
    double min, max, def; // numbers: allowed range and default
    const char *choices;  // texts: "a|b|c", or NULL for any
    const char *help;
} option_row;

// Terminated by a row without names.
extern const option_row option_table[];
enum { OPTION_ROWS_MAX = 256 };

// Options that say nothing unless `needs` is given too.
typedef struct option_need {
    unsigned commands;
    const char *names; // as in option_row
    const char *needs;
} option_need;

// Options that stand alone: none but those of `with` say something beside them.
typedef struct option_only {
    unsigned commands;
    const char *name;
    const char *with; // as in option_row
} option_only;

// Terminated by a row without names.
extern const option_need option_needs[];
extern const option_only option_onlys[];

#endif
