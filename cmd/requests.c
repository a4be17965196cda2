// run --requests: answers the lines of a file, several at once, and prints one JSON object a line in the order of the file.
//
// The file is read twice. The first pass finds the longest request, from which the cache is sized; nothing but numbers is kept of
// it. With -c there is no first pass: a pipe is then answered while it is written. Results that are done before those of
// earlier lines wait in a ring, whose size bounds how far ahead the file is read.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "cmd/chat_input.h"
#include "cmd/common.h"
#include "cmd/engines.h"
#include "cmd/line_reader.h"
#include "cmd/request.h"
#include "cmd/request_parse.h"
#include "cmd/requests.h"
#include "cmd/result_json.h"
#include "cmd/speculation.h"

enum { AHEAD = 16, AHEAD_AT_LEAST = 256, PROGRESS_NS = 200 * 1000 * 1000, POLL_MS = 50 };

typedef struct request_slot {
    char *result; // owned; the line to print, NULL while the request runs
    tally_generation *generation;
    parsed_request parsed;
    size_t line;
} request_slot;

typedef struct requests_state {
    const options *o;
    request_defaults defaults;
    tally_logit_bias *bias;
    chat_input_files files;
    tally_model *model;
    draft_engine draft;
    tally_engine *engine;
    line_reader reader;
    int fd;
    request_slot *slots; // ring
    size_t n_slots, first, n_waiting;
    int n_live;
    bool ended, terminal, interrupted;
    size_t n_lines, n_done, n_failed; // n_lines: requests in the file, 0 if not known
    int64_t n_prompt, n_new;
    tally_spec_counts counts;
    double load_ms;
    uint64_t started, shown;
} requests_state;

static int check_options(const options *o) {
    if (o->prompt || o->prompt_file || o->ids)
        return usage_error("--requests brings its own prompts; leave out -p, -f and --ids");
    if (o->system && !o->chat)
        return usage_error("-sys belongs to a chat; add --chat, or give \"messages\" in the file");
    int rc = check_stops(o);
    return rc ? rc : speculation_check(o);
}

// ---- the file ------------------------------------------------------------------------------------------------------------

static int read_failed(const requests_state *s) {
    return fail("cannot read %s after line %zu: %s", s->o->requests, s->reader.number, strerror(errno));
}

static bool write_all(int fd, const char *data, size_t n) {
    while (n > 0) {
        ssize_t wrote = write(fd, data, n);
        if (wrote < 0 && errno != EINTR) return false;
        if (wrote > 0) data += wrote, n -= (size_t)wrote;
    }
    return true;
}

// A pipe is copied to an unnamed file, so that it can be read twice.
static int spool(requests_state *s) {
    FILE *copy = tmpfile();
    int fd = copy ? dup(fileno(copy)) : -1;
    if (copy) fclose(copy);
    if (fd < 0)
        return fail("there is no temporary file to hold the requests: %s; give -c to do without", strerror(errno));
    char piece[65536];
    struct pollfd arrived = {.fd = s->fd, .events = POLLIN};
    int rc = 0;
    for (ssize_t n = 1; n != 0 && !rc;) {
        if (interrupt_pending()) {
            fail("interrupted");
            rc = EXIT_INTERRUPTED;
        } else if (poll(&arrived, 1, POLL_MS) > 0) { // a read that blocks would not see Ctrl-C, which is held back
            n = read(s->fd, piece, sizeof piece);
            bool again = n < 0 && errno == EINTR;
            if (!again && (n < 0 || !write_all(fd, piece, (size_t)n)))
                rc = fail("cannot copy %s to a temporary file: %s", s->o->requests, strerror(errno));
        }
    }
    if (rc) {
        close(fd);
        return rc;
    }
    if (s->fd > STDIN_FILENO) close(s->fd);
    s->fd = fd;
    return lseek(fd, 0, SEEK_SET) == 0 ? 0 : fail("cannot read the temporary file again: %s", strerror(errno));
}

// The next line that is not blank.
static line_state next_request(requests_state *s, bool wait, const char **line, size_t *len) {
    for (;;) {
        line_state state = line_reader_next(&s->reader, wait, line, len);
        size_t blank = 0;
        while (state == LINE_READ && blank < *len && ((*line)[blank] == ' ' || (*line)[blank] == '\t')) blank++;
        if (state != LINE_READ || blank < *len) return state;
    }
}

// Finds the positions that the longest request needs; bad lines are told when their turn comes.
static int first_pass(requests_state *s, size_t *needed) {
    *needed = 1;
    if (lseek(s->fd, 0, SEEK_CUR) < 0) {
        int rc = spool(s);
        if (rc) return rc;
    }
    off_t start = lseek(s->fd, 0, SEEK_CUR);
    line_reader_init(&s->reader, s->fd);
    const char *line;
    size_t len, most = (size_t)tally_model_context_length(s->model);
    line_state state;
    while ((state = interrupt_pending() ? LINE_NOT_YET : next_request(s, true, &line, &len)) == LINE_READ) {
        parsed_request p;
        tally_error err;
        s->n_lines++;
        if (request_parse(&s->defaults, line, len, s->reader.number, &p, &err) != TALLY_OK) continue;
        size_t here = p.request.max_tokens < 0 ? most : (size_t)p.request.n_ids + (size_t)p.request.max_tokens;
        if ((size_t)p.request.n_ids <= most && here > *needed) *needed = here;
        parsed_request_deinit(&p);
    }
    int rc = state == LINE_END ? 0 : state == LINE_FAILED ? read_failed(s) : (fail("interrupted"), EXIT_INTERRUPTED);
    line_reader_deinit(&s->reader);
    if (!rc && lseek(s->fd, start, SEEK_SET) < 0)
        rc = fail("cannot read %s again: %s", s->o->requests, strerror(errno));
    return rc;
}

// ---- results -------------------------------------------------------------------------------------------------------------

static void clear_progress(requests_state *s) {
    if (s->terminal && s->shown) fputs("\r\033[K", stderr);
}

static void show_progress(requests_state *s, bool now) {
    uint64_t t = clock_now_ns();
    if (!s->terminal || (!now && t - s->shown < PROGRESS_NS)) return;
    s->shown = t;
    tally_stats stats;
    tally_engine_stats(s->engine, &stats);
    char total[32] = "";
    if (s->n_lines) snprintf(total, sizeof total, " of %zu", s->n_lines);
    fprintf(stderr, "\r%zu%s requests, %.1f tokens/s, %d of %d blocks in use\033[K", s->n_done, total,
            (double)s->n_new / ((double)(t - s->started + 1) * 1e-9), stats.blocks_in_use, stats.blocks);
}

static char *error_line(const char *text, size_t line) {
    json_t *message = json_text(text);
    json_t *root = message ? json_pack("{s:o, s:I}", "error", message, "line", (json_int_t)line) : NULL;
    char *result = root ? json_dumps(root, 0) : NULL;
    json_decref(root);
    return result;
}

static int memory_ran_out(size_t line) { return fail("memory ran out for the result of line %zu", line); }

static int set_error(requests_state *s, request_slot *slot, const char *text) {
    s->n_failed++;
    s->n_done++;
    slot->result = error_line(text, slot->line);
    return slot->result ? 0 : memory_ran_out(slot->line);
}

static int finish(requests_state *s, request_slot *slot) {
    tally_error err = {0};
    int rc = 0, n_new;
    tally_generation_ids(slot->generation, &n_new);
    s->n_new += n_new;
    s->n_prompt += slot->parsed.request.n_ids;
    tally_spec_counts counts;
    tally_generation_spec_counts(slot->generation, &counts);
    speculation_add(&s->counts, &counts);
    if (tally_generation_status(slot->generation, &err) != TALLY_OK) {
        char text[sizeof err.text + 32];
        snprintf(text, sizeof text, "line %zu: %s", slot->line, err.text);
        rc = set_error(s, slot, text);
    } else {
        result_source r = {.model = s->model,
                           .generation = slot->generation,
                           .prompt = slot->parsed.ids,
                           .n_prompt = (size_t)slot->parsed.request.n_ids,
                           .seed = slot->parsed.seed,
                           .logprobs = slot->parsed.request.logprobs,
                           .load_ms = s->load_ms};
        json_t *root = result_json(&r);
        slot->result = root ? json_dumps(root, RESULT_JSON_FLAGS) : NULL;
        json_decref(root);
        s->n_done++;
        if (!slot->result) rc = memory_ran_out(slot->line);
    }
    tally_generation_close(slot->generation);
    slot->generation = NULL;
    parsed_request_deinit(&slot->parsed);
    s->n_live--;
    return rc;
}

// Prints what is done at the head of the ring.
static int print_results(requests_state *s) {
    bool any = false;
    while (s->n_waiting > 0 && s->slots[s->first].result) {
        request_slot *slot = &s->slots[s->first];
        if (!any && isatty(STDOUT_FILENO)) clear_progress(s);
        fputs(slot->result, stdout);
        putchar('\n');
        free(slot->result);
        slot->result = NULL;
        s->first = (s->first + 1) % s->n_slots;
        s->n_waiting--;
        any = true;
    }
    if (any) fflush(stdout);
    return ferror(stdout) ? EXIT_FAILED : 0; // main tells why
}

// ---- requests ------------------------------------------------------------------------------------------------------------

static int submit(requests_state *s, const char *line, size_t len) {
    request_slot *slot = &s->slots[(s->first + s->n_waiting++) % s->n_slots];
    *slot = (request_slot){.line = s->reader.number};
    tally_error err;
    if (request_parse(&s->defaults, line, len, slot->line, &slot->parsed, &err) != TALLY_OK)
        return set_error(s, slot, err.text);
    if (tally_generate(s->engine, &slot->parsed.request, &slot->generation, &err) != TALLY_OK) {
        char text[sizeof err.text + 32];
        snprintf(text, sizeof text, "line %zu: %s", slot->line, err.text);
        parsed_request_deinit(&slot->parsed);
        return set_error(s, slot, text);
    }
    s->n_live++;
    return tally_generation_done(slot->generation) ? finish(s, slot) : 0; // n is 0
}

// Reads as many lines as there is room for; waits for one only when nothing else is to be done.
static int read_requests(requests_state *s) {
    while (!s->ended && s->n_live < s->o->parallel && s->n_waiting < s->n_slots && !interrupt_pending()) {
        const char *line;
        size_t len;
        line_state state = next_request(s, s->n_live == 0, &line, &len);
        if (state == LINE_NOT_YET) return 0;
        if (state == LINE_FAILED) return read_failed(s);
        if (state == LINE_END) {
            s->ended = true;
            return 0;
        }
        int rc = submit(s, line, len);
        if (!rc && s->n_live == 0) rc = print_results(s);
        if (rc) return rc;
    }
    return 0;
}

static int advance(requests_state *s) {
    tally_error err;
    if (tally_engine_step(s->engine, NULL, &err) != TALLY_OK) return fail_with(&err);
    for (size_t i = 0; i < s->n_waiting; i++) {
        request_slot *slot = &s->slots[(s->first + i) % s->n_slots];
        if (!slot->generation || !tally_generation_done(slot->generation)) continue;
        int rc = finish(s, slot);
        if (rc) return rc;
    }
    return 0;
}

static int serve(requests_state *s) {
    s->started = clock_now_ns();
    for (int rc;;) {
        if (interrupt_pending()) {
            s->interrupted = true;
            return EXIT_INTERRUPTED;
        }
        if ((rc = print_results(s)) || (rc = read_requests(s)) || (rc = print_results(s))) return rc;
        if (s->n_live == 0 && s->ended) return 0;
        if (s->n_live > 0 && (rc = advance(s))) return rc;
        show_progress(s, false);
    }
}

// The run ends early: what is finished is printed, and what is not as far as it got, or with the reason.
static int give_up(requests_state *s, int why) {
    int rc = 0;
    for (size_t i = 0; i < s->n_waiting && !rc; i++) {
        request_slot *slot = &s->slots[(s->first + i) % s->n_slots];
        if (!slot->generation) continue;
        if (why == EXIT_INTERRUPTED) {
            rc = finish(s, slot);
            continue;
        }
        char text[64];
        snprintf(text, sizeof text, "line %zu: not answered, the run ended with an error", slot->line);
        rc = set_error(s, slot, text);
    }
    if (!rc) rc = print_results(s);
    return rc ? rc : why;
}

static void print_summary(requests_state *s) {
    clear_progress(s);
    tally_stats t;
    tally_engine_stats(s->engine, &t);
    double seconds = (double)(clock_now_ns() - s->started + 1) * 1e-9;
    fprintf(stderr,
            "requests: %zu (%zu failed)%s; tokens: %lld of prompts, %lld new; %.2f s, %.1f new tokens/s; steps: %lld; "
            "preemptions: %lld; reused positions: %lld; worst wait: %lld steps; blocks in use: %d of %d",
            s->n_done, s->n_failed, s->interrupted ? ", interrupted" : "", (long long)s->n_prompt, (long long)s->n_new,
            seconds, (double)s->n_new / seconds, (long long)t.steps, (long long)t.preemptions,
            (long long)t.reused_positions, (long long)t.worst_wait, t.blocks_in_use, t.blocks);
    speculation_print(stderr, "; ", &s->counts);
    fputc('\n', stderr);
}

static int start(requests_state *s) {
    const options *o = s->o;
    tally_error err;
    int rc = request_biases(o, &s->bias);
    if (rc) return rc;
    tally_chat chat;
    rc = chat_input_open(o, "", &chat, &s->files);
    if (rc) return rc;
    s->fd = strcmp(o->requests, "-") == 0 ? STDIN_FILENO : open(o->requests, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0) return fail("cannot open %s: %s", o->requests, strerror(errno));
    uint64_t t0 = clock_now_ns();
    if (tally_model_open(&s->model, o->model, &err) != TALLY_OK) return fail_with(&err);
    s->defaults = (request_defaults){s->model, o, s->bias, s->files.template_text};
    double open_ms = (double)(clock_now_ns() - t0) / 1e6;
    interrupt_hold();
    size_t needed = 1;
    if (o->context == CONTEXT_AUTO) rc = first_pass(s, &needed);
    if (rc) return rc;
    t0 = clock_now_ns();
    rc = open_engine(s->model, o, needed, &s->draft, &s->engine);
    s->load_ms = open_ms + (double)(clock_now_ns() - t0) / 1e6;
    line_reader_init(&s->reader, s->fd);
    s->n_slots = (size_t)o->parallel * AHEAD < AHEAD_AT_LEAST ? AHEAD_AT_LEAST : (size_t)o->parallel * AHEAD;
    s->slots = calloc(s->n_slots, sizeof *s->slots);
    if (!rc && !s->slots) rc = fail("memory ran out for %zu requests", s->n_slots);
    return rc;
}

int requests_run(const options *o) {
    int rc = check_options(o);
    if (rc) return rc;
    ignore_closed_pipe();
    requests_state s = {.o = o, .fd = -1, .terminal = is_terminal(STDERR_FILENO)};
    rc = start(&s);
    if (!rc) {
        rc = serve(&s);
        if (rc && !ferror(stdout)) rc = give_up(&s, rc);
        if (rc == 0 || rc == EXIT_INTERRUPTED) print_summary(&s);
        if (rc == 0 && s.n_failed) rc = EXIT_FAILED;
    }
    for (size_t i = 0; s.slots && i < s.n_slots; i++) {
        free(s.slots[i].result);
        tally_generation_close(s.slots[i].generation);
        parsed_request_deinit(&s.slots[i].parsed);
    }
    free(s.slots);
    line_reader_deinit(&s.reader);
    if (s.fd > STDIN_FILENO) close(s.fd);
    close_engine(s.engine);
    close_draft(&s.draft);
    tally_model_close(s.model);
    chat_input_close(&s.files);
    free(s.bias);
    return rc;
}
