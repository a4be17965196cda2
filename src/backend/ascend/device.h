// One device of the vendor's runtime: a context, one stream, memory. Every failure says which call failed, its code, the chip, the
// library's version and what the library itself has to say.
#ifndef TALLY_BACKEND_ASCEND_DEVICE_H
#define TALLY_BACKEND_ASCEND_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "backend/ascend/library.h"
#include "backend/ascend/spec.h"

typedef struct ascend_block { // device memory
    struct ascend_block *next;
    void *data;
    int64_t bytes;
} ascend_block;

typedef struct ascend_device {
    ascend_library lib;
    int id;
    bool is_set;
    int timeout_ms; // a step that takes longer is taken for a device that hangs
    bool hangs;     // the last wait took longer: the next one is not given that time again
    char soc[64];
    ascend_family family;
    aclrtContext context;
    aclrtStream stream;
    ascend_block *blocks; // owned
} ascend_device;

// On failure nothing stays behind.
status ascend_device_open(ascend_device *d, const ascend_spec *spec, error *err);
void ascend_device_close(ascend_device *d); // stops it and frees what is left of its memory
// Ends what the stream runs, by force if it does not end by itself, so that what it used can be freed. Nothing can be launched any more.
void ascend_device_stop(ascend_device *d);

// Makes the device's context this thread's: before any call that follows, since an engine may have moved to another thread.
status ascend_device_enter(const ascend_device *d, error *err);

// 64-byte aligned and never moved. `what` names it where memory runs out.
status ascend_device_alloc(ascend_device *d, int64_t bytes, const char *what, void **out, error *err);
void ascend_device_free(ascend_device *d, void *data);

status ascend_device_upload(const ascend_device *d, void *dst, const void *src, size_t bytes, error *err);
status ascend_device_download(const ascend_device *d, void *dst, const void *src, size_t bytes, error *err);
status ascend_device_sync(ascend_device *d, error *err);

// STATUS_OK for 0, else the sentence.
status ascend_check(const ascend_device *d, int code, const char *call, error *err);

// "Ascend910B3 (A2), runtime 1.17.0"
const char *ascend_device_text(const ascend_device *d, char text[static 128]);

#endif
