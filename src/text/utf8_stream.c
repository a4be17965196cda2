#include "text/utf8_stream.h"

#include "text/utf8.h"

// Completes or gives up the held character with the first bytes of `bytes`; returns how many of them it took.
static size_t push_held(utf8_stream *s, str bytes, strbuf *out) {
    size_t taken = 0;
    while (s->n_held > 0 && taken < bytes.len) {
        unsigned char next = (unsigned char)bytes.data[taken];
        unsigned char joined[4];
        memcpy(joined, s->held, (size_t)s->n_held);
        joined[s->n_held] = next; // at most 3 bytes are held
        utf8_kind kind;
        int n = utf8_step(joined, (size_t)s->n_held + 1, &kind);
        if (kind == UTF8_BAD) { // the held bytes are the maximal subpart; `next` may start a character of its own
            strbuf_add(out, UTF8_REPLACEMENT);
            s->n_held = 0;
            break;
        }
        taken++;
        if (kind == UTF8_PARTIAL) {
            s->held[s->n_held++] = next;
        } else {
            strbuf_add(out, (str){(const char *)joined, (size_t)n});
            s->n_held = 0;
        }
    }
    return taken;
}

void utf8_stream_push(utf8_stream *s, str bytes, strbuf *out) {
    size_t i = push_held(s, bytes, out);
    while (i < bytes.len) {
        str rest = {bytes.data + i, bytes.len - i};
        size_t n = utf8_valid_prefix(rest);
        if (n) strbuf_add(out, (str){rest.data, n});
        i += n;
        if (n == rest.len) break;
        utf8_kind kind;
        const unsigned char *p = (const unsigned char *)bytes.data + i;
        int bad = utf8_step(p, bytes.len - i, &kind);
        if (kind == UTF8_PARTIAL) {
            memcpy(s->held, p, (size_t)bad);
            s->n_held = bad;
        } else {
            strbuf_add(out, UTF8_REPLACEMENT);
        }
        i += (size_t)bad;
    }
}

void utf8_stream_finish(utf8_stream *s, strbuf *out) {
    if (s->n_held > 0) strbuf_add(out, UTF8_REPLACEMENT);
    s->n_held = 0;
}
