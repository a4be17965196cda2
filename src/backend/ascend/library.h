// The vendor's libraries as a table of pointers, found at run time.
//
// On a machine with CANN they are found by the dynamic linker, in the folder ASCEND_HOME_PATH names, or in the default folder of the
// installation; the emulator's lie beside the program. Operators come from the split libraries (libopapi_math, _nn, _transformer;
// CANN 8.5 and later) or else from libopapi.so, never from both.
#ifndef TALLY_BACKEND_ASCEND_LIBRARY_H
#define TALLY_BACKEND_ASCEND_LIBRARY_H

#include "backend/ascend/chip.h"
#include "backend/ascend/symbols.h"
#include "base/status.h"

enum { ASCEND_MAX_LIBRARIES = 8 };

typedef struct ascend_library {
    void *handle[ASCEND_MAX_LIBRARIES];
    int n_handles;
    void *emulator; // libtally_emu.so; NULL: the vendor's libraries
    bool split;     // operators come from the split libraries
    int version[3]; // of the runtime, as aclrtGetVersion says; filled by the device
#define ASCEND_MEMBER(lib, name) __typeof__(name) *name;
    ASCEND_REQUIRED(ASCEND_MEMBER)
    ASCEND_OPTIONAL(ASCEND_MEMBER)
#undef ASCEND_MEMBER
#define ASCEND_MEMBER(name, chips) \
    __typeof__(name) *name; \
    __typeof__(name##GetWorkspaceSize) *name##GetWorkspaceSize;
    ASCEND_OPERATORS(ASCEND_MEMBER)
#undef ASCEND_MEMBER
} ascend_library;

// What opening tried; for those who tell a user what is missing. `why` is NULL where the library was found.
typedef void ascend_library_seen(void *ctx, const char *file, const char *why);

// emulator: the version whose libraries are wanted ("8.5"), or NULL for the vendor's. On failure nothing stays open.
status ascend_library_open(ascend_library *lib, const char *emulator, ascend_library_seen *seen, void *ctx, error *err);
void ascend_library_close(ascend_library *lib);

// Forgets the operators that the family's documentation does not list.
void ascend_library_restrict(ascend_library *lib, ascend_family family);

// The function of the emulator itself, beside the vendor's; NULL: not the emulator.
void *ascend_library_emulator(const ascend_library *lib, const char *name);

#endif
