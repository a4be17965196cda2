// A file's bytes in memory: mapped read-only, or read into a buffer.
//
// The bytes are valid until mapfile_close; any thread may read them. A file that shrinks while it is mapped kills the reader
// with SIGBUS: model files are not edited in place.
#ifndef TALLY_BASE_MAPFILE_H
#define TALLY_BASE_MAPFILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct mapfile {
    const unsigned char *data; // never NULL once open, also for an empty file
    size_t size;               // bytes
    bool mapped;               // false: the bytes are in memory of our own
} mapfile;

// Regular files only; symbolic links are followed.
status mapfile_open(mapfile *m, const char *path, error *err);
// The whole file as bytes of our own (at a multiple of 64), followed by a zero byte that `size` does not count. A file above
// max_bytes is refused.
status mapfile_read(mapfile *m, const char *path, size_t max_bytes, error *err);
void mapfile_close(mapfile *m); // also of a zeroed one

// The whole pages inside the range are not needed soon: the kernel may drop them and will read them again when touched.
void mapfile_drop(const mapfile *m, size_t offset, size_t len);
// Bytes of our own: narrows the range to whole pages and gives these back. Nobody may read them before mapfile_reread has brought them
// back. Returns whether there were any; without effect on a mapping.
bool mapfile_give_back(const mapfile *m, size_t *offset, size_t *len);
status mapfile_reread(const mapfile *m, const char *path, size_t offset, size_t len, error *err);

#endif
