// Speculation against plain decoding: one model in two engines, one of which never drafts. A check runs requests through the other with
// a drafter of the test's choice and compares after every cycle: tokens, the logits each was chosen from, the length of the cache, its
// bytes (what lies beyond is poisoned), the sampler's memory, what the drafter was told, the counters; and at the end text and reason.
//
// A check returns NULL, or one sentence about the first difference: tests of faults expect one.
#ifndef TALLY_TESTS_SPEC_CHECK_H
#define TALLY_TESTS_SPEC_CHECK_H

#include "engine/generation.h"
#include "tests/support/eval.h"

enum { SPEC_TOKENS = 1024, SPEC_REQUESTS = 8 };

// What plain decoding says to a request.
typedef struct spec_plain {
    int n_prompt, n; // tokens of the prompt, tokens behind it
    int n_cached;    // positions computed when it ended
    int32_t token[SPEC_TOKENS];
    uint64_t logits[SPEC_TOKENS]; // [i]: hash of those that token i was chosen from
    float gap[SPEC_TOKENS];       // between the two best of them
    char reason[16], text[4096];
    sequence cache; // of all tokens, computed at once; in the plain engine
} spec_plain;

// A drafter of the test: fills *out knowing what plain decoding will say. `at`: tokens of the history. Returns false to fail.
struct spec_run;
typedef bool spec_propose(struct spec_run *run, const spec_plain *truth, int at, int max_nodes, draft *out);

typedef struct spec_pair {
    test_engine plain, spec;
} spec_pair;

typedef struct spec_run {
    spec_propose *propose; // NULL: the drafters of the mode
    tally_spec_mode mode;  // 0: TALLY_SPEC_LOOKUP
    int k;                 // drafts of a step at most; 0: 16
    bool no_cache_check;   // bytes are not compared (they are what takes the time)
    bool drops_cache; // a generation that ends gives its blocks back at once, as requests do that no session waits for
    verify_choose *choose; // NULL, or what chooses in the place of verify_step_choose
    verify_result (*walk)(const draft *d, verify_choose *choose, void *ctx); // NULL: verify_walk
    uint64_t seed;                                                           // for random drafters
    draft last;                                                              // what was proposed last
    int last_at, n_proposed;
    // results, of all requests together
    tally_spec_counts counts;
    int cycles;
} spec_run;

// Both engines with these options; where they name no mode the first is TALLY_SPEC_OFF.
spec_pair spec_pair_open(const char *path, const tally_engine_options *o);
void spec_pair_hook(const spec_pair *p); // makes a pair of two engines that were opened otherwise
void spec_pair_close(spec_pair *p);

// Answers a request without drafts. To be freed.
spec_plain *spec_plain_run(const spec_pair *p, const tally_request *r);
void spec_plain_free(spec_plain *t);

// Runs the requests together, n <= SPEC_REQUESTS.
const char *spec_differs(const spec_pair *p, spec_run *run, const tally_request *r, spec_plain *const *plain, int n);

// One request, plain and with the run's drafter; a difference ends the test.
void spec_must_equal(const spec_pair *p, spec_run *run, const tally_request *r);

// Drafters.
spec_propose spec_perfect, spec_wrong, spec_wrong_first, spec_right_first, spec_repeat_last, spec_hostile,
    spec_stop_ids, spec_random, spec_rejected, spec_in_turn, spec_placeholder, spec_tree, spec_failing;

#endif
