#include "cmd/spec_prompts.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/common.h"

static const char MARK[] = "=== ", STOP[] = " | stop: ";

// Cuts a header "=== class/name | stop: text" (terminated) into its fields. False: it is none.
static bool read_header(char *line, spec_prompt *p) {
    char *name = line + sizeof MARK - 1, *slash = strchr(name, '/'), *stop = strstr(name, STOP);
    if (!slash || (stop && slash > stop)) return false;
    *slash = 0;
    if (stop) *stop = 0, stop += sizeof STOP - 1;
    *p = (spec_prompt){.class_name = name, .name = slash + 1, .stop = stop};
    return *p->class_name && *p->name && !strpbrk(p->name, " /|") && (!stop || *stop);
}

static bool class_is_known(const spec_prompt_list *l, const char *class_name) {
    for (int i = 0; i < l->n; i++) {
        if (strcmp(l->items[i].class_name, class_name) == 0) return true;
    }
    return false;
}

// Where the prompt stands in its file is told by what is wrong with it.
static int check_prompt_of(const spec_prompt_list *l, const spec_prompt *p, const char *path) {
    if (p->len == 0) return fail("%s: prompt %s/%s is empty", path, p->class_name, p->name);
    for (int i = 0; i < l->n; i++) {
        if (strcmp(l->items[i].class_name, p->class_name) == 0 && strcmp(l->items[i].name, p->name) == 0)
            return fail("%s: prompt %s/%s is there twice; rename one", path, p->class_name, p->name);
    }
    if (l->n && class_is_known(l, p->class_name) && strcmp(l->items[l->n - 1].class_name, p->class_name) != 0)
        return fail("%s: prompt %s/%s stands apart from its class; prompts of a class stand together", path,
                    p->class_name, p->name);
    return 0;
}

static char *next_mark(char *from) {
    char *at = strstr(from, "\n=== ");
    return at ? at + 1 : NULL;
}

static int read_items(spec_prompt_list *l, const char *path) {
    char *at = strncmp(l->data, MARK, sizeof MARK - 1) == 0 ? l->data : next_mark(l->data);
    while (at) {
        char *next = next_mark(at), *end = at + strcspn(at, "\n"), *text = *end ? end + 1 : end;
        *end = 0;
        spec_prompt p;
        char header[80];
        snprintf(header, sizeof header, "%s", at);
        if (!read_header(at, &p))
            return fail("%s: '%s' is no header; write === CLASS/NAME, or === CLASS/NAME | stop: TEXT", path, header);
        char *last = next ? next - 1 : text + strlen(text);
        if (!next && last > text && last[-1] == '\n') last--;
        if (last < text) last = text; // a header right behind a header
        p.text = text;
        p.len = (size_t)(last - text);
        int rc = check_prompt_of(l, &p, path);
        if (rc) return rc;
        spec_prompt *grown = realloc(l->items, (size_t)(l->n + 1) * sizeof *grown);
        if (!grown) return fail("memory ran out for %d prompts", l->n + 1);
        l->items = grown;
        l->items[l->n++] = p;
        at = next;
    }
    return l->n ? 0 : fail("%s holds no prompt: no line begins with '=== '", path);
}

int spec_prompts_read(const char *path, spec_prompt_list *out) {
    *out = (spec_prompt_list){0};
    size_t len;
    int rc = read_file(path, &out->data, &len);
    if (rc) return rc;
    rc = strlen(out->data) == len ? read_items(out, path) : fail("%s holds zero bytes; it has to be text", path);
    if (rc) spec_prompts_deinit(out);
    return rc;
}

void spec_prompts_deinit(spec_prompt_list *l) {
    free(l->items);
    free(l->data);
    *l = (spec_prompt_list){0};
}
