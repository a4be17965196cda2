#include "cmd/line_reader.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/common.h"

enum { PIECE = 1 << 16, POLL_MS = 50 };

void line_reader_init(line_reader *r, int fd) { *r = (line_reader){.fd = fd}; }

void line_reader_deinit(line_reader *r) {
    free(r->data);
    *r = (line_reader){.fd = -1};
}

static bool readable(const line_reader *r, bool wait) {
    struct pollfd p = {.fd = r->fd, .events = POLLIN};
    do { // a read that blocks would not see Ctrl-C, which is held back
        if (poll(&p, 1, wait ? POLL_MS : 0) > 0) return true;
    } while (wait && !interrupt_pending());
    return false;
}

static bool make_room(line_reader *r) {
    if (r->at > 0) {
        memmove(r->data, r->data + r->at, r->len - r->at);
        r->len -= r->at;
        r->scanned -= r->at;
        r->at = 0;
    }
    if (r->cap - r->len >= PIECE) return true;
    size_t cap = r->cap * 2 + PIECE;
    char *grown = realloc(r->data, cap);
    if (!grown) return false;
    r->data = grown;
    r->cap = cap;
    return true;
}

static line_state hand_out(line_reader *r, size_t end, size_t next, const char **line, size_t *len) {
    *line = r->data + r->at;
    *len = end - r->at;
    if (*len > 0 && (*line)[*len - 1] == '\r') --*len;
    r->at = r->scanned = next;
    r->number++;
    return LINE_READ;
}

line_state line_reader_next(line_reader *r, bool wait, const char **line, size_t *len) {
    for (;;) {
        const char *end = r->len > r->scanned ? memchr(r->data + r->scanned, '\n', r->len - r->scanned) : NULL;
        if (end) return hand_out(r, (size_t)(end - r->data), (size_t)(end - r->data) + 1, line, len);
        r->scanned = r->len;
        if (r->ended) return r->at < r->len ? hand_out(r, r->len, r->len, line, len) : LINE_END;
        if (!readable(r, wait)) return LINE_NOT_YET;
        if (!make_room(r)) {
            errno = ENOMEM;
            return LINE_FAILED;
        }
        ssize_t n = read(r->fd, r->data + r->len, PIECE);
        if (n < 0 && errno != EINTR && errno != EAGAIN) return LINE_FAILED;
        if (n == 0) r->ended = true;
        if (n > 0) r->len += (size_t)n;
    }
}
