#include "tests/emulator/rig.h"

#include <string.h>

void rig_start(const char *settings) {
    tally_emu_reset();
    if (tally_emu_configure(settings)) fail_msg("%s: %s", settings, aclGetRecentErrMsg());
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
}

void rig_end(void) { tally_emu_reset(); }

void rig_ok(int code, const char *call, const char *file, int line) {
    if (code) fail_msg("%s:%d: %s = %d: %s", file, line, call, code, aclGetRecentErrMsg());
}

void rig_breaks(int got, int code, const char *rule, const char *call, const char *file, int line) {
    const char *message = aclGetRecentErrMsg();
    if (got != code || strcmp(tally_emu_last_rule(), rule) != 0) {
        fail_msg("%s:%d: %s = %d, rule %s; wanted %d, rule %s. Message: %s", file, line, call, got,
                 tally_emu_last_rule(), code, rule, message);
    }
    if (!strstr(message, rule)) fail_msg("%s:%d: the message does not name the rule %s: %s", file, line, rule, message);
}

void *rig_malloc(size_t size) {
    void *p = NULL;
    OK(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST));
    return p;
}

void *rig_floats(float first, float step) {
    float host[RIG_N];
    for (int i = 0; i < RIG_N; i++) host[i] = first + step * (float)i;
    void *p = rig_malloc(RIG_BYTES);
    OK(aclrtMemcpy(p, RIG_BYTES, host, RIG_BYTES, ACL_MEMCPY_HOST_TO_DEVICE));
    return p;
}

float rig_read(const void *device, int i) {
    float x = 0;
    OK(aclrtMemcpy(&x, 4, (const char *)device + 4 * i, 4, ACL_MEMCPY_DEVICE_TO_HOST));
    return x;
}

aclTensor *rig_tensor(void *device) {
    const int64_t dim[1] = {RIG_N};
    aclTensor *t = aclCreateTensor(dim, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dim, 1, device);
    assert_non_null(t);
    return t;
}

int rig_add(const void *a, const void *b, void *out, void *workspace, aclrtStream stream) {
    aclTensor *ta = rig_tensor((void *)(uintptr_t)a), *tb = rig_tensor((void *)(uintptr_t)b), *to = rig_tensor(out);
    uint64_t size;
    aclOpExecutor *executor;
    OK(tally_emu_probe_get_workspace_size(ta, tb, to, &size, &executor));
    assert_in_range(size, 1024, RIG_WS);
    int code = tally_emu_probe(workspace, size, executor, stream);
    OK(aclDestroyTensor(ta));
    OK(aclDestroyTensor(tb));
    OK(aclDestroyTensor(to));
    return code;
}
