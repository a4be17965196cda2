#include "cmd/build_commit.h"

const char *build_commit(void) { return TALLY_COMMIT; } // build/CONFIG/commit.h, which the Makefile writes and includes
