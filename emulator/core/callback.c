// Host functions in streams. Those of aclrtLaunchHostFunc run on a thread of the library; those of aclrtLaunchCallback run in
// aclrtProcessReport, on the thread that was subscribed, and a stream stands still until that is called.
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>

#include "emulator/core/task.h"

static int launch(aclrtStream handle, aclrtCallback fn, void *user, bool by_report) {
    int code;
    emu_stream *s = emu_need_stream(handle, &code);
    if (!s) return code;
    if (!fn) return emu_fail(EMU_RULE_bad_param, "the function is NULL");
    emu_task *t = emu_task_create(s, EMU_TASK_CALLBACK, 0);
    if (!t) return ACL_ERROR_RT_MEMORY_ALLOCATION;
    t->callback = fn;
    t->user = user;
    t->by_report = by_report;
    return emu_task_submit(t);
}

aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args) {
    emu_enter("aclrtLaunchHostFunc", "%p", stream);
    return emu_leave(launch(stream, fn, args, false));
}

aclError aclrtLaunchCallback(aclrtCallback fn, void *user, aclrtCallbackBlockType block, aclrtStream stream) {
    emu_enter("aclrtLaunchCallback", "%d, %p", (int)block, stream);
    return emu_leave(launch(stream, fn, user, true));
}

aclError aclrtSubscribeReport(uint64_t thread, aclrtStream stream) {
    emu_enter("aclrtSubscribeReport", "%" PRIu64 ", %p", thread, stream);
    int code;
    emu_need_stream(stream, &code);
    return emu_leave(code);
}

aclError aclrtUnSubscribeReport(uint64_t thread, aclrtStream stream) {
    emu_enter("aclrtUnSubscribeReport", "%" PRIu64 ", %p", thread, stream);
    int code;
    emu_need_stream(stream, &code);
    return emu_leave(code);
}

// Lets the callbacks that are next in their streams run. False: there was none.
static bool report(void) {
    bool any = false;
    for (int i = 0; i < emu()->n_slots; i++) {
        emu_task *t = emu()->streams[i] ? emu()->streams[i]->next : NULL;
        if (!t || t->kind != EMU_TASK_CALLBACK || !t->by_report || t->reported) continue;
        t->reported = any = true;
    }
    if (any) pthread_cond_broadcast(&emu()->changed);
    return any;
}

aclError aclrtProcessReport(int32_t ms) {
    emu_enter("aclrtProcessReport", "%" PRId32, ms);
    int code = emu_need_init();
    uint64_t until = emu_now_ns() + (uint64_t)(ms < 0 ? emu()->config.watchdog_ms : ms) * 1000000u;
    bool any = false;
    while (!code && !(any = report()) && emu_now_ns() < until) {
        emu_some_progress(true);
        if ((any = report())) break;
        emu_unlock(); // lest the thread that submits waits for this one
        sched_yield();
        emu_lock();
    }
    for (int i = 0; any && i < 64; i++) emu_some_progress(true);
    if (!code && !any)
        code = emu_fail_as(ACL_ERROR_RT_REPORT_TIMEOUT, EMU_RULE_timeout, "no callback within %" PRId32 " ms", ms);
    return emu_leave(code);
}
