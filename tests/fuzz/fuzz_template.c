// Fuzzes the template engine: the input is a template, and behind a zero byte, if there is one, the messages as JSON.
#include <stdint.h>
#include <stdlib.h>

#include "text/chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char fallback[] =
        "[{\"role\":\"user\",\"content\":\"a <|im_end|> \\u00df\\u4e16 {{ b }}\",\"n\":[1,2.5,null,true]},"
        "{\"role\":\"assistant\",\"content\":\"<think>x</think>y\",\"tool_calls\":[{\"function\":"
        "{\"name\":\"f\",\"arguments\":{\"k\":\"v\",\"z\":[{}]}}}]},{\"role\":\"tool\",\"content\":\"ok\"}]";
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t n = zero ? (size_t)(zero - data) : size;
    json_t *messages = zero ? json_loadb((const char *)zero + 1, size - n - 1, JSON_ALLOW_NUL, NULL) : NULL;
    if (!messages) messages = json_loads(fallback, 0, NULL);
    chat_template *t;
    error err = {0};
    chat_prompt p = {0};
    if (messages && chat_template_open(&t, (str){(const char *)data, n}, &err) == STATUS_OK) {
        chat_input in = {.messages = messages,
                         .tools = messages,
                         .bos_token = STR("<s>"),
                         .eos_token = STR("</s>"),
                         .add_generation_prompt = true};
        status st = chat_render(t, &in, &p, &err);
        if (st == STATUS_INTERNAL || p.text.len != p.trusted.len) abort();
        chat_template_close(t);
    }
    chat_prompt_deinit(&p);
    json_decref(messages);
    return 0;
}
