#include "cmd/speculation.h"

#include <string.h>

#include "cmd/common.h"

enum { DEFAULT_DRAFT_MAX = 16 }; // tally.h's

tally_spec_mode speculation_mode(const char *name) {
    static const struct {
        const char *name;
        tally_spec_mode mode;
    } modes[] = {{"off", TALLY_SPEC_OFF},
                 {"auto", TALLY_SPEC_AUTO},
                 {"lookup", TALLY_SPEC_LOOKUP},
                 {"draft", TALLY_SPEC_DRAFT},
                 {"tree", TALLY_SPEC_TREE}};
    for (size_t i = 0; name && i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(modes[i].name, name) == 0) return modes[i].mode;
    }
    return TALLY_SPEC_DEFAULT;
}

int speculation_check(const options *o) {
    int draft_max = o->draft_max ? o->draft_max : DEFAULT_DRAFT_MAX;
    if (speculation_mode(o->spec) == TALLY_SPEC_DRAFT && !o->model_draft) {
        return usage_error(
            "--spec draft needs a draft model: give a smaller one of the same vocabulary with -md MODEL, or "
            "take --spec lookup, which needs none");
    }
    if (o->draft_min > draft_max)
        return usage_error("--draft-min %d is above --draft-max %d; lower the one or raise the other", o->draft_min,
                           draft_max);
    if (o->lookup_max && o->lookup_min > o->lookup_max)
        return usage_error("--lookup-min %d is above --lookup-max %d; lower the one or raise the other", o->lookup_min,
                           o->lookup_max);
    return 0;
}

tally_speculation speculation_from_options(const options *o) {
    return (tally_speculation){.mode = speculation_mode(o->spec),
                               .draft_max = o->draft_max,
                               .draft_min = o->draft_min,
                               .lookup_min = o->lookup_min,
                               .lookup_max = o->lookup_max,
                               .corpus = o->lookup_corpus,
                               .shadow = o->shadow};
}

void speculation_add(tally_spec_counts *sum, const tally_spec_counts *more) {
    sum->drafted += more->drafted;
    sum->accepted += more->accepted;
    sum->emitted += more->emitted;
    sum->verify_steps += more->verify_steps;
    sum->shadow_checks += more->shadow_checks;
}

void speculation_print(FILE *out, const char *before, const tally_spec_counts *c) {
    if (c->drafted == 0) return;
    fprintf(out, "%sdrafted %d, accepted %d (%.0f %%), %d verify step%s", before, c->drafted, c->accepted,
            100.0 * c->accepted / c->drafted, c->verify_steps, c->verify_steps == 1 ? "" : "s");
    if (c->shadow_checks) fprintf(out, ", %d computed again alone and equal", c->shadow_checks);
}

int speculation_json(json_t *object, const tally_spec_counts *c) {
    json_t *counts = json_pack("{s:i, s:i, s:i, s:i, s:i}", "drafted", c->drafted, "accepted", c->accepted, "emitted",
                               c->emitted, "verify_steps", c->verify_steps, "shadow_checks", c->shadow_checks);
    int rc = counts ? json_object_update(object, counts) : -1;
    json_decref(counts);
    return rc;
}
