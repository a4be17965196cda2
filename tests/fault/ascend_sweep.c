#include "tests/fault/ascend_sweep.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tally.h"
#include "tests/fault/alloc_fail.h"
#include "tests/support/emulated.h"
#include "tests/support/eval.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

enum { VOCAB = 192, N_IDS = 9, CHUNK = 3, LOGITS = N_IDS * VOCAB };

typedef struct fixture {
    temp_folder folder;
    int32_t ids[N_IDS];
    emulated emu;
    tally_model *model;
    const char *graph;
    tally_engine *engine; // loaded, for the steps; NULL while loads are tried
    float reference[LOGITS];
} fixture;

typedef struct fault {
    const char *setting; // of the emulator; NULL: allocations of our own
    bool and_after;      // those: all that follow fail too
    bool may_break;      // the engine may refuse later requests, if it says why
} fault;

static const fault CALL = {"fail_call", false, false}, MEMORY = {"fail_alloc", false, false},
                   OPERATOR = {"fail_op", false, false}, LOST = {"lost", false, true}, HOST = {NULL, false, false},
                   HOST_AND_AFTER = {NULL, true, false};

// ---- one failure, in a process of its own --------------------------------------------------------------------------------------

// Exit codes of the child, apart from those of sanitizers. UNHURT: there were fewer than n.
typedef enum verdict { HURT = 40, UNHURT, WRONG } verdict;

#define WRONG_IF(condition, ...) \
    do { \
        if (condition) { \
            fprintf(stderr, __VA_ARGS__); \
            fputc('\n', stderr); \
            return WRONG; \
        } \
    } while (0)

static tally_status eval(tally_engine *e, const fixture *f, int chunk, float *logits, tally_error *err) {
    tally_session *s;
    tally_status st = tally_session_open(&s, e, err);
    if (st) return st;
    st = tally_session_eval(s, f->ids, N_IDS, chunk, test_collect, logits, err);
    tally_session_close(s);
    return st;
}

static tally_status open_engine(tally_engine **e, const fixture *f, const char *device, tally_error *err) {
    tally_engine_options o = {
        .threads = 1, .context = 128, .step_rows = 16, .logit_rows = 16, .device = device, .graph = f->graph};
    return tally_engine_open(e, f->model, &o, err);
}

static bool was_hurt(const fixture *f, const fault *what, long n) {
    if (!what->setting) return alloc_fail_count() >= n;
    return f->emu.rule_count("injected") > 0 || f->emu.rule_count("device_lost") > 0;
}

// What a failure has to say, and its status.
static verdict check_message(const fault *what, tally_status s, const tally_error *err) {
    WRONG_IF(err->code != s || strlen(err->text) < 20 || strchr(err->text, '\n'), "a poor message: %d, %s", s,
             err->text);
    bool memory = !what->setting || what == &MEMORY || strstr(err->text, "descriptor");
    WRONG_IF(memory != (s == TALLY_NO_MEMORY), "status %d for: %s", s, err->text);
    WRONG_IF(what == &MEMORY && !strstr(err->text, "MiB") && !strstr(err->text, "aclrtMallocHost"), "no numbers: %s",
             err->text);
    WRONG_IF(what->setting && !strstr(err->text, "Ascend910B3") && !strstr(err->text, "descriptor") &&
                 !strstr(err->text, "injected"),
             "names no chip: %s", err->text);
    return HURT;
}

static verdict check_numbers(const fixture *f, const float *logits) {
    WRONG_IF(memcmp(logits, f->reference, sizeof f->reference) != 0,
             "other numbers than those of an engine that was not hurt");
    return HURT;
}

static verdict check_nothing_left(const fixture *f) {
    static const char *const misuse[] = {"dead_handle",    "wrong_handle",   "double_free", "bad_free",
                                         "use_after_free", "free_in_flight", "race",        "double_destroy",
                                         "list_element",   "graph_busy",     "stream_busy", "event_destroyed"};
    char kinds[256];
    for (size_t i = 0; i < sizeof misuse / sizeof *misuse; i++)
        WRONG_IF(f->emu.rule_count(misuse[i]), "the rule %s was broken on the way out: %d", misuse[i],
                 f->emu.rule_count(misuse[i]));
    int left = f->emu.live_objects(kinds, sizeof kinds);
    WRONG_IF(left, "%d objects are left: %s", left, kinds);
    WRONG_IF(alloc_fail_live(), "%ld blocks of our own are left", alloc_fail_live());
    return HURT;
}

static void heal(const fixture *f, const fault *what) {
    char setting[64];
    alloc_fail_at(0, false);
    if (!what->setting) return;
    snprintf(setting, sizeof setting, "%s=0", what->setting);
    f->emu.configure(setting);
}

static verdict one_load(const fixture *f, const fault *what, long n) {
    char device[100] = "emu:910B3,tile=16,threads=1,poison=edges";
    float logits[LOGITS];
    tally_error err = {0};
    tally_engine *e = NULL;
    size_t at = strlen(device);
    if (what->setting) snprintf(device + at, sizeof device - at, ",%s=%ld", what->setting, n);
    alloc_fail_arm();
    alloc_fail_at(what->setting ? 0 : n, what->and_after);
    tally_status s = open_engine(&e, f, device, &err);
    bool hurt = was_hurt(f, what, n);
    WRONG_IF(s && !hurt, "nothing failed, but: %s", err.text);
    if (s && check_message(what, s, &err) != HURT) return WRONG;
    if (!s) { // some failures only cost speed
        heal(f, what);
        WRONG_IF(eval(e, f, N_IDS, logits, &err), "loaded, but: %s", err.text);
        if (check_numbers(f, logits) != HURT) return WRONG;
    }
    tally_engine_close(e);
    return check_nothing_left(f) != HURT ? WRONG : hurt ? HURT : UNHURT;
}

static verdict one_run(const fixture *f, const fault *what, long n) {
    char setting[64];
    float logits[LOGITS];
    tally_error err = {0}, again = {0};
    snprintf(setting, sizeof setting, "%s=%ld", what->setting ? what->setting : "seed", n);
    f->emu.configure(setting);
    alloc_fail_at(what->setting ? 0 : n, what->and_after);
    tally_status s = eval(f->engine, f, CHUNK, logits, &err);
    bool hurt = was_hurt(f, what, n);
    heal(f, what);
    WRONG_IF(s && !hurt, "nothing failed, but: %s", err.text);
    if ((s ? check_message(what, s, &err) : check_numbers(f, logits)) != HURT) return WRONG;
    tally_status second = eval(f->engine, f, N_IDS, logits, &again);
    if (second) {
        WRONG_IF(!what->may_break || !strstr(again.text, "failed before"), "%s; the next request: %s", err.text,
                 again.text);
    } else if (check_numbers(f, logits) != HURT) {
        return WRONG;
    }
    tally_engine_close(f->engine);
    return check_nothing_left(f) != HURT ? WRONG : hurt ? HURT : UNHURT;
}

// ---- all of them ---------------------------------------------------------------------------------------------------------------

static pid_t begin(const fixture *f, const fault *what, long n) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) _exit((f->engine ? one_run : one_load)(f, what, n));
    return child;
}

// How many there were.
static long sweep(const fixture *f, const fault *what) {
    enum { AT_ONCE = 2 };
    pid_t child[AT_ONCE] = {0};
    long of[AT_ONCE] = {0}, next = 1, last = 0;
    bool over = false, wrong = false;
    do {
        for (int i = 0; i < AT_ONCE && !over; i++) {
            if (!child[i]) child[i] = begin(f, what, of[i] = next++);
            assert_true(child[i] > 0);
        }
        int status = 0;
        pid_t done = wait(&status);
        for (int i = 0; i < AT_ONCE; i++) {
            if (child[i] != done) continue;
            child[i] = 0;
            verdict v = WIFEXITED(status) ? (verdict)WEXITSTATUS(status) : WRONG;
            if (v != HURT && v != UNHURT) v = WRONG; // a signal, a sanitizer
            if (v != HURT) over = true;
            if (v == WRONG) wrong = true;
            if (v == HURT && of[i] > last) last = of[i];
            if (v == WRONG)
                print_error("%s, number %ld: ended with status 0x%x\n", what->setting ? what->setting : "malloc", of[i],
                            status);
        }
    } while (child[0] || child[1] || !over);
    if (wrong) fail_msg("%s in %s", what->setting ? what->setting : "malloc", f->engine ? "steps" : "a load");
    return last;
}

static fixture *fixture_open(bool moe, const char *graph) {
    fixture *f = calloc(1, sizeof *f);
    char path[300];
    tally_error err;
    assert_non_null(f);
    f->folder = temp_folder_make();
    f->emu = emulated_open();
    f->graph = graph;
    f->emu.reset();
    snprintf(path, sizeof path, "%s/model", f->folder.path);
    tiny_model m = tiny_model_read(moe ? "qwen3moe-e8k2-norm" : "qwen3-head128"); // the smallest there are
    assert_true(m.n_vocab == VOCAB && m.n_ids >= N_IDS);
    memcpy(f->ids, m.ids, sizeof f->ids);
    tiny_model_write_folder(&m, path, DTYPE_BF16, 1);
    tiny_model_free(&m);
    assert_int_equal(tally_model_open(&f->model, path, &err), 0);
    return f;
}

// Loads, for the steps; from here on the allocations are followed.
static void load(fixture *f) {
    tally_error err;
    alloc_fail_arm();
    if (open_engine(&f->engine, f, "emu:910B3,tile=16,threads=1,poison=edges", &err)) fail_msg("%s", err.text);
}

static void unload(fixture *f) {
    tally_engine_close(f->engine);
    alloc_fail_disarm();
    f->engine = NULL;
    emulated_next(&f->emu);
}

static void fixture_close(fixture *f) {
    tally_model_close(f->model);
    emulated_close(&f->emu);
    temp_folder_remove(&f->folder);
    free(f);
}

// The numbers of an engine that nothing happens to.
static void take_reference(fixture *f) {
    tally_error err;
    load(f);
    if (eval(f->engine, f, CHUNK, f->reference, &err)) fail_msg("%s", err.text);
    unload(f);
}

static void check(bool moe, const char *graph, const fault *const *faults, bool steps) {
    fixture *f = fixture_open(moe, graph);
    take_reference(f);
    if (steps) load(f);
    for (; *faults; faults++) {
        long n = sweep(f, *faults);
        print_message("%s, %s, graphs %s: %ld times %s%s\n", moe ? "mixture" : "dense", steps ? "3 steps" : "a load",
                      graph, n, (*faults)->setting ? (*faults)->setting : "malloc",
                      (*faults)->and_after ? " and all after" : "");
        assert_true(n > 0 || (steps && (*faults == &MEMORY || *faults == &HOST || *faults == &HOST_AND_AFTER)));
    }
    if (steps) unload(f);
    fixture_close(f);
}

void sweep_load(bool moe) {
    static const fault *const faults[] = {&CALL, &MEMORY, &HOST, &HOST_AND_AFTER, NULL};
    check(moe, "on", faults, false);
}

void sweep_steps(bool moe, const char *graph) {
    static const fault *const faults[] = {&CALL, &MEMORY, &OPERATOR, &LOST, &HOST, &HOST_AND_AFTER, NULL};
    check(moe, graph, faults, true);
}
