#include "base/meminfo.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

// The number behind `key` in a file of "key value" lines, or the file's only number when key is NULL. False: not there.
static bool read_number(const char *path, const char *key, int64_t *value) {
    FILE *f = fopen(path, "re");
    if (!f) return false;
    char line[256];
    bool found = false;
    while (!found && fgets(line, sizeof line, f)) {
        size_t n = key ? strlen(key) : 0;
        long long v;
        if (n && strncmp(line, key, n) != 0) continue;
        found = sscanf(line + n, " %lld", &v) == 1;
        if (found) *value = v;
    }
    fclose(f);
    return found;
}

static void lower(int64_t *limit, int64_t to) {
    if (to < 0) to = 0;
    if (to < *limit) *limit = to;
}

int64_t meminfo_of_group(const char *folder) {
    char path[512];
    int64_t max, used, file[2] = {0};
    snprintf(path, sizeof path, "%s/memory.max", folder);
    if (!read_number(path, NULL, &max)) return INT64_MAX; // also where it says "max"
    snprintf(path, sizeof path, "%s/memory.current", folder);
    if (!read_number(path, NULL, &used)) return INT64_MAX;
    snprintf(path, sizeof path, "%s/memory.stat", folder); // pages of files that were read count as used, but give way
    read_number(path, "active_file ", &file[0]);
    read_number(path, "inactive_file ", &file[1]);
    int64_t left = max - (used - file[0] - file[1]);
    return left < 0 ? 0 : left < max ? left : max;
}

int64_t meminfo_available(void) {
    int64_t limit = INT64_MAX, kib;
    if (read_number("/proc/meminfo", "MemAvailable:", &kib)) lower(&limit, kib * 1024);
    lower(&limit, meminfo_of_group("/sys/fs/cgroup"));
    struct rlimit as;
    if (getrlimit(RLIMIT_AS, &as) == 0 && as.rlim_cur != RLIM_INFINITY && as.rlim_cur < INT64_MAX)
        lower(&limit, (int64_t)as.rlim_cur);
    return limit;
}
