#include "backend/ascend/device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COPY_CHUNK = 64 << 20 };

const char *ascend_device_text(const ascend_device *d, char text[static 128]) {
    const int *v = d->lib.version;
    snprintf(text, 128, "%s (%s), runtime %d.%d.%d", d->soc[0] ? d->soc : "a device", ascend_family_name(d->family),
             v[0], v[1], v[2]);
    return text;
}

static status status_of(int code) {
    if (code == ACL_ERROR_RT_MEMORY_ALLOCATION || code == ACL_ERROR_RT_DEVICE_OOM || code == ACL_ERROR_BAD_ALLOC)
        return STATUS_NO_MEMORY;
    return code / 100000 == 5 ? STATUS_IO : STATUS_UNSUPPORTED;
}

status ascend_check(const ascend_device *d, int code, const char *call, error *err) {
    if (code == 0) return STATUS_OK;
    char text[128];
    const char *said = d->lib.aclGetRecentErrMsg ? d->lib.aclGetRecentErrMsg() : NULL;
    size_t n = said ? strcspn(said, "\r\n") : 0; // the vendor's messages go on with a call stack
    return error_set(err, status_of(code), "%s failed with code %d on %s%s%.*s", call, code,
                     ascend_device_text(d, text), n ? ": " : "", (int)(n < 500 ? n : 500), n ? said : "");
}

#define CALL(d, name, ...) TRY(ascend_check((d), (d)->lib.name(__VA_ARGS__), #name, err))

// The emulator takes its settings once in a process; an engine that comes later gets the same chip or an error.
static status configure_emulator(ascend_device *d, const ascend_spec *spec, error *refused) {
    int (*configure)(const char *);
    void *found = ascend_library_emulator(&d->lib, "tally_emu_configure");
    if (!found) return error_set(refused, STATUS_UNSUPPORTED, "libtally_emu.so has no tally_emu_configure");
    memcpy(&configure, &found, sizeof configure);
    if (configure(spec->settings) == 0) return STATUS_OK;
    const char *why = d->lib.aclGetRecentErrMsg();
    return error_set(refused, STATUS_BAD_ARGUMENT, "the emulator refuses '%s': %s", spec->settings, why ? why : "?");
}

static bool same_chip(const ascend_device *d, const char *settings) {
    size_t n = strcspn(settings, ",");
    return (strncmp(d->soc, settings, n) == 0 && !d->soc[n]) ||
           (strncmp(d->soc, "Ascend", 6) == 0 && strncmp(d->soc + 6, settings, n) == 0 && !d->soc[6 + n]);
}

static status check_device(const ascend_device *d, const ascend_spec *spec, error *err) {
    uint32_t n = 0;
    CALL(d, aclrtGetDeviceCount, &n);
    if ((uint32_t)spec->device >= n)
        return error_set(err, STATUS_NOT_FOUND,
                         "there is no Ascend device %d: the runtime sees %" PRIu32
                         " (ASCEND_RT_VISIBLE_DEVICES may hide some)",
                         spec->device, n);
    if (d->family == ASCEND_UNKNOWN)
        return error_set(err, STATUS_UNSUPPORTED,
                         "the chip '%s' is not known; known are 910A, 310P, 910B1 to B4, 910_93xx, 950", d->soc);
    return STATUS_OK;
}

static status start(ascend_device *d, const ascend_spec *spec, error *err) {
    TRY(ascend_library_open(&d->lib, spec->emulated ? spec->cann : NULL, NULL, NULL, err));
    error refused = {0};
    if (spec->emulated) configure_emulator(d, spec, &refused);
    int code = d->lib.aclInit(NULL);
    if (code != ACL_ERROR_REPEAT_INITIALIZE) TRY(ascend_check(d, code, "aclInit", err)); // another engine was first
    CALL(d, aclrtGetVersion, &d->lib.version[0], &d->lib.version[1], &d->lib.version[2]);
    const char *soc = d->lib.aclrtGetSocName();
    snprintf(d->soc, sizeof d->soc, "%s", soc ? soc : "");
    if (refused.code && !same_chip(d, spec->settings)) return error_set(err, refused.code, "%s", refused.text);
    d->family = ascend_family_of(d->soc);
    ascend_library_restrict(&d->lib, d->family);
    TRY(check_device(d, spec, err));
    d->id = spec->device;
    CALL(d, aclrtSetDevice, d->id);
    d->is_set = true;
    // Deterministic operators where the chip has a choice: equal shapes then give equal bits, which is all we ask (docs/ascend.md).
    // Refused once operators have run in the process; then it is set already.
    d->lib.aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1);
    CALL(d, aclrtCreateContext, &d->context, d->id);
    CALL(d, aclrtCreateStream, &d->stream);
    return STATUS_OK;
}

status ascend_device_open(ascend_device *d, const ascend_spec *spec, error *err) {
    *d = (ascend_device){.family = ASCEND_UNKNOWN, .timeout_ms = spec->timeout_ms};
    status s = start(d, spec, err);
    if (s) ascend_device_close(d);
    return s;
}

static int wait_for_stream(ascend_device *d) {
    int code = d->lib.aclrtSynchronizeStreamWithTimeout(d->stream, d->hangs ? 1 : d->timeout_ms);
    d->hangs = code == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT;
    return code;
}

void ascend_device_stop(ascend_device *d) {
    if (!d->stream) return;
    d->lib.aclrtSetCurrentContext(d->context);
    if (wait_for_stream(d) == 0) return;
    d->lib.aclrtDestroyStreamForce(d->stream);
    d->stream = NULL;
}

// Also after a failure of the device: what can be given back is, and errors are nobody's any more.
void ascend_device_close(ascend_device *d) {
    ascend_device_stop(d);
    while (d->blocks) ascend_device_free(d, d->blocks->data);
    if (d->stream) d->lib.aclrtDestroyStream(d->stream);
    if (d->context) d->lib.aclrtDestroyContext(d->context);
    if (d->is_set) d->lib.aclrtResetDevice(d->id);
    ascend_library_close(&d->lib);
    *d = (ascend_device){.family = ASCEND_UNKNOWN};
}

status ascend_device_enter(const ascend_device *d, error *err) {
    CALL(d, aclrtSetCurrentContext, d->context);
    return STATUS_OK;
}

// ---- memory --------------------------------------------------------------------------------------------------------------

status ascend_device_alloc(ascend_device *d, int64_t bytes, const char *what, void **out, error *err) {
    *out = NULL;
    ascend_block *b = malloc(sizeof *b);
    if (!b) return error_no_memory(err, sizeof *b);
    *b = (ascend_block){.next = d->blocks, .bytes = bytes};
    int code = d->lib.aclrtMalloc(&b->data, (size_t)bytes, ACL_MEM_MALLOC_HUGE_FIRST);
    if (code) {
        free(b);
        size_t left = 0, total = 0;
        d->lib.aclrtGetMemInfo(ACL_HBM_MEM, &left, &total);
        status s = ascend_check(d, code, "aclrtMalloc", err);
        return error_prefix(err, s, "%.1f MiB for %s, %.1f of %.1f MiB are free", (double)bytes / 0x1p20, what,
                            (double)left / 0x1p20, (double)total / 0x1p20);
    }
    d->blocks = b;
    *out = b->data;
    return STATUS_OK;
}

void ascend_device_free(ascend_device *d, void *data) {
    for (ascend_block **at = &d->blocks; *at; at = &(*at)->next) {
        ascend_block *b = *at;
        if (b->data != data) continue;
        *at = b->next;
        d->lib.aclrtFree(b->data);
        free(b);
        return;
    }
}

status ascend_device_upload(const ascend_device *d, void *dst, const void *src, size_t bytes, error *err) {
    for (size_t at = 0; at < bytes; at += COPY_CHUNK) {
        size_t n = bytes - at < COPY_CHUNK ? bytes - at : COPY_CHUNK;
        CALL(d, aclrtMemcpy, (char *)dst + at, bytes - at, (const char *)src + at, n, ACL_MEMCPY_HOST_TO_DEVICE);
    }
    return STATUS_OK;
}

status ascend_device_download(const ascend_device *d, void *dst, const void *src, size_t bytes, error *err) {
    CALL(d, aclrtMemcpy, dst, bytes, src, bytes, ACL_MEMCPY_DEVICE_TO_HOST);
    return STATUS_OK;
}

status ascend_device_sync(ascend_device *d, error *err) {
    return ascend_check(d, wait_for_stream(d), "aclrtSynchronizeStreamWithTimeout", err);
}
