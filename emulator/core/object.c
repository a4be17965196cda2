#include "emulator/core/object.h"

#include <string.h>
#include <sys/mman.h>

#include "emulator/core/state.h"

// Slots of 128 << class bytes, each class in its own part of one reserved range; a slot is used again only after many others of its
// class were destroyed after it.
enum { N_CLASSES = 14, RESTING = 1 << 15 };
#define PART (UINT64_C(1) << 34)

static struct {
    unsigned char *base;
    uint64_t used[N_CLASSES];   // bytes of the part
    uint64_t usable[N_CLASSES]; // that have memory behind them
    emu_object *oldest[N_CLASSES], *newest[N_CLASSES];
    int n_resting[N_CLASSES];
    uint64_t next_id;
} pool;

static uint64_t seal(const void *p) { return (uint64_t)(uintptr_t)p ^ 0x9d5c0a7be3f14826u; }

static size_t slot_size(int size_class) { return (size_t)128 << size_class; }

static int resting(int size_class) { return size_class < 6 ? RESTING >> size_class : 16; }

static bool reserve(void) {
    void *p = mmap(NULL, PART * N_CLASSES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return false;
    pool.base = p;
    return true;
}

// Takes the next slot of a class that was never used; NULL: no memory.
static emu_object *fresh_slot(int c) {
    enum { STEP = 1 << 20 };
    unsigned char *part = pool.base + PART * (uint64_t)c;
    uint64_t end = pool.used[c] + slot_size(c);
    if (end > PART) return NULL;
    if (end > pool.usable[c]) {
        if (mprotect(part + pool.usable[c], STEP, PROT_READ | PROT_WRITE)) return NULL;
        pool.usable[c] += STEP;
    }
    pool.used[c] = end;
    return (emu_object *)(part + end - slot_size(c));
}

void *emu_object_create(emu_kind kind, size_t size, bool counted) {
    int c = 0;
    bool descriptor = kind >= EMU_TENSOR && kind <= EMU_SCALAR_LIST;
    if (descriptor && emu_call_fails()) return NULL;
    while (c < N_CLASSES && slot_size(c) < size) c++;
    if (c == N_CLASSES || (!pool.base && !reserve())) return NULL;
    emu_object *o;
    if (pool.n_resting[c] > resting(c)) {
        o = pool.oldest[c];
        pool.oldest[c] = o->next_free;
        pool.n_resting[c]--;
    } else {
        o = fresh_slot(c);
        if (!o) return NULL;
    }
    memset(o, 0, slot_size(c));
    *o = (emu_object){
        .mark = seal(o), .size_class = (uint32_t)c, .kind = (uint16_t)kind, .alive = true, .counted = counted};
    o->id = ++pool.next_id;
    if (counted) emu()->live[kind]++;
    return o;
}

void emu_object_destroy(void *object) {
    emu_object *o = object;
    int c = (int)o->size_class;
    if (o->counted) emu()->live[o->kind]--;
    o->alive = false;
    o->next_free = NULL;
    if (pool.n_resting[c] == 0) {
        pool.oldest[c] = o;
    } else {
        pool.newest[c]->next_free = o;
    }
    pool.newest[c] = o;
    pool.n_resting[c]++;
}

emu_look emu_object_look(const void *handle, emu_kind kind) {
    uint64_t at = (uint64_t)(uintptr_t)handle - (uint64_t)(uintptr_t)pool.base;
    if (!pool.base || at >= PART * N_CLASSES) return EMU_UNKNOWN;
    int c = (int)(at / PART);
    if (at % PART % slot_size(c) || at % PART >= pool.used[c]) return EMU_UNKNOWN;
    const emu_object *o = handle;
    if (o->mark != seal(o)) return EMU_UNKNOWN;
    if (o->kind != (uint16_t)kind) return EMU_OTHER_KIND;
    return o->alive ? EMU_ALIVE : EMU_DESTROYED;
}

int emu_object_need(const void *handle, emu_kind kind, const char *what) {
    switch (emu_object_look(handle, kind)) {
    case EMU_ALIVE: return 0;
    case EMU_DESTROYED: return emu_fail(EMU_RULE_dead_handle, "%s %p is used after it was destroyed", what, handle);
    case EMU_OTHER_KIND:
        return emu_fail(EMU_RULE_wrong_handle, "%s %p is a %s, not a %s", what, handle,
                        emu_kind_name((emu_kind)((const emu_object *)handle)->kind), emu_kind_name(kind));
    default: return emu_fail(EMU_RULE_wrong_handle, "%s %p is no handle of this library", what, handle);
    }
}

const char *emu_kind_name(emu_kind kind) {
    static const char *const names[] = {"context",           "stream",          "event",      "device block",
                                        "pinned host block", "physical memory", "tensor",     "scalar",
                                        "int array",         "float array",     "bool array", "tensor list",
                                        "scalar list",       "executor",        "graph",      "task group"};
    return names[kind];
}

void emu_object_each(emu_kind kind, void (*fn)(void *object)) {
    for (int c = 0; c < N_CLASSES; c++) {
        for (uint64_t at = 0; at < pool.used[c]; at += slot_size(c)) {
            emu_object *o = (emu_object *)(pool.base + PART * (uint64_t)c + at);
            if (o->alive && o->kind == (uint16_t)kind) fn(o);
        }
    }
}

void emu_objects_forget(void) {
    if (pool.base) munmap(pool.base, PART * N_CLASSES);
    memset(&pool, 0, sizeof pool);
}
