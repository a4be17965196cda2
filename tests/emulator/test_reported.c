// Mistakes of other engines that no test of a single operator shows, made with the operators they were made with. docs/testing.md lists all
// of them with their tests.
#include "cann/acl_mdl_ri.h"
#include "tests/emulator/ops_support.h"

#include <stdio.h>
#include <string.h>

static aclrtStream other_stream;
static void *workspaces[64];
static int n_workspaces;

static void begin(const char *settings) {
    ops_begin(settings);
    n_workspaces = 0;
    assert_int_equal(aclrtCreateStream(&other_stream), 0);
}

static void end(void) {
    assert_int_equal(aclrtSynchronizeDevice(), 0);
    for (int i = 0; i < n_workspaces; i++) assert_int_equal(aclrtFree(workspaces[i]), 0);
    assert_int_equal(aclrtDestroyStream(other_stream), 0);
    ops_end();
}

// Phase 2 on a stream, without waiting, in a workspace of its own; its code.
static int launch(int (*phase2)(void *, uint64_t, aclOpExecutor *, aclrtStream), aclrtStream stream) {
    assert_true(n_workspaces < 64);
    void **ws = &workspaces[n_workspaces++];
    assert_int_equal(aclrtMalloc(ws, ops_ws + 32, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    return phase2(*ws, ops_ws, ops_executor, stream);
}
#define ON(stream, op, ...) \
    (assert_int_equal(op##GetWorkspaceSize(__VA_ARGS__, &ops_ws, &ops_executor), 0), launch(op, stream))

static void assert_breaks(int code, int want, const char *rule) {
    assert_int_equal(code, want);
    assert_string_equal(tally_emu_last_rule(), rule);
}

// One row of attention of one head of 64 over `keys` positions of a cache of 64.
typedef struct cache {
    struct tensor *row[2], *cache[2], *slot, *q, *out;
} cache;

static cache make_cache(void) {
    cache c = {.slot = t_filled(ACL_INT32, 5, DIMS(1)),
               .q = t_random(ACL_BF16, 1, DIMS(1, 1, 64)),
               .out = t_filled(ACL_BF16, 0, DIMS(1, 1, 64))};
    for (int i = 0; i < 2; i++) {
        c.row[i] = t_random(ACL_BF16, 1, DIMS(1, 1, 64));
        c.cache[i] = t_random(ACL_BF16, 1, DIMS(4, 16, 1, 64));
    }
    return c;
}

static int store(const cache *c, aclrtStream stream) {
    return ON(stream, aclnnScatterPaKvCache, c->row[0]->acl, c->cache[0]->acl, c->slot->acl, c->row[1]->acl,
              c->cache[1]->acl, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
}

static int attend(const cache *c, int64_t keys, aclrtStream stream) {
    const int64_t dim[3] = {1, 64, 64};
    aclTensorList *list[2];
    for (int i = 0; i < 2; i++) {
        const aclTensor *t = aclCreateTensor(dim, 3, ACL_BF16, NULL, 0, ACL_FORMAT_ND, dim, 3, c->cache[i]->device);
        list[i] = aclCreateTensorList(&t, 1);
    }
    aclIntArray *length = t_ints(1, &keys);
    int code = ON(stream, aclnnFusedInferAttentionScoreV2, c->q->acl, list[0], list[1], NULL, NULL, NULL, length, NULL,
                  NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1,
                  0.125, 2147483647, 2147483647, (char *)"BSH", 1, 0, 0, 0, 0, false, 0, 0, c->out->acl, NULL);
    for (int i = 0; i < 2; i++) aclDestroyTensorList(list[i]);
    aclDestroyIntArray(length);
    return code;
}

// A key and value written through another stream than that of the attention that reads them.
static void kv_row_of_another_stream(void **state) {
    (void)state;
    for (int seed = 1; seed <= 20; seed++) {
        char settings[64];
        snprintf(settings, sizeof settings, "910B3,cann=9.1,seed=%d", seed);
        begin(settings);
        cache c = make_cache();
        aclrtEvent written;
        assert_int_equal(aclrtCreateEventExWithFlag(&written, ACL_EVENT_SYNC), 0);
        assert_int_equal(store(&c, other_stream), 0);
        assert_breaks(attend(&c, 6, ops_stream), 507055, "race");
        assert_int_equal(aclrtRecordEvent(written, other_stream), 0);
        assert_int_equal(aclrtStreamWaitEvent(ops_stream, written), 0);
        assert_int_equal(attend(&c, 6, ops_stream), 0);
        assert_breaks(store(&c, other_stream), 507055, "race"); // the next row, while this one's keys are read
        assert_int_equal(aclrtSynchronizeStream(ops_stream), 0);
        assert_int_equal(store(&c, other_stream), 0);
        assert_int_equal(aclrtSynchronizeDevice(), 0);
        assert_int_equal(aclrtDestroyEvent(written), 0);
        end();
    }
}

// The table of rotations overwritten by a blocking copy of the host while a step that reads it is in flight.
static void rotation_table_overwritten(void **state) {
    (void)state;
    begin("910B3,cann=9.1,order=late");
    struct tensor *q = t_random(ACL_BF16, 1, DIMS(2, 4, 64)), *k = t_random(ACL_BF16, 1, DIMS(2, 1, 64)),
                  *cos = t_random(ACL_BF16, 1, DIMS(2, 1, 64)), *sin = t_random(ACL_BF16, 1, DIMS(2, 1, 64));
    char next[256] = {0};
    assert_int_equal(ON(ops_stream, aclnnApplyRotaryPosEmbV2, q->acl, k->acl, cos->acl, sin->acl, 4, (char *)"half"),
                     0);
    assert_breaks(aclrtMemcpy(sin->device, 256, next, 256, ACL_MEMCPY_HOST_TO_DEVICE), 507055, "host_race");
    assert_int_equal(aclrtMemcpyAsync(sin->device, 256, next, 256, ACL_MEMCPY_HOST_TO_DEVICE, ops_stream), 0);
    end();
}

// Waiting for the default stream waits for nothing else.
static void default_stream_returns_early(void **state) {
    (void)state;
    begin("910B3,cann=9.1,order=late");
    cache c = make_cache();
    char row[128];
    assert_int_equal(attend(&c, 64, ops_stream), 0);
    assert_int_equal(aclrtSynchronizeStream(NULL), 0);
    assert_int_equal(tally_emu_executions(), 0);
    assert_breaks(aclrtMemcpy(row, 128, c.out->device, 128, ACL_MEMCPY_DEVICE_TO_HOST), 507055, "host_race");
    assert_int_equal(aclrtSynchronizeStream(ops_stream), 0);
    assert_int_equal(tally_emu_executions(), 1);
    assert_int_equal(aclrtMemcpy(row, 128, c.out->device, 128, ACL_MEMCPY_DEVICE_TO_HOST), 0);
    end();
}

static void read_out(const cache *c, char row[static 128]) {
    assert_int_equal(aclrtMemcpy(row, 128, c->out->device, 128, ACL_MEMCPY_DEVICE_TO_HOST), 0);
}

// Lengths are host arguments: what a graph replays has those of its capture, however far the sequence has got since.
static void lengths_frozen_at_capture(void **state) {
    (void)state;
    begin("910B3,cann=9.1,perturb=off");
    cache c = make_cache();
    char at6[128], at7[128], replayed[128];
    aclmdlRI model;
    for (int64_t keys = 6; keys <= 7; keys++) {
        assert_int_equal(attend(&c, keys, ops_stream), 0);
        assert_int_equal(aclrtSynchronizeStream(ops_stream), 0);
        read_out(&c, keys == 6 ? at6 : at7);
    }
    assert_true(memcmp(at6, at7, 128) != 0);
    assert_int_equal(aclmdlRICaptureBegin(ops_stream, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL), 0);
    assert_int_equal(attend(&c, 6, ops_stream), 0);
    assert_int_equal(aclmdlRICaptureEnd(ops_stream, &model), 0);
    assert_int_equal(aclmdlRIExecuteAsync(model, ops_stream), 0);
    assert_int_equal(aclrtSynchronizeStream(ops_stream), 0);
    read_out(&c, replayed);
    assert_memory_equal(replayed, at6, 128);
    assert_int_equal(aclmdlRIDestroy(model), 0);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kv_row_of_another_stream),
        cmocka_unit_test(rotation_table_overwritten),
        cmocka_unit_test(default_stream_returns_early),
        cmocka_unit_test(lengths_frozen_at_capture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
