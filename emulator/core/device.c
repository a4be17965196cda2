// Devices and contexts.
#include <inttypes.h>

#include "emulator/core/graph.h"
#include "emulator/core/memory.h"
#include "emulator/core/state.h"
#include "emulator/core/stream.h"
#include "emulator/core/task.h"

static int n_devices(void) {
    int visible = emu_config_visible_devices(), n = emu()->config.n_devices;
    return visible >= 0 && visible < n ? visible : n;
}

static int need_id(int32_t device) {
    int code = emu_need_init();
    if (code) return code;
    if (device >= 0 && device < n_devices()) return 0;
    return emu_fail(EMU_RULE_bad_device, "device %" PRId32 " of %d", device, n_devices());
}

static emu_context *make_context(int device, bool is_default, int *code) {
    emu_context *c = emu_object_create(EMU_CONTEXT, sizeof *c, !is_default);
    if (!c) {
        *code = emu_fail(EMU_RULE_out_of_memory, "no memory for a context");
        return NULL;
    }
    c->device = device;
    c->is_default = is_default;
    c->default_stream = emu_stream_create(c, 0, true, code);
    if (c->default_stream) return c;
    emu_object_destroy(c);
    return NULL;
}

static void destroy_context(emu_context *c) {
    for (int i = 0; i < emu()->n_slots; i++) {
        emu_stream *s = emu()->streams[i];
        if (s && s->context == c) emu_stream_destroy(s);
    }
    emu_object_destroy(c);
}

static int set_device(int32_t device) {
    int code = need_id(device);
    if (code || (code = emu_call_fails())) return code;
    emu_device *d = &emu()->device[device];
    if (d->lost)
        return emu_fail(EMU_RULE_device_lost, "device %" PRId32 " is lost; only aclrtResetDeviceForce brings it back",
                        device);
    if (!d->open && (code = emu_memory_open(device))) return code;
    d->open = true;
    if (!d->default_context && !(d->default_context = make_context(device, true, &code))) return code;
    d->references++;
    emu_self()->context = d->default_context;
    return 0;
}

aclError aclrtSetDevice(int32_t device) {
    emu_enter("aclrtSetDevice", "%" PRId32, device);
    return emu_leave(set_device(device));
}

// Everything of the device goes: its contexts with their streams, its memory.
static void close_device(int device) {
    emu_device *d = &emu()->device[device];
    for (int i = emu()->n_slots - 1; i >= 0; i--) {
        emu_stream *s = emu()->streams[i];
        if (s && s->context->device == device && s->context != d->default_context && s->is_default)
            destroy_context(s->context);
    }
    if (d->default_context) destroy_context(d->default_context);
    emu_memory_close(device);
    *d = (emu_device){.open = d->open};
}

static int reset_device(int32_t device, bool force) {
    int code = need_id(device);
    if (code) return code;
    emu_device *d = &emu()->device[device];
    if (!d->references) return emu_fail(EMU_RULE_bad_device, "device %" PRId32 " was not set", device);
    if (--d->references == 0 || force) close_device(device);
    return 0;
}

aclError aclrtResetDevice(int32_t device) {
    emu_enter("aclrtResetDevice", "%" PRId32, device);
    return emu_leave(reset_device(device, false));
}

aclError aclrtResetDeviceForce(int32_t device) {
    emu_enter("aclrtResetDeviceForce", "%" PRId32, device);
    return emu_leave(reset_device(device, true));
}

aclError aclrtGetDevice(int32_t *device) {
    emu_enter("aclrtGetDevice", "%s", "");
    int code;
    const emu_context *c = emu_need_context(&code);
    if (c && !device) code = emu_fail(EMU_RULE_bad_param, "nowhere to store the device");
    if (!code) *device = c->device;
    return emu_leave(code);
}

aclError aclrtGetDeviceCount(uint32_t *count) {
    emu_enter("aclrtGetDeviceCount", "%s", "");
    if (!count) return emu_leave(emu_fail(EMU_RULE_bad_param, "nowhere to store the count"));
    int code = emu_call_fails();
    if (code) return emu_leave(code);
    *count = (uint32_t)n_devices();
    return emu_leave(0);
}

aclError aclrtSetDeviceResLimit(int32_t device, aclrtDevResLimitType type, uint32_t value) {
    emu_enter("aclrtSetDeviceResLimit", "%" PRId32 ", %d, %" PRIu32, device, (int)type, value);
    int code = need_id(device);
    int most = type == ACL_RT_DEV_RES_CUBE_CORE ? emu()->chip->n_cube : emu()->chip->n_vector;
    if (!code && (value == 0 || value > (uint32_t)most))
        code = emu_fail(EMU_RULE_bad_param, "%" PRIu32 " of %d cores", value, most);
    return emu_leave(code);
}

// ---- peers ----
aclError aclrtDeviceCanAccessPeer(int32_t *can, int32_t device, int32_t peer) {
    emu_enter("aclrtDeviceCanAccessPeer", "%" PRId32 ", %" PRId32, device, peer);
    int code = need_id(device);
    if (!code) code = need_id(peer);
    if (!code && (!can || device == peer))
        code = emu_fail(EMU_RULE_bad_param, "device and peer are both %" PRId32, device);
    if (!code) *can = 1;
    return emu_leave(code);
}

static int set_peer(int32_t peer, uint32_t flags, bool on) {
    int code;
    const emu_context *c = emu_need_device(&code);
    if (!c || (code = need_id(peer))) return code;
    if (flags || peer == c->device)
        return emu_fail(EMU_RULE_bad_param, "peer %" PRId32 " of device %d, flags %" PRIu32, peer, c->device, flags);
    emu()->device[c->device].peer[peer] = on;
    return 0;
}

aclError aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags) {
    emu_enter("aclrtDeviceEnablePeerAccess", "%" PRId32 ", %" PRIu32, peer, flags);
    return emu_leave(set_peer(peer, flags, true));
}

aclError aclrtDeviceDisablePeerAccess(int32_t peer) {
    emu_enter("aclrtDeviceDisablePeerAccess", "%" PRId32, peer);
    return emu_leave(set_peer(peer, 0, false));
}

// ---- contexts ----
static int create_context(aclrtContext *out, int32_t device) {
    int code = need_id(device);
    if (code || (code = emu_call_fails())) return code;
    if (!out) return emu_fail(EMU_RULE_bad_param, "nowhere to store the context");
    emu_device *d = &emu()->device[device];
    if (!d->open && (code = emu_memory_open(device))) return code;
    d->open = true;
    emu_context *c = make_context(device, false, &code);
    if (!c) return code;
    emu_self()->context = *out = c;
    return 0;
}

aclError aclrtCreateContext(aclrtContext *context, int32_t device) {
    emu_enter("aclrtCreateContext", "%" PRId32, device);
    return emu_leave(create_context(context, device));
}

static int end_context(aclrtContext context) {
    int code = emu_need_init();
    if (code || (code = emu_object_need(context, EMU_CONTEXT, "context"))) return code;
    emu_context *c = context;
    if (c->is_default)
        return emu_fail(EMU_RULE_bad_param, "the default context of device %d ends with aclrtResetDevice", c->device);
    destroy_context(c);
    return 0;
}

aclError aclrtDestroyContext(aclrtContext context) {
    emu_enter("aclrtDestroyContext", "%p", context);
    return emu_leave(end_context(context));
}

aclError aclrtSetCurrentContext(aclrtContext context) {
    emu_enter("aclrtSetCurrentContext", "%p", context);
    int code = emu_need_init();
    if (!code) code = emu_object_need(context, EMU_CONTEXT, "context");
    if (!code) code = emu_call_fails();
    if (!code) emu_self()->context = context;
    return emu_leave(code);
}

aclError aclrtGetCurrentContext(aclrtContext *context) {
    emu_enter("aclrtGetCurrentContext", "%s", "");
    int code;
    emu_context *c = emu_need_context(&code);
    if (c && !context) code = emu_fail(EMU_RULE_bad_param, "nowhere to store the context");
    if (!code) *context = c;
    return emu_leave(code);
}

aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream) {
    emu_enter("aclrtCtxGetCurrentDefaultStream", "%s", "");
    int code;
    const emu_context *c = emu_need_context(&code);
    if (c && !stream) code = emu_fail(EMU_RULE_bad_param, "nowhere to store the stream");
    if (!code) *stream = c->default_stream;
    return emu_leave(code);
}

// ---- waiting for all of a device ----
static int synchronize(int32_t ms) {
    int code;
    const emu_context *c = emu_need_device(&code);
    if (!c) return code;
    if ((code = emu_capture_forbids_device(c->device))) return code;
    return emu_wait_all(ms);
}

aclError aclrtSynchronizeDevice(void) {
    emu_enter("aclrtSynchronizeDevice", "%s", "");
    return emu_leave(synchronize(-1));
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t ms) {
    emu_enter("aclrtSynchronizeDeviceWithTimeout", "%" PRId32, ms);
    if (ms < -1 || ms == 0) return emu_leave(emu_fail(EMU_RULE_bad_param, "a timeout of %" PRId32 " ms", ms));
    return emu_leave(synchronize(ms));
}
