#include "cmd/conversation.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/common.h"

static int memory_ran_out(void) { return fail("memory ran out for the conversation"); }

int conversation_init(conversation *c, const char *system) {
    c->messages = json_array();
    if (!c->messages) return memory_ran_out();
    return system ? conversation_set_system(c, system, strlen(system)) : 0;
}

void conversation_deinit(conversation *c) { json_decref(c->messages); }

size_t conversation_length(const conversation *c) { return json_array_size(c->messages); }

static json_t *make_message(const char *role, const char *text, size_t len) {
    json_t *content = json_stringn(text, len);
    if (!content) {
        fail("the text is not valid UTF-8 and was dropped");
        return NULL;
    }
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", content);
    if (!message) memory_ran_out();
    return message;
}

int conversation_add(conversation *c, const char *role, const char *text, size_t len) {
    json_t *message = make_message(role, text, len);
    if (!message) return EXIT_FAILED;
    return json_array_append_new(c->messages, message) == 0 ? 0 : memory_ran_out();
}

void conversation_drop_last(conversation *c) {
    if (json_array_size(c->messages)) json_array_remove(c->messages, json_array_size(c->messages) - 1);
}

static bool has_system(const conversation *c) {
    const char *role = json_string_value(json_object_get(json_array_get(c->messages, 0), "role"));
    return role && strcmp(role, "system") == 0;
}

void conversation_clear(conversation *c) {
    size_t keep = has_system(c) ? 1 : 0;
    while (json_array_size(c->messages) > keep) conversation_drop_last(c);
}

int conversation_set_system(conversation *c, const char *text, size_t len) {
    json_t *message = len ? make_message("system", text, len) : NULL;
    if (len && !message) return EXIT_FAILED;
    if (has_system(c)) json_array_remove(c->messages, 0);
    if (!message) return 0;
    return json_array_insert_new(c->messages, 0, message) == 0 ? 0 : memory_ran_out();
}

// ---- files ---------------------------------------------------------------------------------------------------------------

static bool write_whole(FILE *f, const json_t *messages) {
    errno = 0;
    bool good = json_dumpf(messages, f, JSON_INDENT(2)) == 0 && fputc('\n', f) != EOF && fflush(f) == 0 &&
                fsync(fileno(f)) == 0;
    int why = errno;
    if (fclose(f) != 0 && good) return false;
    errno = why;
    return good;
}

int conversation_save(const conversation *c, const char *path) {
    char temp[4096], real[PATH_MAX];
    if (realpath(path, real)) path = real; // a link stays one
    if (snprintf(temp, sizeof temp, "%s.XXXXXX", path) >= (int)sizeof temp)
        return fail("the name %.60s... is too long", path);
    struct stat st;
    bool exists = stat(path, &st) == 0;
    if (exists && !S_ISREG(st.st_mode)) return fail("%s is no file that could be replaced", path);
    mode_t mask = umask(0);
    umask(mask);
    int fd = mkstemp(temp); // beside the file, so that it can take its place in one move
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!f) {
        int rc = fail("cannot write %s: %s", path, strerror(errno));
        if (fd >= 0) close(fd), unlink(temp);
        return rc;
    }
    fchmod(fd, exists ? st.st_mode & 07777 : 0666 & ~mask);
    if (write_whole(f, c->messages) && rename(temp, path) == 0) return 0;
    int rc = fail("cannot write %s: %s", path, errno ? strerror(errno) : "write error");
    unlink(temp);
    return rc;
}

static int check_messages(const char *path, const json_t *list) {
    if (!json_is_array(list)) return fail("%s holds no JSON array of messages", path);
    size_t i;
    json_t *m;
    json_array_foreach(list, i, m) {
        const char *role = json_string_value(json_object_get(m, "role"));
        bool known = role && (strcmp(role, "user") == 0 || strcmp(role, "assistant") == 0 ||
                              strcmp(role, "tool") == 0 || (strcmp(role, "system") == 0 && i == 0));
        if (!known) {
            return fail("message %zu of %s has the role %s%s%s; user and assistant are right, and system for the first",
                        i + 1, path, role ? "\"" : "none", role ? role : "", role ? "\"" : "");
        }
        if (!json_is_string(json_object_get(m, "content")))
            return fail("message %zu of %s has no text as its content", i + 1, path);
    }
    return 0;
}

int conversation_load(conversation *c, const char *path) {
    char *data;
    size_t len;
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) return fail("%s is no file", path); // a pipe may never end
    if (strcmp(path, "-") == 0) return fail("/load needs the name of a file");
    int rc = read_file(path, &data, &len);
    if (rc) return rc;
    json_error_t at;
    json_t *list = json_loadb(data, len, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &at);
    free(data);
    if (!list) return fail("%s is not JSON: line %d, column %d", path, at.line, at.column);
    rc = check_messages(path, list);
    if (rc) {
        json_decref(list);
        return rc;
    }
    json_decref(c->messages);
    c->messages = list;
    return 0;
}
