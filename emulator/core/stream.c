// Streams.
#include "emulator/core/stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/aclnn/executor.h"
#include "emulator/core/graph.h"
#include "emulator/core/task.h"

static int free_slot(void) {
    emu_state *s = emu();
    for (int i = 0; i < s->n_slots; i++) {
        if (!s->streams[i]) return i;
    }
    int n = s->n_slots + 8;
    emu_stream **streams = realloc(s->streams, (size_t)n * sizeof(emu_stream *));
    if (streams) s->streams = streams;
    uint64_t *base = streams ? realloc(s->slot_base, (size_t)n * sizeof *base) : NULL;
    if (!base) return -1;
    s->slot_base = base;
    for (int i = s->n_slots; i < n; i++) s->streams[i] = NULL, s->slot_base[i] = 0;
    s->n_slots = n;
    return n - 8;
}

emu_stream *emu_stream_create(emu_context *c, uint32_t flags, bool is_default, int *code) {
    emu_state *e = emu();
    if (e->n_streams >= e->chip->max_streams) {
        *code = emu_fail_as(ACL_ERROR_RT_NO_STREAM_RESOURCE, EMU_RULE_resource_limit, "%s has %d streams",
                            e->chip->name, e->chip->max_streams);
        return NULL;
    }
    int slot = free_slot();
    emu_stream *s = slot < 0 ? NULL : emu_object_create(EMU_STREAM, sizeof *s, !is_default);
    if (!s) {
        *code = emu_fail(EMU_RULE_out_of_memory, "no memory for a stream");
        return NULL;
    }
    s->context = c;
    s->flags = flags;
    s->is_default = is_default;
    s->slot = slot;
    s->id = e->next_stream_id++;
    s->submitted = s->executed = e->slot_base[slot];
    e->streams[slot] = s;
    e->n_streams++;
    return s;
}

void emu_stream_drop_tasks(emu_stream *s) {
    for (emu_task *t = s->first, *next; t; t = next) {
        next = t->link;
        if (t->kind == EMU_TASK_RECORD && !t->done) { // nobody waits for ever, nor learns anything
            t->mark->done = true;
            emu_clock_free(&t->mark->clock);
        }
        emu_task_free(t);
    }
    s->first = s->last = s->next = NULL;
    s->executed = s->submitted;
}

void emu_stream_destroy(emu_stream *s) {
    emu_capture_forget_stream(s);
    emu_stream_drop_tasks(s);
    emu_launch_drop(s->update);
    emu()->slot_base[s->slot] = s->submitted;
    emu()->streams[s->slot] = NULL;
    emu()->n_streams--;
    // What the stream did is over: nothing of it is in flight for whoever takes its slot.
    emu_clock_set(&emu()->host, s->slot, s->submitted);
    emu_clock_free(&s->clock);
    emu_object_destroy(s);
}

void emu_device_lose(int device) {
    emu()->device[device].lost = true;
    for (int i = 0; i < emu()->n_slots; i++) {
        emu_stream *s = emu()->streams[i];
        if (s && s->context->device == device) emu_stream_drop_tasks(s);
    }
}

void emu_streams_forget(void) {
    for (int i = 0; i < emu()->n_slots; i++) {
        if (emu()->streams[i]) emu_stream_destroy(emu()->streams[i]);
    }
}

static int create(aclrtStream *out, uint32_t flag) {
    int code;
    emu_context *c = emu_need_device(&code);
    if (!c) return code;
    if (!out) return emu_fail(EMU_RULE_bad_param, "nowhere to store the stream");
    if (flag & ~0x3fu) return emu_fail(EMU_RULE_bad_param, "flags 0x%" PRIx32, flag);
    emu_stream *s = emu_stream_create(c, flag, false, &code);
    if (!s) return code;
    *out = s;
    return 0;
}

aclError aclrtCreateStream(aclrtStream *stream) {
    emu_enter("aclrtCreateStream", "%s", "");
    return emu_leave(create(stream, 0));
}

aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag) {
    emu_enter("aclrtCreateStreamWithConfig", "%" PRIu32 ", 0x%" PRIx32, priority, flag);
    if (priority > 7) return emu_leave(emu_fail(EMU_RULE_bad_param, "priority %" PRIu32 " is above 7", priority));
    return emu_leave(create(stream, flag));
}

static bool unfinished(const emu_stream *s) {
    return s->last && s->last->number > emu_clock_get(&emu()->host, s->slot);
}

static int destroy(aclrtStream handle, bool force) {
    int code = emu_need_init();
    if (code) return code;
    if (!handle) return emu_fail(EMU_RULE_bad_param, "the default stream is not destroyed");
    if ((code = emu_object_need(handle, EMU_STREAM, "stream"))) return code;
    emu_stream *s = handle;
    if (s->is_default) return emu_fail(EMU_RULE_bad_param, "the default stream is not destroyed");
    if (s->capture) code = emu_fail(EMU_RULE_capture_sync, "stream %d is destroyed while it is captured", s->id);
    if (!force && unfinished(s)) {
        code = emu_fail(EMU_RULE_stream_busy, "stream %d is destroyed before the host has waited for %s", s->id,
                        emu_task_text(s->last).text);
    }
    emu_stream_destroy(s);
    return code;
}

aclError aclrtDestroyStream(aclrtStream stream) {
    emu_enter("aclrtDestroyStream", "%p", stream);
    return emu_leave(destroy(stream, false));
}

aclError aclrtDestroyStreamForce(aclrtStream stream) {
    emu_enter("aclrtDestroyStreamForce", "%p", stream);
    return emu_leave(destroy(stream, true));
}

static int synchronize(aclrtStream handle, int32_t ms) {
    int code;
    emu_stream *s = emu_need_stream(handle, &code);
    if (!s || (code = emu_capture_forbids_stream(s))) return code;
    return emu_wait_stream(s, ms);
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
    emu_enter("aclrtSynchronizeStream", "%p", stream);
    return emu_leave(synchronize(stream, -1));
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t ms) {
    emu_enter("aclrtSynchronizeStreamWithTimeout", "%p, %" PRId32, stream, ms);
    if (ms < -1 || ms == 0) return emu_leave(emu_fail(EMU_RULE_bad_param, "a timeout of %" PRId32 " ms", ms));
    return emu_leave(synchronize(stream, ms));
}

static int query(aclrtStream handle, aclrtStreamStatus *status) {
    int code;
    emu_stream *s = emu_need_stream(handle, &code);
    if (!s || (code = emu_capture_forbids_stream(s))) return code;
    if (!status) return emu_fail(EMU_RULE_bad_param, "nowhere to store the status");
    if (s->executed < s->submitted) emu_some_progress(true);
    *status = s->executed < s->submitted ? ACL_STREAM_STATUS_NOT_READY : ACL_STREAM_STATUS_COMPLETE;
    if (*status == ACL_STREAM_STATUS_COMPLETE) emu_host_knows(&s->clock);
    return 0;
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status) {
    emu_enter("aclrtStreamQuery", "%p", stream);
    return emu_leave(query(stream, status));
}

// Nothing of the stream is in flight any more. Of other streams it knows what its last task that ran knew, not what it still waited for.
static bool abort_work(emu_stream *s) {
    emu_clock clock = {0};
    for (emu_task *t = s->first; t && t->done; t = t->link) {
        emu_clock_free(&clock);
        clock = t->clock;
        t->clock = (emu_clock){0};
    }
    emu_stream_drop_tasks(s);
    emu_clock_free(&s->clock);
    s->clock = clock;
    return emu_clock_set(&s->clock, s->slot, s->submitted) && emu_clock_set(&emu()->host, s->slot, s->submitted);
}

aclError aclrtStreamAbort(aclrtStream stream) {
    emu_enter("aclrtStreamAbort", "%p", stream);
    int code;
    emu_stream *s = emu_need_stream(stream, &code);
    if (s && emu()->chip->family == EMU_910A)
        code = emu_fail(EMU_RULE_chip_feature, "%s cannot abort a stream", emu()->chip->name);
    if (!code && !abort_work(s)) code = emu_fail(EMU_RULE_out_of_memory, "the machine that emulates has no memory");
    return emu_leave(code);
}

aclError aclrtStreamGetId(aclrtStream stream, int32_t *id) {
    emu_enter("aclrtStreamGetId", "%p", stream);
    int code;
    const emu_stream *s = emu_need_stream(stream, &code);
    if (s && !id) code = emu_fail(EMU_RULE_bad_param, "nowhere to store the id");
    if (!code) *id = s->id;
    return emu_leave(code);
}

aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode) {
    emu_enter("aclrtSetStreamFailureMode", "%p, %" PRIu64, stream, mode);
    int code;
    const emu_stream *s = emu_need_stream(stream, &code);
    if (s && mode > ACL_STOP_ON_FAILURE) code = emu_fail(EMU_RULE_bad_param, "failure mode %" PRIu64, mode);
    if (!code) s->context->stop_on_failure = mode == ACL_STOP_ON_FAILURE;
    return emu_leave(code);
}

aclError aclrtGetStreamAvailableNum(uint32_t *count) {
    emu_enter("aclrtGetStreamAvailableNum", "%s", "");
    int code;
    if (emu_need_context(&code) && !count) code = emu_fail(EMU_RULE_bad_param, "nowhere to store the count");
    if (!code) *count = (uint32_t)(emu()->chip->max_streams - emu()->n_streams);
    return emu_leave(code);
}
