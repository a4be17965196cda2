// Streams and events: work runs late and in any legal order, and what is not ordered is found whatever the order.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/emulator/rig.h"

typedef struct two_streams {
    aclrtStream s[2];
    aclrtEvent e;
    void *a, *b, *x, *y, *ws[2];
} two_streams;

static two_streams two(const char *settings) {
    two_streams t;
    rig_start(settings);
    for (int i = 0; i < 2; i++) {
        OK(aclrtCreateStream(&t.s[i]));
        t.ws[i] = rig_malloc(RIG_WS);
    }
    OK(aclrtCreateEventExWithFlag(&t.e, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
    t.a = rig_floats(0, 1);
    t.b = rig_floats(100, 1);
    t.x = rig_malloc(RIG_BYTES);
    t.y = rig_malloc(RIG_BYTES);
    return t;
}

static two_streams two_seeded(int seed) { // another order of the streams' work
    char settings[64];
    snprintf(settings, sizeof settings, "910B3,seed=%d", seed);
    return two(settings);
}

// A right program: x = a + b on one stream; y = x + x on the other, after an event; back to the first for x = y + a.
static void test_right_program_any_order(void **state) {
    (void)state;
    for (int seed = 1; seed <= 20; seed++) {
        for (int order = 0; order < 3; order++) {
            const char *names[] = {"random", "late", "eager"};
            char settings[64];
            snprintf(settings, sizeof settings, "910B3,seed=%d,order=%s", seed, names[order]);
            two_streams t = two(settings);
            OK(rig_add(t.a, t.b, t.x, t.ws[0], t.s[0]));
            OK(aclrtRecordEvent(t.e, t.s[0]));
            OK(aclrtStreamWaitEvent(t.s[1], t.e));
            OK(rig_add(t.x, t.x, t.y, t.ws[1], t.s[1]));
            OK(aclrtRecordEvent(t.e, t.s[1]));
            OK(aclrtStreamWaitEvent(t.s[0], t.e));
            OK(rig_add(t.y, t.a, t.x, t.ws[0], t.s[0]));
            OK(aclrtSynchronizeStream(t.s[0])); // knows of the second stream's work too, by the event
            assert_true(rig_read(t.y, 5) == 2 * (5 + 105));
            assert_true(rig_read(t.x, 5) == 2 * (5 + 105) + 5);
            OK(aclrtFree(t.y));
            assert_int_equal(tally_emu_executions(), 3);
            rig_end();
        }
    }
}

static void test_missing_event(void **state) {
    (void)state;
    for (int seed = 1; seed <= 20; seed++) {
        two_streams t = two_seeded(seed);
        OK(rig_add(t.a, t.b, t.x, t.ws[0], t.s[0]));
        BREAKS("race", 507055, rig_add(t.x, t.a, t.y, t.ws[1], t.s[1])); // reads what the first writes
        BREAKS("race", 507055, rig_add(t.a, t.a, t.b, t.ws[1], t.s[1])); // writes what the first reads
        OK(rig_add(t.a, t.b, t.y, t.ws[1], t.s[1]));                     // both read: nothing to order
        BREAKS("race", 507055, aclrtMemsetAsync(t.x, 4, 0, 4, t.s[1]));
        OK(aclrtSynchronizeDevice());
        OK(rig_add(t.x, t.a, t.y, t.ws[1], t.s[1])); // the host has waited
        rig_end();
    }
}

static void test_shared_workspace(void **state) {
    (void)state;
    two_streams t = two("910B3");
    OK(rig_add(t.a, t.b, t.x, t.ws[0], t.s[0]));
    BREAKS("race", 507055, rig_add(t.a, t.b, t.y, t.ws[0], t.s[1]));
    OK(aclrtSynchronizeStream(t.s[0]));
    OK(rig_add(t.a, t.b, t.y, t.ws[0], t.s[1]));
    rig_end();
}

// Rows of a matrix written by two streams: columns that lie between each other are no conflict, shared ones are.
static void test_interleaved_columns(void **state) {
    (void)state;
    two_streams t = two("910B3,order=late");
    char *base = t.x; // rows of 32 bytes
    void *pinned;
    OK(aclrtMallocHost(&pinned, 64));
    OK(aclrtMemcpy2dAsync(base, 32, pinned, 16, 16, 4, ACL_MEMCPY_HOST_TO_DEVICE, t.s[0]));
    OK(aclrtMemcpy2dAsync(base + 16, 32, pinned, 16, 16, 4, ACL_MEMCPY_HOST_TO_DEVICE, t.s[1]));
    BREAKS("race", 507055, aclrtMemcpy2dAsync(base + 8, 32, pinned, 16, 16, 4, ACL_MEMCPY_HOST_TO_DEVICE, t.s[1]));
    OK(aclrtMemcpyAsync(base + 16, 16, pinned, 16, ACL_MEMCPY_HOST_TO_DEVICE, t.s[1]));
    BREAKS("race", 507055, aclrtMemcpyAsync(base + 28, 8, pinned, 8, ACL_MEMCPY_HOST_TO_DEVICE, t.s[1]));
    rig_end();
}

static void test_host_race(void **state) {
    (void)state;
    for (int seed = 1; seed <= 20; seed++) {
        two_streams t = two_seeded(seed);
        float x = 1;
        OK(rig_add(t.a, t.b, t.x, t.ws[0], t.s[0]));
        BREAKS("host_race", 507055,
               aclrtMemcpy(t.a, 4, &x, 4, ACL_MEMCPY_HOST_TO_DEVICE)); // a table overwritten in flight
        BREAKS("host_race", 507055, aclrtMemcpy(&x, 4, t.x, 4, ACL_MEMCPY_DEVICE_TO_HOST));
        BREAKS("host_race", 507055, aclrtMemset(t.x, 4, 0, 4));
        assert_true(rig_read(t.a, 1) == 1); // reading what is read is fine
        OK(aclrtSynchronizeStream(t.s[0]));
        OK(aclrtMemcpy(t.a, 4, &x, 4, ACL_MEMCPY_HOST_TO_DEVICE));
        rig_end();
    }
}

static void test_free_in_flight(void **state) {
    (void)state;
    two_streams t = two("910B3,order=late");
    OK(rig_add(t.a, t.b, t.x, t.ws[0], t.s[0]));
    BREAKS("free_in_flight", 507055, aclrtFree(t.ws[0])); // a workspace, after phase 2 but before the work ran
    BREAKS("use_after_free", 507015, aclrtSynchronizeStream(t.s[0]));
    OK(aclrtSynchronizeStream(t.s[0])); // told once
    OK(rig_add(t.a, t.b, t.x, t.ws[1], t.s[0]));
    OK(aclrtFreeWithDevSync(t.x)); // waits
    rig_end();
}

// strict=off counts what it lets pass, and gives the program what it hoped for.
static void test_lenient(void **state) {
    (void)state;
    two_streams t = two("910B3,strict=off,order=late");
    OK(rig_add(t.a, t.b, t.x, t.ws[0], t.s[0]));
    OK(rig_add(t.x, t.a, t.y, t.ws[1], t.s[1]));
    assert_int_equal(tally_emu_rule_count("race"), 1);
    assert_true(rig_read(t.y, 3) == 3 + 103 + 3);
    assert_int_equal(tally_emu_rule_count("host_race"), 1);
    OK(rig_add(t.a, t.b, t.x, t.ws[0], t.s[0]));
    OK(aclrtFree(t.ws[0]));
    assert_int_equal(tally_emu_rule_count("free_in_flight"), 1);
    OK(aclrtSynchronizeDevice());
    rig_end();
}

static void test_stream_busy(void **state) {
    (void)state;
    two_streams t = two("910B3");
    OK(rig_add(t.a, t.b, t.x, t.ws[0], t.s[0]));
    BREAKS("stream_busy", 507004, aclrtDestroyStream(t.s[0]));
    OK(rig_add(t.a, t.b, t.y, t.ws[1], t.s[1]));
    OK(aclrtDestroyStreamForce(t.s[1]));
    rig_end();
}

static void test_events(void **state) {
    (void)state;
    two_streams t = two("910B3,order=late,watchdog=50");
    aclrtEvent plain, silent, timed, reset;
    OK(aclrtCreateEvent(&plain));
    OK(aclrtCreateEventExWithFlag(&silent, ACL_EVENT_CAPTURE_STREAM_PROGRESS));
    OK(aclrtCreateEventExWithFlag(&timed, ACL_EVENT_SYNC));
    OK(aclrtCreateEventWithFlag(&reset, ACL_EVENT_SYNC));
    OK(rig_add(t.a, t.b, t.x, t.ws[0], t.s[0]));
    OK(aclrtRecordEvent(plain, t.s[0]));
    aclrtEventStatus old;
    aclrtEventRecordedStatus recorded;
    OK(aclrtQueryEventStatus(plain, &recorded));
    assert_int_equal(recorded, 0);    // not ready is 0 here
    OK(aclrtQueryEvent(plain, &old)); // each question lets one task run: the operator, then the record
    assert_int_equal(old, 0);         // and complete is 0 here
    OK(aclrtQueryEventStatus(plain, &recorded));
    assert_int_equal(recorded, 1);
    OK(aclrtFree(t.x)); // the host knows by the query
    BREAKS("event_flag", 107000, aclrtStreamWaitEvent(t.s[1], silent));
    BREAKS("event_flag", 207000, aclrtQueryEvent(t.e, &old));
    BREAKS("event_flag", 107000, aclrtResetEvent(plain, t.s[0]));
    float ms;
    OK(aclrtRecordEvent(timed, t.s[0]));
    OK(aclrtRecordEvent(t.e, t.s[0]));
    BREAKS("event_flag", 107006, aclrtEventElapsedTime(&ms, timed, t.e));
    aclrtEvent late;
    OK(aclrtCreateEventExWithFlag(&late, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
    OK(aclrtSynchronizeEvent(t.e));
    OK(aclrtRecordEvent(late, t.s[0]));
    BREAKS("event_order", 107006, aclrtEventElapsedTime(&ms, t.e, late));
    OK(aclrtSynchronizeEvent(late));
    OK(aclrtEventElapsedTime(&ms, t.e, late));
    assert_true(ms >= 0);
    BREAKS("event_order", 107007, aclrtEventElapsedTime(&ms, late, t.e));
    // A wait for what is never recorded, and a re-recorded event with a wait still queued.
    OK(aclrtStreamWaitEvent(t.s[1], reset));
    BREAKS("deadlock", 507046, aclrtSynchronizeStream(t.s[1]));
    OK(aclrtRecordEvent(reset, t.s[0]));
    BREAKS("event_rerecord", 107000, aclrtRecordEvent(reset, t.s[0]));
    OK(aclrtSynchronizeDevice());
    OK(aclrtRecordEvent(reset, t.s[0]));
    OK(aclrtStreamWaitEvent(t.s[1], reset));
    BREAKS("event_destroyed", 507055, aclrtDestroyEvent(reset));
    BREAKS("dead_handle", 107017, aclrtRecordEvent(reset, t.s[0]));
    rig_end();
}

static void *record_later(void *argument) {
    const two_streams *t = argument;
    usleep(30000);
    OK(aclrtSetDevice(0));
    OK(aclrtRecordEvent(t->a, t->s[0]));
    return NULL;
}

// A thread that waits for what another will record.
static void test_event_of_another_thread(void **state) {
    (void)state;
    two_streams t = two("910B3");
    aclrtEvent plain;
    OK(aclrtCreateEvent(&plain));
    OK(aclrtStreamWaitEvent(t.s[1], plain));
    t.a = plain;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, record_later, &t), 0);
    OK(aclrtSynchronizeStream(t.s[1]));
    pthread_join(thread, NULL);
    rig_end();
}

static void record_again(void *argument) {
    const two_streams *t = argument;
    OK(aclrtDestroyStreamForce(t->s[1])); // and with it the recording that is waited for
    OK(aclrtRecordEvent(t->e, t->s[0]));
}

// The recording that the host waits for is there until it has waited, whatever becomes of the event meanwhile. (Sanitizers tell.)
static void test_recorded_again_while_waited_for(void **state) {
    (void)state;
    two_streams t = two("910B3,order=late");
    aclrtEvent never;
    OK(aclrtCreateEvent(&never));
    OK(aclrtStreamWaitEvent(t.s[1], never));
    OK(aclrtRecordEvent(t.e, t.s[1]));
    OK(aclrtLaunchHostFunc(t.s[0], record_again, &t));
    OK(aclrtSynchronizeEvent(t.e));
    rig_end();
}

// An event awaited before it is recorded orders what comes after, and hides nothing else once it has been recorded.
static void test_wait_before_record(void **state) {
    (void)state;
    for (int seed = 1; seed <= 20; seed++) {
        for (int order = 0; order < 3; order++) {
            const char *names[] = {"random", "late", "eager"};
            char settings[64];
            snprintf(settings, sizeof settings, "910B3,seed=%d,order=%s", seed, names[order]);
            two_streams t = two(settings);
            aclrtEvent plain;
            OK(aclrtCreateEvent(&plain));
            OK(aclrtStreamWaitEvent(t.s[1], plain));
            OK(rig_add(t.a, t.b, t.x, t.ws[0], t.s[0]));
            OK(aclrtRecordEvent(plain, t.s[0]));
            OK(rig_add(t.x, t.a, t.y, t.ws[1], t.s[1]));                     // ordered by the event
            BREAKS("race", 507055, rig_add(t.a, t.b, t.x, t.ws[0], t.s[0])); // which says nothing of this
            OK(aclrtSynchronizeStream(t.s[1]));
            assert_true(rig_read(t.x, 5) == 5 + 105); // the host knows of the first stream's work, too
            assert_true(rig_read(t.y, 5) == 5 + 105 + 5);
            rig_end();
        }
    }
}

// A chain of waits, each before its recording: what lies between is known when all of it has run.
static void test_chain_of_early_waits(void **state) {
    (void)state;
    for (int seed = 1; seed <= 20; seed++) {
        two_streams t = two_seeded(seed);
        aclrtStream third;
        aclrtEvent first, second;
        OK(aclrtCreateStream(&third));
        OK(aclrtCreateEvent(&first));
        OK(aclrtCreateEvent(&second));
        OK(aclrtStreamWaitEvent(third, second));
        OK(aclrtStreamWaitEvent(t.s[1], first));
        OK(aclrtRecordEvent(second, t.s[1])); // knows nothing of the first stream yet
        OK(rig_add(t.a, t.b, t.x, t.ws[0], t.s[0]));
        OK(aclrtRecordEvent(first, t.s[0]));
        OK(rig_add(t.x, t.a, t.y, t.ws[1], third));
        OK(aclrtSynchronizeStream(third));
        assert_true(rig_read(t.x, 5) == 5 + 105);
        OK(rig_add(t.y, t.a, t.x, t.ws[0], t.s[1]));
        BREAKS("race", 507055, rig_add(t.x, t.a, t.y, t.ws[1], third));
        OK(aclrtSynchronizeDevice());
        rig_end();
    }
}

// What an aborted stream still waited for has not run, so neither host nor stream knows it.
static void test_abort(void **state) {
    (void)state;
    two_streams t = two("910B3,order=late");
    float x;
    OK(rig_add(t.a, t.b, t.x, t.ws[0], t.s[0]));
    OK(aclrtRecordEvent(t.e, t.s[0]));
    OK(aclrtStreamWaitEvent(t.s[1], t.e));
    OK(rig_add(t.x, t.a, t.y, t.ws[1], t.s[1]));
    OK(aclrtStreamAbort(t.s[1]));
    OK(aclrtFree(t.y)); // used by the aborted work alone
    BREAKS("host_race", 507055, aclrtMemcpy(&x, 4, t.x, 4, ACL_MEMCPY_DEVICE_TO_HOST));
    BREAKS("race", 507055, aclrtMemsetAsync(t.x, 4, 0, 4, t.s[1]));
    OK(aclrtSynchronizeStream(t.s[0]));
    assert_true(rig_read(t.x, 5) == 5 + 105);
    OK(aclrtMemsetAsync(t.x, 4, 0, 4, t.s[1]));
    OK(aclrtSynchronizeStream(t.s[1]));
    rig_end();
}

static void set_flag(void *flag) { *(int *)flag = 1; }

static void *report(void *unused) {
    (void)unused;
    OK(aclrtSetDevice(0));
    OK(aclrtProcessReport(1000));
    return NULL;
}

typedef struct note {
    char *text, letter;
} note;

static void append(void *argument) {
    const note *n = argument;
    size_t length = strlen(n->text);
    n->text[length] = n->letter;
    n->text[length + 1] = '\0';
}

// Two streams of three tasks each: every seed keeps the order within a stream, and the seeds differ in how they mix.
static void test_seeds_differ(void **state) {
    (void)state;
    char seen[20][8];
    int different = 0;
    for (int seed = 1; seed <= 20; seed++) {
        char settings[64], *text = seen[seed - 1];
        snprintf(settings, sizeof settings, "910B3,order=late,seed=%d", seed);
        two_streams t = two(settings);
        note notes[6];
        text[0] = '\0';
        for (int i = 0; i < 6; i++) {
            notes[i] = (note){text, (char)(i < 3 ? 'a' + i : 'x' + i - 3)};
            OK(aclrtLaunchHostFunc(t.s[i / 3], append, &notes[i]));
        }
        assert_int_equal(strlen(text), 0);
        OK(aclrtSynchronizeDevice());
        assert_int_equal(strlen(text), 6);
        assert_true(strchr(text, 'a') < strchr(text, 'b') && strchr(text, 'b') < strchr(text, 'c'));
        assert_true(strchr(text, 'x') < strchr(text, 'y') && strchr(text, 'y') < strchr(text, 'z'));
        bool is_new = true;
        for (int i = 0; i < seed - 1; i++) is_new &= strcmp(seen[i], text) != 0;
        different += is_new;
        rig_end();
    }
    assert_in_range(different, 8, 20);
}

static void test_callbacks(void **state) {
    (void)state;
    two_streams t = two("910B3,order=late");
    int flag = 0;
    OK(rig_add(t.a, t.b, t.x, t.ws[0], t.s[0]));
    OK(aclrtLaunchHostFunc(t.s[0], set_flag, &flag));
    assert_int_equal(flag, 0);
    OK(aclrtSynchronizeStream(t.s[0]));
    assert_int_equal(flag, 1);
    flag = 0;
    pthread_t thread;
    OK(aclrtLaunchCallback(set_flag, &flag, ACL_CALLBACK_BLOCK, t.s[0]));
    assert_int_equal(pthread_create(&thread, NULL, report, NULL), 0);
    OK(aclrtSynchronizeStream(t.s[0]));
    pthread_join(thread, NULL);
    assert_int_equal(flag, 1);
    rig_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_program_any_order),
        cmocka_unit_test(test_missing_event),
        cmocka_unit_test(test_shared_workspace),
        cmocka_unit_test(test_interleaved_columns),
        cmocka_unit_test(test_host_race),
        cmocka_unit_test(test_free_in_flight),
        cmocka_unit_test(test_stream_busy),
        cmocka_unit_test(test_lenient),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_event_of_another_thread),
        cmocka_unit_test(test_recorded_again_while_waited_for),
        cmocka_unit_test(test_wait_before_record),
        cmocka_unit_test(test_chain_of_early_waits),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_callbacks),
        cmocka_unit_test(test_seeds_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
