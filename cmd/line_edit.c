#include "cmd/line_edit.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef TALLY_LIBEDIT
#include <histedit.h>
#include <wchar.h>
#endif

#include "cmd/common.h"
#include "cmd/line_reader.h"

enum { HISTORY_LINES = 1000, CTRL_C = 3 };

struct line_edit {
    const char *prompt; // borrowed
    bool terminal;
    bool interrupted; // Ctrl-C was typed in the line being edited
    line_reader plain;
#ifdef TALLY_LIBEDIT
    EditLine *editor; // NULL: plain reading
    History *history;
    HistEvent event;
#endif
};

#ifdef TALLY_LIBEDIT
static line_edit *self_of(EditLine *editor) {
    void *self = NULL;
    el_get(editor, EL_CLIENTDATA, &self);
    return self;
}

static char *prompt_of(EditLine *editor) { return (char *)(uintptr_t)self_of(editor)->prompt; }

// One character from the keyboard. Ctrl-C ends the line like Enter does, and is remembered.
static int read_key(EditLine *editor, wchar_t *key) {
    mbstate_t partial = {0};
    for (;;) {
        char byte;
        ssize_t n = read(STDIN_FILENO, &byte, 1);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return (int)n;
        if (byte == CTRL_C) {
            self_of(editor)->interrupted = true;
            *key = L'\n';
            return 1;
        }
        size_t used = mbrtowc(key, &byte, 1, &partial);
        if (used == (size_t)-2) continue; // more bytes belong to it
        if (used == (size_t)-1) *key = L'?';
        return 1;
    }
}

// While a line is edited Ctrl-C is a key like any other, so that no signal handler is needed.
static void open_editor(line_edit *e) {
    setlocale(LC_CTYPE, "");
    if (MB_CUR_MAX == 1) setlocale(LC_CTYPE, "C.UTF-8"); // models speak UTF-8, whatever the locale
    e->history = history_init();
    e->editor = e->history ? el_init("tally", stdin, stdout, stderr) : NULL;
    if (!e->editor) return;
    history(e->history, &e->event, H_SETSIZE, HISTORY_LINES);
    history(e->history, &e->event, H_SETUNIQUE, 1);
    el_set(e->editor, EL_CLIENTDATA, e);
    el_set(e->editor, EL_PROMPT, prompt_of);
    el_set(e->editor, EL_EDITOR, "emacs");
    el_set(e->editor, EL_HIST, history, e->history);
    el_set(e->editor, EL_GETCFN, read_key);
    el_set(e->editor, EL_SETTY, "-d", "-isig", NULL);
    el_set(e->editor, EL_SETTY, "-x", "+noflsh", NULL); // or Ctrl-C discards what is written just then: the prompt
}

static edit_state edit_line(line_edit *e, const char **line, size_t *len) {
    int n = 0;
    if (interrupt_take()) { // it came behind the last look, while something was computed
        putchar('\n');
        return EDIT_INTERRUPTED;
    }
    e->interrupted = false;
    errno = 0;
    const char *text = el_gets(e->editor, &n);
    if (e->interrupted) return EDIT_INTERRUPTED;
    if (!text || n <= 0) {
        if (n == 0 || errno == 0 || errno == EIO) putchar('\n');
        return n < 0 && errno && errno != EIO ? EDIT_FAILED : EDIT_END;
    }
    *line = text;
    *len = (size_t)n;
    while (*len > 0 && (text[*len - 1] == '\n' || text[*len - 1] == '\r')) --*len;
    if (*len > 0) history(e->history, &e->event, H_ENTER, text);
    return EDIT_LINE;
}
#endif

line_edit *line_edit_open(const char *prompt) {
    line_edit *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    e->prompt = prompt;
    e->terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    line_reader_init(&e->plain, STDIN_FILENO);
#ifdef TALLY_LIBEDIT
    if (e->terminal && is_terminal(STDOUT_FILENO)) open_editor(e);
#endif
    return e;
}

void line_edit_close(line_edit *e) {
    if (!e) return;
#ifdef TALLY_LIBEDIT
    if (e->editor) el_end(e->editor);
    if (e->history) history_end(e->history);
#endif
    line_reader_deinit(&e->plain);
    free(e);
}

edit_state line_edit_read(line_edit *e, const char **line, size_t *len) {
    fflush(stdout);
#ifdef TALLY_LIBEDIT
    if (e->editor) return edit_line(e, line, len);
#endif
    if (e->terminal) {
        fputs(e->prompt, stdout);
        fflush(stdout);
    }
    switch (line_reader_next(&e->plain, true, line, len)) {
    case LINE_READ: return EDIT_LINE;
    case LINE_END:
        if (e->terminal) putchar('\n');
        return EDIT_END;
    case LINE_NOT_YET:
        interrupt_take();
        if (e->terminal) putchar('\n');
        return EDIT_INTERRUPTED;
    default: return EDIT_FAILED;
    }
}
