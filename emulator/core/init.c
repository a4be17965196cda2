// Initialisation and questions about the library and its chip.
#include <inttypes.h>
#include <string.h>

#include "emulator/core/settings.h"
#include "emulator/core/state.h"
#include "emulator/core/stream.h"

static int init(void) {
    emu_state *s = emu();
    int code = emu_settings_error();
    if (code || (code = emu_call_fails())) return code;
    if (s->initialised && !s->nnop_initialised)
        return emu_fail(EMU_RULE_second_init, "aclInit was called before; that does no harm");
    s->initialised = s->was_initialised = true;
    s->nnop_initialised = false;
    return 0;
}

aclError aclInit(const char *configPath) {
    emu_enter("aclInit", "%s", configPath ? configPath : "NULL");
    return emu_leave(init());
}

static int finalize(void) {
    emu_state *s = emu();
    if (!s->initialised && s->was_initialised)
        return emu_fail(EMU_RULE_second_finalize, "aclFinalize was called before");
    int code = emu_need_init();
    if (code) return code;
    s->initialised = false;
    return 0;
}

aclError aclFinalize(void) {
    emu_enter("aclFinalize", "%s", "");
    return emu_leave(finalize());
}

aclError aclFinalizeReference(uint64_t *refCount) {
    emu_enter("aclFinalizeReference", "%s", "");
    int code = finalize();
    if (refCount) *refCount = 0;
    return emu_leave(code);
}

const char *aclrtGetSocName(void) {
    emu_enter("aclrtGetSocName", "%s", "");
    const char *name = emu()->chip->name;
    emu_leave(0);
    return name;
}

aclError aclrtGetVersion(int32_t *major, int32_t *minor, int32_t *patch) {
    static const int minors[] = {13, 15, 17}; // of acl in CANN 8.1, 8.5 (UNVERIFIED), 9.1
    emu_enter("aclrtGetVersion", "%s", "");
    if (!major || !minor || !patch) return emu_leave(emu_fail(EMU_RULE_bad_param, "nowhere to store the version"));
    int code = emu_call_fails();
    if (code) return emu_leave(code);
    *major = 1;
    *minor = minors[emu()->cann];
    *patch = 0;
    return emu_leave(0);
}

aclError aclrtGetRunMode(aclrtRunMode *mode) {
    emu_enter("aclrtGetRunMode", "%s", "");
    if (!mode) return emu_leave(emu_fail(EMU_RULE_bad_param, "nowhere to store the mode"));
    *mode = ACL_HOST;
    return emu_leave(0);
}

static int device_info(uint32_t device, aclrtDevAttr attr, int64_t *value) {
    const emu_chip *c = emu()->chip;
    if (!value || device >= (uint32_t)emu()->config.n_devices)
        return emu_fail(EMU_RULE_bad_device, "device %" PRIu32, device);
    switch (attr) {
    case ACL_DEV_ATTR_AICPU_CORE_NUM: return *value = 6, 0;
    case ACL_DEV_ATTR_AICORE_CORE_NUM:
    case ACL_DEV_ATTR_CUBE_CORE_NUM: return *value = c->n_cube, 0;
    case ACL_DEV_ATTR_VECTOR_CORE_NUM: return *value = c->n_vector, 0;
    case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
        return *value = (int64_t)(emu()->config.memory ? emu()->config.memory : c->memory), 0;
    case ACL_DEV_ATTR_L2_CACHE_SIZE: return *value = c->family == EMU_910A ? 32 << 20 : 192 << 20, 0;
    case ACL_DEV_ATTR_PHY_CHIP_ID: return *value = device, 0;
    case ACL_DEV_ATTR_IS_VIRTUAL: return *value = 0, 0;
    }
    return emu_fail(EMU_RULE_bad_param, "attribute %d", (int)attr);
}

aclError aclrtGetDeviceInfo(uint32_t device, aclrtDevAttr attr, int64_t *value) {
    emu_enter("aclrtGetDeviceInfo", "%" PRIu32 ", %d", device, (int)attr);
    return emu_leave(device_info(device, attr, value));
}

// ---- system parameters ----
static int set_param(int64_t params[4], aclSysParamOpt opt, int64_t value) {
    if ((int)opt < 0 || opt > ACL_OPT_KERNEL_EARLY_START || value < 0 || value > 3) {
        return emu_fail(EMU_RULE_bad_param, "option %d = %" PRId64, (int)opt, value);
    }
    if (opt == ACL_OPT_DETERMINISTIC && emu()->launches && params[opt] != value) {
        return emu_fail(EMU_RULE_not_deterministic,
                        "determinism is set to %" PRId64 " after %" PRIu64 " operators were launched", value,
                        emu()->launches);
    }
    params[opt] = value;
    return 0;
}

static int get_param(const int64_t params[4], aclSysParamOpt opt, int64_t *value) {
    if (!value || (int)opt < 0 || opt > ACL_OPT_KERNEL_EARLY_START)
        return emu_fail(EMU_RULE_bad_param, "option %d", (int)opt);
    *value = params[opt];
    return 0;
}

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
    emu_enter("aclrtSetSysParamOpt", "%d, %" PRId64, (int)opt, value);
    int code = emu_need_init();
    return emu_leave(code ? code : set_param(emu()->sys_param, opt, value));
}

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value) {
    emu_enter("aclrtGetSysParamOpt", "%d", (int)opt);
    int code = emu_need_init();
    return emu_leave(code ? code : get_param(emu()->sys_param, opt, value));
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
    emu_enter("aclrtCtxSetSysParamOpt", "%d, %" PRId64, (int)opt, value);
    int code;
    emu_context *c = emu_need_device(&code);
    return emu_leave(c ? set_param(c->sys_param, opt, value) : code);
}

aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value) {
    emu_enter("aclrtCtxGetSysParamOpt", "%d", (int)opt);
    int code;
    const emu_context *c = emu_need_context(&code);
    return emu_leave(c ? get_param(c->sys_param, opt, value) : code);
}
