#include "spec/draft_policy.h"

// Guesses, on the low side: what is learnt overrules them within some proposals.
double draft_policy_prior(int kind) {
    static const double prior[DRAFT_CLASSES] = {
        0.15, 0.3,  0.4,  0.5,  0.6,  0.7,
        0.8,  0.85, 0.9,  0.95,            // own text: 1, 2, 3, 4, 5, 6-7, 8-11, 12-19, 20-31, 32- tokens matched
        0.25, 0.4,  0.55, 0.7,  0.85, 0.9, // others': 1-2, 3, 4-5, 6-9, 10-19, 20-
        0.4,  0.6,  0.75, 0.9,             // a draft model
    };
    return kind >= 0 && kind < DRAFT_CLASSES ? prior[kind] : 0.25;
}
