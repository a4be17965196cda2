// Attention of a tile: some rows of one sequence and the query heads of one kv head. Sums are cut by position into pieces of KV_PIECE,
// each computed from zero and merged left to right, whatever the step's rows are (docs/exactness.md).
//
// Rows of a tree are kept at slots, which are not their positions. Panels that lie before the first row of a tile's paths are read in
// place, for all rows together; from there on each row reads panels made for it, in which the keys of its path stand by position, and
// the values of its path one by one. So slots decide where bytes are read, never the order of a sum.
#ifndef TALLY_BACKEND_CPU_CPU_ATTENTION_TILE_H
#define TALLY_BACKEND_CPU_CPU_ATTENTION_TILE_H

#include "backend/cpu/cpu_internal.h"

// Floats of a row of q or o in scratch: it ends on a vector border.
static inline int64_t padded_head(int64_t d) { return (d + 15) & ~(int64_t)15; }

typedef struct attention_job {
    cpu_backend *b;
    const op *o;
    int group; // query heads per kv head
} attention_job;

// The scratch of one task: queries, their running (m, l, o), and one piece.
typedef struct attention_tile {
    int n_q; // queries: rows x group
    int group;
    int64_t d, d_pad;                   // rows of q and o start on vector borders
    float *q, *o, *m, *l;               // [n_q][d_pad], [n_q][d_pad], [n_q], [n_q]
    float *piece_o, *piece_m, *piece_l; // as o, m, l, of the piece at hand
    float *scores;                      // [QUERY_BLOCK][SCORE_STRIDE]
    float *keys, *values;               // the piece as F32, where widening it pays; else not used
    int row0;                           // the first of the n_q / group rows
    const int32_t *limit;               // [n_q / group]: keys of each row (its position + 1)
    // Positions before `shared`, whole panels, are in the cache for every row; those of a row's path begin at first[row]. Not a tree:
    // shared is INT_MAX, and limits ascend.
    int shared;
    const int32_t *first;  // [n_q / group], of a tree
    unsigned char *gather; // one panel of keys
    const int32_t *table;  // the sequence's blocks
    int kv_head;
} attention_tile;

// So many queries make it cheaper to widen a piece once than to do so for each few of them.
enum { WIDEN_FROM = 24 };

// What belongs to the rows of a tile.
typedef struct tile_rows {
    int32_t limit[ATTENTION_QUERIES], first[ATTENTION_QUERIES];
    int most; // the longest limit
} tile_rows;

// Unit u is tile u / kv heads (of tile_first) with kv head u % kv heads. In the thread's scratch; queries are not copied yet. `rows` backs the
// tile and has to outlive it.
attention_tile attention_tile_start(const attention_job *j, int unit, int thread, tile_rows *rows);
void attention_tile_copy_queries(const attention_job *j, const attention_tile *t);

// (m, l, o) of one piece, into t->piece_*, for every query that reaches it; most: the longest limit.
void attention_tile_run(const attention_job *j, const attention_tile *t, int piece, int most);
// Merges a piece of query i, in t->piece_*, into its sums m, l and o [d]; the first piece starts them.
void attention_tile_merge(const attention_job *j, const attention_tile *t, int i, int piece, float *o);

float *attention_tile_result(const attention_job *j, const attention_tile *t, int i); // [d], of query i

int64_t attention_padded_head(const op_list *g); // numbers of the longest head, padded as d_pad

#endif
