// The messages of a chat: a JSON array of {"role", "content"}, kept, saved and loaded.
#ifndef TALLY_CMD_CONVERSATION_H
#define TALLY_CMD_CONVERSATION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct conversation {
    json_t *messages; // owned
} conversation;

// Each returns 0, or an exit code after telling why; the conversation is then as it was.
int conversation_init(conversation *c, const char *system); // system: NULL, or the first message
void conversation_deinit(conversation *c);
int conversation_add(conversation *c, const char *role, const char *text, size_t len);
void conversation_drop_last(conversation *c);
void conversation_clear(conversation *c);                                   // all but the system message
int conversation_set_system(conversation *c, const char *text, size_t len); // an empty text removes it
int conversation_save(const conversation *c, const char *path);             // the file is there whole, or as it was
int conversation_load(conversation *c, const char *path);
size_t conversation_length(const conversation *c); // messages, the system message included

#endif
