// The table the build makes of abi/operators.txt.
#ifndef TALLY_EMULATOR_ACLNN_OPERATORS_H
#define TALLY_EMULATOR_ACLNN_OPERATORS_H

typedef struct emu_operator {
    const char *name, *repo;
    int since, until;      // 801 for 8.1; until 0: still there
    unsigned int families; // EMU_ON(...)
} emu_operator;

extern const emu_operator emu_operators[]; // ends with a NULL name

#endif
