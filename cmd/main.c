// The `tally` program: finds the subcommand and runs it. Exit codes: 0 done, 1 failed, 2 usage, 130 interrupted.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "cmd/args.h"
#include "cmd/commands.h"
#include "cmd/common.h"

static const command commands[] = {
    {"run", CMD_RUN, "-m MODEL -p TEXT [options]", "Completes a prompt and streams the text",
     "Text goes to standard output, speed and memory to standard error. Without --temp decoding is greedy. Ctrl-C "
     "ends\n"
     "after the current step, keeps what was printed, and exits with 130.\n\n"
     "With --requests, every line of a file is a JSON object with one of \"prompt\", \"ids\" and \"messages\" (with\n"
     "\"tools\", \"template_kwargs\"), and any of \"n\", \"temp\", \"top_k\", \"top_p\", \"min_p\", "
     "\"repeat_penalty\",\n"
     "\"presence_penalty\", \"frequency_penalty\", \"logit_bias\" ({\"15043\": 1.5, \"7\": \"-inf\"}), \"seed\", "
     "\"stop\" (a text\n"
     "or a list), \"logprobs\", \"ignore_eos\", \"spec\"; options are the defaults. --parallel of them run at once. "
     "Results are "
     "one\n"
     "object a line, as --json prints, in the order of the file; a line that cannot be answered gives {\"error\", "
     "\"line\"},\n"
     "and the exit code is then 1. With -c the lines of a pipe are answered as they come; without, the file is read "
     "twice.",
     cmd_run},
    {"chat", CMD_CHAT, "-m MODEL [options]", "Talks with a model in the terminal",
     "Ctrl-C stops an answer, twice it quits, as Ctrl-D does. Lines that begin with / are commands: /help, /clear,\n"
     "/system TEXT, /save FILE, /load FILE. What was said stays in the cache: a turn computes its new text only.",
     cmd_chat},
    {"bench", CMD_BENCH, "-m MODEL [options]", "Times prompts and generation, and checks what was generated",
     "One row for each number of threads, depth, number of sequences, and length: pp for prompts, tg for generation. "
     "A\n"
     "row tells the share of the machine's memory bandwidth that was used, whether every id equals plain greedy "
     "decoding\n"
     "(one sequence, one thread, no merged operations), and whether the text repeats itself: OK, LOOP_n (a loop of n\n"
     "tokens), LOW_DIVERSITY.\n\n"
     "With --spec-suite, every prompt of a set is answered without drafts and with those of --spec by the same engine: "
     "once "
     "with\n"
     "log-probabilities, where ids, log-probabilities and the logits behind the last token must be equal to the last "
     "bit, "
     "then -r\n"
     "times each in turn for the speeds. Any difference is told, and the exit code is then 1. With --verify-rows, "
     "steps of "
     "so many\n"
     "rows of one sequence are timed, beside the acceptance from which drafts of that length pay.",
     cmd_bench},
    {"eval", CMD_EVAL, "-m MODEL --ids LIST --logits FILE [options]", "Runs a text or ids and measures the model on it",
     "Writes the logits of every position (--logits), prints the perplexity of a text (--perplexity), or compares "
     "with\n"
     "logits from elsewhere (--kl). A text longer than the context is cut into windows of -c tokens for --perplexity.",
     cmd_eval},
    {"tokenize", CMD_TOKENIZE, "-m MODEL [options] <TEXT", "Turns text from standard input into a JSON array of ids",
     "No weights are loaded; a folder that holds only tokenizer files will do.", cmd_tokenize},
    {"detokenize", CMD_DETOKENIZE, "-m MODEL [options] <IDS", "Turns a JSON array of ids from standard input into text",
     "No weights are loaded. Bytes that are no character become U+FFFD.", cmd_detokenize},
    {"inspect", CMD_INSPECT, "MODEL [options]", "Shows a model's configuration, tensors, stop ids and memory plan",
     "No weights are loaded. The memory plan is for -c positions (default: the model's maximum).", cmd_inspect},
    {"plan", CMD_PLAN, "MODEL --device DEVICE [options]", "Counts what a step costs on a described device",
     "Lists the operations of a prefill and of a decode step with arithmetic, bytes, launches and time. config.json "
     "alone\n"
     "is enough: MODEL may be a folder with nothing else, or the file. Ascend NPUs have names, docs/devices holds\n"
     "descriptions of other devices.",
     cmd_plan},
    {"devices", CMD_DEVICES, "[options]", "Lists what this machine can compute on",
     "The processor with its kernel levels, and Ascend NPUs; where there is none, the libraries that were looked for.",
     cmd_devices},
};
#define EXIT_CODES \
    "Results go to standard output, all else to standard error. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 " \
    "interrupted.\n"
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_overview(FILE *out) {
    fprintf(out, "usage: tally COMMAND [options]\n\n");
    for (int i = 0; i < N_COMMANDS; i++) fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].summary);
    fprintf(out, "  %-12s %s\n", "help", "Explains a command: tally help run");
    fprintf(out, "\n  tally --version    version\n  tally help cpu     kernel levels of this build and processor\n  "
                 "tally help env     environment variables\n\n" EXIT_CODES);
}

static void print_levels(void) {
    const char *name, *help;
    bool available;
    for (int i = 0; (name = tally_cpu_level(i, &help, &available)); i++) {
        printf("%-10s %-12s %s\n", name, available ? "available" : "not here", help);
    }
}

static void print_command(const command *cmd) {
    args_help(cmd, stdout);
    printf("\n%s'tally help env' lists the environment variables that count.\n", EXIT_CODES);
}

static void print_environment(void) {
    int width = 0;
    for (int i = 0; i < ENV_COUNT; i++) {
        int n = (int)strlen(env_text((env_name)i));
        width = n > width ? n : width;
    }
    for (int i = 0; i < ENV_COUNT; i++) printf("%-*s  %s\n", width, env_text((env_name)i), env_help((env_name)i));
}

static const command *find_command(const char *name) {
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    }
    return NULL;
}

static int unknown_command(const char *name) {
    const char *names[N_COMMANDS + 2] = {0};
    for (int i = 0; i < N_COMMANDS; i++) names[i] = commands[i].name;
    names[N_COMMANDS] = "help";
    const char *near = args_nearest(name, names);
    if (near) return usage_error("there is no command '%s'; did you mean '%s'? ('tally help' lists all)", name, near);
    return usage_error("there is no command '%s'; 'tally help' lists all", name);
}

static int help(int argc, char **argv) {
    if (argc == 0) {
        print_overview(stdout);
        return EXIT_DONE;
    }
    if (strcmp(argv[0], "cpu") == 0) {
        print_levels();
        return EXIT_DONE;
    }
    if (strcmp(argv[0], "env") == 0) {
        print_environment();
        return EXIT_DONE;
    }
    const command *cmd = find_command(argv[0]);
    if (!cmd) return unknown_command(argv[0]);
    print_command(cmd);
    return EXIT_DONE;
}

static int dispatch(int argc, char **argv) {
    if (argc < 2) {
        print_overview(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("tally %s\n", tally_version());
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        return help(argc - 2, argv + 2);
    }
    const command *cmd = find_command(argv[1]);
    if (!cmd) return unknown_command(argv[1]);
    options o;
    bool wants_help;
    int rc = args_parse(cmd, argc - 2, argv + 2, &o, &wants_help);
    if (rc == 0 && wants_help) {
        print_command(cmd);
    } else if (rc == 0) {
        rc = cmd->run(&o);
    }
    args_deinit(&o);
    return rc;
}

int main(int argc, char **argv) {
    int rc = dispatch(argc, argv);
    bool failed = ferror(stdout);
    if (fflush(stdout) != 0 || failed) {
        int code = fail("cannot write to standard output: %s", errno ? strerror(errno) : "write error");
        if (rc == EXIT_DONE) rc = code;
    }
    return rc;
}
