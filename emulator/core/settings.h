// From the settings' words to a working emulator: the first call of the API takes them from the environment.
#ifndef TALLY_EMULATOR_CORE_SETTINGS_H
#define TALLY_EMULATOR_CORE_SETTINGS_H

#include <stdbool.h>

void emu_settings_ready(void);         // configures from the environment if nothing did; errors are told by aclInit
int emu_settings_error(void);          // 0, or breaks the rule "settings"
void emu_trace_open(const char *path); // "": closes
void emu_report_forget(void);          // the recent message of this thread

#endif
