#include "base/mapfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// Opens a regular file and tells its size.
static status open_file(int *fd, size_t *size, const char *path, error *err) {
    // A FIFO must not block the open before it can be refused.
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) {
        status code = errno == ENOENT || errno == ENOTDIR ? STATUS_NOT_FOUND : STATUS_IO;
        return error_set(err, code, "%s: cannot be opened: %s", path, strerror(errno));
    }
    struct stat st;
    status code = STATUS_OK;
    if (fstat(*fd, &st) != 0) {
        code = error_set(err, STATUS_IO, "%s: cannot be examined: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        code = error_set(err, STATUS_BAD_ARGUMENT, "%s is not a regular file", path);
    } else if ((uintmax_t)st.st_size > SIZE_MAX / 2) {
        code = error_set(err, STATUS_UNSUPPORTED, "%s: %lld bytes are more than this machine can address", path,
                         (long long)st.st_size);
    }
    if (code != STATUS_OK) {
        close(*fd);
        return code;
    }
    *size = (size_t)st.st_size;
    return STATUS_OK;
}

status mapfile_open(mapfile *m, const char *path, error *err) {
    *m = (mapfile){0};
    int fd;
    size_t size;
    TRY(open_file(&fd, &size, path, err));
    if (size == 0) { // nothing to map; mmap refuses a length of 0
        close(fd);
        m->data = (const unsigned char *)"";
        m->mapped = true;
        return STATUS_OK;
    }
    void *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    int map_errno = errno;
    close(fd);
    if (p == MAP_FAILED) {
        return error_set(err, map_errno == ENOMEM ? STATUS_NO_MEMORY : STATUS_IO, "%s: %zu bytes cannot be mapped: %s",
                         path, size, strerror(map_errno));
    }
    *m = (mapfile){p, size, true};
    return STATUS_OK;
}

static status read_at(int fd, unsigned char *data, size_t offset, size_t size, const char *path, error *err) {
    for (size_t done = 0; done < size;) {
        ssize_t n = pread(fd, data + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return error_set(err, STATUS_IO, "%s: reading failed at byte %zu: %s", path, offset + done,
                             strerror(errno));
        if (n == 0)
            return error_set(err, STATUS_IO, "%s: shrank to %zu of %zu bytes while it was read", path, offset + done,
                             offset + size);
        done += (size_t)n;
    }
    return STATUS_OK;
}

status mapfile_read(mapfile *m, const char *path, size_t max_bytes, error *err) {
    *m = (mapfile){0};
    int fd;
    size_t size;
    TRY(open_file(&fd, &size, path, err));
    status code = STATUS_OK;
    unsigned char *data = NULL;
    if (size > max_bytes) {
        code = error_set(err, STATUS_BAD_FILE, "%s: %zu bytes, more than the %zu that such a file may have", path, size,
                         max_bytes);
    } else if (!(data = aligned_alloc(64, (size + 64) & ~(size_t)63))) { // tensors are as aligned as in a mapping
        code = error_no_memory(err, size + 1);
    } else {
        code = read_at(fd, data, 0, size, path, err);
    }
    close(fd);
    if (code != STATUS_OK) {
        free(data);
        return code;
    }
    data[size] = 0;
    *m = (mapfile){data, size, false};
    return STATUS_OK;
}

void mapfile_close(mapfile *m) {
    if (m->data && m->mapped && m->size) munmap((void *)(uintptr_t)m->data, m->size);
    if (m->data && !m->mapped) free((void *)(uintptr_t)m->data);
    *m = (mapfile){0};
}

// The whole pages inside a range; false: none.
static bool whole_pages(const mapfile *m, size_t *offset, size_t *len) {
    if (*offset >= m->size) return false;
    if (*len > m->size - *offset) *len = m->size - *offset;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = (uintptr_t)(m->data + *offset), last = first + *len;
    if (m->mapped && *offset + *len == m->size) last += page - 1; // the rest of the last page is nobody's
    uintptr_t start = (first + page - 1) / page * page, end = last / page * page;
    if (start >= end) return false;
    *offset = start - (uintptr_t)m->data;
    *len = end - start;
    return true;
}

void mapfile_drop(const mapfile *m, size_t offset, size_t len) {
    if (m->mapped && whole_pages(m, &offset, &len)) madvise((void *)(uintptr_t)(m->data + offset), len, MADV_DONTNEED);
}

bool mapfile_give_back(const mapfile *m, size_t *offset, size_t *len) {
    if (m->mapped || !whole_pages(m, offset, len)) return false;
    return madvise((void *)(uintptr_t)(m->data + *offset), *len, MADV_DONTNEED) == 0;
}

status mapfile_reread(const mapfile *m, const char *path, size_t offset, size_t len, error *err) {
    int fd;
    size_t size;
    TRY(open_file(&fd, &size, path, err));
    status code = size == m->size ? read_at(fd, (unsigned char *)(uintptr_t)m->data + offset, offset, len, path, err)
                                  : error_set(err, STATUS_IO, "%s: had %zu bytes when it was opened and has %zu now",
                                              path, m->size, size);
    close(fd);
    return code;
}
