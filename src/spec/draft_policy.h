// How many drafts pay. Per request: how often drafts of each kind were right, by position, and a budget of time that drafting may lose;
// per step: the numbers of drafts for all requests of a batch that give the most tokens per second. No choice changes any output.
#ifndef TALLY_SPEC_DRAFT_POLICY_H
#define TALLY_SPEC_DRAFT_POLICY_H

#include "spec/draft.h"
#include "spec/step_times.h"

// What one request's drafts did. Proposals that were not verified count too: once the tokens they spoke of are committed, it is known
// whether they were right (draft_policy_saw), at no cost.
typedef struct draft_policy {
    double right[DRAFT_CLASSES][DRAFT_MAX],
        tried[DRAFT_CLASSES][DRAFT_MAX]; // decaying counts; position j tried: all before it right
    double spent, saved;                 // seconds of verify rows and drafting; seconds of plain steps they replaced
    double elapsed;                      // seconds of plain steps that the tokens so far would have taken
} draft_policy;

void draft_policy_init(draft_policy *p);
// A proposal's outcome: its first n_right tokens were right and, if n_right < n_tried, the next one was wrong.
void draft_policy_saw(draft_policy *p, int kind, int n_tried, int n_right);
// Probability that the first j + 1 tokens of a proposal of this kind are all right.
double draft_policy_reach(const draft_policy *p, int kind, int j);
// A step emitted n_emitted tokens of this request; drafting for it took draft_seconds, its share of the step step_seconds, and a plain step
// would have taken plain_seconds.
void draft_policy_ran(draft_policy *p, int n_emitted, double step_seconds, double draft_seconds, double plain_seconds);
// Whether drafting has lost all it may lose: 2 % of `elapsed` and a fixed first credit.
bool draft_policy_broke(const draft_policy *p);

typedef struct policy_request {
    const draft_policy *policy;
    int kind;
    int n_offered;            // tokens of the proposal at hand (a chain), or that a drafter could make
    int min;                  // fewer than this are not worth a step: 0 or at least so many (--draft-min)
    double seconds_per_draft; // what making one draft costs (a draft model), 0 for what is offered already
} policy_request;

// Chooses n[i] in 0 .. n_offered for every request of a step that computes `rows` rows without drafts and may compute max_rows:
// maximises expected emitted tokens per expected second; 0 is among the choices, and the only one for a request that is broke.
void draft_policy_choose(const policy_request *r, int n_requests, const step_times *t, int rows, int max_rows, int *n);

#endif
