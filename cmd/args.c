#include "cmd/args.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cmd/args_table.h"
#include "cmd/common.h"

enum { MODEL_BY_PLACE = CMD_INSPECT | CMD_PLAN }; // take the model without -m too

// Calls for every name of "-a, --bb" in turn: sets *name and returns true until the list ends.
static bool next_name(const char **list, str *name) {
    while (**list == ' ' || **list == ',') (*list)++;
    size_t n = strcspn(*list, ",");
    *name = (str){*list, n};
    *list += n;
    return n > 0;
}

// One bit for each row of the table.
typedef struct row_set {
    uint64_t bits[OPTION_ROWS_MAX / 64];
} row_set;

static void add_row(row_set *s, const option_row *row) {
    size_t i = (size_t)(row - option_table);
    s->bits[i / 64] |= (uint64_t)1 << i % 64;
}
static bool has_row(const row_set *s, const option_row *row) {
    size_t i = (size_t)(row - option_table);
    return s->bits[i / 64] >> i % 64 & 1;
}

static const option_row *find_row(const command *cmd, str name) {
    for (const option_row *row = option_table; row->names; row++) {
        if (!(row->commands & cmd->bit)) continue;
        const char *list = row->names;
        str candidate;
        while (next_name(&list, &candidate)) {
            if (str_eq(candidate, name)) return row;
        }
    }
    return NULL;
}

// Levenshtein distance of words up to 63 bytes.
static int distance(str a, str b) {
    int row[64];
    if (a.len > 63 || b.len > 63) return 64;
    for (size_t j = 0; j <= b.len; j++) row[j] = (int)j;
    for (size_t i = 1; i <= a.len; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= b.len; j++) {
            int best = diagonal + (a.data[i - 1] != b.data[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[b.len];
}

static bool near_enough(int d, size_t len) { return d <= 2 && (size_t)d * 3 <= len * 2; }

const char *args_nearest(const char *word, const char *const *list) {
    const char *best = NULL;
    int best_d = 64;
    for (; *list; list++) {
        int d = distance(str_from(word), str_from(*list));
        if (d < best_d) best = *list, best_d = d;
    }
    return near_enough(best_d, strlen(word)) ? best : NULL;
}

static int unknown_option(const command *cmd, str name) {
    str best = {0};
    int best_d = 64;
    for (const option_row *row = option_table; row->names; row++) {
        if (!(row->commands & cmd->bit)) continue;
        const char *list = row->names;
        str candidate;
        while (next_name(&list, &candidate)) {
            int d = distance(name, candidate);
            if (d < best_d) best = candidate, best_d = d;
        }
    }
    if (near_enough(best_d, name.len)) {
        return usage_error("tally %s has no option %.*s; did you mean %.*s? ('tally help %s' lists all)", cmd->name,
                           STR_ARG(name), STR_ARG(best), cmd->name);
    }
    return usage_error("tally %s has no option %.*s; 'tally help %s' lists all", cmd->name, STR_ARG(name), cmd->name);
}

static void set_number(options *o, const option_row *row, double v, int64_t exact) {
    char *field = (char *)o + row->offset;
    if (row->kind == OPTION_INT) *(int *)field = (int)exact;
    if (row->kind == OPTION_INT64) *(int64_t *)field = exact;
    if (row->kind == OPTION_REAL) *(double *)field = v;
}

static int parse_number(const option_row *row, str name, const char *value, options *o) {
    char *end;
    errno = 0;
    if (row->kind == OPTION_REAL) {
        double v = strtod(value, &end);
        if (end == value || *end || !isfinite(v) || v < row->min || v > row->max) {
            return usage_error("%.*s takes a number from %.15g to %.15g, not '%s'", STR_ARG(name), row->min, row->max,
                               value);
        }
        set_number(o, row, v, 0);
        return 0;
    }
    long long v = strtoll(value, &end, 10);
    if (end == value || *end || errno || (double)v < row->min || (double)v > row->max) {
        long long max = row->kind == OPTION_INT ? (long long)row->max : INT64_MAX; // a double cannot hold 2^63-1
        return usage_error("%.*s takes a whole number from %lld to %lld, not '%s'", STR_ARG(name), (long long)row->min,
                           max, value);
    }
    set_number(o, row, 0, v);
    return 0;
}

static bool is_choice(const char *choices, const char *value) {
    size_t n = strlen(value);
    for (const char *p = choices; *p; p += strcspn(p, "|"), p += *p == '|') {
        if (strcspn(p, "|") == n && memcmp(p, value, n) == 0) return true;
    }
    return false;
}

static int set_value(const option_row *row, str name, const char *value, options *o) {
    char *field = (char *)o + row->offset;
    if (row->kind == OPTION_TEXT) {
        if (row->choices && !is_choice(row->choices, value)) {
            return usage_error("%.*s takes one of %s, not '%s'", STR_ARG(name), row->choices, value);
        }
        *(const char **)field = value;
        return 0;
    }
    if (row->kind == OPTION_TEXTS) {
        text_list *list = (text_list *)field;
        const char **grown = realloc(list->items, sizeof *grown * (size_t)(list->n + 1));
        if (!grown) return fail("memory ran out while reading the options");
        list->items = grown;
        list->items[list->n++] = value;
        return 0;
    }
    return parse_number(row, name, value, o);
}

static void set_defaults(const command *cmd, options *o) {
    memset(o, 0, sizeof *o);
    for (const option_row *row = option_table; row->names; row++) {
        if (!(row->commands & cmd->bit)) continue;
        if (row->kind == OPTION_INT || row->kind == OPTION_INT64 || row->kind == OPTION_REAL) {
            set_number(o, row, row->def, (int64_t)row->def);
        }
    }
}

static int check_needs(const command *cmd, const row_set *given) {
    for (const option_need *need = option_needs; need->names; need++) {
        if (!(need->commands & cmd->bit) || has_row(given, find_row(cmd, str_from(need->needs)))) continue;
        const char *list = need->names;
        str name;
        while (next_name(&list, &name)) {
            if (has_row(given, find_row(cmd, name)))
                return usage_error("%.*s says nothing without %s; add it", STR_ARG(name), need->needs);
        }
    }
    return 0;
}

static int check_only(const command *cmd, const row_set *given) {
    for (const option_only *only = option_onlys; only->name; only++) {
        if (!(only->commands & cmd->bit) || !has_row(given, find_row(cmd, str_from(only->name)))) continue;
        row_set allowed = {0};
        add_row(&allowed, find_row(cmd, str_from(only->name)));
        const char *list = only->with;
        str name;
        while (next_name(&list, &name)) add_row(&allowed, find_row(cmd, name));
        for (const option_row *row = option_table; row->names; row++) {
            if (has_row(given, row) && !has_row(&allowed, row))
                return usage_error("%s says nothing with %s, which takes %s only; leave it out", row->names, only->name,
                                   only->with);
        }
    }
    return 0;
}

static int text_without_option(const command *cmd, const char *text) {
    if (cmd->bit & (CMD_TOKENIZE | CMD_DETOKENIZE)) {
        return usage_error("tally %s does not know what '%s' is for; it reads standard input: %s | tally %s -m MODEL",
                           cmd->name, text, cmd->bit == CMD_TOKENIZE ? "echo -n TEXT" : "echo '[1,2,3]'", cmd->name);
    }
    const char *how = cmd->bit == CMD_DEVICES           ? "it takes options only"
                      : cmd->bit & (CMD_RUN | CMD_EVAL) ? "give the model with -m and text with -p or -f"
                                                        : "give the model with -m";
    return usage_error("tally %s does not know what '%s' is for; %s", cmd->name, text, how);
}

int args_parse(const command *cmd, int argc, char **argv, options *o, bool *help) {
    row_set given = {0};
    set_defaults(cmd, o);
    *help = false;
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i];
        if (strcmp(arg, "-h") == 0 || strcmp(arg, "--help") == 0) {
            *help = true;
            return 0;
        }
        if (arg[0] != '-' || arg[1] == 0) {
            if (!(cmd->bit & MODEL_BY_PLACE)) return text_without_option(cmd, arg);
            if (o->model)
                return usage_error("tally %s takes one model, not both '%s' and '%s'", cmd->name, o->model, arg);
            o->model = arg;
            continue;
        }
        const char *equals = strncmp(arg, "--", 2) == 0 ? strchr(arg, '=') : NULL;
        str name = {arg, equals ? (size_t)(equals - arg) : strlen(arg)};
        const option_row *row = find_row(cmd, name);
        if (!row) return unknown_option(cmd, name);
        add_row(&given, row);
        if (row->kind == OPTION_FLAG) {
            if (equals) return usage_error("%.*s takes no value", STR_ARG(name));
            *(bool *)((char *)o + row->offset) = true;
            continue;
        }
        if (!equals && i + 1 == argc) return usage_error("%.*s needs a value (%s)", STR_ARG(name), row->arg);
        int rc = set_value(row, name, equals ? equals + 1 : argv[++i], o);
        if (rc) return rc;
    }
    if (!o->model && !o->machine && cmd->bit != CMD_DEVICES) {
        return cmd->bit & MODEL_BY_PLACE ? usage_error("tally %s needs a model: tally %s MODEL", cmd->name, cmd->name)
                                         : usage_error("tally %s needs a model: -m MODEL", cmd->name);
    }
    int rc = check_only(cmd, &given);
    return rc ? rc : check_needs(cmd, &given);
}

void args_deinit(options *o) {
    free(o->stops.items);
    free(o->logit_bias.items);
}

void args_help(const command *cmd, FILE *out) {
    fprintf(out, "usage: tally %s %s\n\n%s.\n", cmd->name, cmd->usage, cmd->summary);
    if (cmd->details) fprintf(out, "%s\n", cmd->details);
    const char *group = NULL;
    for (const option_row *row = option_table; row->names; row++) {
        if (!(row->commands & cmd->bit)) continue;
        if (!group || strcmp(group, row->group) != 0) {
            group = row->group;
            fprintf(out, "\n%s\n", group);
        }
        char left[80];
        snprintf(left, sizeof left, "%s%s%s", row->names, row->arg ? " " : "", row->arg ? row->arg : "");
        if (strlen(left) > 30) {
            fprintf(out, "  %s\n  %-30s %s\n", left, "", row->help);
        } else {
            fprintf(out, "  %-30s %s\n", left, row->help);
        }
    }
    fprintf(out, "\nOther\n  %-30s %s\n", "-h, --help", "this text");
}
