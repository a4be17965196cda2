#include "cmd/result_json.h"

#include "cmd/repetition.h"
#include "cmd/speculation.h"

static json_t *ids_json(const int32_t *ids, size_t n) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++) json_array_append_new(list, json_integer(ids[i]));
    return list;
}

static json_t *logprobs_json(const tally_generation *g, int n_ids) {
    json_t *list = json_array();
    for (int i = 0; i < n_ids; i++) {
        int n = 0;
        const tally_logprob *p = tally_generation_logprobs(g, i, &n);
        if (!p || n == 0) continue;
        json_t *top = json_array();
        for (int j = 1; j < n; j++) {
            json_array_append_new(top, json_pack("{s:i, s:f}", "id", (int)p[j].id, "logprob", (double)p[j].logprob));
        }
        json_array_append_new(
            list, json_pack("{s:i, s:f, s:o}", "id", (int)p[0].id, "logprob", (double)p[0].logprob, "top", top));
    }
    return list;
}

json_t *result_json(const result_source *r) {
    int n_ids;
    const int32_t *ids = tally_generation_ids(r->generation, &n_ids);
    json_t *text = json_null();
    if (tally_model_has_tokenizer(r->model)) {
        size_t len = 0;
        const char *t = tally_generation_text(r->generation, &len);
        text = json_stringn(t ? t : "", len);
    }
    const char *reason = tally_generation_finish_reason(r->generation);
    tally_timings t;
    tally_generation_timings(r->generation, &t);
    json_t *root = json_pack("{s:o, s:o, s:o, s:s, s:I, s:{s:f, s:f, s:f}}", "prompt_ids",
                             ids_json(r->prompt, r->n_prompt), "ids", ids_json(ids, (size_t)n_ids), "text", text,
                             "finish_reason", reason ? reason : "interrupted", "seed", (json_int_t)r->seed, "timings",
                             "load_ms", r->load_ms, "prompt_ms", t.prompt_ms, "decode_ms", t.decode_ms);
    if (!root) return NULL;
    char label[REPETITION_LABEL_MAX];
    repetition_label(ids, n_ids, label);
    json_object_set_new(root, "repetition", json_string(label));
    tally_spec_counts counts;
    tally_generation_spec_counts(r->generation, &counts);
    speculation_json(root, &counts);
    if (r->logprobs) json_object_set_new(root, "logprobs", logprobs_json(r->generation, n_ids));
    return root;
}
