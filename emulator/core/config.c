#include "emulator/core/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void emu_config_default(emu_config *c) {
    *c = (emu_config){
        .chip = emu_chip_find("Ascend910B3"), .cann = -1, .n_devices = 1, .n_threads = 2, .seed = 1, .perturb = 1};
    c->watchdog_ms = 2000;
}

const char *emu_config_environment(void) { return getenv("TALLY_EMU"); }

int emu_config_visible_devices(void) {
    const char *list = getenv("ASCEND_RT_VISIBLE_DEVICES");
    if (!list) return -1;
    int n = 0;
    for (const char *p = list; *p; n++) {
        p += strcspn(p, ",");
        if (*p == ',') p++;
    }
    return n;
}

// A whole number, with K, M, G behind it for sizes.
static bool number(const char *text, uint64_t *out) {
    char *end;
    if (*text < '0' || *text > '9') return false;
    uint64_t n = strtoull(text, &end, 10);
    int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (shift) end++;
    *out = n << shift;
    return *end == '\0';
}

static bool set_count(const char *key, const char *value, uint64_t *out, char *why) {
    if (number(value, out)) return true;
    snprintf(why, 200, "%s=%s is no number", key, value);
    return false;
}

// The words that may change while the emulator runs. *known: whether the key is one of them.
static bool set_running(emu_config *c, const char *key, const char *value, bool *known, char *why) {
    const struct {
        const char *key;
        uint64_t *field;
    } counts[] = {{"fail_call", &c->fail_call},
                  {"fail_alloc", &c->fail_alloc},
                  {"fail_phase1", &c->fail_phase1},
                  {"fail_launch", &c->fail_launch},
                  {"fail_op", &c->fail_op},
                  {"lost", &c->lost},
                  {"hang", &c->hang},
                  {"seed", &c->seed}};
    *known = true;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (strcmp(key, counts[i].key) == 0) return set_count(key, value, counts[i].field, why);
    }
    if (strcmp(key, "watchdog") == 0) {
        uint64_t ms;
        if (!set_count(key, value, &ms, why)) return false;
        c->watchdog_ms = ms > 3600000 ? 3600000 : (int)ms;
        return true;
    }
    if (strcmp(key, "order") == 0) {
        const char *names[] = {"random", "late", "eager"};
        for (int i = 0; i < 3; i++) {
            if (strcmp(value, names[i]) == 0) return c->order = (emu_order)i, true;
        }
        snprintf(why, 200, "order=%s is none of random, late, eager", value);
        return false;
    }
    if (strcmp(key, "trace") == 0) {
        if (strlen(value) >= sizeof c->trace) return snprintf(why, 200, "the path of trace= is too long"), false;
        return strcpy(c->trace, value), true;
    }
    return *known = false, true;
}

static bool set_chip(emu_config *c, const char *value, char *why) {
    const emu_chip *chip = emu_chip_find(value);
    if (!chip)
        return snprintf(why, 200, "no chip is called \"%s\" (910A, 310P3, 910B3, 910_9382, 950PR, ...)", value), false;
    c->chip = chip;
    return true;
}

static bool set_starting(emu_config *c, const char *key, const char *value, char *why) {
    uint64_t n;
    if (strcmp(key, "chip") == 0) return set_chip(c, value, why);
    if (strcmp(key, "cann") == 0) {
        c->cann = emu_cann_find(value);
        return c->cann >= 0 || (snprintf(why, 200, "cann=%s is none of 8.1, 8.5, 9.1", value), false);
    }
    if (strcmp(key, "perturb") == 0) {
        if (strcmp(value, "on") == 0) return c->perturb = 1, true;
        if (strcmp(value, "off") == 0) return c->perturb = 0, true;
        return set_count(key, value, &c->perturb, why);
    }
    if (strcmp(key, "mem") == 0) return set_count(key, value, &c->memory, why);
    if (strcmp(key, "strict") == 0) return c->lenient = strcmp(value, "off") == 0, true;
    if (strcmp(key, "poison") == 0) return c->poison_edges = strcmp(value, "edges") == 0, true;
    if (strcmp(key, "devices") == 0 || strcmp(key, "threads") == 0) {
        if (!set_count(key, value, &n, why)) return false;
        if (n < 1 || n > 16) return snprintf(why, 200, "%s=%s is not between 1 and 16", key, value), false;
        *(*key == 'd' ? &c->n_devices : &c->n_threads) = (int)n;
        return true;
    }
    snprintf(why, 200, "no setting is called \"%s\"", key);
    return false;
}

static bool set_word(emu_config *c, char *word, bool first, char *why) {
    bool known;
    char *value = strchr(word, '=');
    if (!value) {
        if (first) return set_chip(c, word, why);
        return snprintf(why, 200, "\"%s\" is no setting; the chip comes first, the rest is KEY=VALUE", word), false;
    }
    *value++ = '\0';
    if (!set_running(c, word, value, &known, why)) return false;
    if (known) return true;
    return set_starting(c, word, value, why);
}

// What cannot change once the emulator runs; asking again for what is there is fine.
static bool same_start(const emu_config *a, const emu_config *b) {
    return a->chip == b->chip && a->cann == b->cann && a->n_devices == b->n_devices && a->n_threads == b->n_threads &&
           a->perturb == b->perturb && a->memory == b->memory && a->poison_edges == b->poison_edges &&
           a->lenient == b->lenient;
}

bool emu_config_parse(emu_config *c, const char *line, bool running, char why[static 200]) {
    char *copy = strdup(line), *rest = copy;
    emu_config made = *c;
    bool ok = copy != NULL, first = true;
    if (!copy) snprintf(why, 200, "no memory");
    for (char *word; ok && (word = strsep(&rest, ",")); first = false) {
        if (*word) ok = set_word(&made, word, first, why);
    }
    free(copy);
    if (ok && running && !same_start(&made, c)) {
        ok = false;
        snprintf(why, 200,
                 "the emulator runs as %s with other settings; only seed, order, trace, watchdog and injected faults "
                 "may change",
                 c->chip->name);
    }
    if (ok) *c = made;
    return ok;
}
