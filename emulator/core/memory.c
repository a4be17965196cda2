#include "emulator/core/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "emulator/core/graph.h"
#include "emulator/core/task.h"

enum { PAGE = 4096 };

typedef struct device_memory {
    uint64_t base, alias, size, next; // next: first address never given; alias: where the bytes of base really are
    emu_block *blocks;                // by address; freed ones stay
    int n, cap;
    emu_block *reserved; // ranges of aclrtReserveMemAddress
    int n_reserved, cap_reserved;
} device_memory;

static device_memory *memory_of(int device) {
    static device_memory memory[EMU_MAX_DEVICES];
    return &memory[device];
}

static uint64_t *next_id(void) {
    static uint64_t id;
    return &id;
}

static uint64_t align(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

int emu_device_of(const void *p) {
    for (int i = 0; i < EMU_MAX_DEVICES; i++) {
        const device_memory *m = memory_of(i);
        if (m->size && (uint64_t)(uintptr_t)p - m->base < m->size) return i;
    }
    return -1;
}

bool emu_is_device_address(const void *p) { return emu_device_of(p) >= 0; }

uint64_t emu_memory_total(void) { return emu()->config.memory ? emu()->config.memory : emu()->chip->memory; }

// What a request costs: rounded to 32, 32 more on all but the newest chips; huge pages above 2 MiB.
uint64_t emu_memory_charge(uint64_t size) {
    uint64_t charge = align(size, 32) + emu()->chip->malloc_extra;
    return charge >= (2 << 20) ? align(charge, 2 << 20) : charge;
}

static void unmap(device_memory *m) {
    if (m->base) munmap((void *)(uintptr_t)m->base, m->size);
    if (m->alias) munmap((void *)(uintptr_t)m->alias, m->size);
    free(m->blocks);
    free(m->reserved);
    *m = (device_memory){0};
}

// The device's addresses, which nothing can touch, and as many that the kernels of the emulator see. Both belong to this process alone: a
// fork is another machine.
static bool map(device_memory *m, uint64_t size) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    *m = (device_memory){.size = size};
    void *base = mmap(NULL, size, PROT_NONE, flags, -1, 0);
    if (base == MAP_FAILED) return false;
    m->base = (uint64_t)(uintptr_t)base;
    void *alias = mmap(NULL, size, PROT_NONE, flags, -1, 0);
    if (alias == MAP_FAILED) return false;
    m->alias = (uint64_t)(uintptr_t)alias;
    madvise(alias, size, MADV_HUGEPAGE); // weights and workspaces are large, and filled at once
    m->next = m->base + PAGE;
    return true;
}

int emu_memory_open(int device) {
    device_memory *m = memory_of(device);
    if (m->size) return 0;
    for (int shift = 42; shift >= 34; shift -= 2) {
        if (map(m, UINT64_C(1) << shift)) return 0;
        unmap(m);
    }
    return emu_fail(EMU_RULE_out_of_memory, "the emulator found no address range for device %d", device);
}

static void release_pages(device_memory *m, const emu_block *b) {
    void *alias = (void *)(uintptr_t)(b->page_start - m->base + m->alias);
    madvise(alias, b->page_size, MADV_DONTNEED);
    mprotect(alias, b->page_size, PROT_NONE);
}

void emu_memory_close(int device) {
    device_memory *m = memory_of(device);
    for (int i = 0; i < m->n; i++) {
        emu_block *b = &m->blocks[i];
        if (b->state != EMU_BLOCK_LIVE) continue;
        release_pages(m, b);
        b->state = EMU_BLOCK_FREED;
        if (!b->mapped) emu()->live[EMU_BLOCK]--;
    }
    emu()->device[device].used = 0;
}

// The last block whose pages begin at or before the address.
static int find(const device_memory *m, uint64_t address) {
    int lo = 0, hi = m->n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (m->blocks[mid].page_start <= address) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo - 1;
}

emu_block *emu_block_at(uint64_t address) {
    int device = emu_device_of((const void *)(uintptr_t)address);
    if (device < 0) return NULL;
    device_memory *m = memory_of(device);
    int i = find(m, address);
    if (i < 0 || address >= m->blocks[i].page_start + m->blocks[i].page_size + PAGE) return NULL;
    return &m->blocks[i];
}

static bool next_is_adjacent(const emu_block *b, int device) {
    const device_memory *m = memory_of(device);
    int i = (int)(b - m->blocks) + 1;
    return b->mapped && i < m->n && m->blocks[i].mapped && m->blocks[i].state == EMU_BLOCK_LIVE &&
           m->blocks[i].start == b->start + b->size;
}

static int bounds_fail(const emu_block *b, uint64_t address, uint64_t size, const char *what) {
    return emu_fail(EMU_RULE_out_of_bounds,
                    "%s: %" PRIu64 " bytes at 0x%" PRIx64 " leave block #%" PRIu64 " of %" PRIu64 " bytes at 0x%" PRIx64
                    " (%s)",
                    what, size, address, b->id, b->size, b->start, b->call);
}

int emu_range_need(uint64_t address, uint64_t size, int context_device, const char *what) {
    int device = emu_device_of((const void *)(uintptr_t)address);
    if (device < 0)
        return emu_fail(EMU_RULE_host_pointer, "%s: 0x%" PRIx64 " is no address of a device", what, address);
    const emu_block *b = emu_block_at(address);
    if (!b) return emu_fail(EMU_RULE_out_of_bounds, "%s: 0x%" PRIx64 " is in no block of device memory", what, address);
    if (b->state == EMU_BLOCK_FREED) {
        return emu_fail(EMU_RULE_use_after_free,
                        "%s: 0x%" PRIx64 " is in block #%" PRIu64 " of %" PRIu64 " bytes (%s), which was freed", what,
                        address, b->id, b->size, b->call);
    }
    if (device != context_device && !emu()->device[context_device].peer[device]) {
        return emu_fail(EMU_RULE_peer_access,
                        "%s: 0x%" PRIx64 " is memory of device %d; device %d has not enabled peer access to it", what,
                        address, device, context_device);
    }
    uint64_t end = address + size;
    if (address < b->start) return bounds_fail(b, address, size, what);
    while (end > b->start + b->size && next_is_adjacent(b, device)) b++;
    return end > b->start + b->size ? bounds_fail(b, address, size, what) : 0;
}

void *emu_reach(uint64_t address) {
    const device_memory *m = memory_of(emu_device_of((const void *)(uintptr_t)address));
    return (void *)(uintptr_t)(address - m->base + m->alias);
}

static void poison(const emu_block *b) {
    enum { EDGE = 1 << 20, FULL = 1 << 30, STEP = 16 << 20 };
    unsigned char *p = emu_reach(b->start);
    if (b->size <= 2 * EDGE || (b->size <= FULL && !emu()->config.poison_edges)) {
        memset(p, EMU_POISON, b->size);
        return;
    }
    memset(p, EMU_POISON, EDGE);
    memset(p + b->size - EDGE, EMU_POISON, EDGE);
    for (uint64_t at = STEP; at + PAGE < b->size; at += STEP) memset(p + at, EMU_POISON, PAGE);
}

// Makes the block's pages usable and enters it; a freed block that covered the same addresses is replaced.
static emu_block *enter(device_memory *m, const emu_block *made) {
    void *alias = (void *)(uintptr_t)(made->page_start - m->base + m->alias);
    if (mprotect(alias, made->page_size, PROT_READ | PROT_WRITE)) return NULL;
    int at = find(m, made->page_start);
    if (at >= 0 && m->blocks[at].page_start == made->page_start) {
        m->blocks[at] = *made;
    } else {
        if (m->n == m->cap) {
            int cap = m->cap ? 2 * m->cap : 256;
            emu_block *blocks = realloc(m->blocks, (size_t)cap * sizeof *blocks);
            if (!blocks) return NULL;
            m->blocks = blocks;
            m->cap = cap;
        }
        at++;
        memmove(m->blocks + at + 1, m->blocks + at, (size_t)(m->n - at) * sizeof *m->blocks);
        m->blocks[at] = *made;
        m->n++;
    }
    poison(&m->blocks[at]);
    return &m->blocks[at];
}

static int refuse(int device, uint64_t size, uint64_t charge) {
    return emu_fail(EMU_RULE_out_of_memory,
                    "%" PRIu64 " bytes were asked of device %d (%s), which has %" PRIu64 " of %" PRIu64
                    " free (%" PRIu64 " would be taken)",
                    size, device, emu()->chip->name, emu_memory_total() - emu()->device[device].used,
                    emu_memory_total(), charge);
}

static int inject_alloc(const char *what) {
    emu_state *s = emu();
    if (!emu_inject(&s->n_alloc, s->config.fail_alloc)) return 0;
    return emu_fail_as(ACL_ERROR_RT_MEMORY_ALLOCATION, EMU_RULE_injected, "injected: allocation %" PRIu64 " (%s) fails",
                       s->n_alloc, what);
}

static int take(void **out, size_t size, uint32_t policy, const char *call) {
    int code;
    emu_context *c = emu_need_device(&code);
    if (!c) return code;
    if (!out || size == 0)
        return emu_fail(EMU_RULE_bad_param, "%zu bytes to be stored at %p: both must not be 0", size, (void *)out);
    if ((policy & 0xff) > ACL_MEM_MALLOC_HUGE1G_ONLY_P2P)
        return emu_fail(EMU_RULE_bad_param, "policy 0x%x is not one of them", policy);
    if ((code = inject_alloc(call))) return code;
    device_memory *m = memory_of(c->device);
    uint64_t charge = emu_memory_charge(size),
             span = align(align(size, 32) + emu()->chip->malloc_extra, emu()->config.lenient ? 512 : 64),
             pages = align(span, PAGE);
    if (emu()->device[c->device].used + charge > emu_memory_total()) return refuse(c->device, size, charge);
    if (m->next + pages + PAGE > m->base + m->size)
        return emu_fail(EMU_RULE_out_of_memory, "the emulator ran out of addresses");
    emu_block made = {
        .size = size, .page_start = m->next, .page_size = pages, .charged = charge, .device = c->device, .call = call};
    made.start = made.page_start + pages - span;
    made.id = ++*next_id();
    if (!enter(m, &made))
        return emu_fail(EMU_RULE_out_of_memory, "the machine that emulates has no memory for %zu bytes", size);
    m->next += pages + PAGE;
    emu()->device[c->device].used += charge;
    emu()->live[EMU_BLOCK]++;
    *out = (void *)(uintptr_t)made.start;
    return 0;
}

aclError aclrtMalloc(void **device, size_t size, aclrtMemMallocPolicy policy) {
    emu_enter("aclrtMalloc", "%zu, 0x%x", size, (unsigned)policy);
    return emu_leave(take(device, size, (uint32_t)policy, "aclrtMalloc"));
}

aclError aclrtMallocAlign32(void **device, size_t size, aclrtMemMallocPolicy policy) {
    emu_enter("aclrtMallocAlign32", "%zu, 0x%x", size, (unsigned)policy);
    return emu_leave(take(device, size, (uint32_t)policy, "aclrtMallocAlign32"));
}

static int free_block(void *p, bool wait) {
    int code;
    const emu_context *c = emu_need_context(&code);
    if (!c) return code;
    if (!p) return emu_fail(EMU_RULE_bad_free, "NULL was never allocated");
    if (!emu_is_device_address(p)) return emu_fail(EMU_RULE_host_pointer, "%p is no device memory", p);
    emu_block *b = emu_block_at((uint64_t)(uintptr_t)p);
    if (!b || b->mapped || b->start != (uint64_t)(uintptr_t)p) {
        return emu_fail(EMU_RULE_bad_free, "%p is not the start of a block%s", p, b ? " but inside of one" : "");
    }
    if (b->state == EMU_BLOCK_FREED)
        return emu_fail(EMU_RULE_double_free, "block #%" PRIu64 " of %" PRIu64 " bytes was freed before", b->id,
                        b->size);
    if (wait && ((code = emu_capture_forbids_device(c->device)) || (code = emu_wait_all(-1)))) return code;
    const emu_task *user = emu_in_flight(b->start, b->start + b->size, EMU_READS | EMU_WRITES, false);
    if (user) {
        code = emu_hazard(EMU_RULE_free_in_flight,
                          "block #%" PRIu64 " of %" PRIu64 " bytes (%s) is freed while %s may still use it", b->id,
                          b->size, b->call, emu_task_text(user).text);
    }
    release_pages(memory_of(b->device), b);
    b->state = EMU_BLOCK_FREED;
    emu()->device[b->device].used -= b->charged;
    emu()->live[EMU_BLOCK]--;
    return code;
}

aclError aclrtFree(void *device) {
    emu_enter("aclrtFree", "%p", device);
    return emu_leave(free_block(device, false));
}

aclError aclrtFreeWithDevSync(void *device) {
    emu_enter("aclrtFreeWithDevSync", "%p", device);
    return emu_leave(free_block(device, true));
}

static int mem_info(aclrtMemAttr attr, size_t *available, size_t *total) {
    int code;
    emu_context *c = emu_need_context(&code);
    if (!c || (code = emu_call_fails())) return code;
    if (!available || !total || (int)attr < 0 || attr > 17)
        return emu_fail(EMU_RULE_bad_param, "attribute %d, or nowhere to store", (int)attr);
    *total = emu_memory_total();
    *available = emu_memory_total() - emu()->device[c->device].used;
    return 0;
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *available, size_t *total) {
    emu_enter("aclrtGetMemInfo", "%d", (int)attr);
    return emu_leave(mem_info(attr, available, total));
}

// ---- virtual memory ----
typedef struct physical {
    emu_object head;
    size_t size;
    int device;
    bool mapped;
} physical;

enum { GRANULE = 2 << 20 };

static int reserve_address(void **out, size_t size, size_t alignment, uint64_t flags) {
    int code;
    emu_context *c = emu_need_context(&code);
    if (!c) return code;
    if (!out || !size || alignment || flags > 1)
        return emu_fail(EMU_RULE_bad_param, "size %zu, alignment %zu (0 only), flags %" PRIu64, size, alignment, flags);
    device_memory *m = memory_of(c->device);
    uint64_t start = align(m->next, GRANULE);
    if (start + size + PAGE > m->base + m->size)
        return emu_fail(EMU_RULE_out_of_memory, "%zu bytes of addresses are not there", size);
    if (m->n_reserved == m->cap_reserved) {
        emu_block *r = realloc(m->reserved, (size_t)(m->cap_reserved + 16) * sizeof *r);
        if (!r) return emu_fail(EMU_RULE_out_of_memory, "no memory");
        m->reserved = r;
        m->cap_reserved += 16;
    }
    m->reserved[m->n_reserved++] =
        (emu_block){.start = start, .size = size, .state = EMU_BLOCK_RESERVED, .device = c->device};
    m->next = align(start + size, PAGE) + PAGE;
    *out = (void *)(uintptr_t)start;
    return 0;
}

static emu_block *reserved_at(uint64_t address, uint64_t size) {
    int device = emu_device_of((const void *)(uintptr_t)address);
    device_memory *m = device < 0 ? NULL : memory_of(device);
    for (int i = 0; m && i < m->n_reserved; i++) {
        emu_block *r = &m->reserved[i];
        if (address >= r->start && address + size <= r->start + r->size) return r;
    }
    return NULL;
}

aclError aclrtReserveMemAddress(void **address, size_t size, size_t alignment, void *expected, uint64_t flags) {
    emu_enter("aclrtReserveMemAddress", "%zu, %zu, %p", size, alignment, expected);
    return emu_leave(reserve_address(address, size, alignment, flags));
}

static int release_address(void *address) {
    int code;
    if (!emu_need_context(&code)) return code;
    emu_block *r = reserved_at((uint64_t)(uintptr_t)address, 0);
    if (!r || r->start != (uint64_t)(uintptr_t)address)
        return emu_fail(EMU_RULE_bad_free, "%p begins no reserved range", address);
    const emu_block *b = emu_block_at(r->start);
    if (b && b->mapped && b->state == EMU_BLOCK_LIVE && r->start < b->start + b->size)
        return emu_fail(EMU_RULE_bad_free, "memory is still mapped into the range at %p", address);
    device_memory *m = memory_of(r->device);
    *r = m->reserved[--m->n_reserved];
    return 0;
}

aclError aclrtReleaseMemAddress(void *address) {
    emu_enter("aclrtReleaseMemAddress", "%p", address);
    return emu_leave(release_address(address));
}

static int malloc_physical(aclrtDrvMemHandle *out, size_t size, const aclrtPhysicalMemProp *prop) {
    int code;
    if (!emu_need_context(&code)) return code;
    if (!out || !prop || !size || size % GRANULE)
        return emu_fail(EMU_RULE_bad_param, "size %zu must be a multiple of %d", size, GRANULE);
    int device = (int)prop->location.id;
    if (prop->location.type != ACL_MEM_LOCATION_TYPE_DEVICE || device >= emu()->config.n_devices ||
        !emu()->device[device].open) {
        return emu_fail(EMU_RULE_bad_param, "location %d of type %d is no opened device", device,
                        (int)prop->location.type);
    }
    if ((code = inject_alloc("aclrtMallocPhysical"))) return code;
    if (emu()->device[device].used + size > emu_memory_total()) return refuse(device, size, size);
    physical *p = emu_object_create(EMU_PHYSICAL, sizeof *p, true);
    if (!p) return emu_fail(EMU_RULE_out_of_memory, "no memory");
    p->size = size;
    p->device = device;
    emu()->device[device].used += size;
    *out = p;
    return 0;
}

aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size, const aclrtPhysicalMemProp *prop, uint64_t flags) {
    emu_enter("aclrtMallocPhysical", "%zu, %" PRIu64, size, flags);
    return emu_leave(malloc_physical(handle, size, prop));
}

static int free_physical(aclrtDrvMemHandle handle) {
    int code = emu_need_init();
    if (code || (code = emu_object_need(handle, EMU_PHYSICAL, "physical memory"))) return code;
    physical *p = handle;
    emu()->device[p->device].used -= p->size;
    emu_object_destroy(p);
    return 0;
}

aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
    emu_enter("aclrtFreePhysical", "%p", handle);
    return emu_leave(free_physical(handle));
}

static int map_memory(void *address, size_t size, size_t offset, aclrtDrvMemHandle handle) {
    int code;
    if (!emu_need_context(&code) || (code = emu_object_need(handle, EMU_PHYSICAL, "physical memory"))) return code;
    physical *p = handle;
    uint64_t start = (uint64_t)(uintptr_t)address;
    const emu_block *r = reserved_at(start, size);
    if (!r || offset || size != p->size || start % GRANULE || p->mapped) {
        return emu_fail(EMU_RULE_bad_param,
                        "%zu bytes at %p, offset %zu: not the whole of the physical memory into a reserved range", size,
                        address, offset);
    }
    const emu_block *b = emu_block_at(start);
    if (b && b->mapped && b->state == EMU_BLOCK_LIVE && start < b->start + b->size)
        return emu_fail(EMU_RULE_bad_param, "memory is mapped at %p already", address);
    emu_block made = {
        .start = start, .size = size, .page_start = start, .page_size = size, .device = r->device, .mapped = true};
    made.call = "aclrtMapMem";
    made.id = ++*next_id();
    p->mapped = true;
    return enter(memory_of(r->device), &made)
               ? 0
               : emu_fail(EMU_RULE_out_of_memory, "the machine that emulates has no memory");
}

aclError aclrtMapMem(void *address, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags) {
    emu_enter("aclrtMapMem", "%p, %zu, %zu, %p, %" PRIu64, address, size, offset, handle, flags);
    return emu_leave(map_memory(address, size, offset, handle));
}

static int unmap_memory(void *address) {
    int code;
    if (!emu_need_context(&code)) return code;
    emu_block *b = emu_block_at((uint64_t)(uintptr_t)address);
    if (!b || !b->mapped || b->state != EMU_BLOCK_LIVE || b->start != (uint64_t)(uintptr_t)address) {
        return emu_fail(EMU_RULE_bad_free, "nothing is mapped at %p", address);
    }
    const emu_task *user = emu_in_flight(b->start, b->start + b->size, EMU_READS | EMU_WRITES, false);
    if (user)
        code = emu_hazard(EMU_RULE_free_in_flight, "memory is unmapped while %s may still use it",
                          emu_task_text(user).text);
    release_pages(memory_of(b->device), b);
    b->state = EMU_BLOCK_FREED;
    return code;
}

aclError aclrtUnmapMem(void *address) {
    emu_enter("aclrtUnmapMem", "%p", address);
    return emu_leave(unmap_memory(address));
}

aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *prop, aclrtMemGranularityOptions option,
                                          size_t *granularity) {
    emu_enter("aclrtMemGetAllocationGranularity", "%d", (int)option);
    if (!prop || !granularity) return emu_leave(emu_fail(EMU_RULE_bad_param, "NULL"));
    *granularity = GRANULE;
    return emu_leave(0);
}

void emu_memory_forget(void) {
    for (int i = 0; i < EMU_MAX_DEVICES; i++) unmap(memory_of(i));
    emu_pinned_forget();
}
