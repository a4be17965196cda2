#include "text/pretokenizer.h"

#include "text/utf8.h"

const char PRETOKENIZER_GPT2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const char PRETOKENIZER_LLAMA3[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
                                   " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const char PRETOKENIZER_QWEN2[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
                                  " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const char PRETOKENIZER_QWEN35[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
                                   " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

void pretokenizer_deinit(pretokenizer *p) {
    for (int i = 0; i < p->n_steps; i++) regex_close(p->step[i].re);
    *p = (pretokenizer){0};
}

status pretokenizer_add(pretokenizer *p, pretokenizer_step step, error *err) {
    if (p->n_steps == PRETOKENIZER_MAX_STEPS) {
        regex_close(step.re);
        return error_set(err, STATUS_UNSUPPORTED, "the pre-tokenizer has more than %d steps", PRETOKENIZER_MAX_STEPS);
    }
    p->step[p->n_steps++] = step;
    return STATUS_OK;
}

status pretokenizer_add_regex(pretokenizer *p, str pattern, split_behavior behavior, error *err) {
    pretokenizer_step step = {.behavior = behavior};
    TRY(regex_open(&step.re, pattern, false, err));
    return pretokenizer_add(p, step, err);
}

typedef struct cutter { // one step over one piece
    const pretokenizer_run *run;
    int index; // of the step
    str text;
    size_t start, end;        // the piece not yet passed on; empty: none
    bool pending_match, last; // the kind of the pending piece; of the stretch before
} cutter;

static status cut_from(const pretokenizer_run *r, int step, str text, error *err);

static status flush(cutter *c, error *err) {
    str piece = {c->text.data + c->start, c->end - c->start};
    c->start = c->end;
    return piece.len ? cut_from(c->run, c->index + 1, piece, err) : STATUS_OK;
}

// The next stretch [start, end): a match or what lies between two. Joined to the pending piece or not, as the behaviour says.
static status stretch(cutter *c, size_t start, size_t end, bool match, error *err) {
    bool pending = c->end > c->start, join = false, last = c->last;
    c->last = match;
    switch (c->run->p->step[c->index].behavior) {
    case SPLIT_ISOLATED: break;
    case SPLIT_REMOVED:
        if (match) return STATUS_OK;
        break;
    case SPLIT_MERGED_WITH_PREVIOUS: join = match && !last && pending; break;
    case SPLIT_MERGED_WITH_NEXT: join = !match && c->pending_match && pending; break;
    case SPLIT_CONTIGUOUS: join = match == last && pending; break;
    }
    if (!join) {
        TRY(flush(c, err));
        c->start = start;
        c->pending_match = match;
    } else {
        c->pending_match = false;
    }
    c->end = end;
    return STATUS_OK;
}

static status cut_by_regex(const pretokenizer_run *r, int index, str text, error *err) {
    const pretokenizer_step *step = &r->p->step[index];
    cutter c = {.run = r, .index = index, .text = text};
    size_t done = 0, from = 0;
    while (from < text.len) {
        regex_span m;
        TRY(regex_find(step->re, r->scratch, text, from, &m, err));
        if (!m.found) break;
        if (m.start > done) TRY(stretch(&c, done, m.start, step->invert, err));
        if (m.end > m.start) TRY(stretch(&c, m.start, m.end, !step->invert, err));
        done = from = m.end;
        if (m.end == m.start && from < text.len) { // an empty match cuts, but the search goes on behind it
            int n;
            utf8_decode(text.data + from, &n);
            from += (size_t)n;
        }
    }
    if (done < text.len) TRY(stretch(&c, done, text.len, step->invert, err));
    return flush(&c, err);
}

static status cut_with_space(const pretokenizer_run *r, int step, str text, error *err) {
    strbuf spaced = {0};
    strbuf_add_char(&spaced, ' ');
    strbuf_add(&spaced, text);
    status st = spaced.failed ? error_no_memory(err, text.len + 1) : cut_from(r, step + 1, strbuf_str(&spaced), err);
    strbuf_deinit(&spaced);
    return st;
}

// Steps from `step` on; at most PRETOKENIZER_MAX_STEPS deep.
static status cut_from(const pretokenizer_run *r, int step, str text, error *err) {
    if (step == r->p->n_steps) return r->fn(r->arg, text, err);
    if (r->p->step[step].re) return cut_by_regex(r, step, text, err);
    return text.data[0] == ' ' ? cut_from(r, step + 1, text, err) : cut_with_space(r, step, text, err);
}

status pretokenizer_cut(const pretokenizer_run *r, str text, error *err) {
    return text.len ? cut_from(r, 0, text, err) : STATUS_OK;
}
