#include "cmd/request.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/random.h>

#include "cmd/common.h"

// "15043+1.5", "15043-inf"
static int parse_bias(const char *text, tally_logit_bias *out) {
    char *end, *sign;
    errno = 0;
    long long id = strtoll(text, &sign, 10);
    bool ok = sign != text && !errno && id >= 0 && id <= INT32_MAX && (*sign == '+' || *sign == '-');
    double bias = ok ? strtod(sign, &end) : 0;
    if (!ok || end == sign || *end || isnan(bias) || (float)bias == INFINITY) {
        return usage_error("--logit-bias takes ID+BIAS or ID-BIAS (15043+1.5, 15043-inf), not '%s'", text);
    }
    *out = (tally_logit_bias){(int32_t)id, (float)bias};
    return 0;
}

int request_biases(const options *o, tally_logit_bias **out) {
    int n = o->logit_bias.n;
    tally_logit_bias *bias = *out = calloc((size_t)n + 1, sizeof *bias);
    if (!bias) return fail("memory ran out reading %d logit biases", n);
    for (int i = 0; i < n; i++) {
        int rc = parse_bias(o->logit_bias.items[i], &bias[i]);
        if (!rc) continue;
        free(bias);
        *out = NULL;
        return rc;
    }
    return 0;
}

int request_seed(int64_t asked, int64_t *seed) {
    *seed = asked;
    if (asked != SEED_RANDOM) return 0;
    uint64_t r;
    if (getrandom(&r, sizeof r, 0) != (ssize_t)sizeof r)
        return fail("the system gave no random seed; choose one with --seed");
    *seed = (int64_t)(r >> 11); // 53 bits, which every reader of JSON can hold
    return 0;
}

tally_request request_from_options(const options *o, const tally_logit_bias *bias, int64_t seed) {
    return (tally_request){
        .max_tokens = o->n_predict,
        .sampling = {.repeat_penalty = (float)o->repeat_penalty,
                     .presence_penalty = (float)o->presence_penalty,
                     .frequency_penalty = (float)o->frequency_penalty,
                     .logit_bias = bias,
                     .n_logit_bias = o->logit_bias.n,
                     .temperature = (float)o->temperature,
                     .top_k = o->top_k,
                     .top_p = (float)o->top_p,
                     .min_p = (float)o->min_p,
                     .seed = (uint64_t)seed},
        .stops = o->stops.items,
        .n_stops = o->stops.n,
        .ignore_eos = o->ignore_eos,
        .logprobs = o->logprobs,
    };
}
