// Descriptors and the two phases of operators.
#include <stdlib.h>
#include <string.h>

#include "cann/aclnn_ops.h"
#include "tests/emulator/rig.h"

typedef struct phases {
    void *a, *b, *out, *ws;
    aclTensor *ta, *tb, *to;
    uint64_t size;
    aclOpExecutor *executor;
    aclrtStream s;
} phases;

static phases begin(const char *settings) {
    phases p;
    rig_start(settings);
    OK(aclrtCreateStream(&p.s));
    p.a = rig_floats(0, 1);
    p.b = rig_floats(10, 0);
    p.out = rig_malloc(RIG_BYTES);
    p.ws = rig_malloc(RIG_WS);
    p.ta = rig_tensor(p.a);
    p.tb = rig_tensor(p.b);
    p.to = rig_tensor(p.out);
    OK(tally_emu_probe_get_workspace_size(p.ta, p.tb, p.to, &p.size, &p.executor));
    return p;
}

static int launch(phases *p) { return tally_emu_probe(p->ws, p->size, p->executor, p->s); }

static void test_right_program(void **state) {
    (void)state;
    phases p = begin("910B3,order=late");
    OK(launch(&p));
    OK(aclDestroyTensor(p.ta)); // allowed once phase 2 has returned
    OK(aclDestroyTensor(p.tb));
    OK(aclDestroyTensor(p.to));
    float x = 5;
    OK(aclrtMemcpyAsync(p.a, 4, &x, 4, ACL_MEMCPY_HOST_TO_DEVICE, p.s)); // ordered by the stream
    OK(aclrtSynchronizeStream(p.s));
    assert_true(rig_read(p.out, 0) == 10 && rig_read(p.out, 7) == 17 && rig_read(p.a, 0) == 5);
    unsigned char ws[16];
    OK(aclrtMemcpy(ws, 16, p.ws, 16, ACL_MEMCPY_DEVICE_TO_HOST));
    for (int i = 0; i < 16; i++) assert_int_equal(ws[i], 0xff);
    rig_end();
}

static void test_inputs_read_late(void **state) {
    (void)state;
    phases p = begin("910B3,order=late");
    void *pinned;
    OK(aclrtMallocHost(&pinned, 64));
    *(float *)pinned = 100;
    OK(aclrtMemcpyAsync(p.a, 4, pinned, 4, ACL_MEMCPY_HOST_TO_DEVICE, p.s));
    OK(launch(&p));
    *(float *)pinned = 200; // wrong, and seen
    OK(aclrtSynchronizeStream(p.s));
    assert_true(rig_read(p.out, 0) == 210);
    rig_end();
}

static void test_executor_once(void **state) {
    (void)state;
    phases p = begin("910B3");
    OK(launch(&p));
    BREAKS("executor_reused", 561102, launch(&p));
    BREAKS("executor_reused", 561102, aclDestroyAclOpExecutor(p.executor));
    BREAKS("executor_wrong", 561102, tally_emu_probe(p.ws, p.size, (aclOpExecutor *)p.s, p.s));
    BREAKS("null_argument", 161001, tally_emu_probe(p.ws, p.size, NULL, p.s));
    OK(tally_emu_probe_get_workspace_size(p.ta, p.tb, p.to, &p.size, &p.executor));
    BREAKS("executor_wrong", 561102, tally_emu_probe_list(p.ws, p.size, p.executor, p.s));
    OK(aclDestroyAclOpExecutor(p.executor));
    OK(aclrtSynchronizeStream(p.s));
    rig_end();
}

static void test_repeatable(void **state) {
    (void)state;
    phases p = begin("910B3");
    OK(aclSetAclOpExecutorRepeatable(p.executor));
    OK(launch(&p));
    OK(launch(&p));
    BREAKS("executor_repeatable", 161002, aclSetAclOpExecutorRepeatable(p.executor));
    void *other = rig_floats(1000, 0), *ints = rig_malloc(64);
    OK(aclSetInputTensorAddr(p.executor, 1, p.tb, other));
    OK(launch(&p));
    OK(aclrtSynchronizeStream(p.s));
    assert_true(rig_read(p.out, 3) == 1003);
    OK(aclSetTensorAddr(p.executor, 2, p.to, p.b)); // the third argument of all: the output
    OK(launch(&p));
    OK(aclrtSynchronizeStream(p.s));
    assert_true(rig_read(p.b, 4) == 1004);
    BREAKS("executor_address", 161002, aclSetOutputTensorAddr(p.executor, 1, p.to, other));
    OK(AclSetOutputTensorAddr(p.executor, 0, p.to, ints)); // too small for the output
    BREAKS("out_of_bounds", 507055, launch(&p));
    OK(aclDestroyAclOpExecutor(p.executor));
    OK(tally_emu_probe_get_workspace_size(p.ta, p.tb, p.to, &p.size, &p.executor));
    BREAKS("executor_address", 161002, aclSetInputTensorAddr(p.executor, 0, p.ta, other));
    OK(launch(&p));
    OK(aclrtSynchronizeStream(p.s));
    char kinds[128];
    tally_emu_live_objects(kinds, sizeof kinds);
    assert_null(strstr(kinds, "executor"));
    rig_end();
}

static void test_descriptors(void **state) {
    (void)state;
    phases p = begin("910B3");
    OK(aclDestroyTensor(p.ta));
    BREAKS("dead_descriptor", 561103, launch(&p)); // destroyed before phase 2
    BREAKS("double_destroy", 161002, aclDestroyTensor(p.ta));
    BREAKS("dead_descriptor", 561103, tally_emu_probe_get_workspace_size(p.ta, p.tb, p.to, &p.size, &p.executor));
    BREAKS("null_argument", 161001, tally_emu_probe_get_workspace_size(NULL, p.tb, p.to, &p.size, &p.executor));
    BREAKS("bad_argument", 161002,
           tally_emu_probe_get_workspace_size((aclTensor *)p.s, p.tb, p.to, &p.size, &p.executor));
    BREAKS("null_argument", 161001, tally_emu_probe_get_workspace_size(p.tb, p.tb, p.to, NULL, &p.executor));
    aclOpExecutor *executor;
    OK(tally_emu_probe_get_workspace_size(p.tb, p.tb, p.to, &p.size, &executor));
    OK(aclSetRawTensorAddr(p.tb, p.a));
    BREAKS("address_changed", 161002, tally_emu_probe(p.ws, p.size, executor, p.s));
    const int64_t dims[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, minus[1] = {-1};
    assert_null(aclCreateTensor(dims, 9, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dims, 1, p.a));
    assert_null(aclCreateTensor(minus, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dims, 1, p.a));
    assert_null(aclCreateTensor(dims, 1, (aclDataType)14, NULL, 0, ACL_FORMAT_ND, dims, 1, p.a));
    rig_end();
}

// Until phase 2 has returned, of an executor that is to be repeated until its first has; and lists, arrays and scalars, too.
static void test_descriptors_of_first_launch(void **state) {
    (void)state;
    phases p = begin("910B3");
    OK(aclSetAclOpExecutorRepeatable(p.executor));
    aclTensor *a = p.ta;
    p.ta = rig_tensor(p.a);
    OK(aclDestroyTensor(a));
    BREAKS("dead_descriptor", 561103, launch(&p));
    OK(aclDestroyAclOpExecutor(p.executor));
    OK(tally_emu_probe_get_workspace_size(p.ta, p.tb, p.to, &p.size, &p.executor));
    OK(aclSetAclOpExecutorRepeatable(p.executor));
    OK(launch(&p));
    OK(aclDestroyTensor(p.tb));
    OK(launch(&p)); // the second needs none
    OK(aclDestroyAclOpExecutor(p.executor));
    const int64_t first = 0, one[1] = {1};
    float two = 2;
    aclIntArray *dims = aclCreateIntArray(&first, 1);
    aclScalar *factor = aclCreateScalar(&two, ACL_FLOAT);
    aclTensor *sum = aclCreateTensor(one, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, one, 1, p.out);
    OK(aclnnReduceSumGetWorkspaceSize(p.ta, dims, true, ACL_FLOAT, sum, &p.size, &p.executor));
    OK(aclDestroyIntArray(dims));
    BREAKS("dead_descriptor", 561103, aclnnReduceSum(p.ws, p.size, p.executor, p.s));
    OK(aclnnMulsGetWorkspaceSize(p.ta, factor, p.to, &p.size, &p.executor));
    OK(aclDestroyScalar(factor));
    BREAKS("dead_descriptor", 561103, aclnnMuls(p.ws, p.size, p.executor, p.s));
    const aclTensor *element = rig_tensor(p.b);
    aclTensorList *list = aclCreateTensorList(&element, 1);
    OK(tally_emu_probe_list_get_workspace_size(list, p.to, &p.size, &p.executor));
    OK(aclDestroyTensorList(list));
    BREAKS("dead_descriptor", 561103, tally_emu_probe_list(p.ws, p.size, p.executor, p.s));
    OK(aclrtSynchronizeStream(p.s));
    rig_end();
}

static void test_lists(void **state) {
    (void)state;
    phases p = begin("910B3");
    OK(launch(&p));
    const aclTensor *elements[2] = {p.ta, p.tb};
    aclTensorList *list = aclCreateTensorList(elements, 2);
    assert_non_null(list);
    assert_null(aclCreateTensorList(elements, 1)); // an element of two lists would be destroyed twice
    uint64_t n;
    OK(aclGetTensorListSize(list, &n));
    assert_int_equal(n, 2);
    OK(tally_emu_probe_list_get_workspace_size(list, p.to, &p.size, &p.executor));
    OK(tally_emu_probe_list(p.ws, p.size, p.executor, p.s));
    OK(aclrtSynchronizeStream(p.s));
    assert_true(rig_read(p.out, 2) == 12);
    BREAKS("list_element", 161002, aclDestroyTensor(p.ta));
    OK(aclDestroyTensorList(list));
    BREAKS("double_destroy", 161002, aclDestroyTensor(p.tb)); // the list did
    BREAKS("double_destroy", 161002, aclDestroyTensorList(list));
    rig_end();
}

static void test_workspace(void **state) {
    (void)state;
    phases p = begin("910B3");
    assert_true(p.size > 0);
    BREAKS("workspace_small", 161002, tally_emu_probe(p.ws, p.size - 1, p.executor, p.s));
    OK(tally_emu_probe_get_workspace_size(p.ta, p.tb, p.to, &p.size, &p.executor));
    BREAKS("null_argument", 161001, tally_emu_probe(NULL, p.size, p.executor, p.s));
    OK(tally_emu_probe_get_workspace_size(p.ta, p.tb, p.to, &p.size, &p.executor));
    BREAKS("unaligned", 161002, tally_emu_probe((char *)p.ws + 8, p.size, p.executor, p.s));
    OK(tally_emu_probe_get_workspace_size(p.ta, p.tb, p.to, &p.size, &p.executor));
    static char host[RIG_WS] __attribute__((aligned(64)));
    BREAKS("host_pointer", 107000, tally_emu_probe(host, p.size, p.executor, p.s));
    // The workspace is where the output is.
    OK(aclSetRawTensorAddr(p.to, (char *)p.ws + 512));
    OK(tally_emu_probe_get_workspace_size(p.ta, p.tb, p.to, &p.size, &p.executor));
    BREAKS("workspace_overlap", 507055, tally_emu_probe(p.ws, p.size, p.executor, p.s));
    rig_end();
}

static void test_addresses(void **state) {
    (void)state;
    phases p = begin("910B3");
    static float host[RIG_N] __attribute__((aligned(64)));
    void *addresses[] = {host, (char *)p.a + 4, NULL, (char *)p.a + 32};
    const char *rules[] = {"host_pointer", "unaligned", "null_argument", "out_of_bounds"};
    const int codes[] = {107000, 161002, 161001, 507055};
    for (int i = 0; i < 4; i++) {
        OK(aclSetRawTensorAddr(p.ta, addresses[i]));
        OK(tally_emu_probe_get_workspace_size(p.ta, p.tb, p.to, &p.size, &p.executor));
        BREAKS(rules[i], codes[i], launch(&p));
    }
    OK(aclSetRawTensorAddr(p.ta, p.a));
    OK(tally_emu_probe_get_workspace_size(p.ta, p.tb, p.to, &p.size, &p.executor));
    OK(aclrtFree(p.a)); // nothing is in flight yet
    BREAKS("use_after_free", 507055, launch(&p));
    rig_end();
}

static void test_views(void **state) {
    (void)state;
    phases p = begin("910B3");
    const int64_t dim[2] = {8, 4}, stride[2] = {8, 1}, storage[1] = {RIG_N}, small[1] = {59};
    aclTensor *t = aclCreateTensor(dim, 2, ACL_FLOAT, stride, 4, ACL_FORMAT_ND, storage, 1, p.a);
    int64_t *got, offset;
    uint64_t n;
    OK(aclGetViewShape(t, &got, &n));
    assert_int_equal(n, 2);
    assert_memory_equal(got, dim, sizeof dim);
    free(got);
    OK(aclGetViewStrides(t, &got, &n));
    assert_memory_equal(got, stride, sizeof stride);
    free(got);
    OK(aclGetStorageShape(t, &got, &n));
    assert_int_equal(got[0], RIG_N);
    free(got);
    OK(aclGetViewOffset(t, &offset));
    assert_int_equal(offset, 4);
    aclDataType dtype;
    aclFormat format;
    OK(aclGetDataType(t, &dtype));
    OK(aclGetFormat(t, &format));
    assert_int_equal(dtype, ACL_FLOAT);
    assert_int_equal(format, ACL_FORMAT_ND);
    BREAKS("not_contiguous", 161002, tally_emu_probe_get_workspace_size(t, t, t, &p.size, &p.executor));
    aclTensor *part = aclCreateTensor(dim, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dim, 1, p.a);
    BREAKS("bad_argument", 161002, tally_emu_probe_get_workspace_size(p.ta, part, p.to, &p.size, &p.executor));
    aclTensor *over = aclCreateTensor(dim, 2, ACL_FLOAT, stride, 4, ACL_FORMAT_ND, small, 1, p.a); // ends at 63
    BREAKS("bad_argument", 161002, tally_emu_probe_get_workspace_size(over, p.tb, p.to, &p.size, &p.executor));
    aclTensor *half = aclCreateTensor(storage, 1, ACL_FLOAT16, NULL, 0, ACL_FORMAT_ND, storage, 1, p.a);
    BREAKS("bad_argument", 161002, tally_emu_probe_get_workspace_size(half, p.tb, p.to, &p.size, &p.executor));
    int64_t values[3] = {1, 2, 3};
    aclIntArray *array = aclCreateIntArray(values, 3);
    OK(aclGetIntArraySize(array, &n));
    assert_int_equal(n, 3);
    OK(aclDestroyIntArray(array));
    BREAKS("double_destroy", 161002, aclDestroyIntArray(array));
    rig_end();
}

// What strict=off lets pass: strides, odd alignment, a workspace over an input; with the right results.
static void test_lenient(void **state) {
    (void)state;
    phases p = begin("910B3,strict=off");
    assert_int_equal((uintptr_t)p.a % 512, 0);
    const int64_t dim[2] = {8, 4}, stride[2] = {8, 1}, small[1] = {1};
    aclTensor *ta = aclCreateTensor(dim, 2, ACL_FLOAT, stride, 0, ACL_FORMAT_ND, small, 1, (char *)p.a + 4);
    aclTensor *tb = aclCreateTensor(dim, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, small, 1, p.b);
    aclTensor *to = aclCreateTensor(dim, 2, ACL_FLOAT, stride, 0, ACL_FORMAT_ND, small, 1, p.out);
    OK(aclrtMemset(p.out, RIG_BYTES, 0, RIG_BYTES));
    OK(tally_emu_probe_get_workspace_size(ta, tb, to, &p.size, &p.executor));
    OK(tally_emu_probe(p.ws, p.size, p.executor, p.s));
    OK(aclrtSynchronizeStream(p.s));
    assert_true(rig_read(p.out, 8 * 3 + 2) == 10 + 1 + 8 * 3 + 2 && rig_read(p.out, 8 * 3 + 4) == 0);
    OK(aclrtMemcpy(p.ws, 128, p.a, 128, ACL_MEMCPY_DEVICE_TO_DEVICE));
    OK(aclSetRawTensorAddr(tb, p.ws));
    OK(tally_emu_probe_get_workspace_size(tb, tb, to, &p.size, &p.executor));
    OK(tally_emu_probe(p.ws, p.size, p.executor, p.s));
    OK(aclrtSynchronizeStream(p.s));
    assert_int_equal(tally_emu_rule_count("workspace_overlap"), 1);
    assert_true(rig_read(p.out, 8 * 3 + 2) == 2 * (4 * 3 + 2));
    rig_end();
}

// 1e8 + 1 - 1e8 over n elements, by a list of three; the result tells where the sum began.
static float perturbed_sum(phases *p, int64_t n) {
    const float values[3] = {1e8f, 1, -1e8f};
    const aclTensor *t[3];
    const int64_t dim[1] = {n};
    for (int i = 0; i < 3; i++)
        t[i] = aclCreateTensor(dim, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dim, 1, rig_floats(values[i], 0));
    aclTensor *out = aclCreateTensor(dim, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dim, 1, p->out);
    aclTensorList *list = aclCreateTensorList(t, 3);
    OK(tally_emu_probe_list_get_workspace_size(list, out, &p->size, &p->executor));
    OK(tally_emu_probe_list(p->ws, p->size, p->executor, p->s));
    OK(aclrtSynchronizeStream(p->s));
    OK(aclDestroyTensorList(list));
    OK(aclDestroyTensor(out));
    return rig_read(p->out, 0);
}

static void test_perturbation(void **state) {
    (void)state;
    phases p = begin("910B3");
    OK(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
    int other = 0, again = 0;
    for (int n = 1; n <= 32; n++) {
        float sum = perturbed_sum(&p, n);
        assert_true(sum == 0 || sum == 1);
        other += sum != perturbed_sum(&p, n % 32 + 1); // other signatures, other orders
        again += sum != perturbed_sum(&p, n);          // equal signatures, equal bits
    }
    assert_int_equal(again, 0);
    assert_true(other > 4);
    p = begin("910B3,perturb=off");
    for (int n = 1; n <= 16; n++) assert_true(perturbed_sum(&p, n) == 0);
    p = begin("910B3"); // determinism off: no two runs need agree
    float first = perturbed_sum(&p, 4);
    for (int i = 0; i < 32; i++) again += perturbed_sum(&p, 4) != first;
    assert_true(again > 4);
    rig_end();
}

static void test_stream_of_another_context(void **state) {
    (void)state;
    phases p = begin("910B3");
    aclrtContext other;
    OK(aclrtCreateContext(&other, 0));
    BREAKS("wrong_context", 107003, launch(&p));
    rig_end();
}

static void test_dtype_of_chip(void **state) {
    (void)state;
    phases p = begin("910A");
    const int64_t dim[1] = {8};
    aclTensor *t = aclCreateTensor(dim, 1, ACL_BF16, NULL, 0, ACL_FORMAT_ND, dim, 1, p.a);
    BREAKS("dtype_chip", 161002, tally_emu_probe_get_workspace_size(t, t, t, &p.size, &p.executor));
    rig_end();
}

static void test_determinism_late(void **state) {
    (void)state;
    phases p = begin("910B3");
    OK(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
    OK(launch(&p));
    BREAKS("not_deterministic", 107000, aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 0));
    int64_t value;
    OK(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
    assert_int_equal(value, 1);
    rig_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_program),
        cmocka_unit_test(test_inputs_read_late),
        cmocka_unit_test(test_executor_once),
        cmocka_unit_test(test_repeatable),
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_workspace),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_stream_of_another_context),
        cmocka_unit_test(test_dtype_of_chip),
        cmocka_unit_test(test_lenient),
        cmocka_unit_test(test_perturbation),
        cmocka_unit_test(test_determinism_late),
        cmocka_unit_test(test_descriptors_of_first_launch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
