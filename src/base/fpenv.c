#include "base/fpenv.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
// All exceptions masked, nearest even; SSE: no flush-to-zero, no denormals-are-zero; x87, whose rounding the C library reads numbers by: 64 bits.
enum { MXCSR_DEFAULT = 0x1f80, X87_DEFAULT = 0x37f };

static void set_x87(uint16_t control) { __asm__ volatile("fldcw %0" : : "m"(control)); }

fpenv_state fpenv_enter(void) {
    uint16_t x87;
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    unsigned mxcsr = _mm_getcsr();
    if (x87 != X87_DEFAULT) set_x87(X87_DEFAULT);
    if (mxcsr != MXCSR_DEFAULT) _mm_setcsr(MXCSR_DEFAULT);
    return (fpenv_state)x87 << 32 | mxcsr;
}

void fpenv_leave(fpenv_state saved) {
    if (saved >> 32 != X87_DEFAULT) set_x87((uint16_t)(saved >> 32));
    if ((unsigned)saved != MXCSR_DEFAULT) _mm_setcsr((unsigned)saved);
}
#elif defined(__aarch64__)
fpenv_state fpenv_enter(void) {
    fpenv_state saved;
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
    if (saved) __asm__ volatile("msr fpcr, %0" : : "r"((fpenv_state)0));
    return saved;
}

void fpenv_leave(fpenv_state saved) {
    if (saved) __asm__ volatile("msr fpcr, %0" : : "r"(saved));
}
#else
#error "fpenv.c knows x86-64 and AArch64; add this architecture's control register"
#endif
