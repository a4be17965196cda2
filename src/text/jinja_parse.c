// Statements of a template: from tokens to a tree.
#include <stdarg.h>
#include <stdio.h>

#include "text/jinja_ast.h"
#include "text/jinja_run.h"

status jinja_syntax(jinja_parser *p, const char *fmt, ...) {
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return error_set(p->err, STATUS_BAD_FILE, "chat template line %d: %s", p->at->line, text);
}

static status refuse(jinja_parser *p, const char *what, str name) {
    return error_set(p->err, STATUS_UNSUPPORTED, "chat template line %d: %s'%.*s' is not supported", p->at->line, what,
                     name.len > 100 ? 100 : (int)name.len, name.data);
}

status jinja_new_node(jinja_parser *p, jinja_kind kind, int line, jinja_node **out) {
    jinja_node *n = arena_calloc(p->mem, 1, sizeof *n);
    if (!n) return error_no_memory(p->err, sizeof *n);
    n->kind = kind;
    n->line = line;
    *out = n;
    return STATUS_OK;
}

status jinja_append(jinja_parser *p, jinja_list *list, jinja_node *node) {
    if (list->n == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 4;
        jinja_node **items = arena_calloc(p->mem, cap, sizeof *items);
        if (!items) return error_no_memory(p->err, cap * sizeof *items);
        if (list->n) memcpy(items, list->items, list->n * sizeof *items);
        list->items = items;
        list->cap = cap;
    }
    list->items[list->n++] = node;
    return STATUS_OK;
}

status jinja_enter(jinja_parser *p) {
    if (++p->depth <= JINJA_MAX_NESTING) return STATUS_OK;
    return error_set(p->err, STATUS_UNSUPPORTED, "chat template line %d: more than %d constructs inside one another",
                     p->at->line, JINJA_MAX_NESTING);
}

bool jinja_at_op(const jinja_parser *p, const char *op) {
    return p->at->kind == JINJA_T_OPERATOR && str_is(p->at->text, op);
}

bool jinja_at_name(const jinja_parser *p, const char *name) {
    return p->at->kind == JINJA_T_NAME && str_is(p->at->text, name);
}

bool jinja_skip_op(jinja_parser *p, const char *op) { return jinja_at_op(p, op) && (p->at++, true); }
bool jinja_skip_name(jinja_parser *p, const char *name) { return jinja_at_name(p, name) && (p->at++, true); }

// What stands at the parser's place, for messages.
static status unexpected(jinja_parser *p, const char *expected) {
    switch (p->at->kind) {
    case JINJA_T_EOF: return jinja_syntax(p, "expected %s, but the template ends", expected);
    case JINJA_T_NAME:
    case JINJA_T_OPERATOR:
    case JINJA_T_INT:
    case JINJA_T_FLOAT:
        return jinja_syntax(p, "expected %s, got '%.*s'", expected, p->at->text.len > 100 ? 100 : (int)p->at->text.len,
                            p->at->text.data);
    case JINJA_T_STRING: return jinja_syntax(p, "expected %s, got a string", expected);
    default: return jinja_syntax(p, "expected %s, got the end of the tag", expected);
    }
}

status jinja_expect_op(jinja_parser *p, const char *op) {
    char what[8];
    snprintf(what, sizeof what, "'%s'", op);
    return jinja_skip_op(p, op) ? STATUS_OK : unexpected(p, what);
}

status jinja_expect_name(jinja_parser *p, str *name) {
    if (p->at->kind != JINJA_T_NAME) return unexpected(p, "a name");
    *name = p->at++->text;
    return STATUS_OK;
}

static status expect_block_end(jinja_parser *p) {
    if (p->at->kind != JINJA_T_BLOCK_END) return unexpected(p, "'%}'");
    p->at++;
    return STATUS_OK;
}

static status parse_body(jinja_parser *p, const char *const *ends, jinja_list *body);

// The rest of a tag, then a body up to one of `ends`; the end's name is still to be read.
static status parse_block(jinja_parser *p, const char *const *ends, jinja_list *body) {
    jinja_skip_op(p, ":");
    TRY(expect_block_end(p));
    TRY(jinja_enter(p));
    TRY(parse_body(p, ends, body));
    p->depth--;
    return STATUS_OK;
}

// The same with one end, which is read.
static status parse_block_to(jinja_parser *p, const char *end, jinja_list *body) {
    TRY(parse_block(p, (const char *const[]){end, NULL}, body));
    p->at++;
    return STATUS_OK;
}

static status parse_if(jinja_parser *p, jinja_node **out) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    jinja_node *n = NULL;
    TRY(jinja_new_node(p, JINJA_IF, p->at++->line, &n));
    *out = n;
    for (;;) {
        TRY(jinja_parse_tuple(p, false, &n->a));
        TRY(parse_block(p, ends, &n->body));
        if (jinja_skip_name(p, "endif")) return STATUS_OK;
        bool is_else = jinja_at_name(p, "else");
        TRY(jinja_new_node(p, JINJA_IF, p->at++->line, &n->c));
        n = n->c;
        if (is_else) return parse_block_to(p, "endif", &n->body);
    }
}

static status parse_for(jinja_parser *p, jinja_node **out) {
    static const char *const ends[] = {"endfor", "else", NULL};
    jinja_node *n = NULL;
    TRY(jinja_new_node(p, JINJA_FOR, p->at++->line, &n));
    *out = n;
    TRY(jinja_parse_target(p, false, &n->a));
    if (!jinja_skip_name(p, "in")) return unexpected(p, "'in'");
    TRY(jinja_parse_tuple(p, false, &n->b));
    if (jinja_skip_name(p, "if")) TRY(jinja_parse_expression(p, &n->c));
    if (jinja_at_name(p, "recursive")) return refuse(p, "a for loop marked ", p->at->text);
    p->loops++;
    TRY(parse_block(p, ends, &n->body));
    p->loops--;
    if (jinja_skip_name(p, "endfor")) return STATUS_OK;
    p->at++;
    return parse_block_to(p, "endfor", &n->other);
}

static status parse_set(jinja_parser *p, jinja_node **out) {
    jinja_node *n = NULL;
    TRY(jinja_new_node(p, JINJA_SET, p->at++->line, &n));
    *out = n;
    TRY(jinja_parse_target(p, true, &n->a));
    if (jinja_skip_op(p, "=")) return jinja_parse_tuple(p, true, &n->b);
    n->kind = JINJA_SET_BLOCK;
    TRY(jinja_parse_filters(p, NULL, false, &n->b));
    return parse_block_to(p, "endset", &n->body);
}

static status parse_signature(jinja_parser *p, jinja_node *macro) {
    TRY(jinja_expect_op(p, "("));
    bool defaults = false;
    while (!jinja_at_op(p, ")")) {
        if (macro->items.n) TRY(jinja_expect_op(p, ","));
        jinja_node *arg = NULL;
        TRY(jinja_new_node(p, JINJA_NAME, p->at->line, &arg));
        TRY(jinja_expect_name(p, &arg->name));
        if (jinja_skip_op(p, "=")) {
            TRY(jinja_parse_expression(p, &arg->a));
            defaults = true;
        } else if (defaults) {
            return jinja_syntax(p, "a parameter without default follows one with a default");
        }
        TRY(jinja_append(p, &macro->items, arg));
    }
    return jinja_expect_op(p, ")");
}

// The body of a macro or call block; loops outside it are none of its own.
static status parse_macro_body(jinja_parser *p, jinja_node *macro, const char *end) {
    jinja_node *outer = p->macro;
    int loops = p->loops;
    p->macro = macro;
    p->loops = 0;
    TRY(parse_block_to(p, end, &macro->body));
    p->macro = outer;
    p->loops = loops;
    return STATUS_OK;
}

static status parse_macro(jinja_parser *p, jinja_node **out) {
    TRY(jinja_new_node(p, JINJA_MACRO, p->at++->line, out));
    TRY(jinja_expect_name(p, &(*out)->name));
    TRY(parse_signature(p, *out));
    return parse_macro_body(p, *out, "endmacro");
}

static status parse_call_block(jinja_parser *p, jinja_node **out) {
    jinja_node *n = NULL;
    TRY(jinja_new_node(p, JINJA_CALL_BLOCK, p->at++->line, &n));
    *out = n;
    TRY(jinja_new_node(p, JINJA_MACRO, n->line, &n->b));
    n->b->name = STR("caller");
    if (jinja_at_op(p, "(")) TRY(parse_signature(p, n->b));
    TRY(jinja_parse_expression(p, &n->a));
    if (n->a->kind != JINJA_CALL) return jinja_syntax(p, "a call block needs a call");
    return parse_macro_body(p, n->b, "endcall");
}

static status parse_with(jinja_parser *p, jinja_node **out) {
    jinja_node *n = NULL, *part = NULL;
    TRY(jinja_new_node(p, JINJA_WITH, p->at++->line, &n));
    *out = n;
    while (p->at->kind != JINJA_T_BLOCK_END) {
        if (n->items.n) TRY(jinja_expect_op(p, ","));
        TRY(jinja_parse_target(p, false, &part));
        TRY(jinja_append(p, &n->items, part));
        TRY(jinja_expect_op(p, "="));
        TRY(jinja_parse_expression(p, &part));
        TRY(jinja_append(p, &n->items, part));
    }
    return parse_block_to(p, "endwith", &n->body);
}

// {% print a, b %}: an output for each.
static status parse_print(jinja_parser *p, jinja_node **out) {
    TRY(jinja_new_node(p, JINJA_WITH, p->at++->line, out));
    jinja_node *list = *out;
    while (p->at->kind != JINJA_T_BLOCK_END) {
        if (list->body.n) TRY(jinja_expect_op(p, ","));
        jinja_node *n = NULL;
        TRY(jinja_new_node(p, JINJA_OUTPUT, p->at->line, &n));
        TRY(jinja_parse_expression(p, &n->a));
        TRY(jinja_append(p, &list->body, n));
    }
    return STATUS_OK;
}

static status parse_loop_control(jinja_parser *p, jinja_kind kind, jinja_node **out) {
    if (!p->loops) return jinja_syntax(p, "'%.*s' outside a loop", STR_ARG(p->at->text));
    return jinja_new_node(p, kind, p->at++->line, out);
}

static status parse_statement(jinja_parser *p, jinja_node **out) {
    if (p->at->kind != JINJA_T_NAME) return unexpected(p, "the name of a tag");
    str tag = p->at->text;
    if (str_is(tag, "if")) return parse_if(p, out);
    if (str_is(tag, "for")) return parse_for(p, out);
    if (str_is(tag, "set")) return parse_set(p, out);
    if (str_is(tag, "macro")) return parse_macro(p, out);
    if (str_is(tag, "call")) return parse_call_block(p, out);
    if (str_is(tag, "with")) return parse_with(p, out);
    if (str_is(tag, "print")) return parse_print(p, out);
    if (str_is(tag, "break")) return parse_loop_control(p, JINJA_BREAK, out);
    if (str_is(tag, "continue")) return parse_loop_control(p, JINJA_CONTINUE, out);
    if (str_is(tag, "filter")) {
        TRY(jinja_new_node(p, JINJA_FILTER_BLOCK, p->at++->line, out));
        TRY(jinja_parse_filters(p, NULL, true, &(*out)->b));
        return parse_block_to(p, "endfilter", &(*out)->body);
    }
    if (str_is(tag, "generation")) {
        TRY(jinja_new_node(p, JINJA_SCOPE, p->at++->line, out));
        return parse_block_to(p, "endgeneration", &(*out)->body);
    }
    static const char *const refused[] = {"block",      "extends", "include", "import", "from",
                                          "autoescape", "do",      "trans",   "debug"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (str_is(tag, refused[i])) return refuse(p, "the tag ", tag);
    }
    return jinja_syntax(p, "the tag '%.*s' is unknown or out of place", tag.len > 100 ? 100 : (int)tag.len, tag.data);
}

static bool at_end(const jinja_parser *p, const char *const *ends) {
    for (; ends && *ends; ends++) {
        if (jinja_at_name(p, *ends)) return true;
    }
    return false;
}

// Text and tags up to one of `ends` (NULL: up to the end of the template).
static status parse_body(jinja_parser *p, const char *const *ends, jinja_list *body) {
    for (;;) {
        jinja_node *n = NULL;
        int line = p->at->line;
        switch (p->at->kind) {
        case JINJA_T_EOF:
            return ends ? jinja_syntax(p, "the template ends where {%% %s %%} is missing", ends[0]) : STATUS_OK;
        case JINJA_T_DATA:
            TRY(jinja_new_node(p, JINJA_DATA, line, &n));
            n->value = jinja_text(p->at++->text, true);
            break;
        case JINJA_T_VARIABLE_BEGIN:
            p->at++;
            TRY(jinja_new_node(p, JINJA_OUTPUT, line, &n));
            TRY(jinja_parse_tuple(p, true, &n->a));
            if (p->at->kind != JINJA_T_VARIABLE_END) return unexpected(p, "'}}'");
            p->at++;
            break;
        default:
            p->at++; // JINJA_T_BLOCK_BEGIN
            if (at_end(p, ends)) return STATUS_OK;
            TRY(parse_statement(p, &n));
            TRY(expect_block_end(p));
        }
        TRY(jinja_append(p, body, n));
    }
}

// A copy with "\r\n" and "\r" as "\n" and without one newline at the end.
static status normalise(arena *mem, str source, str *out, error *err) {
    char *p = arena_alloc(mem, source.len + 1);
    if (!p) return error_no_memory(err, source.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < source.len; i++) {
        char c = source.data[i];
        if (c == '\r') {
            if (i + 1 < source.len && source.data[i + 1] == '\n') i++;
            c = '\n';
        }
        p[n++] = c;
    }
    if (n > 0 && p[n - 1] == '\n') n--;
    *out = (str){p, n};
    return STATUS_OK;
}

status jinja_parse(arena *mem, str source, jinja_list *body, error *err) {
    if (source.len > JINJA_MAX_SOURCE) {
        return error_set(err, STATUS_UNSUPPORTED, "the chat template has %zu bytes; at most %d are supported",
                         source.len, JINJA_MAX_SOURCE);
    }
    str text;
    jinja_token *tokens;
    TRY(normalise(mem, source, &text, err));
    TRY(jinja_lex(mem, text, &tokens, err));
    jinja_parser p = {.mem = mem, .at = tokens, .err = err};
    return parse_body(&p, NULL, body);
}
