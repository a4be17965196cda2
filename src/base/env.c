#include "base/env.h"

#include <stdlib.h>

static const struct {
    const char *name, *help;
} table[] = {
#define ENV_ROW(name, help) {#name, help},
    ENV_LIST(ENV_ROW)
#undef ENV_ROW
};

const char *env_get(env_name name) {
    const char *value = getenv(table[name].name);
    return value && value[0] ? value : NULL;
}

const char *env_text(env_name name) { return table[name].name; }
const char *env_help(env_name name) { return table[name].help; }
