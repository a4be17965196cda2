// The parsed template, and the two steps that make it: tokens, then a tree. Both live in an arena of the template's.
//
// The grammar is jinja2's (3.1) with trim_blocks and lstrip_blocks on, the loop controls and the `generation` tag. Left out, and
// refused by name: template inheritance and inclusion, autoescape, recursive loops, trans.
#ifndef TALLY_TEXT_JINJA_AST_H
#define TALLY_TEXT_JINJA_AST_H

#include "base/arena.h"
#include "base/status.h"
#include "text/jinja_value.h"

typedef enum jinja_token_kind {
    JINJA_T_DATA, // text between the tags, whitespace control applied
    JINJA_T_VARIABLE_BEGIN,
    JINJA_T_VARIABLE_END,
    JINJA_T_BLOCK_BEGIN,
    JINJA_T_BLOCK_END,
    JINJA_T_NAME,
    JINJA_T_STRING, // text: the value, escapes resolved
    JINJA_T_INT,
    JINJA_T_FLOAT,
    JINJA_T_OPERATOR,
    JINJA_T_EOF
} jinja_token_kind;

typedef struct jinja_token {
    jinja_token_kind kind;
    int line; // from 1
    str text;
    int64_t i;
    double f;
} jinja_token;

// Tokens of a source whose newlines are already "\n"; the last one is JINJA_T_EOF.
status jinja_lex(arena *mem, str source, jinja_token **tokens, error *err);

typedef enum jinja_kind {
    // expressions
    JINJA_CONST,   // value
    JINJA_NAME,    // name
    JINJA_LIST_OF, // items
    JINJA_TUPLE_OF,
    JINJA_DICT_OF, // items: key, value, key, value, ...
    JINJA_GETATTR, // a.name
    JINJA_GETITEM, // a[b]
    JINJA_SLICE,   // a[items], three of them, each may be NULL
    JINJA_CALL,    // a(args)
    JINJA_FILTER,  // a|name(args); a is NULL in a filter block
    JINJA_TEST,    // a is name(args)
    JINJA_NOT,     // a
    JINJA_UNARY,   // name is the operator, a
    JINJA_BINARY,  // name is the operator, a, b
    JINJA_CONCAT,  // items joined by ~
    JINJA_COMPARE, // a, then items; each item is a JINJA_BINARY with its operator and b
    JINJA_AND,     // a, b
    JINJA_OR,
    JINJA_COND, // b if a else c (c may be NULL)
    // targets of assignments: JINJA_NAME, JINJA_TUPLE_OF, and
    JINJA_NSREF, // namespace `name`, attribute in value
    // statements
    JINJA_DATA,         // value
    JINJA_OUTPUT,       // a
    JINJA_SET,          // a = b
    JINJA_SET_BLOCK,    // a = body, through filter b (may be NULL)
    JINJA_IF,           // if a: body; c is the next branch; in an else branch a is NULL
    JINJA_FOR,          // for a in b (if c): body, else: other
    JINJA_MACRO,        // name(items are JINJA_NAME, with default in their a): body
    JINJA_CALL_BLOCK,   // a is the JINJA_CALL, b the JINJA_MACRO that becomes `caller`
    JINJA_FILTER_BLOCK, // a is the innermost filter's input place, b the filter chain, body
    JINJA_WITH,         // items: target, value, ...; body
    JINJA_SCOPE,        // body in a scope of its own (generation)
    JINJA_BREAK,
    JINJA_CONTINUE
} jinja_kind;

typedef struct jinja_node jinja_node;

typedef struct jinja_list {
    jinja_node **items;
    size_t n, cap;
} jinja_list;

typedef struct jinja_arguments {
    jinja_list positional;
    jinja_list named; // each a JINJA_NAME whose a is the value
    jinja_node *star, *star_star;
} jinja_arguments;

struct jinja_node {
    jinja_kind kind;
    int line;
    str name;
    jinja_node *a, *b, *c;
    jinja_list items, body, other;
    jinja_arguments *args;
    jinja_value value;
    bool uses_varargs, uses_kwargs, uses_caller; // of a macro: the names its body mentions
};

typedef struct jinja_parser {
    arena *mem;
    const jinja_token *at;
    error *err;
    jinja_node *macro; // the innermost one being parsed
    int depth;         // nesting of expressions and statements
    int loops;         // loops around the statement, for break and continue
} jinja_parser;

// Parses a whole template. The source may have any newlines; it is copied into `mem`.
status jinja_parse(arena *mem, str source, jinja_list *body, error *err);

// Expressions, for the statement parser (jinja_expr.c).
status jinja_parse_expression(jinja_parser *p, jinja_node **out);
status jinja_parse_no_condition(jinja_parser *p, jinja_node **out); // without `x if y`
// An expression or, after a comma, a tuple.
status jinja_parse_tuple(jinja_parser *p, bool with_condition, jinja_node **out);
status jinja_parse_target(jinja_parser *p, bool with_namespace, jinja_node **out);
// A chain |f|g applied to `input` (NULL: to be filled in when it runs); `inline_first`: the first | is left out.
status jinja_parse_filters(jinja_parser *p, jinja_node *input, bool inline_first, jinja_node **out);

// Small parts both parsers use.
status jinja_syntax(jinja_parser *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
status jinja_new_node(jinja_parser *p, jinja_kind kind, int line, jinja_node **out);
status jinja_append(jinja_parser *p, jinja_list *list, jinja_node *node);
status jinja_enter(jinja_parser *p); // counts nesting; the caller decrements p->depth when done
bool jinja_at_op(const jinja_parser *p, const char *op);
bool jinja_at_name(const jinja_parser *p, const char *name);
bool jinja_skip_op(jinja_parser *p, const char *op);
bool jinja_skip_name(jinja_parser *p, const char *name);
status jinja_expect_op(jinja_parser *p, const char *op);
status jinja_expect_name(jinja_parser *p, str *name); // any name

#endif
