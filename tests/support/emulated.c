#include "tests/support/emulated.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
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
