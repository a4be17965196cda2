// Opening engines for a subcommand: options to the library's, progress of loading, the memory table, a draft model beside the model.
#ifndef TALLY_CMD_ENGINES_H
#define TALLY_CMD_ENGINES_H

#include <stddef.h>
#include <stdio.h>

#include "cmd/args.h"
#include "tally.h"

typedef struct draft_engine { // of -md; both NULL without
    tally_model *model;
    tally_engine *engine;
} draft_engine;

// Fills what the options say; `needed` positions are the context unless -c says otherwise (0: the model's maximum). The
// options are cut to the model's maximum when only the request asked for more.
void engine_options(const tally_model *model, const options *o, size_t needed, tally_engine_options *out);
// Opens the engine with progress on a terminal, then tells the memory table there (or with -v). The model of -md is opened first, so
// that the engine's plan sees what it leaves; `draft` NULL: without one. What is open after a failure is closed like after success.
int open_engine(const tally_model *model, const options *o, size_t needed, draft_engine *draft, tally_engine **out);
void close_engine(tally_engine *engine); // NULL: nothing; tells what its device gave up
void close_draft(draft_engine *draft);   // after the engine that uses it
void print_memory(FILE *out, const tally_memory *memory, int context);

#endif
