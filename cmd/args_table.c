#include "cmd/args_table.h"

#include <limits.h>

#define FIELD(name) offsetof(options, name)
#define FLAG(group, names, field, commands, help) \
    { group, names, NULL, OPTION_FLAG, FIELD(field), commands, 0, 0, 0, NULL, help }
#define INT(group, names, arg, field, commands, min, max, def, help) \
    { group, names, arg, OPTION_INT, FIELD(field), commands, min, max, def, NULL, help }
#define REAL(names, arg, field, commands, min, max, def, help) \
    { "Sampling", names, arg, OPTION_REAL, FIELD(field), commands, min, max, def, NULL, help }
#define TEXT(group, names, arg, field, commands, help) \
    { group, names, arg, OPTION_TEXT, FIELD(field), commands, 0, 0, 0, NULL, help }

enum {
    PROMPTS = CMD_RUN | CMD_EVAL,                // takes a prompt on the command line
    LOADS = PROMPTS | CMD_CHAT | CMD_BENCH,      // loads weights
    SAMPLES = CMD_RUN | CMD_BENCH,               // greedy without options
    SPECULATES = CMD_RUN | CMD_CHAT | CMD_BENCH, // can draft tokens ahead
    PLANS = LOADS | CMD_INSPECT,                 // knows the memory plan
    CACHES = PLANS | CMD_PLAN,                   // knows the cache's types
    CODES = CMD_TOKENIZE | CMD_DETOKENIZE,       // works on a tokenizer alone
    CHATS = CMD_RUN | CMD_TOKENIZE,              // renders a chat template
    ENCODES = CMD_RUN | CMD_EVAL | CMD_TOKENIZE, // turns text into ids
};

#define CACHE_TYPES "f32|f16|bf16|q8_0"
#define SPEC_MODES "off|auto|lookup|draft|tree"

const option_row option_table[] = {
    TEXT("Model", "-m, --model", "MODEL", model, CACHES | CODES,
         "Hugging Face folder, .gguf file, or org/name in the Hugging Face cache"),
    INT("Model", "-c, --ctx-size", "N", context, PROMPTS & ~CMD_EVAL, 0, INT_MAX, CONTEXT_AUTO,
        "positions of the context; 0: the model's maximum, or less if memory is short; default: as many as the prompt "
        "and -n need, without -n as 0"),
    INT("Model", "-c, --ctx-size", "N", context, CMD_EVAL, 0, INT_MAX, CONTEXT_AUTO,
        "positions of the context; 0: the model's maximum, or less if memory is short; default: as many as there are "
        "tokens, at most the maximum"),
    INT("Model", "-c, --ctx-size", "N", context, CMD_INSPECT, 0, INT_MAX, CONTEXT_AUTO,
        "positions that the memory plan is for; 0 and default: the model's maximum"),
    INT("Model", "-c, --ctx-size", "N", context, CMD_CHAT, 0, INT_MAX, CONTEXT_AUTO,
        "positions of the context; 0: the model's maximum, or less if memory is short; default 8192, or the maximum if "
        "that is less"),
    INT("Model", "-c, --ctx-size", "N", context, CMD_PLAN, 0, INT_MAX, CONTEXT_AUTO,
        "positions a token of the decode step attends to; 0: the model's maximum; default 4096"),
    INT("Model", "-b, --batch-size", "N", batch, PLANS, 1, 65536, 0,
        "rows computed in one step at most, all sequences together; default 512"),
    INT("Model", "-ub, --ubatch-size", "N", ubatch, PLANS, 1, 65536, 0,
        "rows of one prompt in one step at most, so that a long prompt delays others less; default: as -b"),
    {"Model", "-ctk, --cache-type-k", "TYPE", OPTION_TEXT, FIELD(cache_k), CACHES, 0, 0, 0, CACHE_TYPES,
     "type of cached keys: f32, f16, bf16, q8_0; default: f32 for F32 models, else f16"},
    {"Model", "-ctv, --cache-type-v", "TYPE", OPTION_TEXT, FIELD(cache_v), CACHES, 0, 0, 0, CACHE_TYPES,
     "type of cached values, likewise"},
    INT("Model", "-t, --threads", "N", threads, PROMPTS | CMD_CHAT, 1, 1024, 0,
        "threads; default: one per physical core"),
    TEXT("Model", "--cpu", "LEVEL", cpu_level, LOADS, "pins a kernel level; 'tally help cpu' lists them"),
    TEXT("Model", "--device", "DEVICE", device, LOADS,
         "cpu (default), ascend:N, or emu:CHIP, the emulator; 'tally devices' lists NPUs, docs/ascend.md the chips and "
         "settings"),
    {"Model", "--dtype", "TYPE", OPTION_TEXT, FIELD(dtype), LOADS, 0, 0, 0, "f16|bf16",
     "with an NPU: weights are converted to f16 or bf16 when they are loaded; default: as in the file"},
    {"Model", "--exact", "ON", OPTION_TEXT, FIELD(exact), LOADS, 0, 0, 0, "on|off",
     "with an NPU: off computes steps in their own shapes, faster for prompts, and may change answers; default on"},
    {"Model", "--graph", "WHEN", OPTION_TEXT, FIELD(graph), LOADS, 0, 0, 0, "auto|on|off",
     "with an NPU: replay captured steps; default auto, where chip and library can (same results)"},
    FLAG("Model", "--no-mmap", no_mmap, PLANS, "read the files into memory instead of mapping them"),
    FLAG("Model", "--no-repack", no_repack, PLANS,
         "leave weights in the file and pack what a step needs (same results, less memory, slower)"),
    FLAG("Model", "--no-fuse", no_fuse, LOADS | CMD_PLAN,
         "run every operation by itself (same results on the processor, slower)"),

    TEXT("Plan", "--device", "DEVICE", device_file, CMD_PLAN,
         "ascend-a3, ascend-a2, ascend-910b3, ascend-910b4, ascend-910a, or a file that describes a device "
         "(docs/plan.md); required"),
    INT("Plan", "--tp", "N", ranks, CMD_PLAN, 1, 1024, 0,
        "devices that share the model's heads, columns and vocabulary; the plan is of one of them; default 1"),
    INT("Plan", "-p, --n-prompt", "N", prompt_rows, CMD_PLAN, 1, 1048576, 0, "rows of the prefill step; default 512"),
    INT("Plan", "--batch", "N", sequences, CMD_PLAN, 1, 65536, 0, "sequences of the decode step; default 1"),
    TEXT("Plan", "--type", "TYPE", weight_type, CMD_PLAN,
         "weight type to assume, such as bf16, q8_0, q4_k; default: the tensors' own, else what config.json names"),
    FLAG("Plan", "--per-op", per_op, CMD_PLAN, "list every operation of every layer instead of sums over layers"),

    TEXT("Prompt", "-p, --prompt", "TEXT", prompt, PROMPTS, "the prompt"),
    TEXT("Prompt", "-f, --file", "FILE", prompt_file, PROMPTS, "the prompt from a file; '-': standard input"),
    TEXT("Prompt", "--ids", "LIST", ids, PROMPTS, "the prompt as token ids: 1,2,3"),
    FLAG("Prompt", "--no-parse-special", no_parse_special, ENCODES, "special tokens spelled in a raw prompt stay text"),
    FLAG("Prompt", "--chat", chat, CMD_RUN, "the prompt is a user's message; applies the model's chat template"),
    FLAG("Prompt", "--chat", chat, CMD_TOKENIZE,
         "standard input is a JSON array of messages; applies the chat template"),
    TEXT("Prompt", "-sys, --system-prompt", "TEXT", system, CMD_RUN, "system message; needs --chat"),
    TEXT("Prompt", "-sys, --system-prompt", "TEXT", system, CMD_CHAT, "system message"),
    TEXT("Prompt", "--tools", "JSON", tools, CHATS, "JSON array of tools for the template; needs --chat"),
    TEXT("Prompt", "--tools", "JSON", tools, CMD_CHAT, "JSON array of tools for the template"),
    TEXT("Prompt", "--template-kwargs", "JSON", template_kwargs, CMD_CHAT, "JSON object of further template variables"),
    TEXT("Prompt", "--template-kwargs", "JSON", template_kwargs, CHATS,
         "JSON object of further template variables; needs --chat"),
    TEXT("Prompt", "--chat-template-file", "FILE", template_file, CHATS | CMD_CHAT,
         "a Jinja template instead of the model's own"),
    FLAG("Prompt", "--no-generation-prompt", no_generation_prompt, CMD_TOKENIZE, "do not open the assistant's turn"),

    TEXT("Bench", "-p, --n-prompt", "LIST", bench_prompt, CMD_BENCH,
         "prompt lengths to time: 128,512; 0: none; default 512"),
    TEXT("Bench", "-n, --n-gen", "LIST", bench_gen, CMD_BENCH,
         "numbers of generated tokens to time; 0: none; default 128, 256 with --spec-suite"),
    TEXT("Bench", "-d, --n-depth", "LIST", bench_depth, CMD_BENCH,
         "positions in the cache before the clock starts; default 0, 256 with --verify-rows"),
    TEXT("Bench", "-t, --threads", "LIST", bench_threads, CMD_BENCH,
         "threads; default: one per physical core; 1 and that with --machine"),
    TEXT("Bench", "--parallel, -np", "LIST", bench_parallel, CMD_BENCH, "sequences at once; default 1"),
    INT("Bench", "-r, --repetitions", "N", repetitions, CMD_BENCH, 0, 1000, 5,
        "timed repetitions of each row; default 5; 0: --spec-suite only compares answers"),
    {"Bench", "-o, --output", "FORMAT", OPTION_TEXT, FIELD(bench_format), CMD_BENCH, 0, 0, 0, "md|json",
     "md (default): a Markdown table; json: one JSON array"},
    FLAG("Bench", "--machine", machine, CMD_BENCH,
         "measure the machine instead of a model: bandwidth, and multiply-adds per kernel level; with -t and -o only"),
    TEXT("Bench", "--measured", "FILE", measured, CMD_BENCH,
         "limits that `tally bench --machine -o json` printed here, instead of measuring them again"),
    FLAG("Bench", "--trace", trace, CMD_BENCH,
         "show what the operations of each row take, read and compute, in one repetition more"),
    FLAG("Bench", "--per-op", per_op, CMD_BENCH, "with --trace: a row for every weight instead of every kind"),
    FLAG("Bench", "--spec-suite", spec_suite, CMD_BENCH,
         "every prompt of a set with and without --spec: speeds, acceptance, and whether the answers are equal"),
    TEXT("Bench", "--spec-prompts", "FILE", spec_prompts, CMD_BENCH,
         "the set of --spec-suite; default bench/prompts/spec.txt, which says how a set is written"),
    FLAG("Bench", "--spec-stops", spec_stops, CMD_BENCH,
         "--spec-suite ends answers at stop ids and at the set's stop texts instead of always after -n tokens"),
    TEXT("Bench", "--spec-plain", "FILE", spec_plain, CMD_BENCH,
         "--spec-suite takes plain answers from FILE, and adds those that it lacks"),
    TEXT("Bench", "--verify-rows", "LIST", verify_rows, CMD_BENCH,
         "times steps of so many rows of one sequence (1..17): what verifying drafts costs, and when it pays"),

    TEXT("Requests", "--requests", "FILE", requests, CMD_RUN,
         "answer every line of FILE ('-': standard input), a JSON object with prompt, ids or messages"),
    INT("Requests", "--parallel, -np", "N", parallel, CMD_RUN, 1, 4096, 1,
        "with --requests: sequences at once; default 1"),
    {"Requests", "--cache-positions", "N", OPTION_INT64, FIELD(cache_positions), CMD_RUN, 1, 1e12, 0, NULL,
     "positions of the cache of all sequences together; default: what --parallel requests need, if memory allows"},
    FLAG("Requests", "--no-prefix-reuse", no_prefix_reuse, CMD_RUN,
         "compute every prompt anew, also where one starts like another (same results)"),

    {"Speculation", "--spec", "MODE", OPTION_TEXT, FIELD(spec), CMD_RUN | CMD_CHAT, 0, 0, 0, SPEC_MODES,
     "guess tokens ahead and verify them together (same output): off, auto (default), lookup, draft, tree"},
    {"Speculation", "--spec", "MODE", OPTION_TEXT, FIELD(spec), CMD_BENCH, 0, 0, 0, SPEC_MODES,
     "as for run; default: auto with --spec-suite or -md, else off: speeds are then those of single steps"},
    TEXT("Speculation", "-md, --model-draft", "MODEL", model_draft, SPECULATES,
         "a smaller model of the same vocabulary that guesses; needed by --spec draft, used by auto and tree"),
    INT("Speculation", "--draft-max, --draft, --draft-n", "N", draft_max, SPECULATES, 1, 16, 0,
        "tokens guessed for one step at most, 1 to 16; default 16"),
    INT("Speculation", "--draft-min, --draft-n-min", "N", draft_min, SPECULATES, 1, 16, 0,
        "fewer guessed tokens than this are not verified; default 1"),
    INT("Speculation", "--lookup-min", "N", lookup_min, SPECULATES, 1, 16, 0,
        "tokens that must match for a lookup at least; default 2"),
    INT("Speculation", "--lookup-max", "N", lookup_max, SPECULATES, 1, 16, 0,
        "tokens compared by a lookup at most; default 5"),
    {"Speculation", "--lookup-corpus", "TOKENS", OPTION_INT64, FIELD(lookup_corpus), SPECULATES, 0, 1e9, 0, NULL,
     "tokens of finished requests that lookups may use too; default 0: none"},
    INT("Speculation", "--shadow", "N", shadow, SPECULATES, 0, INT_MAX, 0,
        "every N verify steps compute one position again alone and compare; default 0: never"),

    INT("Length", "-n, --predict, --n-predict", "N", n_predict, CMD_RUN | CMD_CHAT, -1, INT_MAX, -1,
        "new tokens at most; -1 (default): until a stop or the context ends"),
    {"Length", "--stop, -r, --reverse-prompt", "TEXT", OPTION_TEXTS, FIELD(stops), CMD_RUN | CMD_CHAT, 0, 0, 0, NULL,
     "end before this text; may be given several times"},
    FLAG("Length", "--ignore-eos", ignore_eos, CMD_RUN, "go on at stop ids"),

    REAL("--temp, --temperature", "T", temperature, SAMPLES, 0, 1000, 0, "temperature; 0 (default) is greedy"),
    {"Sampling", "--top-k", "K", OPTION_INT, FIELD(top_k), SAMPLES, 0, INT_MAX, 0, NULL,
     "keep the K best; 0 (default): off"},
    REAL("--top-p", "P", top_p, SAMPLES, 0, 1, 1, "keep the best with probability P together; 1 (default): off"),
    REAL("--min-p", "P", min_p, SAMPLES, 0, 1, 0, "drop what is below P times the best; 0 (default): off"),
    REAL("--temp, --temperature", "T", temperature, CMD_CHAT, 0, 1000, SAMPLING_UNSET,
         "temperature, 0 is greedy; default, here and below: what the model recommends, else 0.7 and top-p 0.9"),
    {"Sampling", "--top-k", "K", OPTION_INT, FIELD(top_k), CMD_CHAT, 0, INT_MAX, SAMPLING_UNSET, NULL,
     "keep the K best; 0: off"},
    REAL("--top-p", "P", top_p, CMD_CHAT, 0, 1, SAMPLING_UNSET, "keep the best with probability P together; 1: off"),
    REAL("--min-p", "P", min_p, CMD_CHAT, 0, 1, SAMPLING_UNSET, "drop what is below P times the best; 0: off"),
    REAL("--repeat-penalty", "X", repeat_penalty, CMD_CHAT, 0.01, 100, SAMPLING_UNSET,
         "penalty of tokens in prompt and output; 1: off"),
    REAL("--repeat-penalty", "X", repeat_penalty, SAMPLES, 0.01, 100, 1,
         "penalty of tokens in prompt and output; 1 (default): off"),
    REAL("--presence-penalty", "X", presence_penalty, SPECULATES, -100, 100, 0,
         "penalty of tokens in the output; 0 (default): off"),
    REAL("--frequency-penalty", "X", frequency_penalty, SPECULATES, -100, 100, 0,
         "the same for each time the token occurs; 0 (default): off"),
    {"Sampling", "-l, --logit-bias", "ID(+|-)BIAS", OPTION_TEXTS, FIELD(logit_bias), CMD_RUN | CMD_CHAT, 0, 0, 0, NULL,
     "add BIAS to a token's logit: 15043+1.5, 15043-inf; may be given several times"},
    {"Sampling", "-s, --seed", "N", OPTION_INT64, FIELD(seed), CMD_RUN | CMD_CHAT, -1, 9223372036854775807.0,
     SEED_RANDOM, NULL, "seed; -1 (default): random, printed behind a sampled answer (in a chat: by -v)"},
    {"Sampling", "-s, --seed", "N", OPTION_INT64, FIELD(seed), CMD_BENCH, 0, 9223372036854775807.0, 1, NULL,
     "seed of the first prompt, the next has one more; default 1"},

    TEXT("Output", "--logits", "FILE", logits_file, CMD_EVAL,
         "write the logits of every position: float32, little-endian, [ids, vocabulary]"),
    TEXT("Output", "--perplexity", "FILE", perplexity_file, CMD_EVAL,
         "the prompt from a file, and print its perplexity"),
    TEXT("Output", "--kl", "FILE", kl_file, CMD_EVAL,
         "compare with the logits in FILE (as written by --logits): KL divergence, same top token, perplexities"),
    INT("Output", "--chunk", "M", chunk, CMD_EVAL, 1, 65536, 0, "rows per step, at most -b; default: 32"),
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
    FLAG("Output", "--json", json, CMD_EVAL | CMD_INSPECT | CMD_PLAN | CMD_DEVICES,
         "print one JSON object instead of a table"),
    FLAG("Output", "-v, --verbose", verbose, LOADS,
         "memory table even when stderr is no terminal, and in a chat the timings of each turn"),
    {0},
};

_Static_assert(sizeof option_table / sizeof *option_table <= OPTION_ROWS_MAX, "args.c has a bit for each row");

const option_need option_needs[] = {
    {CMD_RUN, "--parallel, --cache-positions, --no-prefix-reuse", "--requests"},
    {CMD_BENCH, "--per-op", "--trace"},
    {CMD_BENCH, "--spec-prompts, --spec-stops, --spec-plain", "--spec-suite"},
    {CMD_BENCH, "--temp, --top-k, --top-p, --min-p, --repeat-penalty, --presence-penalty, --frequency-penalty, --seed",
     "--spec-suite"},
    {0},
};

const option_only option_onlys[] = {
    {CMD_BENCH, "--machine", "-t, -o"},
    {0},
};
