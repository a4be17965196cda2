// What the operations of a step cost on a described device: plain data between a backend that counts and those who report.
//
// Bytes and floating-point operations are whole numbers kept in doubles (exact up to 2^53). Times are in seconds and add up: of an
// operation, the longer of moving its bytes and doing its arithmetic counts, as the time of that resource; launching it and moving
// its result between ranks come on top, so time = memory_s + compute_s + launch_s + link_s for one operation and for any sum.
#ifndef TALLY_OP_OP_COST_H
#define TALLY_OP_OP_COST_H

// Peaks by the type of the larger operand (a weight, or the cache); block formats multiply as bytes.
typedef enum flops_kind { FLOPS_F32, FLOPS_F16, FLOPS_BF16, FLOPS_INT8, FLOPS_KINDS } flops_kind;

typedef struct hardware {
    char name[64];
    double memory_bytes;
    double bandwidth;          // bytes/s between memory and arithmetic
    double flops[FLOPS_KINDS]; // operations/s; a multiplication with its addition counts as two
    double launch_s;           // fixed time of starting one operation
    double link_bandwidth;     // bytes/s between ranks, each way; 0: none described
    double link_latency_s;
    double collective_s; // fixed time of starting one collective
    unsigned passes;     // op/passes.h: what the list of this device goes through
    int n_ranks;         // devices that share the model; the list is one's part of it
} hardware;

typedef struct op_cost {
    double flops[FLOPS_KINDS];
    double weight_bytes, activation_bytes, cache_bytes; // read and written
    double launches;
    double memory_s, compute_s, launch_s;
    double collectives, link_bytes, link_s; // bytes this rank receives
} op_cost;

typedef struct step_cost {
    int n_ops;
    const op_cost *op; // [n_ops], in the order of the list
    op_cost total;
} step_cost;

static inline double op_cost_flops(const op_cost *c) {
    double sum = 0;
    for (int i = 0; i < FLOPS_KINDS; i++) sum += c->flops[i];
    return sum;
}
static inline double op_cost_bytes(const op_cost *c) { return c->weight_bytes + c->activation_bytes + c->cache_bytes; }
static inline double op_cost_time(const op_cost *c) { return c->memory_s + c->compute_s + c->launch_s + c->link_s; }
static inline void op_cost_add(op_cost *sum, const op_cost *c) {
    for (int i = 0; i < FLOPS_KINDS; i++) sum->flops[i] += c->flops[i];
    sum->weight_bytes += c->weight_bytes;
    sum->activation_bytes += c->activation_bytes;
    sum->cache_bytes += c->cache_bytes;
    sum->launches += c->launches;
    sum->memory_s += c->memory_s;
    sum->compute_s += c->compute_s;
    sum->launch_s += c->launch_s;
    sum->collectives += c->collectives;
    sum->link_bytes += c->link_bytes;
    sum->link_s += c->link_s;
}

#endif
