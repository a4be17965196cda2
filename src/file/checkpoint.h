// A model on disk, whatever its format: a Hugging Face folder (safetensors) or a GGUF file, seen as one configuration and
// one set of named tensors.
//
// Opening reads metadata only. Tensors carry the names of Hugging Face checkpoints ("model.layers.3.self_attn.q_proj.weight"):
// the GGUF reader translates. Shapes are outermost first: a linear weight is [out, in], packed experts are [expert, out, in]
// under "model.layers.N.mlp.experts.{gate,up,down}_proj.weight". Data is memory-mapped, read-only, borrowed from the checkpoint.
// GGUF llama files keep their permuted q and k rows; config.rope.interleaved says so. "rope_freqs.weight" keeps its name.
//
// One thread opens and closes; afterwards any thread may read. Every size and offset was checked against the file.
#ifndef TALLY_FILE_CHECKPOINT_H
#define TALLY_FILE_CHECKPOINT_H

#include "base/status.h"
#include "base/str.h"
#include "file/gguf.h"
#include "file/model_config.h"
#include "tensor/dtype.h"

typedef struct checkpoint_tensor {
    str name; // borrowed from the checkpoint
    dtype type;
    int n_dims;       // 1..4
    int64_t dim[4];   // outermost first
    const void *data; // whole tensor, contiguous; GGUF: at a multiple of 8, safetensors: at any address
    uint64_t n_bytes;
    int file; // which of the checkpoint's files, for messages
} checkpoint_tensor;

typedef struct checkpoint checkpoint;

// `name` is a path (folder, .gguf file, first file of a split GGUF, a .safetensors file's folder) or "org/name" in the Hugging
// Face cache (HF_HUB_CACHE, HF_HOME/hub, ~/.cache/huggingface/hub: models--org--name/snapshots/<refs/main or the only one>).
// The three directories come in through `cache_dirs`, because only base/options reads the environment.
status checkpoint_open(checkpoint **out, const char *name, const char *const *cache_dirs, int n_cache_dirs, error *err);
void checkpoint_close(checkpoint *ck);

const char *checkpoint_path(const checkpoint *ck); // the folder or the first file, as resolved
const gguf *checkpoint_gguf(const checkpoint *ck); // NULL for a Hugging Face folder
// The whole text of a file of a Hugging Face folder ("tokenizer.json"): malloc'ed, owned by the caller, zero-terminated.
// STATUS_NOT_FOUND (with a message) when it is not there, or the checkpoint is GGUF.
status checkpoint_read_file(const checkpoint *ck, const char *file_name, char **data, size_t *len, error *err);

// The model configuration. A folder that holds only tokenizer files gives STATUS_NOT_FOUND.
status checkpoint_config(const checkpoint *ck, model_config *out, error *err);

// Maps the tensors (use_mmap false: reads them into memory). Until then the tensor calls below see none. Once loaded, they stay as
// they are; what was dropped from memory is read again.
status checkpoint_load_tensors(checkpoint *ck, bool use_mmap, error *err);
int checkpoint_n_tensors(const checkpoint *ck);
const checkpoint_tensor *checkpoint_tensor_at(const checkpoint *ck, int i);
const checkpoint_tensor *checkpoint_find(const checkpoint *ck, str name); // NULL: no such tensor
const char *checkpoint_file_name(const checkpoint *ck, int file);
uint64_t checkpoint_n_bytes(const checkpoint *ck); // all tensors
// A hash of the loaded tensors' names, types and shapes and of samples of their data, wherever the files lie. Not to be asked for once
// data that was read into memory has been dropped.
uint64_t checkpoint_fingerprint(const checkpoint *ck);
// Says that these bytes of tensor data are not needed for now, so the kernel may drop their pages from memory. Mapped ones are read
// again from the file if someone does need them; those that were read into memory come back when tensors are loaded the next time.
void checkpoint_drop_range(checkpoint *ck, const void *data, size_t n_bytes);
// Says that tensor data is used where it lies from now on: what was read into memory is not dropped any more.
void checkpoint_keep_data(checkpoint *ck);
// The same for whole files, metadata and what reading one tensor brought in of its neighbours included.
void checkpoint_drop_all(const checkpoint *ck);

#endif
