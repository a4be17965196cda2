// libFuzzer target: bytes up to the first zero byte as tokenizer.json, up to the second as tokenizer_config.json, the rest as a text
// to encode and decode (if there is none: a fixed one).
#include <stdint.h>
#include <stdlib.h>

#include "text/tokenizer_parts.h"
#include "text/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static str next_part(str *rest) {
    const char *zero = rest->len ? memchr(rest->data, 0, rest->len) : NULL;
    str part = {rest->data, zero ? (size_t)(zero - rest->data) : rest->len};
    size_t used = part.len + (zero ? 1 : 0);
    *rest = (str){rest->data + used, rest->len - used};
    return part;
}

static void use(const tokenizer *t, str text, unsigned flags) {
    error err = {0};
    token_list ids = {0};
    strbuf out = {0};
    if (tokenizer_encode(t, text, NULL, flags, &ids, &err) == STATUS_OK) {
        for (size_t i = 0; i < ids.len; i++) {
            if (ids.data[i] < 0 || ids.data[i] >= tokenizer_n_tokens(t)) abort();
        }
        if (tokenizer_decode(t, ids.data, ids.len, flags == 0, &out, &err) != STATUS_OK) abort();
        if (out.len && utf8_valid_prefix(strbuf_str(&out)) != out.len) abort();
    } else if (!err.text[0]) {
        abort();
    }
    token_list_deinit(&ids);
    strbuf_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    str rest = {(const char *)data, size};
    tokenizer_files files = {.tokenizer_json = next_part(&rest)};
    files.tokenizer_config = next_part(&rest);
    if (rest.len == 0) rest = STR("a<|im_end|>b 12 e\xcc\x81 \xff\n  x");
    tokenizer *t;
    error err = {0};
    if (tokenizer_from_files(&t, &files, &err) != STATUS_OK) {
        if (!err.text[0] || strchr(err.text, '\n')) abort();
        return 0;
    }
    use(t, rest, 0);
    use(t, rest, ENCODE_ADD_SPECIAL | ENCODE_PARSE_SPECIAL);
    tokenizer_close(t);
    return 0;
}
