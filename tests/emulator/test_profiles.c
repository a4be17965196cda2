// Chips and versions: what one lacks is absent. Each version's libraries are loaded in a process of their own.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "emulator/core/rules.h"
#include "tests/emulator/rig.h"

static void test_names(void **state) {
    (void)state;
    const struct {
        const char *ask, *name;
        bool bf16, capture;
    } want[] = {{"910A", "Ascend910A", false, false},
                {"910B", "Ascend910B", false, false}, // no digit: first generation
                {"310P3", "Ascend310P3", false, true},
                {"910B3", "Ascend910B3", true, true},
                {"Ascend910_9382", "Ascend910_9382", true, true},
                {"950PR", "Ascend950PR", true, true}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        rig_start(want[i].ask);
        assert_string_equal(aclrtGetSocName(), want[i].name);
        void *p = rig_malloc(64);
        const int64_t dim[1] = {8};
        aclTensor *t = aclCreateTensor(dim, 1, ACL_BF16, NULL, 0, ACL_FORMAT_ND, dim, 1, p);
        uint64_t size;
        aclOpExecutor *executor;
        tally_emu_probe_get_workspace_size(t, t, t, &size, &executor);
        assert_string_equal(tally_emu_last_rule(), want[i].bf16 ? "bad_argument" : "dtype_chip");
        aclrtStream s;
        aclmdlRI model;
        OK(aclrtCreateStream(&s));
        assert_int_equal(aclmdlRICaptureBegin(s, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL), want[i].capture ? 0 : 207000);
        if (want[i].capture) OK(aclmdlRICaptureEnd(s, &model));
        void *mapped;
        int registered = aclrtHostRegister(&size, 8, ACL_HOST_REGISTER_MAPPED, &mapped);
        assert_int_equal(registered, want[i].bf16 ? 0 : 207000);
        rig_end();
    }
}

static void test_events_between_processes(void **state) {
    (void)state;
    const struct {
        const char *chip;
        int code;
    } want[] = {{"910A", 207000}, {"310P3", 0}, {"910B3", 0}, {"910_9382", 0}, {"950PR", 0}, {"950DT", 207000}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        rig_start(want[i].chip);
        aclrtEvent e;
        assert_int_equal(aclrtCreateEventWithFlag(&e, ACL_EVENT_IPC), want[i].code);
        rig_end();
    }
}

static const char *folder(void) {
    static char path[512];
    Dl_info info;
    assert_true(dladdr((void *)(uintptr_t)tally_emu_reset, &info) != 0);
    snprintf(path, sizeof path, "%s", info.dli_fname);
    *strrchr(path, '/') = '\0';
    return path;
}

// Run in a process of its own by main: loads a version's libraries and says which of some names are there.
static int report(const char *where, const char *version) {
    static const char *const names[] = {"aclrtMalloc", "aclmdlRICaptureBegin", "aclmdlRIExecute", "aclmdlRIBuildBegin",
                                        "aclrtGetDeviceInfo"};
    char path[600];
    snprintf(path, sizeof path, "%s/%s/libascendcl.so", where, version);
    void *lib = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!lib) return puts(dlerror()), 1;
    for (int i = 0; i < 5; i++) putchar(dlsym(lib, names[i]) ? 'y' : 'n');
    snprintf(path, sizeof path, "%s/%s/libopapi_math.so", where, version);
    putchar(dlopen(path, RTLD_NOW | RTLD_GLOBAL) ? 'y' : 'n');
    snprintf(path, sizeof path, "%s/%s/libnnopbase.so", where, version);
    void *base = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    putchar(base && dlsym(base, "aclCreateTensor") && dlsym(base, "AclSetTensorAddr") ? 'y' : 'n');
    aclError (*get)(int32_t *, int32_t *, int32_t *) =
        (aclError(*)(int32_t *, int32_t *, int32_t *))(uintptr_t)dlsym(lib, "aclrtGetVersion");
    int32_t major, minor, patch;
    if (get(&major, &minor, &patch)) return 1;
    printf(" %d.%d", (int)major, (int)minor);
    return 0;
}

static void test_versions(void **state) {
    const char *self = *state;
    const struct {
        const char *version, *answer;
    } want[] = {{"8.1", "yynnnny 1.13"}, {"8.5", "yyyynyy 1.15"}, {"9.1", "yyyyyyy 1.17"}};
    for (int i = 0; i < 3; i++) {
        char command[2048], answer[64] = "";
        snprintf(command, sizeof command, "'%s' '%s' %s", self, folder(), want[i].version);
        FILE *p = popen(command, "r");
        assert_non_null(p);
        assert_non_null(fgets(answer, sizeof answer, p));
        assert_int_equal(pclose(p), 0);
        assert_string_equal(answer, want[i].answer);
    }
}

static void test_rules_are_documented(void **state) {
    (void)state;
    static char text[65536];
    FILE *f = fopen("emulator/README.md", "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    char row[128];
#define RULE_ROW(id, code, says) {#id, (code)},
    const struct {
        const char *id;
        int code;
    } rules[] = {EMU_RULES(RULE_ROW)};
#undef RULE_ROW
    for (int i = 0; i < EMU_RULE_COUNT; i++) {
        int n = snprintf(row, sizeof row, "| `%s` | ", rules[i].id);
        if (rules[i].code == EMU_RULE_CALLER) {
            strcpy(row + n, "by call |");
        } else {
            snprintf(row + n, sizeof row - (size_t)n, "%d |", rules[i].code);
        }
        if (!strstr(text, row)) fail_msg("emulator/README.md has no row \"%s\"", row);
    }
}

int main(int argc, char **argv) {
    if (argc == 3) return report(argv[1], argv[2]);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_events_between_processes),
                                       cmocka_unit_test(test_rules_are_documented),
                                       cmocka_unit_test_prestate(test_versions, argv[0])};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
