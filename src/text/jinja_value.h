// Values of the template language, after Python's: what a chat template computes with.
//
// Provenance. A string knows for every byte whether the template (or a model's special token) wrote it, or a message, a tool
// or a keyword argument. Slicing, joining, changing case and so on keep it; numbers and containers carry one flag, which their
// printed form takes over (digits, quotes, brackets).
//
// Everything lives in the arena of one rendering and is never changed after it was made, except namespaces, iterators and loops.
#ifndef TALLY_TEXT_JINJA_VALUE_H
#define TALLY_TEXT_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

typedef enum jinja_type {
    JINJA_MISSING, // an argument that was not given; never seen by a template
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_SEQ,
    JINJA_DICT,
    JINJA_NAMESPACE, // a dict whose entries can be set
    JINJA_LOOP,
    JINJA_CALLABLE
} jinja_type;

typedef struct jinja_string {
    const char *data; // UTF-8, not terminated
    size_t len;
    const unsigned char *mask; // [len] 1: trusted; NULL: every byte is as jinja_value.trusted says
} jinja_string;

typedef struct jinja_value {
    uint8_t type; // jinja_type
    bool trusted; // the template wrote it
    bool markup;  // a string from |safe or |escape: joined to another by +, it escapes that one (markupsafe)
    union {
        bool b;
        int64_t i;
        double f;
        jinja_string s;
        struct jinja_seq *seq;
        struct jinja_dict *dict;
        struct jinja_loop *loop;
        struct jinja_callable *callable;
        const struct jinja_undefined *undefined;
    } u;
} jinja_value;

typedef enum jinja_seq_kind {
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_RANGE,
    JINJA_KEYS, // what dict.keys(), .values() and .items() return
    JINJA_VALUES,
    JINJA_ITEMS,
    JINJA_ITERATOR // what map, select, reverse, ... return: can be walked once
} jinja_seq_kind;

typedef struct jinja_seq {
    jinja_seq_kind kind;
    jinja_value *items; // [n]
    size_t n;
    size_t next;               // an iterator's position
    int64_t start, stop, step; // of a range
} jinja_seq;

typedef struct jinja_dict {
    jinja_value *keys, *values; // [n], in order of insertion
    size_t n, cap;
} jinja_dict;

// Why a value is undefined: the message when it is used. Either a hint, or the name and what lacks it.
typedef struct jinja_undefined {
    const char *hint;
    const char *object; // "dict object"; NULL: a variable
    str name;
} jinja_undefined;

static inline jinja_value jinja_none(void) { return (jinja_value){.type = JINJA_NONE, .trusted = true}; }
static inline jinja_value jinja_bool(bool b) { return (jinja_value){.type = JINJA_BOOL, .trusted = true, .u.b = b}; }
static inline jinja_value jinja_int(int64_t i) { return (jinja_value){.type = JINJA_INT, .trusted = true, .u.i = i}; }
static inline jinja_value jinja_float(double f) {
    return (jinja_value){.type = JINJA_FLOAT, .trusted = true, .u.f = f};
}
static inline jinja_value jinja_text(str s, bool trusted) {
    return (jinja_value){.type = JINJA_STRING, .trusted = trusted, .u.s = {s.data, s.len, NULL}};
}
static inline str jinja_str(const jinja_value *s) { return (str){s->u.s.data, s->u.s.len}; }
static inline bool jinja_is_seq(const jinja_value *v, jinja_seq_kind kind) {
    return v->type == JINJA_SEQ && v->u.seq->kind == kind;
}

// Bytes [from, to) of a string, sharing its memory.
jinja_value jinja_substring(const jinja_value *s, size_t from, size_t to);
// Whether the template wrote every byte.
bool jinja_all_trusted(const jinja_value *s);
// Python's name of the type, for messages: "str", "dict", ...
const char *jinja_type_name(const jinja_value *v);
bool jinja_truth(const jinja_value *v);
// True and *i for an int or a bool.
bool jinja_as_int(const jinja_value *v, int64_t *i);
// True and *f for an int, bool or float.
bool jinja_as_float(const jinja_value *v, double *f);
// Index of an entry, or -1.
ptrdiff_t jinja_dict_find(const jinja_dict *d, str key);

#endif
