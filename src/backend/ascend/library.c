#include "backend/ascend/library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"

typedef struct opening {
    ascend_library *lib;
    const char *folder; // the emulator's; NULL: as the dynamic linker and the environment say
    ascend_library_seen *seen;
    void *ctx;
    char why[400]; // of the last library that was not found
} opening;

static void *try_open(const opening *o, const char *path) {
    // Operators find the base symbols of the vendor's libraries only in the global scope.
    return dlopen(path, RTLD_LAZY | (o->folder ? RTLD_LOCAL : RTLD_GLOBAL));
}

// Opens lib<name>.so and keeps it. False: not found.
static bool open_one(opening *o, const char *name) {
    char file[64], path[PATH_MAX];
    snprintf(file, sizeof file, "lib%s.so", name);
    const char *home = env_get(ENV_ASCEND_HOME_PATH);
    const char *folders[] = {o->folder, home, "/usr/local/Ascend/ascend-toolkit/latest"};
    void *h = o->folder ? NULL : try_open(o, file);
    const char *said = h ? NULL : dlerror();
    snprintf(o->why, sizeof o->why, "%s", said ? said : "not found");
    for (int i = o->folder ? 0 : 1; !h && i < (o->folder ? 1 : 3); i++) {
        if (!folders[i]) continue;
        snprintf(path, sizeof path, o->folder ? "%s/%s" : "%s/lib64/%s", folders[i], file);
        h = try_open(o, path);
        said = h ? NULL : dlerror();
        if (said) snprintf(o->why, sizeof o->why, "%s", said);
    }
    if (o->seen) o->seen(o->ctx, file, h ? NULL : o->why);
    if (!h) return false;
    o->lib->handle[o->lib->n_handles++] = h;
    return true;
}

static void *find(const ascend_library *lib, const char *name) {
    void *symbol = NULL;
    for (int i = 0; i < lib->n_handles && !symbol; i++) symbol = dlsym(lib->handle[i], name);
    return symbol;
}

// POSIX lets an object pointer become a function pointer; ISO C only by its bytes.
#define RESOLVE(lib, name, symbol) \
    do { \
        void *found_ = find(lib, symbol); \
        memcpy(&(lib)->name, &found_, sizeof found_); \
    } while (0)

static void resolve(ascend_library *lib, const char **missing) {
#define RESOLVE_REQUIRED(library, name) \
    RESOLVE(lib, name, #name); \
    if (!lib->name && !*missing) *missing = #name " (lib" #library ".so)";
    ASCEND_REQUIRED(RESOLVE_REQUIRED)
#undef RESOLVE_REQUIRED
#define RESOLVE_OPTIONAL(library, name) RESOLVE(lib, name, #name);
    ASCEND_OPTIONAL(RESOLVE_OPTIONAL)
#undef RESOLVE_OPTIONAL
#define RESOLVE_OPERATOR(name, chips) \
    RESOLVE(lib, name, #name); \
    RESOLVE(lib, name##GetWorkspaceSize, #name "GetWorkspaceSize");
    ASCEND_OPERATORS(RESOLVE_OPERATOR)
#undef RESOLVE_OPERATOR
}

// The dynamic linker answers a name of CANN's with the library of that name that the process has, and that is the emulator's where
// another engine runs on emu:. The emulator found by LD_LIBRARY_PATH is what was asked for.
static status refuse_emulator(const opening *o, error *err) {
    enum { BY_CALL = 2 };
    int (*configured)(void);
    void *found = o->folder ? NULL : dlsym(o->lib->handle[0], "tally_emu_configured");
    if (!found) return STATUS_OK;
    memcpy(&configured, &found, sizeof configured);
    if (configured() != BY_CALL) return STATUS_OK;
    dlclose(o->lib->handle[0]);
    return error_set(
        err, STATUS_UNSUPPORTED,
        "an engine of this process runs on the emulator (emu:), whose libraries have the names of CANN's; close "
        "it first, or open the NPU in another process");
}

static status open_all(opening *o, error *err) {
    static const char *const base[] = {"ascendcl", "nnopbase"};
    static const char *const split[] = {"opapi_math", "opapi_nn", "opapi_transformer"};
    ascend_library *lib = o->lib;
    for (int i = 0; i < 2; i++) {
        if (open_one(o, base[i])) continue;
        return error_set(err, STATUS_NOT_FOUND, "lib%s.so cannot be loaded (%s); %s", base[i], o->why,
                         o->folder ? "build the emulator: make emulator"
                                   : "install CANN and source its set_env.sh, or take --device emu:910B3");
    }
    TRY(refuse_emulator(o, err));
    int n = 0;
    while (n < 3 && open_one(o, split[n])) n++;
    lib->split = n == 3;
    if (n < 3 && n > 0)
        return error_set(err, STATUS_NOT_FOUND, "lib%s.so cannot be loaded (%s), though libopapi_math.so can", split[n],
                         o->why);
    if (n == 0 && !open_one(o, "opapi"))
        return error_set(err, STATUS_NOT_FOUND,
                         "neither libopapi_math.so nor libopapi.so can be loaded (%s); install the operator packages",
                         o->why);
    const char *missing = NULL;
    resolve(lib, &missing);
    if (!missing) return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED, "the installed libraries have no %s; CANN 8.1 or later is needed",
                     missing);
}

// The folder with libtally_emu.so: beside the program, or (tests) above it, or where it is installed.
static bool emulator_folder(char *out, size_t size) {
    static const char *const places[] = {"emulator", "../emulator", "../../emulator", "../lib/tally/emulator"};
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) return false;
    self[n] = 0;
    char *slash = strrchr(self, '/');
    if (slash) *slash = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char probe[PATH_MAX + 64];
        snprintf(probe, sizeof probe, "%s/%s/libtally_emu.so", self, places[i]);
        if (access(probe, R_OK) != 0) continue;
        snprintf(out, size, "%s/%s", self, places[i]);
        return true;
    }
    return false;
}

static status open_emulator(opening *o, const char *version, char *folder, size_t size, error *err) {
    char path[PATH_MAX + 64];
    if (!emulator_folder(folder, size)) {
        if (o->seen) o->seen(o->ctx, "libtally_emu.so", "not beside the program");
        return error_set(err, STATUS_NOT_FOUND,
                         "the emulator (emulator/libtally_emu.so) is not beside the program; build it: make emulator");
    }
    snprintf(path, sizeof path, "%s/libtally_emu.so", folder);
    // Its threads run on: never unloaded.
    o->lib->emulator = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (!o->lib->emulator) {
        const char *why = dlerror();
        return error_set(err, STATUS_NOT_FOUND, "the emulator cannot be loaded: %s", why ? why : path);
    }
    size_t n = strlen(folder);
    snprintf(folder + n, size - n, "/%s", version);
    o->folder = folder;
    return STATUS_OK;
}

status ascend_library_open(ascend_library *lib, const char *emulator, ascend_library_seen *seen, void *ctx,
                           error *err) {
    *lib = (ascend_library){0};
    opening o = {.lib = lib, .seen = seen, .ctx = ctx};
    char folder[PATH_MAX + 32];
    status s = emulator ? open_emulator(&o, emulator, folder, sizeof folder, err) : STATUS_OK;
    if (!s) s = open_all(&o, err);
    if (s) ascend_library_close(lib);
    return s;
}

void ascend_library_close(ascend_library *lib) {
    // The vendor's libraries start threads and are not made to be unloaded; the emulator's are only jumps.
    for (int i = lib->n_handles - 1; i >= 0 && lib->emulator; i--) dlclose(lib->handle[i]);
    if (lib->emulator) dlclose(lib->emulator);
    *lib = (ascend_library){0};
}

void ascend_library_restrict(ascend_library *lib, ascend_family family) {
#define RESTRICT(name, chips) \
    if (!((chips)&1u << family)) lib->name = NULL, lib->name##GetWorkspaceSize = NULL;
    ASCEND_OPERATORS(RESTRICT)
#undef RESTRICT
}

void *ascend_library_emulator(const ascend_library *lib, const char *name) {
    return lib->emulator ? dlsym(lib->emulator, name) : NULL;
}
