// The prompts of `tally bench --spec-suite`, from a text file:
//
//     what stands before the first header is a comment
//     === class/name
//     the prompt, to the end of the line before the next header
//     === code/median | stop: return
//     ...
//
// The last line's newline does not count: a prompt that ends with a newline ends with an empty line.
#ifndef TALLY_CMD_SPEC_PROMPTS_H
#define TALLY_CMD_SPEC_PROMPTS_H

#include <stddef.h>

typedef struct spec_prompt {
    const char *class_name, *name;
    const char *stop; // NULL: none
    const char *text; // not empty
    size_t len;
} spec_prompt;

typedef struct spec_prompt_list { // prompts of a class stand together, names are unique
    spec_prompt *items;           // owned
    int n;
    char *data; // owned; what the items point into
} spec_prompt_list;

// 0 or an exit code; on failure nothing is to be released.
int spec_prompts_read(const char *path, spec_prompt_list *out);
void spec_prompts_deinit(spec_prompt_list *l);

#endif
