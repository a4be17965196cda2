// The largest logits of a row, so that a step whose tokens depend on no others brings no rows of logits back: aclnnTopk gives 64 values
// and ids of each wanted row.
//
// In which order equal logits come, and which of several equals are the last of the 64, nobody documents. What is larger than the 64th
// is there for certain, and the host puts it in order; where that is not enough the row itself is fetched. A row's sum, which is not
// finite if one of its numbers is not, tells of rows in which the host has to look for what is damaged.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/ascend/internal.h"

enum { SELECT_TOP = 64, ALIGN = 32 };

static int64_t round_up(int64_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }
static size_t logit_bytes(const ascend_backend *b) { return ascend_logits_type(b) == ACL_FLOAT ? 4 : 2; }
static int64_t vocab_of(const ascend_backend *b) { return b->list->logits.dim[1]; }

// Of n rows, one behind the other: values, then ids (I64), then sums (F32). at[3]: the end.
static void places(const ascend_backend *b, int n, int64_t at[4]) {
    int64_t numbers = (int64_t)n * b->selection.top;
    at[0] = 0;
    at[1] = round_up(numbers * (int64_t)logit_bytes(b));
    at[2] = at[1] + round_up(numbers * 8);
    at[3] = at[2] + (int64_t)n * 4;
}

int64_t ascend_select_bytes(int max_out) { return (int64_t)max_out * (SELECT_TOP * (4 + 8) + 4) + 3 * ALIGN; }

status ascend_select_prepare(ascend_backend *b, error *err) {
    ascend_selection *s = &b->selection;
    const ascend_library *lib = &b->device.lib;
    size_t n = (size_t)b->limits.max_out;
    s->whole = malloc(n + 1);
    if (!s->whole) return error_no_memory(err, n);
    if (!ascend_fuses(b, ASCEND_FUSED_TOPK) || !lib->aclnnTopk || !lib->aclnnReduceSum) return STATUS_OK;
    s->top = vocab_of(b) < SELECT_TOP ? (int)vocab_of(b) : SELECT_TOP;
    s->best = malloc((n + 1) * sizeof *s->best);
    s->id = malloc((n + 1) * SELECT_TOP * sizeof *s->id);
    s->logit = malloc((n + 1) * SELECT_TOP * sizeof *s->logit);
    if (!s->best || !s->id || !s->logit) return error_no_memory(err, n * SELECT_TOP * 8);
    int64_t at[4];
    places(b, b->limits.max_out, at);
    TRY(ascend_check(&b->device, lib->aclrtMallocHost(&s->host, (size_t)at[3] + ALIGN), "aclrtMallocHost", err));
    return ascend_device_alloc(&b->device, at[3] + ALIGN, "the largest logits", &s->device, err);
}

void ascend_select_free(ascend_backend *b) {
    ascend_selection *s = &b->selection;
    if (s->host) b->device.lib.aclrtFreeHost(s->host);
    free(s->whole);
    free(s->best);
    free(s->id);
    free(s->logit);
    *s = (ascend_selection){0};
}

status ascend_select_launch(ascend_backend *b, int n, error *err) {
    enum { LAST = 1 };
    const ascend_selection *s = &b->selection;
    ascend_call *c = &b->call;
    int64_t at[4], last = LAST;
    places(b, n, at);
    ascend_view rows = VIEW(ascend_logits(b), ascend_logits_type(b), n, vocab_of(b)),
                value = VIEW((char *)s->device + at[0], rows.type, n, s->top),
                id = VIEW((char *)s->device + at[1], ACL_INT64, n, s->top),
                sum = VIEW((char *)s->device + at[2], ACL_FLOAT, n, 1);
    ASCEND_CALL(c, aclnnTopk, ascend_tensor(c, &rows), s->top, LAST, true, true, ascend_tensor(c, &value),
                ascend_tensor(c, &id));
    ASCEND_CALL(c, aclnnReduceSum, ascend_tensor(c, &rows), ascend_ints(c, &last, 1), true, ACL_FLOAT,
                ascend_tensor(c, &sum));
    return STATUS_OK;
}

// ---- the step --------------------------------------------------------------------------------------------------------------

static status copy_back(ascend_backend *b, void *dst, const void *src, size_t n, error *err) {
    int code = b->device.lib.aclrtMemcpyAsync(dst, n, src, n, ACL_MEMCPY_DEVICE_TO_HOST, b->device.stream);
    return ascend_check(&b->device, code, "aclrtMemcpyAsync", err);
}

// Rows marked whole, neighbours together.
static status fetch_rows(ascend_backend *b, int n, error *err) {
    const ascend_selection *s = &b->selection;
    size_t row = (size_t)vocab_of(b) * logit_bytes(b);
    for (int i = 0, end; i < n; i = end) {
        for (end = i + 1; s->whole[i] && end < n && s->whole[end];) end++;
        if (!s->whole[i]) continue;
        TRY(copy_back(b, (char *)b->host_logits + (size_t)i * row, (const char *)ascend_logits(b) + (size_t)i * row,
                      (size_t)(end - i) * row, err));
    }
    return STATUS_OK;
}

status ascend_select_begin(ascend_backend *b, const step_inputs *in, error *err) {
    ascend_selection *s = &b->selection;
    s->on = false;
    for (int i = 0; i < in->n_out; i++) {
        bool some = s->top && in->best && in->best[i] > 0 && in->best[i] <= s->top;
        s->whole[i] = !some;
        s->on |= some;
    }
    if (s->on) {
        int64_t at[4];
        places(b, in->n_out, at);
        TRY(ascend_select_launch(b, in->n_out, err));
        TRY(copy_back(b, s->host, s->device, (size_t)at[3], err));
    }
    return fetch_rows(b, in->n_out, err);
}

// What came of row i, in order. Whether its n first are certain.
static bool read_best(ascend_backend *b, const step_inputs *in, int i) {
    ascend_selection *s = &b->selection;
    int64_t at[4], ids[SELECT_TOP];
    float *logit = s->logit + (size_t)i * SELECT_TOP, sum, value[SELECT_TOP];
    int32_t *id = s->id + (size_t)i * SELECT_TOP;
    int top = s->top, n = in->best[i];
    const char *host = s->host;
    places(b, in->n_out, at);
    memcpy(&sum, host + at[2] + (size_t)i * 4, sizeof sum);
    memcpy(ids, host + at[1] + (size_t)i * (size_t)top * 8, (size_t)top * sizeof *ids);
    dtype type = logit_bytes(b) == 4 ? DTYPE_F32 : b->type;
    dtype_get(type)->to_f32(value, host + (size_t)i * (size_t)top * logit_bytes(b), top);
    if (!isfinite(sum)) return false;
    for (int k = 0; k < top; k++) {
        if (ids[k] < 0 || ids[k] >= vocab_of(b) || !isfinite(value[k])) return false;
        int to = k;
        for (; to > 0 && (logit[to - 1] < value[k] || (logit[to - 1] == value[k] && id[to - 1] > ids[k])); to--)
            logit[to] = logit[to - 1], id[to] = id[to - 1];
        logit[to] = value[k], id[to] = (int32_t)ids[k];
    }
    s->best[i] = (row_best){n, id, logit};
    return top == vocab_of(b) || logit[n - 1] > logit[top - 1];
}

static void widen_rows(ascend_backend *b, int n) {
    dtype type = logit_bytes(b) == 4 ? DTYPE_F32 : b->type;
    size_t vocab = (size_t)vocab_of(b);
    for (int i = 0; i < n; i++) {
        if (!b->selection.whole[i]) continue;
        dtype_get(type)->to_f32(b->logits + (size_t)i * vocab,
                                (const char *)b->host_logits + (size_t)i * vocab * logit_bytes(b), (int64_t)vocab);
    }
}

status ascend_select_end(ascend_backend *b, const step_inputs *in, error *err) {
    ascend_selection *s = &b->selection;
    bool more = false;
    for (int i = 0; s->on && i < in->n_out; i++) {
        if (s->whole[i] || read_best(b, in, i)) continue;
        s->whole[i] = more = true;
    }
    if (more) {
        TRY(fetch_rows(b, in->n_out, err));
        TRY(ascend_device_sync(&b->device, err));
    }
    widen_rows(b, in->n_out);
    for (int i = 0; s->on && i < in->n_out; i++) {
        if (s->whole[i]) s->best[i] = (row_best){0};
    }
    return STATUS_OK;
}
