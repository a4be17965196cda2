#include "backend/cost/named_devices.h"

#include <stddef.h>
#include <string.h>

typedef struct named {
    const char *name, *text;
} named;

#define LAUNCH_NOTE \
    "\"launch_s\": \"REPORTED: static cost of a matrix multiplication in Huawei's cost model (Ascend/msmodeling), 2 " \
    "us for " \
    "vector operations. Eager calls from the host are reported at some 40 us, 2 to 3 us apart on a full queue " \
    "(UNVERIFIED).\", "
#define TABLES "REPORTED: device tables of Ascend/msmodeling (Huawei), dense peak of "

// clang-format off
static const named devices[] = {
    {"ascend-a3",
     "{\"name\": \"Ascend A3: one die of a 910C (published peaks)\", \"memory_bytes\": 68719476736, "
     "\"bandwidth_bytes_per_s\": 1.6e12, "
     "\"flops\": {\"f32\": 11e12, \"f16\": 376e12, \"bf16\": 353.9e12, \"int8\": 752e12}, \"launch_s\": 5e-6, "
     "\"ranks_link\": {\"bandwidth_bytes_per_s\": 196e9, \"latency_s\": 0.5e-6, \"collective_s\": 120e-6}, "
     "\"notes\": {" LAUNCH_NOTE
     "\"memory_bytes, bandwidth_bytes_per_s\": \"REPORTED: 64 GiB and 1.6 TB/s a die; device tables of Ascend/msmodeling (Huawei).\", "
     "\"flops.f16, flops.bf16, flops.int8\": \"" TABLES "the cube units of one die; a slower variant (280) exists.\", "
     "\"flops.f32\": \"UNVERIFIED: half of the vector units' 22 TFLOPS of FP16 in the same tables.\", "
     "\"ranks_link\": \"REPORTED: 196 GB/s a die one way and 0.5 us within a super-pod; the same tables.\", "
     "\"ranks_link.collective_s\": \"UNVERIFIED: all-reduce of 1 KB to 1 MB over 16 ranks takes some 120 us in msmodeling's test data, "
     "which may be synthetic; other rows say 412 us at 640 KiB.\"}}"},
    {"ascend-a2",
     "{\"name\": \"Ascend A2: 910B1 class (published peaks)\", \"memory_bytes\": 68719476736, "
     "\"bandwidth_bytes_per_s\": 1.6e12, "
     "\"flops\": {\"f32\": 11e12, \"f16\": 376e12, \"bf16\": 353.9e12, \"int8\": 752e12}, \"launch_s\": 5e-6, "
     "\"ranks_link\": {\"bandwidth_bytes_per_s\": 196e9, \"latency_s\": 0.5e-6, \"collective_s\": 10e-6}, "
     "\"notes\": {" LAUNCH_NOTE
     "\"memory_bytes, bandwidth_bytes_per_s\": \"REPORTED: 64 GiB and 1.6 TB/s; device tables of Ascend/msmodeling (Huawei).\", "
     "\"flops.f16, flops.bf16, flops.int8\": \"" TABLES "the cube units.\", "
     "\"flops.f32\": \"UNVERIFIED: half of the vector units' 22 TFLOPS of FP16 in the same tables.\", "
     "\"ranks_link\": \"REPORTED: full mesh of the 8 devices of a server, 196 GB/s one way in all, 0.5 us; the same tables. Between "
     "servers 25 GB/s and 1.5 us: not what this describes.\", "
     "\"ranks_link.collective_s\": \"REPORTED: static cost of communication in Huawei's cost model. No public measurement of small "
     "all-reduces through HCCL on A2 was found.\"}}"},
    {"ascend-910b3",
     "{\"name\": \"Ascend A2: 910B3 class (published peaks)\", \"memory_bytes\": 68719476736, "
     "\"bandwidth_bytes_per_s\": 1.6e12, "
     "\"flops\": {\"f32\": 9e12, \"f16\": 313e12, \"bf16\": 294.9e12, \"int8\": 626e12}, \"launch_s\": 5e-6, "
     "\"ranks_link\": {\"bandwidth_bytes_per_s\": 196e9, \"latency_s\": 0.5e-6, \"collective_s\": 10e-6}, "
     "\"notes\": {" LAUNCH_NOTE
     "\"memory_bytes, bandwidth_bytes_per_s\": \"REPORTED: 64 GiB and 1.6 TB/s; device tables of Ascend/msmodeling (Huawei).\", "
     "\"flops.f16, flops.bf16, flops.int8\": \"" TABLES "the cube units; that its 313T entry is the 910B3 is UNVERIFIED.\", "
     "\"flops.f32\": \"UNVERIFIED: half of the vector units' 18 TFLOPS of FP16 in the same tables.\", "
     "\"ranks_link\": \"REPORTED: as ascend-a2.\"}}"},
    {"ascend-910b4",
     "{\"name\": \"Ascend A2: 910B4 class, 32 GB (published peaks)\", \"memory_bytes\": 34359738368, "
     "\"bandwidth_bytes_per_s\": 0.8e12, "
     "\"flops\": {\"f32\": 8e12, \"f16\": 280e12, \"bf16\": 245.8e12, \"int8\": 560e12}, \"launch_s\": 5e-6, "
     "\"ranks_link\": {\"bandwidth_bytes_per_s\": 64e9, \"latency_s\": 1.5e-6, \"collective_s\": 10e-6}, "
     "\"notes\": {" LAUNCH_NOTE
     "\"memory_bytes, bandwidth_bytes_per_s\": \"REPORTED: 32 GiB and 0.8 TB/s; device tables of Ascend/msmodeling (Huawei); a "
     "streaming kernel was reported at 0.55 TB/s.\", "
     "\"flops.f16, flops.bf16, flops.int8\": \"" TABLES "the cube units; that its 280T entry is the 910B4 is UNVERIFIED.\", "
     "\"flops.f32\": \"UNVERIFIED: half of the vector units' 16 TFLOPS of FP16 in the same tables.\", "
     "\"ranks_link\": \"UNVERIFIED: a PCIe card; 64 GB/s is the tables' value for the link to the host, 1.5 us theirs between servers.\", "
     "\"ranks_link.collective_s\": \"REPORTED: static cost of communication in Huawei's cost model.\"}}"},
    {"ascend-910a",
     "{\"name\": \"Ascend 910A (published peaks; FP16 only)\", \"memory_bytes\": 34359738368, "
     "\"bandwidth_bytes_per_s\": 1.2e12, "
     "\"flops\": {\"f32\": 8e12, \"f16\": 256e12, \"int8\": 512e12}, \"launch_s\": 5e-6, "
     "\"ranks_link\": {\"bandwidth_bytes_per_s\": 90e9, \"latency_s\": 0.5e-6, \"collective_s\": 440e-6}, "
     "\"notes\": {" LAUNCH_NOTE
     "\"types\": \"The chip has no BF16: plan with --type f16. BF16 counts at f32's peak here.\", "
     "\"memory_bytes\": \"REPORTED: 32 GB HBM2; Hot Chips summaries.\", "
     "\"bandwidth_bytes_per_s\": \"UNVERIFIED: about 1.2 TB/s, community.\", "
     "\"flops.f16, flops.int8\": \"REPORTED: cube units; Hot Chips summaries.\", "
     "\"flops.f32\": \"UNVERIFIED: no source; assumed as half of what A2's smaller variants have in FP16.\", "
     "\"ranks_link\": \"REPORTED: 3 HCCS links of 30 GB/s each way, groups of 4; Hot Chips summaries. The latency is A2's (UNVERIFIED).\", "
     "\"ranks_link.collective_s\": \"REPORTED: 0.39 to 0.48 ms an all-reduce of 10 to 640 KB over 4 ranks, issued by the host "
     "(PocketLLM issues 269, 273).\"}}"},
};
// clang-format on

const char *named_device(const char *name) {
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        if (strcmp(name, devices[i].name) == 0) return devices[i].text;
    }
    return NULL;
}
