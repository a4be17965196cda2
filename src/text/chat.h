// Messages to prompt: the model's own chat template, rendered with provenance.
//
// The result carries one byte per text byte that says whether the template (1) or a message, tool or keyword argument (0)
// wrote it, so that `<|im_end|>` typed by a user stays text (tokenizer.h, `trusted`).
#ifndef TALLY_TEXT_CHAT_H
#define TALLY_TEXT_CHAT_H

#include <jansson.h>

#include "base/status.h"
#include "base/str.h"

typedef struct chat_template chat_template; // a parsed template; immutable, any thread may render

// Parses Jinja source (trim_blocks and lstrip_blocks on, as transformers does). What is not supported is refused here or while
// rendering, with line and construct.
status chat_template_open(chat_template **out, str source, error *err);
void chat_template_close(chat_template *t);

typedef struct chat_input {
    const json_t *messages;   // array of objects; must be
    const json_t *tools;      // array or NULL
    const json_t *kwargs;     // object or NULL: further variables, may override bos_token and eos_token
    str bos_token, eos_token; // variables of the same names (trusted); .data NULL: the tokenizer has none, undefined
    bool add_generation_prompt;
    str unk_token, pad_token; // the same
} chat_input;

typedef struct chat_prompt {
    strbuf text;
    strbuf trusted; // as long as text: bytes 0 or 1
} chat_prompt;
void chat_prompt_deinit(chat_prompt *p);

// Renders as transformers' apply_chat_template does, which drops keys of a message whose value is null and passes a message's
// reasoning as both `reasoning_content` and `thinking`. A template's raise_exception becomes STATUS_BAD_ARGUMENT with its message.
// *out is zeroed or an earlier result, whose memory is used again; the caller deinits it, and it is empty after a failure.
status chat_render(const chat_template *t, const chat_input *in, chat_prompt *out, error *err);

#endif
