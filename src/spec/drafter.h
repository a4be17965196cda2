// What proposes tokens. One drafter serves one request; drafters of an engine may share what they look into (a corpus, a draft model).
//
// A drafter is told the whole committed history at every call and makes its own state equal to it, as tally_session_sync does: it sees
// prompt and committed tokens only, never drafts, so there is nothing to roll back that the history does not say.
#ifndef TALLY_SPEC_DRAFTER_H
#define TALLY_SPEC_DRAFTER_H

#include "base/status.h"
#include "spec/draft.h"

typedef struct drafter drafter;

// It knows token[start .. known) of a history, and of longer ones than `most` tokens, counted from `start`, it proposes nothing.
typedef struct drafter_window {
    int start, known, most;
} drafter_window;

// One of several proposals that are made together: what propose takes, and gives.
typedef struct drafter_request {
    drafter *d;
    const int32_t *token;
    int n, max_nodes;
    draft *out;
    error *err; // may be NULL
    status result;
} drafter_request;

enum { DRAFTER_TOGETHER = 16 }; // most requests of one call

typedef struct drafter_vtable {
    const char *name;
    void (*destroy)(drafter *d);
    // History: token[0..n), n >= 1, borrowed for the call and never changed: a later call passes the same array with n no smaller.
    // Fills *out with at most max_nodes (1 .. DRAFT_MAX) tokens that may follow. out->n = 0: nothing to propose. Allocates
    // nothing on this path. An error ends drafting for the request, never the request.
    status (*propose)(drafter *d, const int32_t *token, int n, int max_nodes, draft *out, error *err);
    // For drafters whose proposals cost less together than one by one; otherwise NULL. n of one kind, which share what computes them, 1 ..
    // DRAFTER_TOGETHER: each gets what propose would give it alone.
    void (*propose_together)(drafter_request *r, int n);
    // For a drafter whom reading a history costs something; otherwise both are NULL. What it has read of this one; and reads it ahead of
    // propose, so that the time propose takes tells what drafts cost: token[start .. n - 1), from `start` as propose does from then on,
    // unless it is so little that propose may do it. History and errors as there.
    drafter_window (*window)(drafter *d, const int32_t *token, int n);
    status (*follow)(drafter *d, const int32_t *token, int n, int start, error *err);
} drafter_vtable;

struct drafter {
    const drafter_vtable *vt;
};

#endif
