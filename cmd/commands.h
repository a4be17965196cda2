// The subcommands. Each takes parsed options and returns an exit code.
#ifndef TALLY_CMD_COMMANDS_H
#define TALLY_CMD_COMMANDS_H

#include "cmd/args.h"

int cmd_run(const options *o);
int cmd_chat(const options *o);
int cmd_bench(const options *o);
int cmd_eval(const options *o);
int cmd_tokenize(const options *o);
int cmd_detokenize(const options *o);
int cmd_inspect(const options *o);
int cmd_plan(const options *o);
int cmd_devices(const options *o);

#endif
