// Part of each library of jumps: tells libtally_emu.so which version of the vendor's libraries the program loaded.
void tally_emu_loaded(const char *version);

__attribute__((constructor)) static void loaded(void) { tally_emu_loaded(EMU_VERSION); }
