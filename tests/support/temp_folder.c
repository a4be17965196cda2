#include "tests/support/temp_folder.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void die(const char *what, const char *path) {
    perror(path);
    fprintf(stderr, "test support: %s failed\n", what);
    abort();
}

temp_folder temp_folder_make(void) {
    temp_folder t;
    const char *base = getenv("TMPDIR");
    snprintf(t.path, sizeof t.path, "%s/tally-test-XXXXXX", base && strlen(base) < 200 ? base : "/tmp");
    if (!mkdtemp(t.path)) die("mkdtemp", t.path);
    return t;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)st, (void)kind, (void)at;
    return remove(path);
}

void temp_folder_remove(const temp_folder *t) { nftw(t->path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

const char *temp_folder_path(const temp_folder *t, const char *name) {
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", t->path, name);
    return path;
}

void temp_folder_write(const temp_folder *t, const char *name, const void *data, size_t len) {
    char path[1024];
    snprintf(path, sizeof path, "%s", temp_folder_path(t, name));
    for (char *p = path + strlen(t->path) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(path, 0755);
        *p = '/';
    }
    FILE *f = fopen(path, "wb");
    if (!f) die("fopen", path);
    if (len && fwrite(data, 1, len, f) != len) die("fwrite", path);
    if (fclose(f) != 0) die("fclose", path);
}

void temp_folder_write_text(const temp_folder *t, const char *name, const char *text) {
    temp_folder_write(t, name, text, strlen(text));
}
