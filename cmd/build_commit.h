// The commit that this program was built from, for numbers that are compared later.
#ifndef TALLY_CMD_BUILD_COMMIT_H
#define TALLY_CMD_BUILD_COMMIT_H

const char *build_commit(void); // "": not built from a repository

#endif
