#include "emulator/core/state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"

emu_state *emu(void) {
    static emu_state state = {
        .lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP, .changed = PTHREAD_COND_INITIALIZER, .loaded = -1};
    return &state;
}

uint64_t emu_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t emu_random(uint64_t n) {
    emu_state *s = emu();
    s->random = hash_mix(s->random ^ s->config.seed * 0x2545f4914f6cdd1du);
    return s->random % n;
}

emu_thread *emu_self(void) {
    static _Thread_local emu_thread self;
    static uint64_t next_id;
    if (self.epoch != emu()->epoch + 1) { // the emulator was reset since
        uint64_t id = self.id ? self.id : ++next_id;
        self = (emu_thread){.epoch = emu()->epoch + 1, .id = id};
    }
    return &self;
}

bool emu_inject(uint64_t *counter, uint64_t nth) { return ++*counter == nth; }

int emu_call_fails(void) {
    emu_state *s = emu();
    if (!s->config.fail_call || !emu_call_counts() || !emu_inject(&s->n_call, s->config.fail_call)) return 0;
    return emu_fail_as(ACL_ERROR_RT_DRV_INTERNAL_ERROR, EMU_RULE_injected, "injected: call %" PRIu64 " fails",
                       s->n_call);
}

uint64_t emu_clock_get(const emu_clock *c, int slot) { return slot < c->n ? c->v[slot] : 0; }

bool emu_clock_set(emu_clock *c, int slot, uint64_t n) {
    if (slot >= c->n) {
        uint64_t *v = realloc(c->v, (size_t)(slot + 1) * sizeof *v);
        if (!v) return false;
        memset(v + c->n, 0, (size_t)(slot + 1 - c->n) * sizeof *v);
        c->v = v;
        c->n = slot + 1;
    }
    c->v[slot] = n;
    return true;
}

bool emu_clock_join(emu_clock *c, const emu_clock *other) {
    for (int i = other->n - 1; i >= 0; i--) {
        if (other->v[i] > emu_clock_get(c, i) && !emu_clock_set(c, i, other->v[i])) return false;
    }
    return true;
}

void emu_clock_free(emu_clock *c) {
    free(c->v);
    *c = (emu_clock){0};
}

int emu_need_init(void) {
    if (emu()->initialised) return 0;
    return emu_fail(EMU_RULE_uninitialised, "aclInit was not called%s",
                    emu()->was_initialised ? " again after aclFinalize" : "");
}

emu_context *emu_need_context(int *code) {
    if ((*code = emu_need_init())) return NULL;
    emu_context *c = emu_self()->context;
    if (!c) {
        *code = emu_fail(EMU_RULE_no_context,
                         "this thread has no context; call aclrtSetDevice or aclrtSetCurrentContext on it");
        return NULL;
    }
    if (emu_object_look(c, EMU_CONTEXT) != EMU_ALIVE) {
        *code = emu_fail(EMU_RULE_no_context, "the context of this thread was destroyed");
        return NULL;
    }
    return c;
}

emu_context *emu_need_device(int *code) {
    emu_context *c = emu_need_context(code);
    if (!c || (*code = emu_call_fails())) return NULL;
    if (emu()->device[c->device].lost) {
        *code =
            emu_fail(EMU_RULE_device_lost, "device %d is lost; only aclrtResetDeviceForce brings it back", c->device);
        return NULL;
    }
    if (c->stopped) {
        *code = emu_fail_as(c->stopped, EMU_RULE_sticky_failure,
                            "work of this context failed with %d in stop-on-failure mode", c->stopped);
        return NULL;
    }
    return c;
}

emu_stream *emu_need_stream(aclrtStream handle, int *code) {
    emu_context *c = emu_need_device(code);
    if (!c) return NULL;
    if (!handle) return c->default_stream;
    if ((*code = emu_object_need(handle, EMU_STREAM, "stream"))) return NULL;
    emu_stream *s = handle;
    if (s->context == c) return s;
    *code = emu_fail(EMU_RULE_wrong_context,
                     "stream %d belongs to another context (of device %d) than the current one (device %d)", s->id,
                     s->context->device, c->device);
    return NULL;
}

emu_event *emu_need_event(aclrtEvent handle, int *code) {
    if ((*code = emu_need_init())) return NULL;
    if (!handle) {
        *code = emu_fail(EMU_RULE_bad_param, "the event is NULL");
        return NULL;
    }
    return (*code = emu_object_need(handle, EMU_EVENT, "event")) ? NULL : handle;
}
