// Sums over the inputs in equal pieces, so that ranks which hold some of the pieces each get the bits of a device that holds them all
// (docs/exactness.md). Every piece is a product of its own, of one shape wherever it is computed, rounded to the activations' type as
// the operators do; the pieces are added in F32 in one binary tree of neighbours, and the sum is rounded once more.
#ifndef TALLY_BACKEND_ASCEND_PIECES_H
#define TALLY_BACKEND_ASCEND_PIECES_H

#include "backend/ascend/call.h"

struct ascend_backend;

typedef struct ascend_pieces_scratch { // the largest of each over the list's operations
    void *x;                           // [pieces][rows][inputs / pieces]
    void *part;                        // [pieces][rows][outputs] in the activations' type
    void *sum;                         // the same in F32
} ascend_pieces_scratch;

typedef struct ascend_pieces { // one product of one tile
    int n;
    ascend_view x;    // [n, rows, inputs / n]
    ascend_view part; // [n, rows, outputs], in the order that ascend_piece_part knows
} ascend_pieces;

// Bytes beside the plan: scratch, and a second copy of one weight at load.
int64_t ascend_pieces_bytes(const struct ascend_backend *b, const op_list *g);
// Scratch, and weights laid out anew, [pieces][outputs][inputs / pieces], so that a product reads one piece as it lies.
status ascend_pieces_prepare(struct ascend_backend *b, error *err);
status ascend_pieces_supported(const struct ascend_backend *b, const op *o, error *err);

bool ascend_pieces_wanted(const struct ascend_backend *b, const op *o); // before weights are laid out
int ascend_pieces_of(const struct ascend_backend *b, const op *o);      // 1: the product is one
ascend_view ascend_piece_of_weight(const struct ascend_backend *b, const tensor *w, int i); // as ascend_weight_view
ascend_view ascend_piece(ascend_view all, int i);                                           // [n, a, b] -> [a, b]
ascend_view ascend_piece_part(const ascend_pieces *p, int i);                               // where product i goes

// Takes x, [rows, inputs], apart; the caller makes the products and then adds them up into y, behind a bias if it is not NULL.
status ascend_pieces_begin(struct ascend_backend *b, const op *o, const ascend_view *x, ascend_pieces *p, error *err);
status ascend_pieces_end(struct ascend_backend *b, const ascend_pieces *p, const ascend_view *bias,
                         const ascend_view *y, error *err);

#endif
