#include "cmd/common.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/env.h"
#include "base/str.h"

static void say(const char *fmt, va_list args) {
    fflush(stdout);
    fputs("tally: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
}

int fail(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    say(fmt, args);
    va_end(args);
    return EXIT_FAILED;
}

int usage_error(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    say(fmt, args);
    va_end(args);
    return EXIT_USAGE;
}

int fail_with(const tally_error *err) {
    if (err->code == TALLY_CANCELLED) {
        fail("interrupted");
        return EXIT_INTERRUPTED;
    }
    return fail("%s", err->text);
}

int read_file(const char *path, char **data, size_t *len) {
    bool is_stdin = strcmp(path, "-") == 0;
    const char *name = is_stdin ? "standard input" : path;
    FILE *f = is_stdin ? stdin : fopen(path, "rb");
    if (!f) return fail("cannot open %s: %s", name, strerror(errno));
    strbuf b = {0};
    char piece[65536];
    size_t n;
    while ((n = fread(piece, 1, sizeof piece, f)) > 0 && !b.failed) strbuf_add(&b, (str){piece, n});
    int read_errno = ferror(f) ? errno : 0;
    if (!is_stdin) fclose(f);
    if (!b.data) strbuf_add_char(&b, 0), b.len = 0; // an empty file is an empty string, not NULL
    if (read_errno || b.failed) {
        strbuf_deinit(&b);
        return read_errno ? fail("cannot read %s: %s", name, strerror(read_errno))
                          : fail("memory ran out reading %s", name);
    }
    *data = b.data;
    *len = b.len;
    return 0;
}

int parse_ids(const char *text, int32_t **ids, size_t *n) {
    size_t most = 1;
    for (const char *p = text; *p; p++) most += *p == ',';
    int32_t *list = malloc(most * sizeof *list);
    if (!list) return fail("memory ran out reading %zu ids", most);
    *n = 0;
    for (const char *p = text;;) {
        char *end;
        errno = 0;
        long long v = strtoll(p, &end, 10);
        size_t blank = strspn(end, " \t\r\n");
        if (end == p || (end[blank] != ',' && end[blank]) || errno || v < 0 || v > INT32_MAX) {
            int rc =
                usage_error("entry %zu of the ids ('%.*s') is not a token id; give whole numbers with commas: 1,2,3",
                            *n + 1, (int)strcspn(p, ","), p);
            free(list);
            return rc;
        }
        list[(*n)++] = (int32_t)v;
        p = end + blank;
        if (!*p) break;
        p++;
    }
    *ids = list;
    return 0;
}

int check_prompt(const options *o, const char *also) {
    int given = (o->prompt != NULL) + (o->prompt_file != NULL) + (o->ids != NULL) + (o->perplexity_file != NULL);
    if (given == 1) return 0;
    return usage_error("%s; give one of -p TEXT, -f FILE and --ids 1,2,3%s",
                       given ? "the prompt is given twice" : "there is no prompt", also);
}

int check_stops(const options *o) {
    for (int i = 0; i < o->stops.n; i++) {
        if (!*o->stops.items[i]) return usage_error("--stop needs a text that is not empty");
    }
    return 0;
}

double decode_speed(const tally_timings *t) { return t->decode_ms > 0 ? 1e3 * t->n_decode / t->decode_ms : 0; }

int prompt_ids(const tally_model *model, const options *o, int32_t **ids, size_t *n) {
    if (o->ids) return parse_ids(o->ids, ids, n);
    char *owned = NULL;
    const char *text = o->prompt;
    size_t len = text ? strlen(text) : 0;
    if (!text) {
        int rc = read_file(o->prompt_file ? o->prompt_file : o->perplexity_file, &owned, &len);
        if (rc) return rc;
        text = owned;
    }
    tally_error err;
    unsigned flags = TALLY_ADD_SPECIAL | (o->no_parse_special ? 0 : TALLY_PARSE_SPECIAL);
    tally_status status = tally_tokenize(model, text, len, flags, ids, n, &err);
    free(owned);
    return status == TALLY_OK ? 0 : fail_with(&err);
}

bool is_terminal(int fd) {
    const char *term = env_get(ENV_TERM);
    return isatty(fd) && term && strcmp(term, "dumb") != 0;
}

// A blocked signal stays pending until somebody asks, so no handler and no shared variable is needed.
void interrupt_hold(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

bool interrupt_pending(void) {
    sigset_t set;
    return sigpending(&set) == 0 && sigismember(&set, SIGINT) == 1;
}

bool interrupt_take(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    return sigtimedwait(&set, NULL, &(struct timespec){0}) == SIGINT;
}

void ignore_closed_pipe(void) { signal(SIGPIPE, SIG_IGN); }
