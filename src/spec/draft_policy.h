// How many drafts pay. Per request: how often drafts of each kind were right, by position, and a budget of time that drafting may lose;
// per step: the numbers of drafts for all requests of a batch that give the most tokens per second. No choice changes any output.
//
// A step's calls, in order: draft_policy_offer with each request's proposal (verified or not), draft_policy_choose, the step,
// step_times_seen, draft_policy_ran and draft_policy_learn for each request.
#ifndef TALLY_SPEC_DRAFT_POLICY_H
#define TALLY_SPEC_DRAFT_POLICY_H

#include "spec/draft.h"
#include "spec/step_times.h"

enum { POLICY_OFFERS = 2 * (DRAFT_MAX + 1) }; // proposals whose outcome is still open: two of a step

// A proposal whose outcome is open.
typedef struct policy_offer {
    draft d;
    int next;        // tokens of history that it was compared with
    int node, depth; // how far down that led
} policy_offer;

// What one request's drafts did. Proposals that were not verified count too: once the tokens they spoke of are committed it is known
// whether they were right, at no cost.
typedef struct draft_policy {
    double right[DRAFT_CLASSES][DRAFT_MAX],
        tried[DRAFT_CLASSES][DRAFT_MAX]; // decaying counts; depth j tried: all above it right
    double other_right, other_tried;     // the same for a tree's second and later branches, where the first was wrong
    double spent, saved, elapsed;  // in times of a plain token: what drafts added to steps, accepted drafts, tokens
    int drafted_steps, won_tokens; // since a step without drafts: steps, and accepted drafts
    int n_offers;
    policy_offer offer[POLICY_OFFERS];
} draft_policy;

// How often the first token of such a proposal is right, before anything is known of the request.
double draft_policy_prior(int kind);

void draft_policy_init(draft_policy *p);
// d was proposed behind a history of n tokens; whole (but behind draft_clip), not only what will be verified of it. d->n = 0 is allowed
// and ignored.
void draft_policy_offer(draft_policy *p, const draft *d, int n);
// The history is token[0..n) now: settles what was offered behind less of it.
void draft_policy_learn(draft_policy *p, const int32_t *token, int n);
// reach[i], i < d->n: probability that node i of the proposal is right, and so all above it.
void draft_policy_reaches(const draft_policy *p, const draft *d, double *reach);
// The same for a chain of n tokens that a draft model has yet to make: how sure it will be is not known, but how often it was how sure.
void draft_policy_reaches_unmade(const draft_policy *p, int n, double *reach);

// A step of several requests: `rows` rows without drafts, `drafts` more for those of all requests.
typedef struct policy_step {
    const step_times *times;
    int rows, drafts;
} policy_step;

// One request's part in it.
typedef struct policy_outcome {
    int n_drafts, n_emitted;
    bool asked_model;     // a draft model was asked, whatever it said
    double draft_seconds; // what making the drafts took, and following the text
} policy_outcome;

// What the drafts cost is reckoned by the table: one slow step tells of the machine, not of the drafts. Where no draft model was asked, what
// is known of it fades towards the prior, so that one that was given up is tried again some hundred tokens later, as the purse allows.
void draft_policy_ran(draft_policy *p, const policy_step *s, const policy_outcome *o);
// What drafting may still lose, in times of a plain token: a first credit of two, 1.5 % of `elapsed`, and what it has won.
double draft_policy_purse(const draft_policy *p);
// What a draft model may still lose: no first credit, so that short answers lose nothing, but 2.5 % of the answer so far, up to the purse.
double draft_policy_model_purse(const draft_policy *p);

// Up to two proposals, of which one is verified at most.
typedef struct policy_request {
    const draft_policy *policy;
    const draft *offered;     // one at hand, behind draft_clip; NULL or of no tokens: none
    int n;                    // one not made yet: a chain of n tokens of the draft model; 0: none
    double seconds_per_draft; // what making one of its tokens costs
    int min;                  // fewer than this are not worth a step: 0 or at least so many (--draft-min)
    bool ask_model;           // out: the drafts are the model's
} policy_request;

// ---- how much of a text a draft model reads --------------------------------------------------------------------------------

// A draft model knows token[start .. known) of a history of n tokens, known <= start: nothing; it can begin anew at any place, where its
// own position 0 then is. It holds fewer than `most` tokens.
typedef struct policy_window {
    int start, known, n, most;
    double row_cost; // of reading a token, in times of a plain token
} policy_window;

// Where it is to start so as to propose behind n tokens: w->start if it is to go on, -1 if what it would have to read is more than the
// request can pay now: half of a draft model's purse. So it begins with the last tokens, as soon as a few can be paid, and begins anew
// further back, at least twice as many, as drafts win that.
int draft_policy_window(const draft_policy *p, const policy_window *w);

enum { POLICY_REQUESTS = 256 }; // those beyond get no drafts

// Chooses each request's proposal, the one with which the step would emit more tokens per second had only this request drafts, and n[i],
// the first nodes of it that are verified: 0 .. its size, for a step that computes `rows` rows without drafts and may compute max_rows.
// Maximises expected emitted tokens per expected second; 0 is among the choices, and no request gets drafts that would overdraw its purse
// were they all wrong.
void draft_policy_choose(policy_request *r, int n_requests, const step_times *t, int rows, int max_rows, int *n);

#endif
