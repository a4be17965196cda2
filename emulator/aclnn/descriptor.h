// Descriptors behind the handles of libnnopbase.
#ifndef TALLY_EMULATOR_ACLNN_DESCRIPTOR_H
#define TALLY_EMULATOR_ACLNN_DESCRIPTOR_H

#include "emulator/aclnn/op.h"
#include "emulator/core/object.h"

struct aclTensor {
    emu_object head;
    emu_view view;
    void *data;
    bool in_list;
};

struct aclScalar {
    emu_object head;
    aclDataType dtype;
    unsigned char value[16];
    bool in_list;
};

struct aclIntArray {
    emu_object head;
    uint64_t n;
    int64_t v[];
};

struct aclFloatArray {
    emu_object head;
    uint64_t n;
    float v[];
};

struct aclBoolArray {
    emu_object head;
    uint64_t n;
    bool v[];
};

struct aclTensorList {
    emu_object head;
    uint64_t n;
    aclTensor *v[];
};

struct aclScalarList {
    emu_object head;
    uint64_t n;
    aclScalar *v[];
};

// 0, or breaks null_argument, dead_descriptor or bad_argument. what: the argument's name.
int emu_descriptor_need(const void *handle, emu_kind kind, const char *what);

#endif
