// This thread's recent message, for errors that are found in one call and told in a later one.
#ifndef TALLY_EMULATOR_CORE_RECENT_H
#define TALLY_EMULATOR_CORE_RECENT_H

enum { EMU_RECENT_MAX = 1024 };

typedef struct emu_recent {
    char text[EMU_RECENT_MAX];
    const char *rule; // its id; NULL: none
} emu_recent;

void emu_recent_get(emu_recent *out);
void emu_recent_set(const emu_recent *r);

#endif
