#include "cmd/reasoning.h"

static const char DIM[] = "\033[2m", NORMAL[] = "\033[0m", OPEN[] = "<think>", CLOSE[] = "</think>";

void reasoning_begin(reasoning *r, FILE *out, bool dims, bool inside) {
    *r = (reasoning){.out = out, .dims = dims, .inside = inside};
    if (dims && inside) fputs(DIM, out);
}

static void write_byte(reasoning *r, char c) {
    const char *tag = r->inside ? CLOSE : OPEN;
    size_t len = r->inside ? sizeof CLOSE - 1 : sizeof OPEN - 1;
    if (c != tag[r->held]) { // '<' stands at the start of a tag only, so nothing but this byte can begin another one
        fwrite(tag, 1, r->held, r->out);
        r->held = 0;
    }
    if (c != tag[r->held]) {
        fputc(c, r->out);
        return;
    }
    if (++r->held < len) return;
    if (!r->inside) fputs(DIM, r->out);
    fputs(tag, r->out);
    if (r->inside) fputs(NORMAL, r->out);
    r->inside = !r->inside;
    r->held = 0;
}

void reasoning_write(reasoning *r, const char *text, size_t len) {
    if (!r->dims) {
        fwrite(text, 1, len, r->out);
        return;
    }
    for (size_t i = 0; i < len; i++) write_byte(r, text[i]);
}

void reasoning_end(reasoning *r) {
    fwrite(r->inside ? CLOSE : OPEN, 1, r->held, r->out);
    r->held = 0;
    if (r->dims && r->inside) fputs(NORMAL, r->out);
    r->inside = false;
}
