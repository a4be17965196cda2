// Copies and memsets. Which way a copy goes is told by its addresses; a kind that says otherwise is an error here (hardware looks at
// the addresses alone, so a program that is wrong about them goes unnoticed).
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/core/graph.h"
#include "emulator/core/memory.h"
#include "emulator/core/task.h"

typedef struct request {
    void *dst;
    const void *src;
    size_t dpitch, spitch, width, height, dst_max;
    aclrtMemcpyKind kind;
    bool src_device, dst_device;
} request;

static request one_row(void *dst, size_t dst_max, const void *src, size_t count, aclrtMemcpyKind kind) {
    return (request){.dst = dst,
                     .src = src,
                     .dpitch = count,
                     .spitch = count,
                     .width = count,
                     .height = 1,
                     .dst_max = dst_max,
                     .kind = kind};
}

static int check_kind(const request *r) {
    bool agree = true;
    switch (r->kind) {
    case ACL_MEMCPY_HOST_TO_HOST: agree = !r->src_device && !r->dst_device; break;
    case ACL_MEMCPY_HOST_TO_DEVICE:
    case ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE: agree = !r->src_device && r->dst_device; break;
    case ACL_MEMCPY_DEVICE_TO_HOST: agree = r->src_device && !r->dst_device; break;
    case ACL_MEMCPY_DEVICE_TO_DEVICE:
    case ACL_MEMCPY_INNER_DEVICE_TO_DEVICE:
    case ACL_MEMCPY_INTER_DEVICE_TO_DEVICE: agree = r->src_device && r->dst_device; break;
    case ACL_MEMCPY_DEFAULT: break;
    default: return emu_fail(EMU_RULE_bad_param, "%d is no kind of copy", (int)r->kind);
    }
    if (agree) return 0;
    return emu_fail(EMU_RULE_copy_kind, "kind %d, but the source %p is %s memory and the destination %p %s memory",
                    (int)r->kind, r->src, r->src_device ? "device" : "host", r->dst, r->dst_device ? "device" : "host");
}

static int check(request *r, int device) {
    int code;
    if (!r->dst || !r->src) return emu_fail(EMU_RULE_bad_param, "source %p, destination %p", r->src, r->dst);
    if (r->width * r->height == 0) return emu_fail(EMU_RULE_bad_param, "a copy of nothing");
    if (r->width * r->height > r->dst_max)
        return emu_fail(EMU_RULE_copy_size, "%zu bytes into %zu", r->width * r->height, r->dst_max);
    if (r->height > 1 && (r->dpitch < r->width || r->spitch < r->width)) {
        return emu_fail(EMU_RULE_bad_param, "pitches %zu, %zu below the width %zu", r->dpitch, r->spitch, r->width);
    }
    r->src_device = emu_is_device_address(r->src);
    r->dst_device = emu_is_device_address(r->dst);
    if ((code = check_kind(r))) return code;
    size_t spread = (r->height - 1);
    if (r->src_device &&
        (code = emu_range_need((uint64_t)(uintptr_t)r->src, spread * r->spitch + r->width, device, "source of a copy")))
        return code;
    if (r->dst_device && (code = emu_range_need((uint64_t)(uintptr_t)r->dst, spread * r->dpitch + r->width, device,
                                                "destination of a copy")))
        return code;
    return 0;
}

static emu_range side(const void *p, size_t pitch, const request *r, int access, bool host) {
    uint64_t lo = (uint64_t)(uintptr_t)p;
    return (emu_range){.lo = lo,
                       .hi = lo + (r->height - 1) * pitch + r->width,
                       .width = r->width,
                       .pitch = r->height > 1 ? pitch : r->width,
                       .access = (unsigned char)access,
                       .host = host,
                       .what = access == EMU_READS ? "the source of a copy" : "the destination of a copy"};
}

// Memory the host is about to touch must not be in use by work it has not waited for.
static int check_host_race(const request *r) {
    emu_range sides[2] = {side(r->src, r->spitch, r, EMU_READS, !r->src_device),
                          side(r->dst, r->dpitch, r, EMU_WRITES, !r->dst_device)};
    for (int i = 0; i < 2; i++) {
        const emu_task *t = emu_in_flight(sides[i].lo, sides[i].hi, sides[i].access, sides[i].host);
        if (t)
            return emu_hazard(EMU_RULE_host_race, "the host's copy %s memory that %s may still use",
                              i ? "writes" : "reads", emu_task_text(t).text);
    }
    return 0;
}

static int copy_now(request *r) {
    int code;
    const emu_context *c = emu_need_device(&code);
    if (!c || (code = check(r, c->device)) || (code = emu_capture_forbids_unsafe("a blocking copy")) ||
        (code = check_host_race(r)))
        return code;
    unsigned char *dst = r->dst_device ? emu_reach((uint64_t)(uintptr_t)r->dst) : r->dst;
    const unsigned char *src = r->src_device ? emu_reach((uint64_t)(uintptr_t)r->src) : r->src;
    for (size_t row = 0; row < r->height; row++) memmove(dst + row * r->dpitch, src + row * r->spitch, r->width);
    return 0;
}

aclError aclrtMemcpy(void *dst, size_t dst_max, const void *src, size_t count, aclrtMemcpyKind kind) {
    emu_enter("aclrtMemcpy", "%p, %zu, %p, %zu, %d", dst, dst_max, src, count, (int)kind);
    request r = one_row(dst, dst_max, src, count, kind);
    return emu_leave(copy_now(&r));
}

aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                       aclrtMemcpyKind kind) {
    emu_enter("aclrtMemcpy2d", "%p, %zu, %p, %zu, %zu, %zu, %d", dst, dpitch, src, spitch, width, height, (int)kind);
    request r = {.dst = dst,
                 .src = src,
                 .dpitch = dpitch,
                 .spitch = spitch,
                 .width = width,
                 .height = height,
                 .dst_max = SIZE_MAX,
                 .kind = kind};
    return emu_leave(copy_now(&r));
}

// Pageable host memory: the vendor's library stages what it reads and waits for what it writes.
static bool pageable(const void *p, bool is_device) { return !is_device && !emu_pinned_at(p); }

static void *staged(const request *r) {
    unsigned char *bytes = malloc(r->width * r->height);
    for (size_t row = 0; bytes && row < r->height; row++) {
        memcpy(bytes + row * r->width, (const unsigned char *)r->src + row * r->spitch, r->width);
    }
    return bytes;
}

// What a capture forbids: on its own streams, and unsafe copies on any.
static int check_capture(const emu_stream *s, const request *r) {
    if (s->capture && r->src_device && r->dst_device)
        return emu_capture_refuse(s, EMU_RULE_capture_task, "a copy from device to device cannot be replayed");
    if (pageable(r->src, r->src_device) || pageable(r->dst, r->dst_device)) {
        return emu_capture_forbids_unsafe("an asynchronous copy with host memory that is not pinned");
    }
    return 0;
}

static int copy_later(request *r, aclrtStream stream) {
    int code;
    emu_stream *s = emu_need_stream(stream, &code);
    if (!s || (code = check(r, s->context->device))) return code;
    if (!r->src_device && !r->dst_device)
        return emu_fail(EMU_RULE_host_to_host_async, "asynchronous copies from host to host are not there");
    if ((code = check_capture(s, r))) return code;
    emu_task *t = emu_task_create(s, EMU_TASK_COPY, 2);
    if (!t) return ACL_ERROR_RT_MEMORY_ALLOCATION;
    t->copy = (emu_copy){.dst = r->dst,
                         .src = r->src,
                         .dpitch = r->dpitch,
                         .spitch = r->spitch,
                         .width = r->width,
                         .height = r->height,
                         .dst_device = r->dst_device,
                         .src_device = r->src_device};
    t->ranges[t->n_ranges++] = side(r->dst, r->dpitch, r, EMU_WRITES, !r->dst_device);
    if (pageable(r->src, r->src_device)) {
        t->copy.src = t->user = staged(r);
        t->copy.spitch = r->width;
    } else {
        t->ranges[t->n_ranges++] = side(r->src, r->spitch, r, EMU_READS, !r->src_device);
    }
    if (!t->copy.src) {
        emu_task_free(t);
        return emu_fail(EMU_RULE_out_of_memory, "the host has no memory for %zu bytes", r->width * r->height);
    }
    bool waits = pageable(r->dst, r->dst_device);
    if ((code = emu_task_submit(t)) || !waits) return code;
    return emu_wait_stream(s, -1);
}

aclError aclrtMemcpyAsync(void *dst, size_t dst_max, const void *src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream) {
    emu_enter("aclrtMemcpyAsync", "%p, %zu, %p, %zu, %d, %p", dst, dst_max, src, count, (int)kind, stream);
    request r = one_row(dst, dst_max, src, count, kind);
    return emu_leave(copy_later(&r, stream));
}

aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                            aclrtMemcpyKind kind, aclrtStream stream) {
    emu_enter("aclrtMemcpy2dAsync", "%p, %zu, %p, %zu, %zu, %zu, %d, %p", dst, dpitch, src, spitch, width, height,
              (int)kind, stream);
    request r = {.dst = dst,
                 .src = src,
                 .dpitch = dpitch,
                 .spitch = spitch,
                 .width = width,
                 .height = height,
                 .dst_max = SIZE_MAX,
                 .kind = kind};
    return emu_leave(copy_later(&r, stream));
}

static int check_set(void *p, size_t max, size_t count, int device) {
    if (!p || !count) return emu_fail(EMU_RULE_bad_param, "%zu bytes at %p", count, p);
    if (count > max) return emu_fail(EMU_RULE_copy_size, "%zu bytes into %zu", count, max);
    return emu_range_need((uint64_t)(uintptr_t)p, count, device, "memset");
}

static int set_now(void *p, size_t max, int value, size_t count) {
    int code;
    const emu_context *c = emu_need_device(&code);
    if (!c || (code = check_set(p, max, count, c->device)) || (code = emu_capture_forbids_unsafe("aclrtMemset")))
        return code;
    const emu_task *t = emu_in_flight((uint64_t)(uintptr_t)p, (uint64_t)(uintptr_t)p + count, EMU_WRITES, false);
    if (t &&
        (code = emu_hazard(EMU_RULE_host_race, "the host sets memory that %s may still use", emu_task_text(t).text)))
        return code;
    memset(emu_reach((uint64_t)(uintptr_t)p), value, count);
    return 0;
}

aclError aclrtMemset(void *device, size_t max, int32_t value, size_t count) {
    emu_enter("aclrtMemset", "%p, %zu, %" PRId32 ", %zu", device, max, value, count);
    return emu_leave(set_now(device, max, value, count));
}

static int set_later(void *p, size_t max, int value, size_t count, aclrtStream stream) {
    int code;
    emu_stream *s = emu_need_stream(stream, &code);
    if (!s || (code = check_set(p, max, count, s->context->device))) return code;
    emu_task *t = emu_task_create(s, EMU_TASK_SET, 1);
    if (!t) return ACL_ERROR_RT_MEMORY_ALLOCATION;
    t->set.dst = p;
    t->set.value = value;
    t->set.count = count;
    emu_task_range(t, (uint64_t)(uintptr_t)p, count, EMU_WRITES, "the destination of a memset");
    return emu_task_submit(t);
}

aclError aclrtMemsetAsync(void *device, size_t max, int32_t value, size_t count, aclrtStream stream) {
    emu_enter("aclrtMemsetAsync", "%p, %zu, %" PRId32 ", %zu, %p", device, max, value, count, stream);
    return emu_leave(set_later(device, max, value, count, stream));
}
