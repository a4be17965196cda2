// Options to the library's description of a chat.
#ifndef TALLY_CMD_CHAT_INPUT_H
#define TALLY_CMD_CHAT_INPUT_H

#include "cmd/args.h"
#include "tally.h"

typedef struct chat_input_files {
    char *template_text; // owned; NULL: the model's own
} chat_input_files;

// Fills *chat from --tools, --template-kwargs, --chat-template-file and `messages` (JSON, borrowed). 0 or an exit code.
int chat_input_open(const options *o, const char *messages, tally_chat *chat, chat_input_files *files);
void chat_input_close(chat_input_files *files);
// Options that mean nothing without --chat. 0 or an exit code.
int chat_input_check(const options *o);

// [{"role": "system", ...}, {"role": "user", ...}] as JSON text, owned by the caller (free). 0 or an exit code.
int chat_messages(const char *system, const char *user, size_t user_len, char **json);

#endif
