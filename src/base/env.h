// The environment variables tally reads, all of them, in one table; nothing else calls getenv.
#ifndef TALLY_BASE_ENV_H
#define TALLY_BASE_ENV_H

#define ENV_LIST(X) \
    X(HF_HUB_CACHE, "the Hugging Face cache in which org/name is looked up") \
    X(HF_HOME, "its parent: HF_HOME/hub") \
    X(HOME, "its default parent: ~/.cache/huggingface/hub") \
    X(ASCEND_HOME_PATH, "the folder in whose lib64 CANN's libraries are looked for, beside the linker's folders") \
    X(ASCEND_RT_VISIBLE_DEVICES, "which NPUs the runtime shows, as numbers with commas; read by CANN itself") \
    X(TERM, "whether progress can be drawn (not on a dumb terminal)")

typedef enum env_name {
#define ENV_ENUM(name, help) ENV_##name,
    ENV_LIST(ENV_ENUM)
#undef ENV_ENUM
        ENV_COUNT
} env_name;

const char *env_get(env_name name); // NULL: not set, or empty
const char *env_text(env_name name);
const char *env_help(env_name name);

#endif
