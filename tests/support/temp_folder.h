// A folder of a test's own under $TMPDIR or /tmp, and files in it. Failures end the test.
#ifndef TALLY_TESTS_TEMP_FOLDER_H
#define TALLY_TESTS_TEMP_FOLDER_H

#include <stddef.h>

typedef struct temp_folder {
    char path[256];
} temp_folder;

temp_folder temp_folder_make(void);
void temp_folder_remove(const temp_folder *t); // with everything in it
// The path of a name in the folder, valid until the next call.
const char *temp_folder_path(const temp_folder *t, const char *name);
// Writes a file; missing folders of `name` are made.
void temp_folder_write(const temp_folder *t, const char *name, const void *data, size_t len);
void temp_folder_write_text(const temp_folder *t, const char *name, const char *text);

#endif
