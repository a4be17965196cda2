// One rendering of a parsed template: state, limits, and the functions the evaluator's files share.
//
// Text is written in one place: the pair of buffers `text` and `mask`. What prints, captures or builds a string appends there and
// then either leaves it (output) or takes it off as a value (jinja_take). One thread; all memory is the run's arena.
#ifndef TALLY_TEXT_JINJA_RUN_H
#define TALLY_TEXT_JINJA_RUN_H

#include "text/jinja_ast.h"
#include "text/jinja_text.h"

enum {
    JINJA_MAX_SOURCE = 4 << 20,  // bytes of a template
    JINJA_MAX_OUTPUT = 64 << 20, // bytes printed
    JINJA_MAX_MEMORY = 512 << 20,
    JINJA_MAX_STEPS = 50 * 1000 * 1000, // expressions evaluated, items walked
    JINJA_MAX_DEPTH = 400,              // expressions, statements and macros inside one another
    JINJA_MAX_NESTING = 200,            // the same in the source
    JINJA_MAX_RANGE = 100000            // as jinja2's sandbox
};

typedef struct jinja_scope {
    struct jinja_scope *outer;
    str *names;
    jinja_value *values;
    size_t n, cap;
} jinja_scope;

typedef enum jinja_flow { JINJA_FLOW_NONE, JINJA_FLOW_BREAK, JINJA_FLOW_CONTINUE } jinja_flow;

typedef struct jinja_run {
    arena *mem;
    error *err;
    strbuf *text, *mask;
    jinja_scope *scope;
    int line; // of what is being evaluated
    int depth;
    int64_t steps;
    jinja_flow flow;
} jinja_run;

typedef struct jinja_loop {
    jinja_value source; // what is walked
    size_t at;          // next index in it
    jinja_scope *scope; // where the filter expression runs
    const jinja_node *node;
    int64_t index0;
    jinja_value current, before, after; // JINJA_MISSING: none; `after`: already fetched
    int64_t length;                     // -1: not known yet
    jinja_value last_changed;           // arguments of the last loop.changed()
} jinja_loop;

// Arguments of a call, filter or test, evaluated.
typedef struct jinja_args {
    jinja_value *positional;
    size_t n;
    str *names;
    jinja_value *named;
    size_t n_named;
} jinja_args;

typedef struct jinja_callable {
    enum { JINJA_FUNCTION, JINJA_METHOD, JINJA_MACRO_VALUE } kind;
    str name;
    jinja_value self;       // of a method
    const jinja_node *node; // of a macro
    jinja_scope *scope;     // where the macro was defined
} jinja_callable;

// jinja_value.c: errors, memory, strings, containers
status jinja_fail(jinja_run *r, status code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
status jinja_step(jinja_run *r, size_t n); // counts work
status jinja_alloc(jinja_run *r, size_t count, size_t size, void *out /* a pointer to the pointer */);
status jinja_put(jinja_run *r, str s, bool trusted);
status jinja_put_part(jinja_run *r, const jinja_value *s, size_t from, size_t to);
status jinja_put_string(jinja_run *r, const jinja_value *s);
status jinja_take(jinja_run *r, size_t mark, jinja_value *out); // what was put since text->len was `mark`
status jinja_make_string(jinja_run *r, str s, bool trusted, jinja_value *out);        // copies
status jinja_make_seq(jinja_run *r, jinja_seq_kind kind, size_t n, jinja_value *out); // items to be filled in
status jinja_make_dict(jinja_run *r, size_t cap, jinja_value *out);
status jinja_dict_set(jinja_run *r, jinja_dict *d, jinja_value key, jinja_value value);
bool jinja_hashable(const jinja_value *v); // may be a key of a dict
status jinja_make_undefined(jinja_run *r, const char *hint, const jinja_value *object, str name, jinja_value *out);
status jinja_fail_undefined(jinja_run *r, const jinja_value *v); // the error for using it

// jinja_ops.c: operators
status jinja_equal(jinja_run *r, const jinja_value *a, const jinja_value *b, bool *out);
status jinja_less(jinja_run *r, const jinja_value *a, const jinja_value *b, bool *out); // a < b, or a type error
status jinja_contains(jinja_run *r, const jinja_value *item, const jinja_value *in, bool *out);
status jinja_compare(jinja_run *r, str op, const jinja_value *a, const jinja_value *b, bool *out);
status jinja_binary(jinja_run *r, str op, const jinja_value *a, const jinja_value *b, jinja_value *out);
status jinja_unary(jinja_run *r, str op, const jinja_value *a, jinja_value *out);

// jinja_format.c: % and str.format
status jinja_percent(jinja_run *r, const jinja_value *format, const jinja_value *args, jinja_value *out);
status jinja_format(jinja_run *r, const jinja_value *format, const jinja_args *args, jinja_value *out);

// jinja_access.c: attributes, items, slices, iteration
status jinja_getattr(jinja_run *r, const jinja_value *v, str name, jinja_value *out);
status jinja_getitem(jinja_run *r, const jinja_value *v, const jinja_value *key, jinja_value *out);
status jinja_slice(jinja_run *r, const jinja_value *v, const jinja_value bounds[3], jinja_value *out);
// Everything iterating over v gives, as a list of its own kind (shared where possible; an iterator is used up).
status jinja_items(jinja_run *r, const jinja_value *v, jinja_seq *out);
// v.a.b[0] for the attribute "a.b.0"; `fallback` (may be NULL) stands in for every undefined step.
status jinja_path(jinja_run *r, const jinja_value *v, const jinja_value *attribute, const jinja_value *fallback,
                  jinja_value *out);

// jinja_print.c: text of values
status jinja_print(jinja_run *r, const jinja_value *v); // as str(v)
status jinja_repr(jinja_run *r, const jinja_value *v);
status jinja_to_string(jinja_run *r, const jinja_value *v, jinja_value *out); // str(v); a string stays as it is
size_t jinja_float_text(double f, char out[40]);                              // as Python's repr
// jinja_json.c
status jinja_filter_tojson(jinja_run *r, const jinja_value *v, const jinja_args *args, jinja_value *out);

// jinja_call.c
// Distributes arguments over n named parameters; what is not given becomes JINJA_MISSING.
status jinja_bind(jinja_run *r, const char *what, const jinja_args *args, const char *const *names, size_t n,
                  jinja_value *out);
status jinja_call(jinja_run *r, const jinja_value *callee, const jinja_args *args, jinja_value *out);
bool jinja_global(str name); // whether a function of that name exists

// jinja_methods.c, jinja_strmethods.c
typedef status jinja_method(jinja_run *r, const jinja_value *self, const jinja_args *args, jinja_value *out);
typedef enum jinja_lookup { JINJA_NO_METHOD, JINJA_HAS_METHOD, JINJA_UNSAFE_METHOD } jinja_lookup;
jinja_lookup jinja_find_method(const jinja_value *self, str name);
status jinja_call_method(jinja_run *r, const jinja_value *self, str name, const jinja_args *args, jinja_value *out);
jinja_method *jinja_string_method(str name);
bool jinja_is_string_method(str name); // known to Python, supported or not
// jinja_strings.c; max < 0: no limit; sep missing or none: at whitespace
status jinja_split(jinja_run *r, const jinja_value *s, const jinja_value *sep, int64_t max, jinja_value *out);
status jinja_rsplit(jinja_run *r, const jinja_value *s, const jinja_value *sep, int64_t max, jinja_value *out);
status jinja_splitlines(jinja_run *r, const jinja_value *s, bool keep_ends, jinja_value *out);
status jinja_replace(jinja_run *r, const jinja_value *s, const jinja_value *old_new, int64_t max, jinja_value *out);
status jinja_join(jinja_run *r, const jinja_value *sep, const jinja_seq *items, jinja_value *out);
status jinja_change_case(jinja_run *r, const jinja_value *s, const char *how, jinja_value *out);
status jinja_strip(jinja_run *r, const jinja_value *s, const jinja_value *chars, const char *sides, jinja_value *out);

// jinja_filters.c, jinja_seqfilters.c, jinja_tests.c
status jinja_apply_filter(jinja_run *r, str name, const jinja_value *v, const jinja_args *args, jinja_value *out);
status jinja_apply_test(jinja_run *r, str name, const jinja_value *v, const jinja_args *args, bool *out);
bool jinja_has_filter(str name);
bool jinja_has_test(str name);
typedef status jinja_filter(jinja_run *r, const jinja_value *v, const jinja_args *args, jinja_value *out);
jinja_filter *jinja_find_seq_filter(str name);

// jinja_eval.c, jinja_exec.c
status jinja_eval(jinja_run *r, const jinja_node *n, jinja_value *out);
status jinja_eval_args(jinja_run *r, const jinja_arguments *a, jinja_args *out);
status jinja_exec(jinja_run *r, const jinja_list *body);
status jinja_call_macro(jinja_run *r, const jinja_callable *m, const jinja_args *args, jinja_value *out);
status jinja_set(jinja_run *r, jinja_scope *s, str name, jinja_value v);
status jinja_push_scope(jinja_run *r, jinja_scope *outer);
status jinja_assign(jinja_run *r, const jinja_node *target, const jinja_value *v);
// jinja_loop.c
status jinja_exec_for(jinja_run *r, const jinja_node *n);
status jinja_loop_attr(jinja_run *r, jinja_loop *l, str name, bool *found, jinja_value *out);
status jinja_loop_method(jinja_run *r, jinja_loop *l, str name, const jinja_args *args, jinja_value *out);

#endif
