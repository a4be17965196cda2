// The options of speculation, and what is said of it at the end.
#ifndef TALLY_CMD_SPECULATION_H
#define TALLY_CMD_SPECULATION_H

#include <jansson.h>
#include <stdio.h>

#include "cmd/args.h"
#include "tally.h"

// Options that contradict each other. 0 or EXIT_USAGE.
int speculation_check(const options *o);
tally_speculation speculation_from_options(const options *o);
// "off", "auto", ...; TALLY_SPEC_DEFAULT for any other text.
tally_spec_mode speculation_mode(const char *name);

void speculation_add(tally_spec_counts *sum, const tally_spec_counts *more);
// "drafted 120, accepted 96 (80 %), 31 verify steps" behind `before`; nothing when nothing was drafted.
void speculation_print(FILE *out, const char *before, const tally_spec_counts *c);
// Sets "drafted", "accepted", "emitted", "verify_steps", "shadow_checks". 0, or -1 when memory ran out.
int speculation_json(json_t *object, const tally_spec_counts *c);

#endif
