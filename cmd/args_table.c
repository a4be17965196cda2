#include "cmd/args_table.h"

#include <limits.h>

#define FIELD(name) offsetof(options, name)
#define FLAG(group, names, field, commands, help) \
    { group, names, NULL, OPTION_FLAG, FIELD(field), commands, 0, 0, 0, NULL, help }
#define INT(group, names, arg, field, commands, min, max, def, help) \
    { group, names, arg, OPTION_INT, FIELD(field), commands, min, max, def, NULL, help }
#define REAL(names, arg, field, min, max, def, help) \
    { "Sampling", names, arg, OPTION_REAL, FIELD(field), CMD_RUN, min, max, def, NULL, help }
#define TEXT(group, names, arg, field, commands, help) \
    { group, names, arg, OPTION_TEXT, FIELD(field), commands, 0, 0, 0, NULL, help }

enum {
    LOADS = CMD_RUN | CMD_EVAL,                  // loads weights
    PLANS = LOADS | CMD_INSPECT,                 // knows the memory plan
    CACHES = PLANS | CMD_PLAN,                   // knows the cache's types
    CODES = CMD_TOKENIZE | CMD_DETOKENIZE,       // works on a tokenizer alone
    CHATS = CMD_RUN | CMD_TOKENIZE,              // renders a chat template
    ENCODES = CMD_RUN | CMD_EVAL | CMD_TOKENIZE, // turns text into ids
};

#define CACHE_TYPES "f32|f16|bf16|q8_0"

const option_row option_table[] = {
    TEXT("Model", "-m, --model", "MODEL", model, CACHES | CODES,
         "Hugging Face folder, .gguf file, or org/name in the Hugging Face cache"),
    INT("Model", "-c, --ctx-size", "N", context, PLANS, 0, INT_MAX, CONTEXT_AUTO,
        "positions of the context; 0: the model's maximum; default: what the request needs"),
    INT("Model", "-c, --ctx-size", "N", context, CMD_PLAN, 0, INT_MAX, CONTEXT_AUTO,
        "positions a token of the decode step attends to; 0: the model's maximum; default 4096"),
    INT("Model", "-b, --batch-size", "N", batch, PLANS, 1, 65536, 0, "rows computed in one step at most; default 512"),
    INT("Model", "-ub, --ubatch-size", "N", ubatch, PLANS, 1, 65536, 0,
        "the same limit; the smaller of -b and -ub counts"),
    {"Model", "-ctk, --cache-type-k", "TYPE", OPTION_TEXT, FIELD(cache_k), CACHES, 0, 0, 0, CACHE_TYPES,
     "type of cached keys: f32, f16, bf16, q8_0; default: f32 for F32 models, else f16"},
    {"Model", "-ctv, --cache-type-v", "TYPE", OPTION_TEXT, FIELD(cache_v), CACHES, 0, 0, 0, CACHE_TYPES,
     "type of cached values, likewise"},
    INT("Model", "-t, --threads", "N", threads, LOADS, 1, 1024, 0, "threads; default: one per physical core"),
    TEXT("Model", "--cpu", "LEVEL", cpu_level, LOADS, "pins a kernel level; 'tally help cpu' lists them"),
    FLAG("Model", "--no-mmap", no_mmap, PLANS, "read the files into memory instead of mapping them"),
    FLAG("Model", "--no-fuse", no_fuse, LOADS | CMD_PLAN, "run every operation by itself (same results, slower)"),

    TEXT("Plan", "--device", "FILE", device_file, CMD_PLAN, "the device's description (docs/plan.md); required"),
    INT("Plan", "-p, --n-prompt", "N", prompt_rows, CMD_PLAN, 1, 1048576, 0, "rows of the prefill step; default 512"),
    INT("Plan", "--batch", "N", sequences, CMD_PLAN, 1, 65536, 0, "sequences of the decode step; default 1"),
    TEXT("Plan", "--type", "TYPE", weight_type, CMD_PLAN,
         "weight type to assume, such as bf16, q8_0, q4_k; default: the tensors' own, else what config.json names"),
    FLAG("Plan", "--per-op", per_op, CMD_PLAN, "list every operation of every layer instead of sums over layers"),

    TEXT("Prompt", "-p, --prompt", "TEXT", prompt, LOADS, "the prompt"),
    TEXT("Prompt", "-f, --file", "FILE", prompt_file, LOADS, "the prompt from a file; '-': standard input"),
    TEXT("Prompt", "--ids", "LIST", ids, LOADS, "the prompt as token ids: 1,2,3"),
    FLAG("Prompt", "--no-parse-special", no_parse_special, ENCODES, "special tokens spelled in a raw prompt stay text"),
    FLAG("Prompt", "--chat", chat, CMD_RUN, "the prompt is a user's message; applies the model's chat template"),
    FLAG("Prompt", "--chat", chat, CMD_TOKENIZE,
         "standard input is a JSON array of messages; applies the chat template"),
    TEXT("Prompt", "-sys, --system-prompt", "TEXT", system, CMD_RUN, "system message; needs --chat"),
    TEXT("Prompt", "--tools", "JSON", tools, CHATS, "JSON array of tools for the template; needs --chat"),
    TEXT("Prompt", "--template-kwargs", "JSON", template_kwargs, CHATS,
         "JSON object of further template variables; needs --chat"),
    TEXT("Prompt", "--chat-template-file", "FILE", template_file, CHATS, "a Jinja template instead of the model's own"),
    FLAG("Prompt", "--no-generation-prompt", no_generation_prompt, CMD_TOKENIZE, "do not open the assistant's turn"),

    INT("Length", "-n, --predict, --n-predict", "N", n_predict, CMD_RUN, -1, INT_MAX, -1,
        "new tokens at most; -1 (default): until a stop or the context ends"),
    {"Length", "--stop, -r, --reverse-prompt", "TEXT", OPTION_TEXTS, FIELD(stops), CMD_RUN, 0, 0, 0, NULL,
     "end before this text; may be given several times"},
    FLAG("Length", "--ignore-eos", ignore_eos, CMD_RUN, "go on at stop ids"),

    REAL("--temp, --temperature", "T", temperature, 0, 1000, 0, "temperature; 0 (default) is greedy"),
    {"Sampling", "--top-k", "K", OPTION_INT, FIELD(top_k), CMD_RUN, 0, INT_MAX, 0, NULL,
     "keep the K best; 0 (default): off"},
    REAL("--top-p", "P", top_p, 0, 1, 1, "keep the best with probability P together; 1 (default): off"),
    REAL("--min-p", "P", min_p, 0, 1, 0, "drop what is below P times the best; 0 (default): off"),
    REAL("--repeat-penalty", "X", repeat_penalty, 0.01, 100, 1,
         "penalty of tokens in prompt and output; 1 (default): off"),
    REAL("--presence-penalty", "X", presence_penalty, -100, 100, 0,
         "penalty of tokens in the output; 0 (default): off"),
    REAL("--frequency-penalty", "X", frequency_penalty, -100, 100, 0,
         "the same for each time the token occurs; 0 (default): off"),
    {"Sampling", "-l, --logit-bias", "ID(+|-)BIAS", OPTION_TEXTS, FIELD(logit_bias), CMD_RUN, 0, 0, 0, NULL,
     "add BIAS to a token's logit: 15043+1.5, 15043-inf; may be given several times"},
    {"Sampling", "-s, --seed", "N", OPTION_INT64, FIELD(seed), CMD_RUN, -1, 9223372036854775807.0, SEED_RANDOM, NULL,
     "seed; -1 (default): random, printed by --json"},

    TEXT("Output", "--logits", "FILE", logits_file, CMD_EVAL,
         "write the logits of every position: float32, little-endian, [ids, vocabulary]"),
    TEXT("Output", "--perplexity", "FILE", perplexity_file, CMD_EVAL,
         "the prompt from a file, and print its perplexity"),
    TEXT("Output", "--kl", "FILE", kl_file, CMD_EVAL,
         "compare with the logits in FILE (as written by --logits): KL divergence, same top token, perplexities"),
    INT("Output", "--chunk", "M", chunk, CMD_EVAL, 1, 65536, 0, "rows per step; default: as -b"),
    INT("Output", "--logprobs", "N", logprobs, CMD_RUN, 0, 1000, 0,
        "with --json: log-probability of each token and of the N best, before the samplers"),
    FLAG("Output", "--batch", batch_json, CMD_TOKENIZE,
         "standard input is a JSON array of texts; prints an array of arrays"),
    FLAG("Output", "--batch", batch_json, CMD_DETOKENIZE,
         "standard input is a JSON array of arrays of ids; prints an array of texts"),
    FLAG("Output", "--no-special", no_special, CMD_TOKENIZE, "add nothing around the text (no BOS)"),
    FLAG("Output", "--skip-special", skip_special, CMD_DETOKENIZE, "leave special tokens out of the text"),
    FLAG("Output", "--text", text, CMD_TOKENIZE, "with --chat: write the rendered prompt, byte for byte"),
    FLAG("Output", "--json", json, CMD_RUN, "print one JSON object at the end instead of text"),
    FLAG("Output", "--json", json, CMD_EVAL | CMD_INSPECT | CMD_PLAN, "print one JSON object instead of a table"),
    FLAG("Output", "-v, --verbose", verbose, PLANS, "memory table and timings even when stderr is no terminal"),
    {0},
};
