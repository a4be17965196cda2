// `run --requests`: many requests from a file, several at once.
#ifndef TALLY_CMD_REQUESTS_H
#define TALLY_CMD_REQUESTS_H

#include "cmd/args.h"

int requests_run(const options *o);

#endif
