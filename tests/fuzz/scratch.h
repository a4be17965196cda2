// A folder for the files of a fuzz target, removed when the program ends.
#ifndef TALLY_TESTS_FUZZ_SCRATCH_H
#define TALLY_TESTS_FUZZ_SCRATCH_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"

static char scratch[300];

static inline void scratch_path(char path[512], const char *name) {
    snprintf(path, 512, "%.300s/%.200s", scratch, name);
}

static inline void scratch_remove(void) {
    char path[512];
    DIR *dir = opendir(scratch);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        scratch_path(path, e->d_name);
        unlink(path);
    }
    if (dir) closedir(dir);
    rmdir(scratch);
}

static inline void scratch_open(void) {
    if (scratch[0]) return;
    const char *base = getenv("TMPDIR");
    if (!base) base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(scratch, sizeof scratch, "%.250s/tally-fuzz-XXXXXX", base);
    if (!mkdtemp(scratch) || atexit(scratch_remove) != 0) abort();
}

// No data: the file is removed.
static inline void scratch_write(const char *name, str s) {
    char path[512];
    scratch_path(path, name);
    if (!s.data) {
        unlink(path);
        return;
    }
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(s.data, 1, s.len, f) != s.len || fclose(f) != 0) abort();
}

#endif
