// tally eval: logits of every position, perplexity, and the distance to logits from elsewhere.
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/commands.h"
#include "cmd/common.h"
#include "cmd/engines.h"

typedef struct eval_state {
    const options *o;
    tally_model *model;
    tally_engine *engine;
    int32_t *ids;
    size_t n_ids;
    int n_vocab;

    FILE *logits, *reference; // NULL: not asked for
    float *reference_row;     // [n_vocab]

    const int32_t *window; // ids of the running window
    size_t window_len;
    size_t n_windows;

    size_t n_scored;      // tokens whose probability counts for the perplexity
    double nll;           // sum of their negative log-probabilities
    double reference_nll; // the same for the reference
    size_t n_compared;    // positions compared with the reference
    double kl;            // sum over them of KL(reference || ours), nats
    size_t n_same_top;
    tally_status status; // why the row function stopped
    char message[512];
} eval_state;

static int argmax(const float *x, int n) {
    int best = 0;
    for (int i = 1; i < n; i++) {
        if (x[i] > x[best]) best = i;
    }
    return best;
}

// log(sum(exp(x))), in double.
static double log_sum_exp(const float *x, int n, double top) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += exp((double)x[i] - top);
    return top + log(sum);
}

static tally_status stop(eval_state *s, tally_status status, const char *what, const char *file) {
    snprintf(s->message, sizeof s->message, "%s %s: %s", what, file, errno ? strerror(errno) : "the file ends early");
    return s->status = status;
}

// KL(reference || ours) = sum_i p_i * (log p_i - log q_i)
static void compare(eval_state *s, const float *row, double lse, const float *ref, int next) {
    int n = s->n_vocab, ref_top = argmax(ref, n);
    double ref_lse = log_sum_exp(ref, n, ref[ref_top]);
    double kl = 0;
    for (int i = 0; i < n; i++) {
        double logp = ref[i] - ref_lse, logq = row[i] - lse;
        double p = exp(logp);
        if (p > 0) kl += p * (logp - logq); // a token that the reference forbids adds nothing
    }
    s->kl += kl;
    s->n_compared++;
    s->n_same_top += argmax(row, n) == ref_top;
    if (next >= 0) s->reference_nll += ref_lse - ref[next];
}

static tally_status on_row(void *user, int position, const float *row, int n_vocab) {
    eval_state *s = user;
    errno = 0;
    if (s->logits && fwrite(row, sizeof *row, (size_t)n_vocab, s->logits) != (size_t)n_vocab) {
        return stop(s, TALLY_IO, "cannot write", s->o->logits_file);
    }
    if (interrupt_pending()) return s->status = TALLY_CANCELLED;
    if (!s->reference && !s->o->perplexity_file) return TALLY_OK;
    double lse = log_sum_exp(row, n_vocab, row[argmax(row, n_vocab)]);
    int next = (size_t)position + 1 < s->window_len ? (int)s->window[position + 1] : -1;
    if (next >= 0) {
        s->nll += lse - row[next];
        s->n_scored++;
    }
    if (s->reference) {
        if (fread(s->reference_row, sizeof *row, (size_t)n_vocab, s->reference) != (size_t)n_vocab) {
            return stop(s, TALLY_IO, "cannot read", s->o->kl_file);
        }
        compare(s, row, lse, s->reference_row, next);
    }
    return TALLY_OK;
}

static int open_reference(eval_state *s) {
    const char *path = s->o->kl_file;
    s->reference = fopen(path, "rb");
    if (!s->reference) return fail("cannot open %s: %s", path, strerror(errno));
    struct stat st;
    long long expected = (long long)s->n_ids * s->n_vocab * (long long)sizeof(float);
    if (fstat(fileno(s->reference), &st) != 0) return fail("cannot read %s: %s", path, strerror(errno));
    if (st.st_size != expected) {
        return fail(
            "%s has %lld bytes, but float32 logits of %zu ids and a vocabulary of %d have %lld; it belongs to another "
            "text or model",
            path, (long long)st.st_size, s->n_ids, s->n_vocab, expected);
    }
    s->reference_row = malloc((size_t)s->n_vocab * sizeof(float));
    return s->reference_row ? 0 : fail("memory ran out for one row of %d logits", s->n_vocab);
}

static int check_ids(const eval_state *s) {
    if (s->n_ids == 0) return fail("the text is empty; give at least one token");
    for (size_t i = 0; i < s->n_ids; i++) {
        if (s->ids[i] >= s->n_vocab) {
            return fail("id %d at position %zu is outside of the model's vocabulary of %d", (int)s->ids[i], i,
                        s->n_vocab);
        }
    }
    return 0;
}

static int start(eval_state *s) {
    const options *o = s->o;
    tally_error err;
    if (tally_model_open(&s->model, o->model, &err) != TALLY_OK) return fail_with(&err);
    s->n_vocab = tally_model_n_vocab(s->model);
    if (s->n_vocab == 0) return fail("%s holds a tokenizer only; eval needs a model with weights", o->model);
    int rc = prompt_ids(s->model, o, &s->ids, &s->n_ids);
    if (!rc) rc = check_ids(s);
    if (!rc && o->kl_file) rc = open_reference(s);
    if (!rc) rc = open_engine(s->model, o, s->n_ids, NULL, &s->engine);
    if (rc) return rc;
    size_t context = (size_t)tally_engine_context(s->engine);
    if (s->n_ids > context && (o->logits_file || o->kl_file)) {
        return fail("%zu ids do not fit into a context of %zu positions; shorten the text or raise -c", s->n_ids,
                    context);
    }
    if (o->logits_file && !(s->logits = fopen(o->logits_file, "wb"))) {
        return fail("cannot open %s for writing: %s", o->logits_file, strerror(errno));
    }
    return 0;
}

static int run_window(eval_state *s, size_t from, size_t len) {
    tally_session *session;
    tally_error err;
    if (tally_session_open(&session, s->engine, &err) != TALLY_OK) return fail_with(&err);
    s->window = s->ids + from;
    s->window_len = len;
    s->n_windows++;
    tally_status status = tally_session_eval(session, s->window, (int)len, s->o->chunk, on_row, s, &err);
    tally_session_close(session);
    if (s->status == TALLY_CANCELLED) err.code = TALLY_CANCELLED;
    if (s->message[0]) return fail("%s", s->message);
    return status == TALLY_OK ? 0 : fail_with(&err);
}

// Closes the file, and removes it when it is not whole.
static int close_logits(eval_state *s, int rc) {
    if (!s->logits) return rc;
    struct stat st;
    bool regular = fstat(fileno(s->logits), &st) == 0 && S_ISREG(st.st_mode);
    errno = 0;
    if (fclose(s->logits) != 0 && !rc) rc = fail("cannot write %s: %s", s->o->logits_file, strerror(errno));
    if (rc && regular) unlink(s->o->logits_file);
    return rc;
}

static json_t *real_or_null(double x) { return isfinite(x) ? json_real(x) : json_null(); } // JSON has no infinity

static int print_json(const eval_state *s) {
    json_t *root = json_pack("{s:I, s:i}", "n_ids", (json_int_t)s->n_ids, "n_vocab", s->n_vocab);
    if (s->n_scored) {
        double n = (double)s->n_scored;
        json_object_set_new(root, "perplexity", real_or_null(exp(s->nll / n)));
        json_object_set_new(root, "n_scored", json_integer((json_int_t)s->n_scored));
        json_object_set_new(root, "n_windows", json_integer((json_int_t)s->n_windows));
        if (s->reference) json_object_set_new(root, "reference_perplexity", real_or_null(exp(s->reference_nll / n)));
    }
    if (s->n_compared) {
        json_object_set_new(root, "mean_kl", real_or_null(s->kl / (double)s->n_compared));
        json_object_set_new(root, "same_top", json_real((double)s->n_same_top / (double)s->n_compared));
    }
    int rc = root && json_dumpf(root, stdout, JSON_REAL_PRECISION(9)) == 0
                 ? 0
                 : fail("the result could not be written as JSON");
    putchar('\n');
    json_decref(root);
    return rc;
}

static void print_text(const eval_state *s) {
    if (s->logits) printf("logits: %zu x %d float32 in %s\n", s->n_ids, s->n_vocab, s->o->logits_file);
    double n = (double)s->n_scored;
    if (s->n_scored) {
        printf("perplexity: %.6f over %zu tokens in %zu window%s of at most %d\n", exp(s->nll / n), s->n_scored,
               s->n_windows, s->n_windows == 1 ? "" : "s", tally_engine_context(s->engine));
    }
    if (!s->n_compared) return;
    double positions = (double)s->n_compared;
    if (s->n_scored) printf("reference perplexity: %.6f\n", exp(s->reference_nll / n));
    printf("mean KL divergence: %.6g nats over %zu positions\n", s->kl / positions, s->n_compared);
    printf("same top token: %.2f %%\n", 100 * (double)s->n_same_top / positions);
}

int cmd_eval(const options *o) {
    int rc = check_prompt(o, ", or --perplexity FILE");
    if (rc) return rc;
    if (!o->logits_file && !o->perplexity_file && !o->kl_file) {
        return usage_error("eval needs something to do: --logits FILE, --perplexity FILE or --kl FILE");
    }
    eval_state s = {.o = o};
    rc = start(&s);
    if (!rc && o->perplexity_file && s.n_ids < 2)
        rc = fail("perplexity needs a text of at least 2 tokens, not %zu", s.n_ids);
    size_t context = rc ? 1 : (size_t)tally_engine_context(s.engine);
    for (size_t at = 0; at < s.n_ids && !rc; at += context) {
        rc = run_window(&s, at, s.n_ids - at < context ? s.n_ids - at : context);
    }
    rc = close_logits(&s, rc);
    if (!rc && o->json) rc = print_json(&s);
    if (!rc && !o->json) print_text(&s);
    if (s.reference) fclose(s.reference);
    free(s.reference_row);
    close_engine(s.engine);
    tally_free(s.ids);
    tally_model_close(s.model);
    return rc;
}
