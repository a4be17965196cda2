#include "base/cpuinfo.h"

#include <ctype.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

static const char *const LEVEL_NAMES[] = {
#define CPU_LEVEL_NAME(name, text, help) text,
    CPU_LEVEL_LIST(CPU_LEVEL_NAME)
#undef CPU_LEVEL_NAME
};

const char *cpu_level_name(cpu_level level) { return LEVEL_NAMES[level]; }

bool cpu_level_from_name(str name, cpu_level *out) {
    for (int i = 0; i < CPU_LEVEL_COUNT; i++) {
        if (!str_is(name, LEVEL_NAMES[i])) continue;
        *out = (cpu_level)i;
        return true;
    }
    return false;
}

#if defined(TALLY_ALL_X86_LEVELS)
// A build for tests whose kernels are compiled over an emulation of the instructions.
bool cpu_level_available(cpu_level level) { return level <= CPU_LEVEL_AVX512BF16; }
bool cpu_level_enable(cpu_level level) { return cpu_level_available(level); }
#elif defined(__x86_64__)
// The register state the operating system saves (XCR0). Readable only if CPUID says OSXSAVE.
static uint64_t saved_state(void) {
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static bool has_bits(uint64_t set, uint64_t wanted) { return (set & wanted) == wanted; }

// Tiles: of the processor (leaf 7 EDX: AMX-TILE 24, AMX-INT8 25), saved by the system (XCR0: 17 configuration, 18 data), and offered to
// processes that ask (Linux, arch/x86/include/uapi/asm/prctl.h; the state's number is 18). An old kernel offers none.
enum { SUPPORTED_STATES = 0x1021, REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };

static bool tiles_offered(unsigned leaf7_d, uint64_t saved) {
    if (!has_bits(leaf7_d, 1u << 24 | 1u << 25) || !has_bits(saved, 1u << 17 | 1u << 18)) return false;
#if defined(__linux__)
    uint64_t states = 0;
    return syscall(SYS_arch_prctl, SUPPORTED_STATES, &states) == 0 && states >> TILE_DATA & 1;
#else
    return false;
#endif
}

static bool tiles_granted(void) {
#if defined(__linux__)
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}

bool cpu_level_available(cpu_level level) {
    if (level == CPU_LEVEL_SCALAR) return true;
    unsigned a, b, c, d, leaf7_b = 0, leaf7_c = 0, leaf7_d = 0, leaf7_1_a = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return false;
    unsigned leaf1_c = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) leaf7_b = b, leaf7_c = c, leaf7_d = d;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) leaf7_1_a = a;
    // Leaf 1 ECX: FMA 12, OSXSAVE 27, AVX 28, F16C 29. Leaf 7 EBX: AVX2 5, AVX512 F 16, DQ 17, BW 30, VL 31; ECX: VNNI 11.
    // Leaf 7.1 EAX: BF16 5.
    if (!has_bits(leaf1_c, 1u << 12 | 1u << 27 | 1u << 28 | 1u << 29)) return false;
    uint64_t saved = saved_state(); // XMM 1, YMM 2; opmask 5, ZMM low 6, ZMM high 7
    if (!has_bits(saved, 0x6) || !has_bits(leaf7_b, 1u << 5)) return false;
    if (level == CPU_LEVEL_AVX2) return true;
    if (!has_bits(saved, 0xe6) || !has_bits(leaf7_b, 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31)) return false;
    if (level == CPU_LEVEL_AVX512) return true;
    if (!has_bits(leaf7_c, 1u << 11)) return false;
    if (level == CPU_LEVEL_AVX512VNNI) return true;
    if (level == CPU_LEVEL_AMX) return tiles_offered(leaf7_d, saved);
    return level == CPU_LEVEL_AVX512BF16 && has_bits(leaf7_1_a, 1u << 5);
}

bool cpu_level_enable(cpu_level level) {
    return cpu_level_available(level) && (level != CPU_LEVEL_AMX || tiles_granted());
}
#elif defined(__aarch64__)
bool cpu_level_available(cpu_level level) {
    // Linux, arch/arm64/include/uapi/asm/hwcap.h: ASIMD is bit 1 of AT_HWCAP, ASIMDDP bit 20; I8MM is bit 13 of
    // AT_HWCAP2, BF16 bit 14.
    unsigned long caps = getauxval(AT_HWCAP), caps2 = getauxval(AT_HWCAP2);
    bool neon = caps >> 1 & 1, dotprod = neon && (caps >> 20 & 1);
    switch (level) {
    case CPU_LEVEL_SCALAR: return true;
    case CPU_LEVEL_NEON: return neon;
    case CPU_LEVEL_DOTPROD: return dotprod;
    case CPU_LEVEL_I8MM: return dotprod && (caps2 >> 13 & 1);
    case CPU_LEVEL_NEONBF16: return dotprod && (caps2 >> 13 & 3) == 3;
    default: return false;
    }
}
bool cpu_level_enable(cpu_level level) { return cpu_level_available(level); }
#else
bool cpu_level_available(cpu_level level) { return level == CPU_LEVEL_SCALAR; }
bool cpu_level_enable(cpu_level level) { return cpu_level_available(level); }
#endif

static bool is_amd(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0, &a, &b, &c, &d) && c == signature_AMD_ecx;
#else
    return false;
#endif
}

bool cpu_fetches_near(void) { return is_amd(); }
bool cpu_reads_one_stream(void) { return is_amd(); }

bool cpu_level_is_common(cpu_level level) { return level != CPU_LEVEL_AVX512BF16 && level != CPU_LEVEL_NEONBF16; }

cpu_level cpu_level_best(void) {
    int level = CPU_LEVEL_COUNT - 1;
    while (level > CPU_LEVEL_SCALAR &&
           !(cpu_level_is_common((cpu_level)level) && cpu_level_available((cpu_level)level)))
        level--;
    return (cpu_level)level;
}

enum { MAX_CPUS = 16384, CPU_SETS = MAX_CPUS / CPU_SETSIZE };

// The first processor of `list` ("0,64" or "2-3") that is in the set; -1 if there is none.
static int first_allowed(const char *list, const cpu_set_t *allowed) {
    while (isdigit((unsigned char)*list)) {
        char *end;
        long first = strtol(list, &end, 10), last = first;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        for (long cpu = first; cpu <= last && cpu < MAX_CPUS; cpu++) {
            if (CPU_ISSET_S((size_t)cpu, sizeof(cpu_set_t) * CPU_SETS, allowed)) return (int)cpu;
        }
        list = *end == ',' ? end + 1 : end;
    }
    return -1;
}

// Does `cpu` stand for its core: is it the first of the core's hardware threads that this process may use?
static bool leads_its_core(int cpu, const cpu_set_t *allowed) {
    char path[96], list[1024];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    FILE *f = fopen(path, "r");
    if (f == NULL) return true;
    bool known = fgets(list, sizeof list, f) != NULL;
    fclose(f);
    if (!known) return true;
    int first = first_allowed(list, allowed);
    return first < 0 || first == cpu;
}

int cpu_physical_cores(void) {
    cpu_set_t allowed[CPU_SETS];
    memset(allowed, 0, sizeof allowed);
    if (sched_getaffinity(0, sizeof allowed, allowed) != 0) return 1;
    int n = 0;
    for (int cpu = 0; cpu < MAX_CPUS; cpu++) {
        if (CPU_ISSET_S((size_t)cpu, sizeof allowed, allowed) && leads_its_core(cpu, allowed)) n++;
    }
    return n > 0 ? n : 1;
}

const char *cpu_model_name(char *buf, int n) {
    snprintf(buf, (size_t)n, "unknown processor");
    FILE *f = fopen("/proc/cpuinfo", "r");
    if (f == NULL) return buf;
    char line[512];
    while (fgets(line, sizeof line, f) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || colon == NULL) continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(buf, (size_t)n, "%.*s", (int)strcspn(colon, "\n"), colon);
        break;
    }
    fclose(f);
    return buf;
}
