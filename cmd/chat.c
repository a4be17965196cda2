// tally chat: a conversation in the terminal. One session holds the cache of all that was said, so that a turn computes its new
// text only; where the template rewrites what was said (most drop old reasoning), from the first difference on.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/chat_input.h"
#include "cmd/commands.h"
#include "cmd/common.h"
#include "cmd/conversation.h"
#include "cmd/engines.h"
#include "cmd/line_edit.h"
#include "cmd/reasoning.h"
#include "cmd/request.h"
#include "cmd/speculation.h"

enum { CHAT_CONTEXT = 8192 }; // the block that an answer and the session may each have of their own

typedef struct chat_state {
    const options *o;
    tally_model *model;
    draft_engine draft;
    tally_engine *engine;
    tally_session *session;
    tally_sampling sampling;
    tally_logit_bias *bias;
    int64_t seed;
    conversation talk;
    chat_input_files files;
    line_edit *edit;
    bool terminal; // standard output is one
    bool armed;    // the next Ctrl-C quits
    bool quits;
    bool failed; // the last question was not answered
} chat_state;

// What the command line says, else what the model recommends, else temperature 0.7 and top-p 0.9.
static void choose_sampling(chat_state *s) {
    const options *o = s->o;
    tally_sampling *p = &s->sampling;
    tally_sampling from_options = request_from_options(o, s->bias, s->seed).sampling;
    if (!tally_model_sampling(s->model, p) || (p->temperature == 0 && p->repeat_penalty > 0)) {
        p->temperature = 0.7f;
        p->top_p = 0.9f;
    }
    if (o->temperature != SAMPLING_UNSET) p->temperature = from_options.temperature;
    if (o->top_p != SAMPLING_UNSET) p->top_p = from_options.top_p;
    if (o->min_p != SAMPLING_UNSET) p->min_p = from_options.min_p;
    if (o->top_k != SAMPLING_UNSET) p->top_k = from_options.top_k;
    if (o->repeat_penalty != SAMPLING_UNSET) p->repeat_penalty = from_options.repeat_penalty;
    p->presence_penalty = from_options.presence_penalty;
    p->frequency_penalty = from_options.frequency_penalty;
    p->logit_bias = from_options.logit_bias;
    p->n_logit_bias = from_options.n_logit_bias;
    p->seed = from_options.seed;
}

// ---- a turn --------------------------------------------------------------------------------------------------------------

static int prompt_of(chat_state *s, int32_t **ids, size_t *n) {
    char *messages = json_dumps(s->talk.messages, 0);
    if (!messages) return fail("memory ran out for the conversation");
    tally_chat chat = {.messages = messages,
                       .tools = s->o->tools,
                       .kwargs = s->o->template_kwargs,
                       .template_text = s->files.template_text};
    tally_error err;
    tally_status st = tally_chat_tokenize(s->model, &chat, ids, n, &err);
    free(messages);
    return st == TALLY_OK ? 0 : fail_with(&err);
}

// Whether the prompt ends with an open tag of reasoning, so that the answer begins inside.
static bool opens_reasoning(const chat_state *s, const int32_t *ids, size_t n) {
    enum { LAST = 8 };
    static const char tag[] = "<think>";
    size_t from = n > LAST ? n - LAST : 0, len;
    char *text;
    if (tally_detokenize(s->model, ids + from, n - from, false, &text, &len, NULL) != TALLY_OK) return false;
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == ' ')) len--;
    bool opens = len >= sizeof tag - 1 && memcmp(text + len - (sizeof tag - 1), tag, sizeof tag - 1) == 0;
    tally_free(text);
    return opens;
}

static void print_turn(const chat_state *s, const tally_generation *g, int64_t rows) {
    if (!s->o->verbose) return;
    tally_timings t;
    tally_generation_timings(g, &t);
    int n_ids;
    tally_generation_ids(g, &n_ids);
    fprintf(stderr,
            "prompt: %d tokens, %lld rows computed in this turn, first token after %.1f ms; answer: %d tokens, %.1f "
            "tokens/s",
            t.n_prompt, (long long)rows, t.prompt_ms, n_ids, decode_speed(&t));
    tally_spec_counts counts;
    tally_generation_spec_counts(g, &counts);
    speculation_print(stderr, "; ", &counts);
    if (s->sampling.temperature > 0) fprintf(stderr, "; seed %lld", (long long)s->seed);
    fputc('\n', stderr);
}

// Streams the answer until it is done or Ctrl-C comes.
static int stream(chat_state *s, const tally_generation *g, reasoning *r, bool *stopped) {
    tally_error err;
    size_t shown = 0, len;
    *stopped = false;
    for (bool done = false; !done;) {
        if (interrupt_take()) {
            *stopped = s->armed = true;
            break;
        }
        if (tally_engine_step(s->engine, NULL, &err) != TALLY_OK) return fail_with(&err);
        done = tally_generation_done(g);
        const char *text = tally_generation_text(g, &len);
        if (len > shown) reasoning_write(r, text + shown, len - shown);
        shown = len;
        fflush(stdout);
        if (ferror(stdout)) {
            s->quits = true; // main tells why
            return EXIT_FAILED;
        }
    }
    return 0;
}

static int finish_turn(chat_state *s, const tally_generation *g, bool stopped) {
    tally_error err;
    if (tally_generation_status(g, &err) != TALLY_OK) return fail_with(&err);
    if (tally_session_adopt(s->session, g, &err) != TALLY_OK) return fail_with(&err);
    size_t len;
    int n;
    const char *text = tally_generation_text(g, &len);
    tally_generation_ids(g, &n);
    if (stopped && len == 0) return EXIT_INTERRUPTED; // nothing was said: the question is taken back
    const char *reason = tally_generation_finish_reason(g);
    bool full = reason && strcmp(reason, "length") == 0 && (s->o->n_predict < 0 || n < s->o->n_predict);
    if (full) {
        fail("the context of %d positions is full; /save FILE keeps the conversation, /clear starts a new one",
             tally_engine_context(s->engine));
    }
    return conversation_add(&s->talk, "assistant", text, len);
}

// Answers the conversation, whose last message is the user's. Not 0: it was not answered.
static int answer(chat_state *s) {
    int32_t *ids;
    size_t n;
    int rc = prompt_of(s, &ids, &n);
    if (rc) return rc;
    int context = tally_engine_context(s->engine);
    if (n >= (size_t)context) {
        tally_free(ids);
        return fail(
            "the conversation has %zu tokens with this message, and the context %d positions; /clear starts a new "
            "one, -c makes it longer",
            n, context);
    }
    tally_request request = {.ids = ids,
                             .n_ids = (int)n,
                             .max_tokens = s->o->n_predict,
                             .sampling = s->sampling,
                             .stops = s->o->stops.items,
                             .n_stops = s->o->stops.n,
                             .session = s->session};
    tally_stats before, after;
    tally_engine_stats(s->engine, &before);
    tally_generation *g;
    tally_error err;
    bool stopped = false;
    if (tally_generate(s->engine, &request, &g, &err) != TALLY_OK) {
        tally_free(ids);
        return fail_with(&err);
    }
    reasoning r;
    reasoning_begin(&r, stdout, s->terminal, opens_reasoning(s, ids, n));
    rc = stream(s, g, &r, &stopped);
    reasoning_end(&r);
    putchar('\n');
    fflush(stdout);
    if (!rc) rc = finish_turn(s, g, stopped);
    tally_engine_stats(s->engine, &after);
    if (!rc) print_turn(s, g, after.rows - before.rows);
    tally_generation_close(g);
    tally_free(ids);
    return rc;
}

static void say(chat_state *s, const char *text, size_t len) {
    if (conversation_add(&s->talk, "user", text, len)) return;
    int rc = answer(s);
    s->failed = rc && rc != EXIT_INTERRUPTED;
    if (rc) conversation_drop_last(&s->talk);
}

// ---- commands ------------------------------------------------------------------------------------------------------------

static const char help_text[] = "/help         this text\n"
                                "/clear        forgets the conversation, but not the system message\n"
                                "/system TEXT  sets the system message; without TEXT: removes it\n"
                                "/save FILE    writes the conversation as JSON messages\n"
                                "/load FILE    goes on with a saved conversation\n"
                                "A line that begins with // is a message that begins with /.\n"
                                "Ctrl-C stops an answer, twice quits; Ctrl-D quits.\n";

typedef void chat_command_fn(chat_state *s, const char *argument);

static void do_help(chat_state *s, const char *argument) {
    (void)s, (void)argument;
    fputs(help_text, stdout);
}

static void do_clear(chat_state *s, const char *argument) {
    (void)argument;
    conversation_clear(&s->talk);
    tally_session_sync(s->session, NULL, 0, NULL); // gives its cache back; an empty session cannot fail
}

static void do_system(chat_state *s, const char *argument) {
    conversation_set_system(&s->talk, argument, strlen(argument));
}

static void do_save(chat_state *s, const char *argument) {
    if (!*argument) {
        fail("/save needs the name of a file");
    } else if (conversation_save(&s->talk, argument) == 0) {
        printf("saved %zu messages in %s\n", conversation_length(&s->talk), argument);
    }
}

static void do_load(chat_state *s, const char *argument) {
    if (!*argument) {
        fail("/load needs the name of a file");
    } else if (conversation_load(&s->talk, argument) == 0) {
        printf("loaded %zu messages from %s\n", conversation_length(&s->talk), argument);
    }
}

static const struct {
    const char *name;
    chat_command_fn *run;
} chat_commands[] = {
    {"/help", do_help}, {"/clear", do_clear}, {"/system", do_system}, {"/save", do_save}, {"/load", do_load}};
enum { N_CHAT_COMMANDS = sizeof chat_commands / sizeof *chat_commands };

// line: terminated, begins with '/'
static void run_command(chat_state *s, char *line) {
    size_t len = strcspn(line, " \t");
    char *argument = line + len + strspn(line + len, " \t");
    for (size_t n = strlen(argument); n > 0 && strchr(" \t", argument[n - 1]); n--) argument[n - 1] = 0;
    line[len] = 0;
    const char *names[N_CHAT_COMMANDS + 1] = {0};
    for (int i = 0; i < N_CHAT_COMMANDS; i++) {
        names[i] = chat_commands[i].name;
        if (strcmp(names[i], line) != 0) continue;
        chat_commands[i].run(s, argument);
        return;
    }
    const char *near = args_nearest(line, names);
    fail("there is no command %.40s%s%s; /help lists them", line, near ? "; did you mean " : "", near ? near : "");
}

static void handle_line(chat_state *s, const char *line, size_t len) {
    char *copy = malloc(len + 1);
    if (!copy) {
        fail("memory ran out for a line of %zu bytes", len);
        return;
    }
    memcpy(copy, line, len);
    copy[len] = 0;
    if (len > 1 && copy[0] == '/' && copy[1] != '/') {
        run_command(s, copy);
    } else if (len > 0) {
        size_t skip = copy[0] == '/' && len > 1;
        say(s, copy + skip, len - skip);
    }
    free(copy);
}

static int converse(chat_state *s) {
    while (!s->quits) {
        const char *line;
        size_t len;
        switch (line_edit_read(s->edit, &line, &len)) {
        case EDIT_LINE:
            s->armed = false;
            handle_line(s, line, len);
            break;
        case EDIT_INTERRUPTED:
            if (s->armed) return EXIT_INTERRUPTED;
            s->armed = true;
            if (s->terminal) puts("(Ctrl-C again quits)");
            break;
        case EDIT_END: return s->failed && !isatty(STDIN_FILENO) ? EXIT_FAILED : EXIT_DONE;
        default: return fail("cannot read what is typed: %s", strerror(errno));
        }
        if (ferror(stdout)) return EXIT_FAILED;
    }
    return EXIT_FAILED;
}

static int start(chat_state *s) {
    const options *o = s->o;
    tally_chat chat;
    tally_error err;
    int rc = speculation_check(o);
    if (!rc) rc = check_stops(o);
    if (!rc) rc = request_biases(o, &s->bias);
    if (!rc) rc = request_seed(o->seed, &s->seed);
    if (!rc) rc = chat_input_open(o, "[]", &chat, &s->files);
    if (!rc) rc = conversation_init(&s->talk, o->system);
    if (rc) return rc;
    if (tally_model_open(&s->model, o->model, &err) != TALLY_OK) return fail_with(&err);
    if (!s->files.template_text && !tally_model_has_chat_template(s->model)) {
        return fail("%s has no chat template; give one with --chat-template-file, or complete text with tally run",
                    o->model);
    }
    choose_sampling(s);
    options sized = *o;
    int most = tally_model_context_length(s->model);
    if (o->context == CONTEXT_AUTO) sized.context = most > 0 && most < CHAT_CONTEXT ? most : CHAT_CONTEXT;
    rc = open_engine(s->model, &sized, 0, &s->draft, &s->engine);
    if (!rc && tally_session_open(&s->session, s->engine, &err) != TALLY_OK) rc = fail_with(&err);
    if (!rc && !(s->edit = line_edit_open("> "))) rc = fail("memory ran out");
    return rc;
}

int cmd_chat(const options *o) {
    chat_state s = {.o = o, .terminal = is_terminal(STDOUT_FILENO)};
    ignore_closed_pipe();
    int rc = start(&s);
    if (!rc && s.terminal)
        printf("%s, context %d; /help lists the commands\n", o->model, tally_engine_context(s.engine));
    if (!rc) rc = converse(&s);
    line_edit_close(s.edit);
    tally_session_close(s.session);
    close_engine(s.engine);
    close_draft(&s.draft);
    tally_model_close(s.model);
    chat_input_close(&s.files);
    conversation_deinit(&s.talk);
    free(s.bias);
    return rc;
}
