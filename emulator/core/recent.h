// This thread's recent message, for errors that are found in one call and told in a later one.
#ifndef TALLY_EMULATOR_CORE_RECENT_H
#define TALLY_EMULATOR_CORE_RECENT_H

const char *emu_recent(void);
void emu_recent_set(const char *text);

#endif
