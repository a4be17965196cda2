// Graph capture: right programs replay to what they say; each wrong one is refused with its code.
#include <pthread.h>
#include <stdio.h>

#include "tests/emulator/rig.h"

typedef struct graphs {
    aclrtStream s, side;
    aclrtEvent fork, join;
    void *a, *b, *x, *y, *ws, *ws2;
} graphs;

static graphs start(const char *settings) {
    graphs g;
    rig_start(settings);
    OK(aclrtCreateStream(&g.s));
    OK(aclrtCreateStream(&g.side));
    OK(aclrtCreateEventExWithFlag(&g.fork, ACL_EVENT_SYNC));
    OK(aclrtCreateEventExWithFlag(&g.join, ACL_EVENT_SYNC));
    g.a = rig_floats(0, 1);
    g.b = rig_floats(100, 0);
    g.x = rig_malloc(RIG_BYTES);
    g.y = rig_malloc(RIG_BYTES);
    g.ws = rig_malloc(RIG_WS);
    g.ws2 = rig_malloc(RIG_WS);
    return g;
}

static graphs capturing(const char *settings, aclmdlRICaptureMode mode) {
    graphs g = start(settings);
    OK(aclmdlRICaptureBegin(g.s, mode));
    return g;
}

static aclmdlRICaptureStatus status_of(aclrtStream s) {
    aclmdlRICaptureStatus status;
    OK(aclmdlRICaptureGetInfo(s, &status, NULL));
    return status;
}

// x = a + b; on the side y = a + a; back: x = x + y. Nothing runs at capture, everything at each replay.
static void test_right_program(void **state) {
    (void)state;
    for (int seed = 1; seed <= 20; seed++) {
        char settings[40];
        snprintf(settings, sizeof settings, "910B3,seed=%d", seed);
        graphs g = start(settings);
        assert_int_equal(status_of(g.s), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
        OK(aclmdlRICaptureBegin(g.s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
        assert_int_equal(status_of(g.s), ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
        OK(aclrtRecordEvent(g.fork, g.s));
        OK(aclrtStreamWaitEvent(g.side, g.fork));
        OK(rig_add(g.a, g.b, g.x, g.ws, g.s));
        OK(rig_add(g.a, g.a, g.y, g.ws2, g.side));
        OK(aclrtRecordEvent(g.join, g.side));
        OK(aclrtStreamWaitEvent(g.s, g.join));
        OK(rig_add(g.x, g.y, g.x, g.ws, g.s));
        aclmdlRI model;
        OK(aclmdlRICaptureEnd(g.s, &model));
        assert_int_equal(tally_emu_executions(), 0);
        for (int round = 1; round <= 3; round++) {
            float first = (float)round;
            OK(aclrtMemcpy(g.a, 4, &first, 4, ACL_MEMCPY_HOST_TO_DEVICE));
            OK(aclmdlRIExecuteAsync(model, g.s));
            OK(aclrtSynchronizeStream(g.s));
            assert_int_equal(tally_emu_executions(), 3 * round);
            assert_true(rig_read(g.x, 0) == 3 * first + 100 && rig_read(g.x, 5) == 115);
        }
        OK(aclmdlRIExecute(model, -1));
        OK(aclmdlRIDestroy(model));
        BREAKS("dead_handle", 107017, aclmdlRIExecuteAsync(model, g.s));
        rig_end();
    }
}

static void test_forbidden_waits(void **state) {
    (void)state;
    for (int mode = 0; mode < 3; mode++) {
        for (int call = 0; call < 4; call++) {
            graphs g = capturing("910B3", (aclmdlRICaptureMode)mode);
            aclrtStreamStatus status;
            aclmdlRI model;
            OK(aclrtRecordEvent(g.fork, g.s));
            if (call == 0) BREAKS("capture_sync", 107027, aclrtSynchronizeStream(g.s));
            if (call == 1) BREAKS("capture_sync", 107027, aclrtStreamQuery(g.s, &status));
            if (call == 2) BREAKS("capture_sync", 107027, aclrtSynchronizeDevice());
            if (call == 3) BREAKS("capture_event", 107028, aclrtSynchronizeEvent(g.fork));
            OK(aclrtSynchronizeStream(g.side)); // another stream is nobody's business
            assert_int_equal(status_of(g.s), ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED);
            BREAKS("capture_invalidated", 507903, rig_add(g.a, g.b, g.x, g.ws, g.s));
            BREAKS("capture_invalidated", 507903, aclmdlRICaptureEnd(g.s, &model));
            assert_int_equal(status_of(g.s), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
            OK(rig_add(g.a, g.b, g.x, g.ws, g.s)); // eager again
            OK(aclrtSynchronizeStream(g.s));
            rig_end();
        }
    }
}

static void *copy_on_thread(void *argument) {
    const graphs *g = argument;
    static int code;
    OK(aclrtSetDevice(0));
    float x = 1;
    code = aclrtMemcpy(g->y, 4, &x, 4, ACL_MEMCPY_HOST_TO_DEVICE);
    return &code;
}

static int copy_of_another_thread(graphs *g) {
    pthread_t thread;
    void *code;
    assert_int_equal(pthread_create(&thread, NULL, copy_on_thread, g), 0);
    pthread_join(thread, &code);
    return *(int *)code;
}

static void test_unsafe_calls(void **state) {
    (void)state;
    const int here[] = {107030, 107030, 0}, there[] = {107030, 0, 0};
    float x = 1;
    for (int mode = 0; mode < 3; mode++) {
        graphs g = capturing("910B3", (aclmdlRICaptureMode)mode);
        assert_int_equal(aclrtMemcpy(g.y, 4, &x, 4, ACL_MEMCPY_HOST_TO_DEVICE), here[mode]);
        g = capturing("910B3", (aclmdlRICaptureMode)mode);
        assert_int_equal(aclrtMemset(g.y, 4, 0, 4), here[mode]);
        g = capturing("910B3", (aclmdlRICaptureMode)mode);
        assert_int_equal(copy_of_another_thread(&g), there[mode]);
        g = capturing("910B3",
                      (aclmdlRICaptureMode)mode); // from memory that is not pinned, on a stream that is not captured
        assert_int_equal(aclrtMemcpyAsync(g.y, 4, &x, 4, ACL_MEMCPY_HOST_TO_DEVICE, g.side), here[mode]);
        assert_int_equal(status_of(g.s),
                         here[mode] ? ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED : ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
        g = capturing("910B3", (aclmdlRICaptureMode)mode);
        BREAKS("capture_sync", 107027, aclrtFreeWithDevSync(g.x)); // waits for the device, in whatever mode
        OK(aclrtFree(g.x));
    }
    graphs g = capturing("910B3", ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
    BREAKS("capture_unsafe", 107030, aclrtMemcpyAsync(g.y, 4, &x, 4, ACL_MEMCPY_HOST_TO_DEVICE, g.s)); // not pinned
    g = capturing("910B3", ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
    aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
    OK(aclmdlRICaptureThreadExchangeMode(&mode));
    assert_int_equal(mode, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
    OK(aclrtMemcpy(g.y, 4, &x, 4, ACL_MEMCPY_HOST_TO_DEVICE));
    void *fresh = rig_malloc(64); // allocating is allowed
    OK(aclrtFree(fresh));
    aclmdlRI model;
    OK(aclmdlRICaptureEnd(g.s, &model));
    rig_end();
}

static void test_what_is_captured(void **state) {
    (void)state;
    graphs g = capturing("910B3", ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
    BREAKS("capture_task", 507009, aclrtMemcpyAsync(g.y, 4, g.a, 4, ACL_MEMCPY_DEVICE_TO_DEVICE, g.s));
    g = capturing("910B3", ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
    BREAKS("capture_task", 507009, aclrtLaunchHostFunc(g.s, (aclrtHostFunc)rig_end, NULL));
    // Pinned memory is read at each replay.
    g = start("910B3");
    float *pinned;
    OK(aclrtMallocHost((void **)&pinned, 64));
    OK(aclmdlRICaptureBegin(g.s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    OK(aclrtMemcpyAsync(g.a, 4, pinned, 4, ACL_MEMCPY_HOST_TO_DEVICE, g.s));
    OK(rig_add(g.a, g.b, g.x, g.ws, g.s));
    aclmdlRI model;
    OK(aclmdlRICaptureEnd(g.s, &model));
    for (int i = 1; i < 4; i++) {
        *pinned = (float)i;
        OK(aclmdlRIExecuteAsync(model, g.s));
        OK(aclrtSynchronizeStream(g.s));
        assert_true(rig_read(g.x, 0) == (float)(100 + i));
    }
    OK(aclmdlRICaptureBegin(g.s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    BREAKS("capture_task", 507009, aclmdlRIExecuteAsync(model, g.s));
    rig_end();
}

static void test_begin_and_end(void **state) {
    (void)state;
    graphs g = start("910B3");
    aclmdlRI model;
    BREAKS("capture_default_stream", 107031, aclmdlRICaptureBegin(NULL, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    BREAKS("capture_none", 107029, aclmdlRICaptureEnd(g.s, &model));
    BREAKS("bad_param", 107000, aclmdlRICaptureBegin(g.s, (aclmdlRICaptureMode)5));
    OK(aclmdlRICaptureBegin(g.s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    BREAKS("capture_twice", 107027, aclmdlRICaptureBegin(g.s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    aclmdlRICaptureStatus status;
    OK(aclmdlRICaptureGetInfo(g.s, &status, &model));
    BREAKS("graph_state", 107000, aclmdlRIExecuteAsync(model, g.side));
    OK(aclrtRecordEvent(g.fork, g.s));
    OK(aclrtStreamWaitEvent(g.side, g.fork));
    BREAKS("capture_wrong_stream", 107036, aclmdlRICaptureEnd(g.side, &model));
    BREAKS("capture_unjoined", 107025, aclmdlRICaptureEnd(g.s, &model));
    OK(rig_add(g.a, g.b, g.x, g.ws, g.s)); // both streams are free again
    OK(rig_add(g.a, g.b, g.y, g.ws2, g.side));
    OK(aclrtSynchronizeDevice());
    rig_end();
}

typedef struct end_call {
    aclrtStream s;
    int code;
} end_call;

static void *end_on_thread(void *argument) {
    end_call *c = argument;
    aclmdlRI model;
    OK(aclrtSetDevice(0));
    c->code = aclmdlRICaptureEnd(c->s, &model);
    return NULL;
}

static void test_end_on_another_thread(void **state) {
    (void)state;
    const int codes[] = {107038, 107038, 0};
    for (int mode = 0; mode < 3; mode++) {
        graphs g = capturing("910B3", (aclmdlRICaptureMode)mode);
        end_call c = {.s = g.s};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, end_on_thread, &c), 0);
        pthread_join(thread, NULL);
        assert_int_equal(c.code, codes[mode]);
        rig_end();
    }
}

static void test_joining(void **state) {
    (void)state;
    aclmdlRI model;
    // Work on a stream that has come back.
    graphs g = capturing("910B3", ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
    OK(aclrtRecordEvent(g.fork, g.s));
    OK(aclrtStreamWaitEvent(g.side, g.fork));
    OK(rig_add(g.a, g.a, g.y, g.ws2, g.side));
    OK(aclrtRecordEvent(g.join, g.side));
    OK(aclrtStreamWaitEvent(g.s, g.join));
    BREAKS("capture_after_join", 107025, rig_add(g.a, g.a, g.x, g.ws2, g.side));
    // Work after the event that the origin waits for is not joined.
    g = capturing("910B3", ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
    OK(aclrtRecordEvent(g.fork, g.s));
    OK(aclrtStreamWaitEvent(g.side, g.fork));
    OK(aclrtRecordEvent(g.join, g.side));
    OK(rig_add(g.a, g.a, g.y, g.ws2, g.side));
    OK(aclrtStreamWaitEvent(g.s, g.join));
    BREAKS("capture_unjoined", 107025, aclmdlRICaptureEnd(g.s, &model));
    // A dependency on work outside.
    g = start("910B3");
    OK(aclrtRecordEvent(g.fork, g.side));
    OK(aclmdlRICaptureBegin(g.s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    BREAKS("capture_dependency", 107024, aclrtStreamWaitEvent(g.s, g.fork));
    // Two captures wait for each other.
    g = capturing("910B3", ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
    OK(aclmdlRICaptureBegin(g.side, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    OK(aclrtRecordEvent(g.fork, g.side));
    BREAKS("capture_conflict", 107032, aclrtStreamWaitEvent(g.s, g.fork));
    // The default stream is drawn in; an event outlives its capture.
    g = capturing("910B3", ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
    OK(aclrtRecordEvent(g.fork, g.s));
    BREAKS("capture_default_stream", 107031, aclrtStreamWaitEvent(NULL, g.fork));
    g = capturing("910B3", ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
    OK(aclrtRecordEvent(g.fork, g.s));
    OK(aclmdlRICaptureEnd(g.s, &model));
    BREAKS("capture_event", 107028, aclrtStreamWaitEvent(g.side, g.fork));
    rig_end();
}

static void test_race_inside(void **state) {
    (void)state;
    graphs g = capturing("910B3", ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
    OK(aclrtRecordEvent(g.fork, g.s));
    OK(aclrtStreamWaitEvent(g.side, g.fork));
    OK(rig_add(g.a, g.b, g.x, g.ws, g.s)); // after the fork
    BREAKS("race", 507055, rig_add(g.x, g.b, g.y, g.ws2, g.side));
    aclmdlRI model;
    BREAKS("capture_invalidated", 507903, aclmdlRICaptureEnd(g.s, &model));
    rig_end();
}

static aclmdlRI simple(graphs *g) {
    aclmdlRI model;
    OK(aclmdlRICaptureBegin(g->s, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
    OK(rig_add(g->a, g->b, g->x, g->ws, g->s));
    OK(aclmdlRICaptureEnd(g->s, &model));
    return model;
}

static void test_lifetimes(void **state) {
    (void)state;
    graphs g = start("910B3,order=late");
    aclmdlRI model = simple(&g);
    OK(aclmdlRIExecuteAsync(model, g.s));
    BREAKS("graph_busy", 107037, aclmdlRIDestroy(model));
    BREAKS("race", 507055, aclmdlRIExecuteAsync(model, g.side)); // two replays at once share their buffers
    BREAKS("race", 507055, rig_add(g.x, g.b, g.y, g.ws2, g.side));
    BREAKS("free_in_flight", 507055, aclrtFree(g.x)); // the output of a node
    BREAKS("use_after_free", 507015, aclrtSynchronizeStream(g.s));
    BREAKS("graph_buffer", 507011, aclmdlRIExecuteAsync(model, g.s)); // replayed after its buffer moved
    OK(aclmdlRIDestroy(model));
    g = start("910B3");
    model = simple(&g);
    OK(aclrtFree(g.ws)); // its workspace
    BREAKS("graph_buffer", 507011, aclmdlRIExecuteAsync(model, g.s));
    rig_end();
}

static int add_scaled(graphs *g, const void *b, aclrtStream s) { return rig_add(g->a, b, g->x, g->ws, s); }

static void test_update(void **state) {
    (void)state;
    graphs g = start("910B3,order=late");
    aclrtTaskGrp group, both;
    aclmdlRI model;
    BREAKS("group_state", 107033, aclmdlRICaptureTaskGrpBegin(g.s));
    OK(aclmdlRICaptureBegin(g.s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    BREAKS("group_state", 107033, aclmdlRICaptureTaskGrpEnd(g.s, &group));
    OK(aclmdlRICaptureTaskGrpBegin(g.s));
    OK(add_scaled(&g, g.b, g.s));
    OK(aclmdlRICaptureTaskGrpEnd(g.s, &group));
    OK(aclmdlRICaptureTaskGrpBegin(g.s));
    OK(rig_add(g.x, g.x, g.y, g.ws, g.s));
    OK(rig_add(g.x, g.y, g.y, g.ws, g.s));
    OK(aclmdlRICaptureTaskGrpEnd(g.s, &both));
    BREAKS("group_state", 107033, aclmdlRICaptureTaskUpdateBegin(g.s, group));
    OK(aclmdlRICaptureEnd(g.s, &model));
    OK(aclmdlRIExecuteAsync(model, g.s));
    OK(aclrtSynchronizeStream(g.s));
    assert_true(rig_read(g.y, 1) == 3 * 101);
    void *c = rig_floats(1000, 0);
    OK(aclmdlRICaptureTaskUpdateBegin(g.side, group));
    OK(add_scaled(&g, c, g.side));
    OK(aclmdlRICaptureTaskUpdateEnd(g.side));
    BREAKS("update_race", 507055, aclmdlRIExecuteAsync(model, g.s)); // the update may still be under way
    OK(aclrtSynchronizeStream(g.side));
    OK(aclmdlRIExecuteAsync(model, g.s));
    OK(aclmdlRICaptureTaskUpdateBegin(g.side, group));
    OK(add_scaled(&g, g.b, g.side));
    BREAKS("update_race", 507055, aclmdlRICaptureTaskUpdateEnd(g.side)); // the replay may still be under way
    OK(aclrtSynchronizeStream(g.s));
    assert_true(rig_read(g.y, 1) == 3 * 1001);
    // Updates that do not match.
    OK(aclmdlRICaptureTaskUpdateBegin(g.side, group));
    BREAKS("group_update", 107040, aclmdlRICaptureTaskUpdateEnd(g.side));
    OK(aclmdlRICaptureTaskUpdateBegin(g.side, group));
    aclTensor *t = rig_tensor(g.x), *one[1] = {rig_tensor(g.a)};
    aclTensorList *list = aclCreateTensorList((const aclTensor *const *)one, 1);
    uint64_t size;
    aclOpExecutor *executor;
    OK(tally_emu_probe_list_get_workspace_size(list, t, &size, &executor));
    BREAKS("group_update", 107040, tally_emu_probe_list(g.ws, size, executor, g.side));
    BREAKS("group_update", 107040, aclmdlRICaptureTaskUpdateEnd(g.side));
    OK(aclmdlRICaptureTaskUpdateBegin(g.side, both));
    OK(rig_add(g.x, g.x, g.y, g.ws, g.side));
    OK(rig_add(g.x, g.y, g.y, g.ws, g.side));
    BREAKS("group_many", 107040, aclmdlRICaptureTaskUpdateEnd(g.side));
    rig_end();
}

// A replay that waits inside for an external event, recorded after the update of its group.
static void test_external_event(void **state) {
    (void)state;
    for (int seed = 1; seed <= 20; seed++) {
        char settings[40];
        snprintf(settings, sizeof settings, "910B3,seed=%d", seed);
        graphs g = start(settings);
        aclrtEvent ready;
        aclrtTaskGrp group;
        aclmdlRI model;
        OK(aclrtCreateEventWithFlag(&ready, ACL_EVENT_EXTERNAL));
        OK(aclmdlRICaptureBegin(g.s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
        OK(aclrtStreamWaitEvent(g.s, ready));
        OK(aclrtResetEvent(ready, g.s));
        OK(aclmdlRICaptureTaskGrpBegin(g.s));
        OK(add_scaled(&g, g.b, g.s));
        OK(aclmdlRICaptureTaskGrpEnd(g.s, &group));
        OK(aclmdlRICaptureEnd(g.s, &model));
        void *operands[3] = {rig_floats(1, 0), rig_floats(2, 0), rig_floats(3, 0)};
        for (int i = 0; i < 3; i++) {
            OK(aclmdlRIExecuteAsync(model, g.s));
            OK(aclmdlRICaptureTaskUpdateBegin(g.side, group));
            OK(add_scaled(&g, operands[i], g.side));
            OK(aclmdlRICaptureTaskUpdateEnd(g.side));
            OK(aclrtRecordEvent(ready, g.side));
            OK(aclrtSynchronizeStream(g.s));
            assert_true(rig_read(g.x, 9) == (float)(9 + i + 1));
        }
        rig_end();
    }
}

// The first generation cannot capture; it builds graphs by binding streams.
static void test_build(void **state) {
    (void)state;
    graphs g = start("910A");
    aclmdlRI model;
    BREAKS("chip_feature", 207000, aclmdlRICaptureBegin(g.s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    aclrtStream bound;
    OK(aclrtCreateStreamWithConfig(&bound, 0, ACL_STREAM_PERSISTENT));
    OK(aclmdlRIBuildBegin(&model, 0));
    BREAKS("bad_param", 107000, aclmdlRIBindStream(model, g.s, 0));
    OK(aclmdlRIBindStream(model, bound, 0));
    OK(rig_add(g.a, g.b, g.x, g.ws, bound));
    BREAKS("graph_state", 107000, aclmdlRIBuildEnd(model, NULL));
    OK(aclmdlRIEndTask(model, bound));
    BREAKS("graph_state", 107000, rig_add(g.a, g.b, g.x, g.ws, bound));
    OK(aclmdlRIBuildEnd(model, NULL));
    assert_int_equal(tally_emu_executions(), 0);
    OK(aclmdlRIExecute(model, -1));
    assert_true(rig_read(g.x, 2) == 102);
    OK(aclmdlRIUnbindStream(model, bound));
    OK(aclmdlRIDestroy(model));
    rig_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_program),  cmocka_unit_test(test_forbidden_waits),
        cmocka_unit_test(test_unsafe_calls),   cmocka_unit_test(test_what_is_captured),
        cmocka_unit_test(test_begin_and_end),  cmocka_unit_test(test_end_on_another_thread),
        cmocka_unit_test(test_joining),        cmocka_unit_test(test_race_inside),
        cmocka_unit_test(test_lifetimes),      cmocka_unit_test(test_update),
        cmocka_unit_test(test_external_event), cmocka_unit_test(test_build),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
