#include "tensor/dtype.h"

#include <assert.h>
#include <strings.h>

#include "tensor/convert.h"

const dtype_info *dtype_get(dtype type) {
    static const dtype_info table[DTYPE_COUNT] = {
#define DTYPE_ROW(name, elems, bytes) \
    [DTYPE_##name] = {#name, elems, bytes, convert_##name##_to_f32, convert_##name##_from_f32},
        DTYPE_LIST(DTYPE_ROW)
#undef DTYPE_ROW
    };
    assert((unsigned)type < DTYPE_COUNT);
    return &table[type];
}

bool dtype_from_name(str name, dtype *out) {
    for (int t = 0; t < DTYPE_COUNT; t++) {
        const char *known = dtype_get((dtype)t)->name;
        if (strlen(known) == name.len && strncasecmp(known, name.data, name.len) == 0) {
            *out = (dtype)t;
            return true;
        }
    }
    return false;
}
