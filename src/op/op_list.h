// Every operation there is, one line each: name, what it computes. Shapes and arguments: the builders in op.h.
#define OPCODE_LIST(X) \
    X(EMBED, "rows of the embedding table by token id") \
    X(ADD, "a + b") \
    X(RMS_NORM, "x / sqrt(mean(x^2) + eps) * w over the last dimension") \
    X(ADD_RMS_NORM, "s = a + b; the norm of s; both are results") \
    X(LINEAR, "x W^T + bias") \
    X(ROPE_TABLE, "cosines and sines of position * frequency, one row per token") \
    X(ROPE, "rotates the heads of x by a table's row, in place") \
    X(KV_STORE, "writes keys and values of the step's rows into the cache") \
    X(ATTENTION, "softmax(q k^T * scale) v over the row's sequence up to its own position") \
    X(SWIGLU, "silu(gate) * up") \
    X(ROUTER_TOPK, "softmax over all experts, the k largest (ties: lowest id), normalised if asked") \
    X(EXPERT_LINEAR, "x W_e^T for every chosen expert e of every row") \
    X(EXPERT_COMBINE, "sum over slots of p * x, in slot order") \
    X(GATHER_ROWS, "the rows whose logits are wanted")
