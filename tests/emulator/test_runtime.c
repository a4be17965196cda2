// The runtime: initialisation, devices, contexts, memory, copies; each wrong program is caught with its code.
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/emulator/rig.h"

static void test_init(void **state) {
    (void)state;
    tally_emu_reset();
    assert_int_equal(tally_emu_configure("910B3"), 0);
    int32_t device;
    BREAKS("uninitialised", 100001, aclrtGetDevice(&device));
    OK(aclInit(NULL));
    BREAKS("second_init", 100002, aclInit(NULL));
    BREAKS("no_context", 107002, aclrtGetDevice(&device));
    size_t available, total;
    BREAKS("no_context", 107002, aclrtGetMemInfo(ACL_HBM_MEM, &available, &total));
    BREAKS("bad_device", 107001, aclrtSetDevice(1));
    OK(aclrtSetDevice(0));
    OK(aclrtGetDevice(&device));
    assert_int_equal(device, 0);
    OK(aclrtResetDevice(0));
    BREAKS("bad_device", 107001, aclrtResetDevice(0));
    BREAKS("no_context", 107002, aclrtGetDevice(&device));
    OK(aclFinalize());
    BREAKS("second_finalize", 100037, aclFinalize());
    rig_end();
}

static void test_recent_message(void **state) {
    (void)state;
    rig_start("910B3");
    assert_int_equal(aclrtFree(NULL), 107000);
    const char *message = aclGetRecentErrMsg();
    assert_non_null(strstr(message, "aclrtFree"));
    assert_non_null(strstr(message, "107000"));
    assert_string_equal(aclGetRecentErrMsg(), ""); // reading clears
    rig_end();
}

static void test_settings(void **state) {
    (void)state;
    tally_emu_reset();
    assert_int_equal(tally_emu_configure("910C7"), -1);
    assert_non_null(strstr(aclGetRecentErrMsg(), "910C7"));
    tally_emu_reset();
    assert_int_equal(tally_emu_configure("910B3,colour=red"), -1);
    tally_emu_reset();
    assert_int_equal(tally_emu_configure("910B3,cann=8.1"), 0); // this program loaded the libraries of 9.1
    BREAKS("settings", 100000, aclInit(NULL));
    tally_emu_reset();
    assert_int_equal(tally_emu_configure("910A,mem=1G,seed=3"), 0);
    assert_int_equal(tally_emu_configure("310P3"), -1); // too late
    assert_int_equal(tally_emu_configure("910A,mem=1G,seed=4"), 0);
    assert_int_equal(tally_emu_configure("910A,mem=2G"), -1);
    assert_int_equal(tally_emu_configure("fail_alloc=1"), 0);
    assert_string_equal(aclrtGetSocName(), "Ascend910A");
    rig_end();
}

static void *use_stream_on_thread(void *stream) {
    static int code[2];
    code[0] = aclrtSynchronizeStream(stream); // no context here
    OK(aclrtSetDevice(1));
    code[1] = aclrtSynchronizeStream(stream); // another context than the stream's
    return code;
}

static void test_contexts(void **state) {
    (void)state;
    rig_start("910B3,devices=2");
    aclrtStream s;
    OK(aclrtCreateStream(&s));
    pthread_t thread;
    void *codes;
    assert_int_equal(pthread_create(&thread, NULL, use_stream_on_thread, s), 0);
    pthread_join(thread, &codes);
    assert_int_equal(((int *)codes)[0], 107002);
    assert_int_equal(((int *)codes)[1], 107003);
    aclrtContext old, made, now;
    OK(aclrtGetCurrentContext(&old));
    OK(aclrtCreateContext(&made, 0));
    OK(aclrtGetCurrentContext(&now));
    assert_ptr_equal(now, made);
    BREAKS("wrong_context", 107003, aclrtSynchronizeStream(s));
    OK(aclrtSetCurrentContext(old));
    OK(aclrtSynchronizeStream(s));
    OK(aclrtDestroyContext(made));
    BREAKS("dead_handle", 107017, aclrtSetCurrentContext(made));
    BREAKS("wrong_handle", 107017, aclrtSetCurrentContext(s));
    BREAKS("wrong_handle", 107017, aclrtSetCurrentContext(&old));
    BREAKS("bad_param", 107000, aclrtDestroyContext(old));
    OK(aclrtDestroyStream(s));
    BREAKS("dead_handle", 107017, aclrtSynchronizeStream(s));
    BREAKS("dead_handle", 107017, aclrtDestroyStream(s));
    BREAKS("bad_param", 107000, aclrtDestroyStream(NULL));
    rig_end();
}

static void test_host_cannot_read(void **state) {
    (void)state;
    rig_start("910B3");
    volatile float *p = rig_floats(1, 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); // also under a sanitizer
        _exit(p[0] == 1 ? 1 : 2);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    rig_end();
}

static void test_memory(void **state) {
    (void)state;
    rig_start("910B3,mem=64M");
    size_t available, total, before;
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total));
    assert_int_equal(total, 64 << 20);
    void *p = rig_malloc(1000), *q = rig_malloc(1);
    assert_int_equal((uintptr_t)p % 64, 0);
    assert_int_equal((uintptr_t)q % 64, 0);
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &available, &total));
    assert_int_equal(before - available, 1024 + 32 + 32 + 32);
    unsigned char bytes[1000];
    OK(aclrtMemcpy(bytes, 1000, p, 1000, ACL_MEMCPY_DEVICE_TO_HOST));
    for (int i = 0; i < 1000; i++) assert_int_equal(bytes[i], 0xff); // fresh memory holds nothing useful
    void *big = NULL;
    BREAKS("out_of_memory", 207001, aclrtMalloc(&big, 65 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    BREAKS("bad_param", 107000, aclrtMalloc(&big, 0, ACL_MEM_MALLOC_HUGE_FIRST));
    BREAKS("bad_param", 107000, aclrtMalloc(&big, 64, (aclrtMemMallocPolicy)77));
    BREAKS("bad_free", 107000, aclrtFree((char *)p + 64));
    BREAKS("host_pointer", 107000, aclrtFree(bytes));
    OK(aclrtFree(p));
    BREAKS("double_free", 107000, aclrtFree(p));
    BREAKS("use_after_free", 507055, aclrtMemcpy(bytes, 4, p, 4, ACL_MEMCPY_DEVICE_TO_HOST));
    BREAKS("out_of_bounds", 507055, aclrtMemcpy(bytes, 40, q, 2, ACL_MEMCPY_DEVICE_TO_HOST));
    OK(aclrtFreeWithDevSync(q));
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &available, &total));
    assert_int_equal(available, before);
    rig_end();
}

static void test_copies(void **state) {
    (void)state;
    rig_start("910B3");
    float x[16] = {1, 2, 3, 4};
    void *p = rig_malloc(sizeof x);
    BREAKS("copy_kind", 107000, aclrtMemcpy(p, sizeof x, x, sizeof x, ACL_MEMCPY_DEVICE_TO_DEVICE));
    BREAKS("copy_kind", 107000, aclrtMemcpy(x, sizeof x, x, 8, ACL_MEMCPY_HOST_TO_DEVICE));
    BREAKS("copy_size", 107000, aclrtMemcpy(p, 8, x, sizeof x, ACL_MEMCPY_HOST_TO_DEVICE));
    BREAKS("host_to_host_async", 207000, aclrtMemcpyAsync(x, 8, x + 8, 8, ACL_MEMCPY_HOST_TO_HOST, NULL));
    BREAKS("host_pointer", 107000, aclrtMemset(x, 4, 0, 4));
    OK(aclrtMemcpy(p, sizeof x, x, sizeof x, ACL_MEMCPY_DEFAULT));
    assert_true(rig_read(p, 2) == 3);
    OK(aclrtMemset(p, sizeof x, 0, 8));
    assert_true(rig_read(p, 1) == 0 && rig_read(p, 2) == 3);
    // Two columns of a matrix of four.
    float column[4] = {9, 8, 7, 6};
    OK(aclrtMemcpy2d(p, 16, column, 8, 8, 2, ACL_MEMCPY_HOST_TO_DEVICE));
    assert_true(rig_read(p, 0) == 9 && rig_read(p, 4) == 7 && rig_read(p, 5) == 6 && rig_read(p, 2) == 3);
    rig_end();
}

static void test_pinned(void **state) {
    (void)state;
    rig_start("910B3,order=late");
    float *pinned;
    OK(aclrtMallocHost((void **)&pinned, RIG_BYTES));
    void *p = rig_malloc(RIG_BYTES);
    for (int i = 0; i < RIG_N; i++) pinned[i] = (float)i;
    aclrtStream s;
    OK(aclrtCreateStream(&s));
    OK(aclrtMemcpyAsync(p, RIG_BYTES, pinned, RIG_BYTES, ACL_MEMCPY_HOST_TO_DEVICE, s));
    pinned[3] = 77; // too early: the copy reads later
    OK(aclrtSynchronizeStream(s));
    assert_true(rig_read(p, 3) == 77);
    OK(aclrtMemcpyAsync(pinned, RIG_BYTES, p, RIG_BYTES, ACL_MEMCPY_DEVICE_TO_HOST, s));
    BREAKS("host_free_in_flight", 507055, aclrtFreeHost(pinned));
    BREAKS("bad_free", 107000, aclrtFreeHost(pinned));
    BREAKS("device_pointer", 107000, aclrtFreeHost(p));
    float pageable[RIG_N]; // staged at once
    pageable[0] = 5;
    OK(aclrtMemcpyAsync(p, RIG_BYTES, pageable, RIG_BYTES, ACL_MEMCPY_HOST_TO_DEVICE, s));
    pageable[0] = 6;
    OK(aclrtSynchronizeStream(s));
    assert_true(rig_read(p, 0) == 5);
    rig_end();
}

static void test_peers(void **state) {
    (void)state;
    rig_start("910B3,devices=2");
    void *p0 = rig_floats(1, 1);
    OK(aclrtSetDevice(1));
    void *p1 = rig_floats(0, 0);
    BREAKS("peer_access", 107000, aclrtMemcpy(p1, RIG_BYTES, p0, RIG_BYTES, ACL_MEMCPY_DEVICE_TO_DEVICE));
    int32_t can;
    OK(aclrtDeviceCanAccessPeer(&can, 1, 0));
    assert_int_equal(can, 1);
    OK(aclrtDeviceEnablePeerAccess(0, 0));
    OK(aclrtMemcpy(p1, RIG_BYTES, p0, RIG_BYTES, ACL_MEMCPY_DEVICE_TO_DEVICE));
    assert_true(rig_read(p1, 4) == 5);
    rig_end();
}

static void test_virtual_memory(void **state) {
    (void)state;
    rig_start("910B3");
    aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE,
                                 .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE}};
    size_t granule;
    OK(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED, &granule));
    void *range;
    OK(aclrtReserveMemAddress(&range, 4 * granule, 0, NULL, 1));
    float x = 3;
    BREAKS("out_of_bounds", 507055, aclrtMemcpy(range, 4, &x, 4, ACL_MEMCPY_HOST_TO_DEVICE));
    aclrtDrvMemHandle h[2];
    for (int i = 0; i < 2; i++) {
        OK(aclrtMallocPhysical(&h[i], granule, &prop, 0));
        OK(aclrtMapMem((char *)range + granule * (size_t)i, granule, 0, h[i], 0));
    }
    char *seam = (char *)range + granule - 8;
    float two[4] = {1, 2, 3, 4}, back[4];
    OK(aclrtMemcpy(seam, 16, two, 16, ACL_MEMCPY_HOST_TO_DEVICE)); // across both
    OK(aclrtMemcpy(back, 16, seam, 16, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_memory_equal(two, back, 16);
    BREAKS("out_of_bounds", 507055,
           aclrtMemcpy((char *)range + 2 * granule - 8, 16, two, 16, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtUnmapMem(range));
    BREAKS("bad_free", 107000, aclrtUnmapMem(range));
    OK(aclrtUnmapMem((char *)range + granule));
    for (int i = 0; i < 2; i++) OK(aclrtFreePhysical(h[i]));
    BREAKS("dead_handle", 107017, aclrtFreePhysical(h[0]));
    OK(aclrtReleaseMemAddress(range));
    rig_end();
}

static void test_live_objects(void **state) {
    (void)state;
    rig_start("910B3");
    char kinds[128];
    assert_int_equal(tally_emu_live_objects(kinds, sizeof kinds), 0);
    void *p = rig_malloc(100), *host;
    aclrtStream s;
    aclrtEvent e;
    OK(aclrtMallocHost(&host, 100));
    OK(aclrtCreateStream(&s));
    OK(aclrtCreateEvent(&e));
    aclTensor *t = rig_tensor(p);
    assert_int_equal(tally_emu_live_objects(kinds, sizeof kinds), 5);
    assert_string_equal(kinds, "1 stream, 1 event, 1 device block, 1 pinned host block, 1 tensor");
    OK(aclDestroyTensor(t));
    OK(aclrtDestroyEvent(e));
    OK(aclrtDestroyStream(s));
    OK(aclrtFreeHost(host));
    OK(aclrtFree(p));
    assert_int_equal(tally_emu_live_objects(NULL, 0), 0);
    p = rig_malloc(100);
    OK(aclrtResetDevice(0)); // takes the block along
    assert_int_equal(tally_emu_live_objects(NULL, 0), 0);
    rig_end();
}

static void test_limits(void **state) {
    (void)state;
    rig_start("310P3");
    aclrtStream s;
    int n = 1; // the default stream
    while (aclrtCreateStream(&s) == 0) n++;
    assert_int_equal(n, 1024);
    BREAKS("resource_limit", 207008, aclrtCreateStream(&s));
    uint32_t left;
    OK(aclrtGetStreamAvailableNum(&left));
    assert_int_equal(left, 0);
    rig_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_init),           cmocka_unit_test(test_recent_message),   cmocka_unit_test(test_settings),
        cmocka_unit_test(test_contexts),       cmocka_unit_test(test_host_cannot_read), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_copies),         cmocka_unit_test(test_pinned),           cmocka_unit_test(test_peers),
        cmocka_unit_test(test_virtual_memory), cmocka_unit_test(test_live_objects),     cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
