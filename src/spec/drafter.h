// What proposes tokens. One drafter serves one request; drafters of an engine may share what they look into (a corpus, a draft model).
//
// A drafter is told the whole committed history at every call and makes its own state equal to it, as tally_session_sync does: it sees
// prompt and committed tokens only, never drafts, so there is nothing to roll back that the history does not say.
#ifndef TALLY_SPEC_DRAFTER_H
#define TALLY_SPEC_DRAFTER_H

#include "base/status.h"
#include "spec/draft.h"

typedef struct drafter drafter;

typedef struct drafter_vtable {
    const char *name;
    void (*destroy)(drafter *d);
    // History: token[0..n), n >= 1, borrowed for the call and never changed: a later call passes the same array with n no smaller.
    // Fills *out with at most max_nodes (1 .. DRAFT_MAX) tokens that may follow. out->n = 0: nothing to propose. Allocates
    // nothing on this path. An error ends drafting for the request, never the request.
    status (*propose)(drafter *d, const int32_t *token, int n, int max_nodes, draft *out, error *err);
    // NULL, or makes up for a history that has grown by a prompt, ahead of propose: so that the time propose takes tells what drafts
    // cost. History and errors as there.
    status (*follow)(drafter *d, const int32_t *token, int n, error *err);
} drafter_vtable;

struct drafter {
    const drafter_vtable *vt;
};

#endif
