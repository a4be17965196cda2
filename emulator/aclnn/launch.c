// Launches: what a kernel sees, what a launch touches.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "emulator/aclnn/executor.h"
#include "emulator/core/memory.h"
#include "emulator/core/task.h"

typedef struct emu_chunk {
    struct emu_chunk *next;
    _Alignas(16) unsigned char bytes[];
} emu_chunk;

void *emu_body_alloc(emu_body *b, size_t size) {
    emu_chunk *c = calloc(1, sizeof *c + size);
    if (!c) return NULL;
    c->next = b->chunks;
    b->chunks = c;
    return c->bytes;
}

void emu_body_drop(emu_body *b) {
    if (!b || --b->references) return;
    for (emu_chunk *c = b->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(b);
}

const char *emu_launch_name(const emu_launch *l) { return l->body->name; }

void emu_launch_drop(emu_launch *l) {
    if (!l || --l->references) return;
    emu_body_drop(l->body);
    free(l);
}

static bool is_private(const emu_view *v) { return v->format == ACL_FORMAT_FRACTAL_NZ; }

static int64_t product(const int64_t *dim, int rank) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dim[i];
    return n;
}

bool emu_view_bytes(const emu_view *v, uint64_t *first, uint64_t *size) {
    uint64_t bits = (uint64_t)emu_dtype_bits(v->dtype), last = (uint64_t)v->offset;
    if (v->numel == 0) return false;
    if (v->span) {
        *first = (uint64_t)v->offset * bits / 8;
        *size = ((uint64_t)v->span * bits + 7) / 8;
        return true;
    }
    if (is_private(v) && v->storage_rank) {
        *first = 0;
        *size = ((uint64_t)product(v->storage_dim, v->storage_rank) * bits + 7) / 8;
        return true;
    }
    for (int i = 0; i < v->rank; i++) last += (uint64_t)(v->dim[i] - 1) * (uint64_t)v->stride[i];
    *first = (uint64_t)v->offset * bits / 8;
    *size = ((last + 1) * bits + 7) / 8 - *first;
    return true;
}

// The bytes as rows if all dimensions but one lie together; else everything between the first and the last.
static emu_range rows_of(const emu_view *v, uint64_t address, const emu_slot *slot) {
    uint64_t first, size, bits = (uint64_t)emu_dtype_bits(v->dtype);
    emu_view_bytes(v, &first, &size);
    emu_range r = {.lo = address + first,
                   .hi = address + first + size,
                   .width = size,
                   .pitch = size,
                   .access = (unsigned char)slot->access,
                   .what = slot->name};
    if (v->span || is_private(v) || bits < 8) return r;
    uint64_t width = bits / 8, pitch = 0, outer = 1;
    bool used[EMU_MAX_RANK] = {false};
    for (int step = 0; step < v->rank; step++) {
        int at = -1; // the dimension with the smallest stride of those left
        for (int i = 0; i < v->rank; i++) {
            if (!used[i] && v->dim[i] > 1 && (at < 0 || v->stride[i] < v->stride[at])) at = i;
        }
        if (at < 0) break;
        used[at] = true;
        uint64_t stride = (uint64_t)v->stride[at] * bits / 8, n = (uint64_t)v->dim[at];
        if (!pitch && stride <= width) {
            width = stride * (n - 1) + width;
        } else if (!pitch) {
            pitch = stride;
            outer = n;
        } else if (stride == pitch * outer) {
            outer *= n;
        } else {
            return r;
        }
    }
    if (pitch) {
        r.width = width;
        r.pitch = pitch;
    }
    return r;
}

emu_task *emu_launch_task(emu_stream *s, emu_launch *l) {
    const emu_body *b = l->body;
    emu_task *t = emu_task_create(s, EMU_TASK_LAUNCH, b->n_tensors + 1);
    if (!t) {
        emu_launch_drop(l);
        return NULL;
    }
    t->launch = l;
    for (int i = 0; i < b->n_slots; i++) {
        const emu_slot *slot = &b->slot[i];
        for (int j = 0; j < slot->n; j++) {
            if (slot->views[j].numel)
                t->ranges[t->n_ranges++] = rows_of(&slot->views[j], l->addresses[slot->first + j], slot);
        }
    }
    if (l->workspace_size)
        emu_task_range(t, (uint64_t)(uintptr_t)l->workspace, l->workspace_size, EMU_WRITES, "the workspace");
    return t;
}

// Filling all of a large workspace before and after each operator would take longer than most operators.
static void poison(unsigned char *p, uint64_t size) {
    enum { PART = 16384 };
    if (size <= 2 * PART) {
        memset(p, EMU_POISON, size);
        return;
    }
    memset(p, EMU_POISON, PART);
    memset(p + size - PART, EMU_POISON, PART);
}

static int reach(const emu_launch *l, int device, const char *what, uint64_t address, uint64_t size) {
    if (!emu_range_need(address, size, device, what)) return 0;
    emu_rule rule = emu_block_at(address) && emu_block_at(address)->state == EMU_BLOCK_FREED ? EMU_RULE_use_after_free
                                                                                             : EMU_RULE_out_of_bounds;
    return emu_fail_as(ACL_ERROR_RT_AICORE_EXCEPTION, rule,
                       "%s: %s at 0x%" PRIx64 " was no longer there when the operator ran", emu_launch_name(l), what,
                       address);
}

static int reach_tensors(const emu_launch *l, int device, emu_tensor *tensors) {
    const emu_body *b = l->body;
    for (int i = 0; i < b->n_slots; i++) {
        for (int j = 0; j < b->slot[i].n; j++) {
            const emu_view *v = &b->slot[i].views[j];
            emu_tensor *t = &tensors[b->slot[i].first + j];
            uint64_t address = l->addresses[b->slot[i].first + j], first, size;
            t->view = *v;
            if (!emu_view_bytes(v, &first, &size)) continue;
            int code = reach(l, device, b->slot[i].name, address + first, size);
            if (code) return code;
            t->data = emu_reach(address + (uint64_t)v->offset * (uint64_t)emu_dtype_bits(v->dtype) / 8);
        }
    }
    return 0;
}

// Copies between a strided view and contiguous memory, either way.
static void copy_dense(const emu_view *v, unsigned char *strided, unsigned char *dense, bool out) {
    size_t size = (size_t)emu_dtype_bits(v->dtype) / 8;
    int64_t index[EMU_MAX_RANK] = {0};
    for (int64_t n = 0; n < v->numel; n++) {
        int64_t at = 0;
        for (int i = 0; i < v->rank; i++) at += index[i] * v->stride[i];
        unsigned char *s = strided + (size_t)at * size, *d = dense + (size_t)n * size;
        memcpy(out ? s : d, out ? d : s, size);
        for (int i = v->rank - 1; i >= 0 && ++index[i] == v->dim[i]; i--) index[i] = 0;
    }
}

// Gives the kernel contiguous copies of the tensors marked dense; after it, takes outputs back and frees them all.
static int densify(const emu_body *b, emu_tensor *tensors) {
    for (int i = 0; i < b->n_slots; i++) {
        for (int j = 0; j < b->slot[i].n && j < 64; j++) {
            emu_tensor *t = &tensors[b->slot[i].first + j];
            if (!(b->slot[i].dense >> j & 1) || !t->data) continue;
            unsigned char *copy = malloc((size_t)t->view.numel * (size_t)emu_dtype_bits(t->view.dtype) / 8);
            if (!copy) return emu_fail(EMU_RULE_out_of_memory, "no memory to run %s", b->name);
            copy_dense(&t->view, t->data, copy, false);
            int64_t step = 1;
            for (int d = t->view.rank - 1; d >= 0; d--) t->view.stride[d] = step, step *= t->view.dim[d];
            t->data = copy;
        }
    }
    return 0;
}

static void take_back(const emu_launch *l, emu_tensor *tensors) {
    const emu_body *b = l->body;
    for (int i = 0; i < b->n_slots; i++) {
        for (int j = 0; j < b->slot[i].n && j < 64; j++) {
            emu_tensor *t = &tensors[b->slot[i].first + j];
            const emu_view *v = &b->slot[i].views[j];
            unsigned char *home = t->data ? emu_reach(l->addresses[b->slot[i].first + j] +
                                                      (uint64_t)v->offset * (uint64_t)emu_dtype_bits(v->dtype) / 8)
                                          : NULL;
            if (!(b->slot[i].dense >> j & 1) || !t->data || t->data == home) continue;
            if (b->slot[i].access & EMU_WRITES) copy_dense(v, home, t->data, true);
            free(t->data);
        }
    }
}

static uint64_t perturbation(const emu_launch *l) {
    uint64_t p = emu()->config.perturb;
    if (!p) return 0;
    return hash_mix(l->body->signature ^ hash_mix(p + (l->varies ? emu()->executions << 20 : 0))) | 1;
}

int emu_launch_run(emu_launch *l, int device) {
    const emu_body *b = l->body;
    emu_tensor *tensors = calloc((size_t)b->n_tensors + 1, sizeof *tensors);
    const emu_tensor *first[EMU_MAX_SLOTS];
    int n[EMU_MAX_SLOTS];
    int code =
        tensors ? reach_tensors(l, device, tensors) : emu_fail(EMU_RULE_out_of_memory, "no memory to run %s", b->name);
    unsigned char *workspace = NULL, *own = NULL;
    if (!code && l->private_workspace) {
        own = malloc(l->workspace_size);
        if (!own) code = emu_fail(EMU_RULE_out_of_memory, "no memory to run %s", b->name);
    } else if (!code && l->workspace_size &&
               !(code = reach(l, device, "the workspace", (uint64_t)(uintptr_t)l->workspace, l->workspace_size))) {
        workspace = emu_reach((uint64_t)(uintptr_t)l->workspace);
        poison(workspace, l->workspace_size);
    }
    for (int i = 0; tensors && i < b->n_slots; i++) {
        first[i] = &tensors[b->slot[i].first];
        n[i] = b->slot[i].n;
    }
    if (!code && !(code = densify(b, tensors))) {
        emu_run run = {.name = b->name,
                       .attrs = b->attrs,
                       .n_slots = b->n_slots,
                       .n_tensors = n,
                       .tensors = first,
                       .workspace = own ? own : workspace,
                       .workspace_size = l->workspace_size,
                       .perturb = perturbation(l),
                       .chip = emu()->chip,
                       .cann = emu()->cann};
        code = b->kernel(&run);
    }
    if (workspace) poison(workspace, l->workspace_size);
    if (tensors) take_back(l, tensors);
    free(own);
    free(tensors);
    return code;
}

aclError emu_run_fault(const emu_run *run, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return emu_fail(EMU_RULE_kernel_fault, "%s: %s", run->name, text);
}
