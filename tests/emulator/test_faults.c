// Fault injection, what is told afterwards, the trace.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/emulator/rig.h"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void test_allocations(void **state) {
    (void)state;
    rig_start("910B3,fail_alloc=2");
    void *p = rig_malloc(64), *q = NULL;
    BREAKS("injected", 207001, aclrtMalloc(&q, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    q = rig_malloc(64);
    OK(tally_emu_configure("fail_alloc=1")); // counted from here
    BREAKS("injected", 207001, aclrtMallocHost(&q, 64));
    OK(aclrtFree(p));
    rig_end();
}

static void test_operators(void **state) {
    (void)state;
    rig_start("910B3,order=late");
    aclrtStream s;
    OK(aclrtCreateStream(&s));
    void *a = rig_floats(0, 1), *out = rig_malloc(RIG_BYTES), *ws = rig_malloc(RIG_WS);
    OK(tally_emu_configure("fail_op=2"));
    for (int i = 0; i < 3; i++) OK(rig_add(a, a, out, ws, s));
    BREAKS("injected", 507015, aclrtSynchronizeStream(s)); // told late, and once
    OK(aclrtSynchronizeStream(s));
    OK(tally_emu_configure("fail_launch=1"));
    BREAKS("injected", 361001, rig_add(a, a, out, ws, s));
    OK(rig_add(a, a, out, ws, s));
    OK(tally_emu_configure("fail_phase1=1"));
    aclTensor *t = rig_tensor(a);
    uint64_t size;
    aclOpExecutor *executor;
    BREAKS("injected", 561000, tally_emu_probe_get_workspace_size(t, t, t, &size, &executor));
    OK(aclDestroyTensor(t));
    OK(aclrtSynchronizeStream(s));
    OK(aclrtFree(a));
    OK(aclrtFree(out));
    OK(aclrtFree(ws));
    OK(aclrtDestroyStream(s));
    assert_int_equal(tally_emu_live_objects(NULL, 0), 0); // no executor was left behind
    rig_end();
}

// Any call that can fail; what frees does not count.
static void test_calls(void **state) {
    (void)state;
    const int64_t dim[1] = {8};
    aclrtStream s;
    aclmdlRI model = NULL;
    rig_start("910B3,order=late");
    OK(aclrtCreateStream(&s));
    OK(tally_emu_configure("fail_call=2"));
    void *p = rig_malloc(RIG_BYTES);
    assert_null(aclCreateTensor(dim, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dim, 1, p));
    aclTensor *t = rig_tensor(p);
    OK(tally_emu_configure("fail_call=1"));
    OK(aclDestroyTensor(t));
    BREAKS("injected", 507899, aclrtMemset(p, 4, 0, 4));
    OK(aclrtMemset(p, 4, 0, 4));
    OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
    OK(tally_emu_configure("fail_call=1"));
    BREAKS("injected", 507899, aclmdlRICaptureEnd(s, &model)); // and the capture is over
    OK(aclrtSynchronizeStream(s));
    OK(aclrtFree(p));
    OK(aclrtDestroyStream(s));
    assert_int_equal(tally_emu_live_objects(NULL, 0), 0);
    rig_end();
}

static void test_stop_on_failure(void **state) {
    (void)state;
    rig_start("910B3,order=late,fail_op=1");
    aclrtStream s, other;
    OK(aclrtCreateStream(&s));
    OK(aclrtCreateStream(&other));
    OK(aclrtSetStreamFailureMode(s, ACL_STOP_ON_FAILURE));
    void *a = rig_floats(0, 1), *out = rig_malloc(RIG_BYTES), *ws = rig_malloc(RIG_WS);
    OK(rig_add(a, a, out, ws, s));
    BREAKS("injected", 507015, aclrtSynchronizeStream(s));
    BREAKS("sticky_failure", 507015, aclrtSynchronizeStream(other)); // all streams of the context
    OK(aclrtFree(a));                                                // what frees still works
    rig_end();
}

static void test_lost(void **state) {
    (void)state;
    rig_start("910B3,lost=2");
    aclrtStream s;
    OK(aclrtCreateStream(&s));
    void *a = rig_floats(0, 1), *out = rig_malloc(RIG_BYTES), *ws = rig_malloc(RIG_WS), *p;
    OK(aclrtSynchronizeStream(s));
    OK(rig_add(a, a, out, ws, s));
    BREAKS("device_lost", 507010, aclrtSynchronizeStream(s));
    BREAKS("device_lost", 507010, aclrtSynchronizeStream(s));
    BREAKS("device_lost", 507010, aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    BREAKS("device_lost", 507010, aclrtSetDevice(0));
    OK(aclrtFree(a)); // a program can clean up behind it
    OK(aclrtFree(out));
    OK(aclrtFree(ws));
    OK(aclrtDestroyStream(s));
    assert_int_equal(tally_emu_live_objects(NULL, 0), 0);
    OK(aclrtResetDeviceForce(0));
    OK(aclrtSetDevice(0));
    OK(aclrtCreateStream(&s));
    a = rig_floats(0, 1);
    assert_true(rig_read(a, 3) == 3);
    rig_end();
}

static void test_hang(void **state) {
    (void)state;
    rig_start("910B3,hang=1,watchdog=200");
    aclrtStream s;
    OK(aclrtCreateStream(&s));
    void *a = rig_floats(0, 1), *out = rig_malloc(RIG_BYTES), *ws = rig_malloc(RIG_WS);
    OK(rig_add(a, a, out, ws, s));
    double began = now();
    BREAKS("timeout", 507046, aclrtSynchronizeStreamWithTimeout(s, 50));
    assert_true(now() - began >= 0.05 && now() - began < 1);
    aclrtStreamStatus status;
    OK(aclrtStreamQuery(s, &status));
    assert_int_equal(status, ACL_STREAM_STATUS_NOT_READY);
    aclrtEvent e;
    OK(aclrtCreateEvent(&e));
    OK(aclrtRecordEvent(e, s));
    BREAKS("timeout", 507047, aclrtSynchronizeEventWithTimeout(e, 20));
    BREAKS("injected", 507014, aclrtSynchronizeStream(s)); // the watchdog ends the kernel
    OK(rig_add(a, a, out, ws, s));
    OK(aclrtSynchronizeStream(s));
    assert_true(rig_read(out, 4) == 8);
    rig_end();
}

// An operator of a replayed graph is one that runs, too.
static void test_hang_in_replay(void **state) {
    (void)state;
    rig_start("910B3,watchdog=200");
    aclrtStream s;
    aclmdlRI model;
    OK(aclrtCreateStream(&s));
    void *a = rig_floats(0, 1), *out = rig_malloc(RIG_BYTES), *ws = rig_malloc(RIG_WS);
    OK(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
    for (int i = 0; i < 2; i++) OK(rig_add(a, a, out, ws, s));
    OK(aclmdlRICaptureEnd(s, &model));
    OK(tally_emu_configure("hang=4"));
    OK(aclmdlRIExecuteAsync(model, s));
    OK(aclrtSynchronizeStream(s));
    OK(aclmdlRIExecuteAsync(model, s));
    BREAKS("timeout", 507046, aclrtSynchronizeStreamWithTimeout(s, 50));
    BREAKS("graph_busy", 107037, aclmdlRIDestroy(model));
    BREAKS("injected", 507014, aclrtSynchronizeStream(s)); // the watchdog ends it
    assert_int_equal(tally_emu_executions(), 3);
    OK(aclmdlRIExecuteAsync(model, s));
    OK(aclrtSynchronizeStream(s));
    assert_true(rig_read(out, 4) == 8);
    OK(aclmdlRIDestroy(model));
    rig_end();
}

// A program that does three things, cleans up after itself whatever fails, and says what failed first.
static int program(void) {
    aclrtStream s = NULL;
    void *p[3] = {NULL, NULL, NULL};
    aclTensor *t[3] = {NULL, NULL, NULL};
    int code = aclrtCreateStream(&s);
    for (int i = 0; i < 3 && !code; i++) {
        code = aclrtMalloc(&p[i], i < 2 ? RIG_BYTES : RIG_WS, ACL_MEM_MALLOC_HUGE_FIRST);
        if (!code) t[i] = rig_tensor(p[i]);
    }
    if (!code) code = aclrtMemset(p[0], RIG_BYTES, 0, RIG_BYTES);
    for (int i = 0; i < 3 && !code; i++) {
        uint64_t size;
        aclOpExecutor *executor;
        code = tally_emu_probe_get_workspace_size(t[0], t[0], t[1], &size, &executor);
        if (!code) code = tally_emu_probe(p[2], size, executor, s);
    }
    int end = s ? aclrtSynchronizeStream(s) : 0;
    if (!code) code = end;
    for (int i = 0; i < 3; i++) {
        if (t[i]) OK(aclDestroyTensor(t[i]));
        if (p[i]) OK(aclrtFree(p[i]));
    }
    if (s) OK(aclrtDestroyStream(s));
    return code;
}

static void test_sweep(void **state) {
    (void)state;
    const char *kinds[] = {"fail_alloc", "fail_phase1", "fail_launch", "fail_op", "lost"};
    const int codes[] = {207001, 561000, 361001, 507015, 507010};
    const int places[] = {3, 3, 3, 3, 1};
    for (int k = 0; k < 5; k++) {
        for (int n = 1; n <= places[k] + 1; n++) {
            char settings[64], left[128];
            snprintf(settings, sizeof settings, "910B3,%s=%d", kinds[k], n);
            rig_start(settings);
            assert_int_equal(program(), n <= places[k] ? codes[k] : 0);
            if (tally_emu_live_objects(left, sizeof left)) fail_msg("%s: %s are left", settings, left);
            if (k == 4 && n == 1) OK(aclrtResetDeviceForce(0));
            if (k == 4 && n == 1) OK(aclrtSetDevice(0));
            if (n <= places[k]) assert_int_equal(program(), 0); // the next works
            rig_end();
        }
    }
}

static void test_trace(void **state) {
    (void)state;
    char path[256], settings[300];
    snprintf(path, sizeof path, "%.200s/tally_emu_trace_XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    int file = mkstemp(path);
    assert_true(file >= 0);
    snprintf(settings, sizeof settings, "910B3,trace=%s", path);
    rig_start(settings);
    void *a = rig_floats(0, 1), *out = rig_malloc(RIG_BYTES), *ws = rig_malloc(RIG_WS);
    OK(rig_add(a, a, out, ws, NULL));
    OK(aclrtSynchronizeStream(NULL));
    BREAKS("bad_free", 107000, aclrtFree(NULL));
    rig_end();
    static char text[65536];
    ssize_t n = read(file, text, sizeof text - 1);
    assert_true(n > 0);
    text[n] = '\0';
    const char *wanted[] = {
        "aclrtMalloc(256, 0x0) = 0", "phase 1 of tally_emu_probe: a=FLOAT [64] b=FLOAT [64] out=FLOAT [64] workspace=",
        "tally_emu_probe(phase 2",   "ran tally_emu_probe",
        "broken bad_free",           "aclrtFree((nil)) = 107000"};
    for (int i = 0; i < 6; i++) {
        if (!strstr(text, wanted[i])) fail_msg("the trace has no \"%s\"", wanted[i]);
    }
    close(file);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations), cmocka_unit_test(test_operators), cmocka_unit_test(test_stop_on_failure),
        cmocka_unit_test(test_lost),        cmocka_unit_test(test_hang),      cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_trace),       cmocka_unit_test(test_calls),     cmocka_unit_test(test_hang_in_replay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
