#include "base/fpenv.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
enum { MXCSR_DEFAULT = 0x1f80 }; // all exceptions masked, nearest even, no flush-to-zero, no denormals-are-zero

fpenv_state fpenv_enter(void) {
    fpenv_state saved = _mm_getcsr();
    if (saved != MXCSR_DEFAULT) _mm_setcsr(MXCSR_DEFAULT);
    return saved;
}

void fpenv_leave(fpenv_state saved) {
    if (saved != MXCSR_DEFAULT) _mm_setcsr((unsigned)saved);
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
