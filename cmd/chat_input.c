#include "cmd/chat_input.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/common.h"

int chat_input_check(const options *o) {
    if (o->chat) return 0;
    const char *name = o->system                 ? "-sys"
                       : o->tools                ? "--tools"
                       : o->template_kwargs      ? "--template-kwargs"
                       : o->template_file        ? "--chat-template-file"
                       : o->no_generation_prompt ? "--no-generation-prompt"
                       : o->text                 ? "--text"
                                                 : NULL;
    return name ? usage_error("%s belongs to a chat; add --chat", name) : 0;
}

int chat_input_open(const options *o, const char *messages, tally_chat *chat, chat_input_files *files) {
    files->template_text = NULL;
    if (o->template_file) {
        size_t len;
        int rc = read_file(o->template_file, &files->template_text, &len);
        if (rc) return rc;
        if (strlen(files->template_text) != len) {
            chat_input_close(files);
            return fail("the template %s holds a zero byte; a Jinja template is text", o->template_file);
        }
    }
    *chat = (tally_chat){
        .messages = messages,
        .tools = o->tools,
        .kwargs = o->template_kwargs,
        .template_text = files->template_text,
        .no_generation_prompt = o->no_generation_prompt,
    };
    return 0;
}

void chat_input_close(chat_input_files *files) {
    free(files->template_text);
    files->template_text = NULL;
}

int chat_messages(const char *system, const char *user, size_t user_len, char **json) {
    json_t *content = json_stringn(user, user_len);
    if (!content) return fail("the message is not valid UTF-8 text");
    json_t *list = json_pack("[{s:s, s:o}]", "role", "user", "content", content);
    if (list && system) {
        json_t *first = json_pack("{s:s, s:s}", "role", "system", "content", system);
        if (!first || json_array_insert_new(list, 0, first) != 0) {
            json_decref(list);
            return fail("the system message (-sys) is not valid UTF-8 text");
        }
    }
    *json = list ? json_dumps(list, 0) : NULL;
    json_decref(list);
    return *json ? 0 : fail("memory ran out writing the messages");
}
