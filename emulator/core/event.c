// Events. Of two kinds: those of aclrtCreateEvent and aclrtCreateEventWithFlag hold one recording, and a wait that comes before any
// recording waits for the first; those of aclrtCreateEventExWithFlag may be recorded many times, and a wait takes the latest
// recording there was, or does not wait.
#include <inttypes.h>
#include <stdlib.h>

#include "emulator/core/graph.h"
#include "emulator/core/state.h"
#include "emulator/core/stream.h"
#include "emulator/core/task.h"

enum {
    ALL_FLAGS = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE | ACL_EVENT_DEVICE_USE_ONLY |
                ACL_EVENT_EXTERNAL | ACL_EVENT_IPC
};

static int create(aclrtEvent *out, uint32_t flags, bool ex, bool resettable) {
    int code;
    emu_state *s = emu();
    emu_context *c = emu_need_device(&code);
    if (!c) return code;
    if (!out || flags == 0 || flags & ~(uint32_t)ALL_FLAGS)
        return emu_fail(EMU_RULE_bad_param, "flags 0x%" PRIx32, flags);
    if (flags & ACL_EVENT_IPC && !s->chip->ipc_events) {
        return emu_fail(EMU_RULE_chip_feature, "%s has no events between processes", s->chip->name);
    }
    if (s->n_events >= s->chip->max_events) {
        return emu_fail_as(ACL_ERROR_RT_NO_EVENT_RESOURCE, EMU_RULE_resource_limit, "%s has %d events", s->chip->name,
                           s->chip->max_events);
    }
    emu_event *e = emu_object_create(EMU_EVENT, sizeof *e, true);
    if (!e) return emu_fail(EMU_RULE_out_of_memory, "no memory for an event");
    e->context = c;
    e->device = c->device;
    e->ex = ex;
    e->resettable = resettable;
    e->flags = flags;
    e->external = (flags & ACL_EVENT_EXTERNAL) != 0;
    s->n_events++;
    *out = e;
    return 0;
}

aclError aclrtCreateEvent(aclrtEvent *event) {
    emu_enter("aclrtCreateEvent", "%s", "");
    return emu_leave(create(event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE, false, false));
}

aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag) {
    emu_enter("aclrtCreateEventWithFlag", "0x%" PRIx32, flag);
    return emu_leave(create(event, flag, false, true));
}

aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag) {
    emu_enter("aclrtCreateEventExWithFlag", "0x%" PRIx32, flag);
    return emu_leave(create(event, flag, true, false));
}

static int destroy(aclrtEvent handle) {
    int code;
    emu_event *e = emu_need_event(handle, &code);
    if (!e) return code;
    if (e->waits)
        code = emu_fail(EMU_RULE_event_destroyed, "an event is destroyed while %d waits for it are queued", e->waits);
    for (int i = 0; i < emu()->n_slots; i++) {
        for (emu_task *t = emu()->streams[i] ? emu()->streams[i]->first : NULL; t; t = t->link) {
            if (t->event == e) t->event = NULL;
        }
    }
    emu_mark_drop(e->mark);
    emu()->n_events--;
    emu_object_destroy(e);
    return code;
}

aclError aclrtDestroyEvent(aclrtEvent event) {
    emu_enter("aclrtDestroyEvent", "%p", event);
    return emu_leave(destroy(event));
}

static int same_device(const emu_event *e, const emu_stream *s) {
    if (e->device == s->context->device) return 0;
    return emu_fail(EMU_RULE_wrong_context, "the event is of device %d, stream %d of device %d", e->device, s->id,
                    s->context->device);
}

static int record(aclrtEvent handle, aclrtStream stream) {
    int code;
    emu_stream *s = emu_need_stream(stream, &code);
    emu_event *e = s ? emu_need_event(handle, &code) : NULL;
    if (!e || (code = same_device(e, s))) return code;
    if (s->capture) return emu_capture_event(s, e, EMU_TASK_RECORD);
    if (!e->ex && e->waits && e->mark && e->mark->submitted) {
        return emu_fail(
            EMU_RULE_event_rerecord,
            "an event is recorded again while %d waits for it are queued; make it with aclrtCreateEventExWithFlag",
            e->waits);
    }
    emu_task *t = emu_task_create(s, EMU_TASK_RECORD, 0);
    bool awaited = e->mark && !e->mark->submitted && !e->mark->captured;
    emu_mark *m = !t ? NULL : awaited ? e->mark : emu_mark_create();
    if (!m) {
        emu_task_free(t);
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    }
    if (!awaited) {
        emu_mark_drop(e->mark);
        e->mark = m;
    }
    m->references++;
    t->mark = m;
    return emu_task_submit(t);
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
    emu_enter("aclrtRecordEvent", "%p, %p", event, stream);
    return emu_leave(record(event, stream));
}

static int wait_event(aclrtStream stream, aclrtEvent handle) {
    int code;
    emu_stream *s = emu_need_stream(stream, &code);
    emu_event *e = s ? emu_need_event(handle, &code) : NULL;
    if (!e || (code = same_device(e, s))) return code;
    if (!(e->flags & (ACL_EVENT_SYNC | ACL_EVENT_EXTERNAL))) {
        return emu_fail_as(ACL_ERROR_RT_PARAM_INVALID, EMU_RULE_event_flag,
                           "a stream waits for an event made without ACL_EVENT_SYNC (flags 0x%" PRIx32 ")", e->flags);
    }
    if (s->capture || (e->mark && e->mark->captured)) return emu_capture_event(s, e, EMU_TASK_WAIT);
    if (!e->mark && e->ex) return 0;
    if (!e->mark && !(e->mark = emu_mark_create())) return ACL_ERROR_RT_MEMORY_ALLOCATION;
    emu_task *t = emu_task_create(s, EMU_TASK_WAIT, 0);
    if (!t) return ACL_ERROR_RT_MEMORY_ALLOCATION;
    t->mark = e->mark;
    t->mark->references++;
    t->event = e;
    e->waits++;
    return emu_task_submit(t);
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
    emu_enter("aclrtStreamWaitEvent", "%p, %p", stream, event);
    return emu_leave(wait_event(stream, event));
}

static int reset(aclrtEvent handle, aclrtStream stream) {
    int code;
    emu_stream *s = emu_need_stream(stream, &code);
    emu_event *e = s ? emu_need_event(handle, &code) : NULL;
    if (!e || (code = same_device(e, s))) return code;
    if (!e->resettable) {
        return emu_fail_as(ACL_ERROR_RT_PARAM_INVALID, EMU_RULE_event_flag,
                           "only events of aclrtCreateEventWithFlag can be reset");
    }
    if (s->capture) return emu_capture_event(s, e, EMU_TASK_RESET);
    emu_mark_drop(e->mark);
    e->mark = NULL;
    emu_task *t = emu_task_create(s, EMU_TASK_RESET, 0);
    return t ? emu_task_submit(t) : ACL_ERROR_RT_MEMORY_ALLOCATION;
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
    emu_enter("aclrtResetEvent", "%p, %p", event, stream);
    return emu_leave(reset(event, stream));
}

// ---- the host asks ----
// The event for the host: not one recorded in a capture. NULL and *code.
static emu_event *ask(aclrtEvent handle, const void *out, int *code) {
    emu_event *e = emu_need_event(handle, code);
    if (e && !out) *code = emu_fail(EMU_RULE_bad_param, "nowhere to store the answer");
    if (e && !*code && e->mark && e->mark->captured) {
        *code =
            emu_fail(EMU_RULE_capture_event, "the event was recorded in a capture, of which the host learns nothing");
        emu_capture_invalidate(e->mark->capture);
    }
    return *code ? NULL : e;
}

static bool is_done(emu_event *e) {
    if (!e->mark) return true; // nothing recorded: nothing to wait for
    if (!e->mark->done) emu_some_progress(true);
    if (e->mark->done) emu_host_knows(&e->mark->clock);
    return e->mark->done;
}

static int no_ex(const emu_event *e, const char *call) {
    if (!e->ex) return 0;
    return emu_fail_as(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, EMU_RULE_event_flag,
                       "%s does not take events of aclrtCreateEventExWithFlag", call);
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status) {
    emu_enter("aclrtQueryEvent", "%p", event);
    int code;
    emu_event *e = ask(event, status, &code);
    if (e && !(code = no_ex(e, "aclrtQueryEvent")))
        *status = is_done(e) ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
    return emu_leave(code);
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status) {
    emu_enter("aclrtQueryEventStatus", "%p", event);
    int code;
    emu_event *e = ask(event, status, &code);
    if (e) *status = is_done(e) ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return emu_leave(code);
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status) {
    emu_enter("aclrtQueryEventWaitStatus", "%p", event);
    int code;
    emu_event *e = ask(event, status, &code);
    if (e && !(code = no_ex(e, "aclrtQueryEventWaitStatus"))) {
        if (e->waits) emu_some_progress(true);
        *status = e->waits ? ACL_EVENT_WAIT_STATUS_NOT_READY : ACL_EVENT_WAIT_STATUS_COMPLETE;
    }
    return emu_leave(code);
}

static int synchronize(aclrtEvent handle, int32_t ms) {
    int code;
    emu_event *e = ask(handle, handle, &code);
    if (!e || !emu_need_device(&code)) return code;
    if (!e->mark) return 0;
    if (emu_inject(&emu()->n_sync, emu()->config.lost)) {
        emu_device_lose(e->device);
        return emu_fail(EMU_RULE_device_lost, "injected: device %d was lost", e->device);
    }
    emu_mark *m = e->mark;
    m->references++; // others may record the event again, or destroy it, while this thread waits
    code = emu_wait_mark(m, ms);
    emu_stream *s = m->slot < emu()->n_slots ? emu()->streams[m->slot] : NULL;
    if (!code && s && s->id == m->stream_id) code = emu_stream_take_error(s);
    emu_mark_drop(m);
    return code;
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
    emu_enter("aclrtSynchronizeEvent", "%p", event);
    return emu_leave(synchronize(event, -1));
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t ms) {
    emu_enter("aclrtSynchronizeEventWithTimeout", "%p, %" PRId32, event, ms);
    if (ms < -1 || ms == 0) return emu_leave(emu_fail(EMU_RULE_bad_param, "a timeout of %" PRId32 " ms", ms));
    return emu_leave(synchronize(event, ms));
}

// A completed recording with a time; NULL and *code.
static const emu_mark *timed(aclrtEvent handle, const void *out, int *code) {
    const emu_event *e = ask(handle, out, code);
    if (!e) return NULL;
    if (!(e->flags & ACL_EVENT_TIME_LINE)) {
        *code = emu_fail_as(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, EMU_RULE_event_flag,
                            "the event was made without ACL_EVENT_TIME_LINE");
        return NULL;
    }
    if (!e->mark || !e->mark->done) {
        *code = emu_fail_as(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, EMU_RULE_event_order,
                            "the event has not been recorded; synchronise first");
        return NULL;
    }
    return e->mark;
}

static int elapsed(float *ms, aclrtEvent start, aclrtEvent end) {
    int code;
    const emu_mark *a = timed(start, ms, &code), *b = a ? timed(end, ms, &code) : NULL;
    if (!b) return code;
    if (b->ns < a->ns)
        return emu_fail_as(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, EMU_RULE_event_order,
                           "the end was recorded before the start");
    if (a->stream_id != b->stream_id) {
        return emu_fail_as(ACL_ERROR_RT_PARAM_INVALID, EMU_RULE_event_order,
                           "the events were recorded on streams %d and %d; one is wanted", a->stream_id, b->stream_id);
    }
    *ms = (float)((double)(b->ns - a->ns) * 1e-6);
    return 0;
}

aclError aclrtEventElapsedTime(float *ms, aclrtEvent start, aclrtEvent end) {
    emu_enter("aclrtEventElapsedTime", "%p, %p", start, end);
    return emu_leave(elapsed(ms, start, end));
}

aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *us) {
    emu_enter("aclrtEventGetTimestamp", "%p", event);
    int code;
    const emu_mark *m = timed(event, us, &code);
    if (m) *us = m->ns / 1000;
    return emu_leave(code);
}
