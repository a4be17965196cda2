#include "tests/support/emulated.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void find(const emulated *e, const char *name, void *to) {
    void *symbol = dlsym(e->library, name);
    assert_non_null(symbol);
    memcpy(to, &symbol, sizeof symbol);
}

emulated emulated_open(void) {
    emulated e;
    char self[PATH_MAX], path[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = 0;
    char *slash = strrchr(self, '/');
    assert_non_null(slash);
    *slash = 0;
    snprintf(path, sizeof path, "%s/../../emulator/libtally_emu.so", self); // build/release/tests/ascend
    e.library = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (!e.library) fail_msg("%s", dlerror());
    find(&e, "tally_emu_configure", &e.configure);
    find(&e, "tally_emu_live_objects", &e.live_objects);
    find(&e, "tally_emu_rule_count", &e.rule_count);
    find(&e, "tally_emu_last_rule", &e.last_rule);
    find(&e, "tally_emu_launches", &e.launches);
    find(&e, "tally_emu_reset", &e.reset);
    return e;
}

void emulated_close(emulated *e) { dlclose(e->library); }

void emulated_next(const emulated *e) {
    char kinds[256];
    int n = e->live_objects(kinds, sizeof kinds);
    if (n) fail_msg("the engine left %d objects behind: %s", n, kinds);
    e->reset();
}

// ---- the call trace ------------------------------------------------------------------------------------------------------

void emulated_trace(const emulated *e, const char *path) {
    char settings[400];
    snprintf(settings, sizeof settings, "trace=%s", path);
    assert_int_equal(e->configure(settings), 0);
}

char *emulated_trace_read(const emulated *e, const char *path) {
    enum { MOST = 1 << 24 };
    emulated_trace(e, "/dev/null");
    FILE *in = fopen(path, "r");
    char *text = malloc(MOST);
    assert_true(in && text);
    size_t n = fread(text, 1, MOST - 1, in);
    assert_true(n < MOST - 1);
    text[n] = 0;
    fclose(in);
    return text;
}

int emulated_trace_count(const char *trace, const char *text) {
    int n = 0;
    for (const char *at = trace; (at = strstr(at, text)) != NULL; at += strlen(text)) n++;
    return n;
}

int64_t emulated_trace_copied(const char *trace) {
    enum { TO_HOST = 2 };
    static const char call[] = "aclrtMemcpyAsync(";
    int64_t bytes = 0;
    for (const char *at = trace; (at = strstr(at, call)) != NULL; at += sizeof call) {
        char to[32], from[32];
        size_t most, n;
        int kind;
        if (sscanf(at, "aclrtMemcpyAsync(%31[^,], %zu, %31[^,], %zu, %d", to, &most, from, &n, &kind) == 5 &&
            kind == TO_HOST)
            bytes += (int64_t)n;
    }
    return bytes;
}
