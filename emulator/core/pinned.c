// Pinned host memory: aclrtMallocHost, aclrtHostRegister.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/core/memory.h"
#include "emulator/core/task.h"

typedef struct pinned_list {
    emu_pinned *block;
    int n, cap;
} pinned_list;

static pinned_list *list(void) {
    static pinned_list l;
    return &l;
}

const emu_pinned *emu_pinned_at(const void *p) {
    const pinned_list *l = list();
    for (int i = 0; i < l->n; i++) {
        if ((uintptr_t)p - (uintptr_t)l->block[i].start < l->block[i].size) return &l->block[i];
    }
    return NULL;
}

static bool enter(void *start, size_t size, bool registered) {
    pinned_list *l = list();
    if (l->n == l->cap) {
        int cap = l->cap ? 2 * l->cap : 64;
        emu_pinned *block = realloc(l->block, (size_t)cap * sizeof *block);
        if (!block) return false;
        l->block = block;
        l->cap = cap;
    }
    l->block[l->n++] = (emu_pinned){.start = start, .size = size, .registered = registered};
    emu()->live[EMU_HOST]++;
    return true;
}

static int malloc_host(void **out, size_t size) {
    int code;
    if (!emu_need_device(&code)) return code;
    if (!out || !size)
        return emu_fail(EMU_RULE_bad_param, "%zu bytes to be stored at %p: both must not be 0", size, (void *)out);
    emu_state *s = emu();
    if (emu_inject(&s->n_alloc, s->config.fail_alloc)) {
        return emu_fail_as(ACL_ERROR_RT_MEMORY_ALLOCATION, EMU_RULE_injected,
                           "injected: allocation %" PRIu64 " (aclrtMallocHost) fails", s->n_alloc);
    }
    void *p = aligned_alloc(64, (size + 63) / 64 * 64);
    if (!p || !enter(p, size, false)) {
        free(p);
        return emu_fail(EMU_RULE_out_of_memory, "the host has no memory for %zu bytes", size);
    }
    memset(p, EMU_POISON, size);
    *out = p;
    return 0;
}

aclError aclrtMallocHost(void **host, size_t size) {
    emu_enter("aclrtMallocHost", "%zu", size);
    return emu_leave(malloc_host(host, size));
}

static int release(void *p, bool registered) {
    int code;
    if (!emu_need_context(&code)) return code;
    if (emu_is_device_address(p)) return emu_fail(EMU_RULE_device_pointer, "%p is device memory", p);
    pinned_list *l = list();
    const emu_pinned *b = emu_pinned_at(p);
    if (!b || b->start != p || b->registered != registered) {
        return emu_fail(EMU_RULE_bad_free, "%p is no start of a block of %s", p,
                        registered ? "aclrtHostRegister" : "aclrtMallocHost");
    }
    const emu_task *user =
        emu_in_flight((uint64_t)(uintptr_t)p, (uint64_t)(uintptr_t)p + b->size, EMU_READS | EMU_WRITES, true);
    if (user) {
        code = emu_fail(EMU_RULE_host_free_in_flight, "pinned memory at %p is freed while %s may still use it", p,
                        emu_task_text(user).text);
        emu_wait_stream(user->stream, -1); // lest the copy writes into memory that is somebody else's by then
        emu_fail(EMU_RULE_host_free_in_flight,
                 "pinned memory at %p was freed while an asynchronous copy might still use it", p);
    }
    if (!registered) free(p);
    l->block[b - l->block] = l->block[l->n - 1];
    l->n--;
    emu()->live[EMU_HOST]--;
    return code;
}

aclError aclrtFreeHost(void *host) {
    emu_enter("aclrtFreeHost", "%p", host);
    return emu_leave(release(host, false));
}

static int host_register(void *p, uint64_t size, void **device) {
    int code;
    if (!emu_need_device(&code)) return code;
    if (!emu()->chip->host_register)
        return emu_fail(EMU_RULE_chip_feature, "%s cannot register host memory", emu()->chip->name);
    if (!p || !size || !device || emu_is_device_address(p))
        return emu_fail(EMU_RULE_device_pointer, "%p is no host memory", p);
    if (!enter(p, size, true)) return emu_fail(EMU_RULE_out_of_memory, "no memory");
    *device = p;
    return 0;
}

aclError aclrtHostRegister(void *host, uint64_t size, aclrtHostRegisterType type, void **device) {
    emu_enter("aclrtHostRegister", "%p, %" PRIu64 ", %d", host, size, (int)type);
    return emu_leave(host_register(host, size, device));
}

aclError aclrtHostUnregister(void *host) {
    emu_enter("aclrtHostUnregister", "%p", host);
    return emu_leave(release(host, true));
}

void emu_pinned_forget(void) {
    pinned_list *l = list();
    for (int i = 0; i < l->n; i++) {
        if (!l->block[i].registered) free(l->block[i].start);
    }
    free(l->block);
    *l = (pinned_list){0};
}
