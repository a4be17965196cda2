#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mapfile.h"
#include "base/str.h"
#include "file/hf.h"

enum { PATH_BYTES = 4096, MAX_NAME = 96, REVISION_BYTES = 256 }; // the hub allows names of 96 characters

static bool is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

// One part of a name: no path separators, nothing that climbs out of the cache.
static bool is_plain(const char *s, size_t n) {
    if (n == 0 || n > MAX_NAME || s[0] == '.' || s[0] == '-') return false;
    for (size_t i = 0; i < n; i++) {
        bool fine = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || (s[i] >= '0' && s[i] <= '9') ||
                    s[i] == '.' || s[i] == '_' || s[i] == '-';
        if (!fine) return false;
    }
    return true;
}

bool hf_is_model_name(const char *name) {
    const char *slash = strchr(name, '/');
    return slash && is_plain(name, (size_t)(slash - name)) && is_plain(slash + 1, strlen(slash + 1));
}

// refs/main of the model's folder; false when there is none.
static bool read_revision(char *revision, size_t size, const char *model) {
    char path[PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/refs/main", model) >= (int)sizeof path) return false;
    mapfile text;
    if (mapfile_read(&text, path, MAX_NAME, NULL) != STATUS_OK) return false;
    snprintf(revision, size, "%.*s", (int)text.size, (const char *)text.data);
    mapfile_close(&text);
    revision[strcspn(revision, " \r\n")] = 0;
    return is_plain(revision, strlen(revision));
}

// The only folder under snapshots/, or the number of folders there.
static int only_snapshot(char *revision, size_t size, const char *model) {
    char path[PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/snapshots", model) >= (int)sizeof path) return 0;
    DIR *d = opendir(path);
    if (!d) return 0;
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (!is_plain(e->d_name, strlen(e->d_name))) continue;
        snprintf(revision, size, "%s", e->d_name);
        n++;
    }
    closedir(d);
    return n;
}

// Looks into one cache directory. STATUS_NOT_FOUND without a sentence: the model is not there at all.
static status find_in(char *out, size_t size, const char *name, const char *dir, error *err) {
    const char *slash = strchr(name, '/');
    char model[PATH_BYTES], revision[REVISION_BYTES];
    if (snprintf(model, sizeof model, "%s/models--%.*s--%s", dir, (int)(slash - name), name, slash + 1) >=
            (int)sizeof model ||
        !is_folder(model)) {
        return STATUS_NOT_FOUND;
    }
    if (!read_revision(revision, sizeof revision, model)) {
        int n = only_snapshot(revision, sizeof revision, model);
        if (n != 1) {
            return error_set(err, STATUS_BAD_FILE,
                             "%s: has no refs/main and %d folders under snapshots/; name the folder itself", model, n);
        }
    }
    if (snprintf(out, size, "%s/snapshots/%s", model, revision) >= (int)size || !is_folder(out)) {
        return error_set(err, STATUS_BAD_FILE,
                         "%s: refs/main names the revision %s, which is not under snapshots/; fetch the model "
                         "again",
                         model, revision);
    }
    return STATUS_OK;
}

status hf_cache_find(char *out, size_t size, const char *name, const char *const *dirs, int n_dirs, error *err) {
    strbuf looked = {0};
    for (int i = 0; i < n_dirs; i++) {
        if (!dirs[i] || !*dirs[i]) continue;
        status code = find_in(out, size, name, dirs[i], err);
        if (code != STATUS_NOT_FOUND) {
            strbuf_deinit(&looked);
            return code;
        }
        strbuf_addf(&looked, "%s%s", looked.len ? ", " : "", dirs[i]);
    }
    status code =
        error_set(err, STATUS_NOT_FOUND,
                  "%s: neither a path nor a model in the Hugging Face cache (%s); tally downloads nothing, fetch it "
                  "first: huggingface-cli download %s",
                  name, looked.len ? strbuf_text(&looked) : "no cache directory is known", name);
    strbuf_deinit(&looked);
    return code;
}
