#include "tests/support/child.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_MS = 20 * 1000 };

static void become(const char *path, char *const *argv) {
    setenv("TERM", "xterm", 1);
    execv(path, argv);
    _exit(127);
}

static void start_pipes(child *c, const char *path, char *const *argv) {
    int in[2], out[2];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    c->pid = fork();
    assert_true(c->pid >= 0);
    if (c->pid == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(in[0], 0);
        dup2(out[1], 1);
        dup2(nowhere, 2);
        become(path, argv);
    }
    close(in[0]);
    close(out[1]);
    c->in = in[1];
    c->out = out[0];
}

void child_need_terminal(void) {
    int master, other;
    if (openpty(&master, &other, NULL, NULL, NULL) == 0) {
        close(master);
        close(other);
        return;
    }
    print_message("this machine has no pseudo terminals (is /dev/pts mounted?)\n");
    skip();
}

void child_start(child *c, const char *const *args, bool terminal) {
    const char *build = getenv("BUILD");
    char path[512];
    snprintf(path, sizeof path, "%s/tally", build ? build : "build/release");
    char *argv[32] = {path};
    for (int i = 0; args[i]; i++) {
        assert_true(i < 30);
        argv[i + 1] = (char *)(uintptr_t)args[i];
    }
    *c = (child){.read = calloc(1, 1)};
    if (!terminal) {
        start_pipes(c, path, argv);
        return;
    }
    struct winsize size = {.ws_row = 40, .ws_col = 200};
    c->pid = forkpty(&c->in, NULL, NULL, &size);
    assert_true(c->pid >= 0);
    if (c->pid == 0) become(path, argv);
    c->out = c->in;
}

void child_write(child *c, const char *text) {
    size_t n = strlen(text);
    while (n > 0) {
        ssize_t done = write(c->in, text, n);
        if (done < 0) fail_msg("the program reads no more; it wrote:\n%s", c->read);
        text += done;
        n -= (size_t)done;
    }
}

void child_write_end(child *c) {
    close(c->in);
    c->in = -1;
}

static bool read_more(child *c) {
    struct pollfd p = {.fd = c->out, .events = POLLIN};
    if (poll(&p, 1, WAIT_MS) <= 0) {
        kill(c->pid, SIGKILL);
        fail_msg("the program is silent; it wrote:\n%s", c->read);
    }
    char piece[4096];
    ssize_t n = read(c->out, piece, sizeof piece);
    if (n <= 0) return false; // a terminal whose program ended gives an error
    c->read = realloc(c->read, c->n_read + (size_t)n + 1);
    assert_non_null(c->read);
    for (ssize_t i = 0; i < n; i++) c->read[c->n_read + (size_t)i] = piece[i] ? piece[i] : '?';
    c->n_read += (size_t)n;
    c->read[c->n_read] = 0;
    return true;
}

void child_expect(child *c, const char *text) {
    for (;;) {
        const char *at = strstr(c->read + c->seen, text);
        if (at) {
            c->seen = (size_t)(at - c->read) + strlen(text);
            return;
        }
        if (!read_more(c)) fail_msg("the program ended before it wrote '%s'; it wrote:\n%s", text, c->read);
    }
}

void child_expect_more(child *c, size_t n) {
    while (c->n_read < c->seen + n) {
        if (!read_more(c)) fail_msg("the program ended before it wrote %zu bytes more; it wrote:\n%s", n, c->read);
    }
    c->seen += n;
}

int child_end(child *c) {
    while (read_more(c)) continue;
    int status = 0;
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    if (c->in >= 0) close(c->in);
    if (c->out != c->in) close(c->out);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void child_free(child *c) { free(c->read); }
