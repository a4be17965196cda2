// The numbers of elementary_exp, shared by its scalar text (elementary.c, where they are derived) and the vector kernels.
#ifndef TALLY_BASE_ELEMENTARY_EXP_H
#define TALLY_BASE_ELEMENTARY_EXP_H

#define EXP_LOG2E 0x1.715476p+0f
#define EXP_ROUND 0x1.8p+23f
#define EXP_LN2_HI 0x1.62e43p-1f
#define EXP_LN2_LO (-0x1.05c61p-29f)
#define EXP_C2 0x1.fffffcp-2f
#define EXP_C3 0x1.555492p-3f
#define EXP_C4 0x1.5558f2p-5f
#define EXP_C5 0x1.1239d6p-7f
#define EXP_C6 0x1.6a2448p-10f
#define EXP_MIN (-0x1.5d589ep+6f) // the smallest x whose result is a normal number; below it: 0
#define EXP_MAX 0x1.62e42p+6f     // the largest x whose result is finite; above it: infinity

#endif
