// Stands in until lookup, step times and policy are merged.
#include <stdlib.h>

#include "spec/draft_lookup.h"
#include "spec/draft_policy.h"

static void destroy(drafter *d) { free(d); }

// What followed the last earlier occurrence of the last two tokens.
static status propose(drafter *d, const int32_t *token, int n, int max_nodes, draft *out, error *err) {
    (void)d, (void)err;
    for (int i = n - 2; i >= 1; i--) {
        if (token[i] != token[n - 1] || token[i - 1] != token[n - 2]) continue;
        for (int j = i + 1; out->n < max_nodes; j++, out->n++)
            out->token[out->n] = j < n ? token[j] : out->token[j - n], out->parent[out->n] = (int8_t)(out->n - 1);
        return STATUS_OK;
    }
    return STATUS_OK;
}

static const drafter_vtable interim = {"interim", destroy, propose};

status draft_lookup_create(drafter **out, const lookup_options *o, lookup_corpus *corpus, error *err) {
    (void)o, (void)corpus;
    *out = malloc(sizeof **out);
    if (!*out) return error_no_memory(err, sizeof **out);
    (*out)->vt = &interim;
    return STATUS_OK;
}
status lookup_corpus_create(lookup_corpus **out, const lookup_corpus_options *o, error *err) {
    (void)o, (void)err;
    *out = NULL;
    return STATUS_OK;
}
void lookup_corpus_destroy(lookup_corpus *c) { (void)c; }
void lookup_corpus_add(lookup_corpus *c, const int32_t *token, int n) { (void)c, (void)token, (void)n; }
void draft_policy_init(draft_policy *p) { *p = (draft_policy){0}; }
void draft_policy_offer(draft_policy *p, const draft *d, int n) { (void)p, (void)d, (void)n; }
void draft_policy_learn(draft_policy *p, const int32_t *token, int n) { (void)p, (void)token, (void)n; }
void draft_policy_ran(draft_policy *p, const policy_step *s, int n_drafts, int n_emitted, double draft_seconds) {
    (void)p, (void)s, (void)n_drafts, (void)n_emitted, (void)draft_seconds;
}
void draft_policy_choose(const policy_request *r, int n_requests, const step_times *t, int rows, int max_rows, int *n) {
    (void)t;
    int left = max_rows - rows;
    for (int i = 0; i < n_requests; i++) {
        n[i] = r[i].offered ? r[i].offered->n : r[i].n;
        if (n[i] > left) n[i] = left;
        left -= n[i];
    }
}
void step_times_init(step_times *t, const double *ratio, int n) { (void)ratio, (void)n, *t = (step_times){0}; }
void step_times_seen(step_times *t, int rows, double seconds) { (void)t, (void)rows, (void)seconds; }
double step_times_of(const step_times *t, int m) { return (void)t, 1 + 0.1 * (m - 1); }
