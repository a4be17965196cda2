// What is installed, for `tally devices`.
#include <stdio.h>

#include "backend/ascend/ascend.h"
#include "backend/ascend/device.h"

static status describe(const ascend_library *lib, int id, ascend_device_info *info, error *err) {
    ascend_device d = {.lib = *lib, .family = ASCEND_UNKNOWN};
    *info = (ascend_device_info){.id = id};
    const char *soc = lib->aclrtGetSocName();
    snprintf(info->chip, sizeof info->chip, "%s", soc ? soc : "?");
    snprintf(info->family, sizeof info->family, "%s", ascend_family_name(ascend_family_of(info->chip)));
    lib->aclrtGetVersion(&info->version[0], &info->version[1], &info->version[2]);
    TRY(ascend_check(&d, lib->aclrtSetDevice(id), "aclrtSetDevice", err));
    size_t left = 0, total = 0;
    status s = ascend_check(&d, lib->aclrtGetMemInfo(ACL_HBM_MEM, &left, &total), "aclrtGetMemInfo", err);
    lib->aclrtResetDevice(id);
    info->memory_bytes = (int64_t)total, info->free_bytes = (int64_t)left;
    return s;
}

static status list_all(const ascend_library *lib, const ascend_listing *to, error *err) {
    ascend_device d = {.lib = *lib, .family = ASCEND_UNKNOWN};
    int code = lib->aclInit(NULL);
    if (code != ACL_ERROR_REPEAT_INITIALIZE) TRY(ascend_check(&d, code, "aclInit", err));
    uint32_t n = 0;
    TRY(ascend_check(&d, lib->aclrtGetDeviceCount(&n), "aclrtGetDeviceCount", err));
    if (n == 0) return error_set(err, STATUS_NOT_FOUND, "the runtime sees no device; does npu-smi info list one?");
    for (uint32_t i = 0; i < n; i++) {
        ascend_device_info info;
        TRY(describe(lib, (int)i, &info, err));
        to->device(to->ctx, &info);
    }
    return STATUS_OK;
}

status ascend_list_devices(const ascend_listing *to, error *err) {
    ascend_library lib;
    TRY(ascend_library_open(&lib, NULL, to->library, to->ctx, err));
    status s = list_all(&lib, to, err);
    ascend_library_close(&lib);
    return s;
}
