// The command line: one table of options for all subcommands, from which parsing, range checks and help are made.
#ifndef TALLY_CMD_ARGS_H
#define TALLY_CMD_ARGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { // which subcommands take an option
    CMD_RUN = 1,
    CMD_EVAL = 2,
    CMD_TOKENIZE = 4,
    CMD_DETOKENIZE = 8,
    CMD_INSPECT = 16,
    CMD_CHAT = 32,
    CMD_BENCH = 64,
    CMD_PLAN = 128,
    CMD_DEVICES = 256,
};

enum { CONTEXT_AUTO = -1, SEED_RANDOM = -1, SAMPLING_UNSET = -1 };

typedef struct text_list {
    const char **items; // owned array of borrowed strings
    int n;
} text_list;

typedef struct options { // strings are borrowed from argv
    const char *model;
    int threads; // 0: the library's default
    const char *cpu_level;
    const char *device, *dtype, *exact, *graph;
    int context; // CONTEXT_AUTO: what the request needs; 0: the model's maximum
    int batch, ubatch;
    const char *cache_k, *cache_v;
    bool no_mmap, no_repack, no_fuse, verbose;

    const char *prompt, *prompt_file, *ids;
    bool no_parse_special;
    bool chat, no_generation_prompt;
    const char *system, *tools, *template_kwargs, *template_file;

    int n_predict; // -1: until a stop or the context ends
    bool ignore_eos;
    text_list stops, logit_bias;
    double temperature, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
    int top_k;
    int64_t seed; // SEED_RANDOM, or 0 .. 2^63-1

    bool json;
    int logprobs;
    const char *logits_file, *perplexity_file, *kl_file;
    int chunk;
    const char *requests; // file of requests, "-": standard input
    int parallel;
    int64_t cache_positions; // 0: what the requests need
    bool no_prefix_reuse;

    const char *spec, *model_draft;                   // NULL: the command's default; no draft model
    int draft_max, draft_min, lookup_min, lookup_max; // 0: the library's default
    int64_t lookup_corpus;
    int shadow;

    const char *bench_prompt, *bench_gen, *bench_depth, *bench_threads, *bench_parallel,
        *bench_format; // lists "512,4096"
    int repetitions;
    bool machine, trace;
    bool spec_suite, spec_stops;
    const char *spec_prompts, *spec_plain, *verify_rows, *measured;

    bool batch_json, no_special, skip_special, text;

    const char *device_file, *weight_type;
    int prompt_rows, sequences, ranks; // 0: the library's default
    bool per_op;
} options;

typedef struct command {
    const char *name;
    unsigned bit;
    const char *usage;   // what follows "tally NAME"
    const char *summary; // one line
    const char *details; // further lines of help
    int (*run)(const options *o);
} command;

// Fills *o from argv[0..argc). Returns 0, or 2 after telling on stderr what is wrong; *help is set when -h or --help was seen.
int args_parse(const command *cmd, int argc, char **argv, options *o, bool *help);
void args_deinit(options *o);
void args_help(const command *cmd, FILE *out);

// The entry of a NULL-terminated list that is most like `word`, or NULL when none is near.
const char *args_nearest(const char *word, const char *const *list);

#endif
