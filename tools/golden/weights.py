"""Seeded weights: the rule that gives every element of a tiny checkpoint.

No weights are stored. This file and the C test helper implement the same rule, so both build the same
checkpoint bit for bit from `tensors.txt`. Every value has at most 8 significant bits and a small exponent:
it is exact in BF16, F16 and F32, and one golden serves checkpoints of all three types.

All integers are unsigned 64-bit and wrap:

    mix(x):          x += 0x9e3779b97f4a7c15
                     x  = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
                     x  = (x ^ (x >> 27)) * 0x94d049bb133111eb
                     return x ^ (x >> 31)                              (splitmix64)
    key(name, seed): h = FNV-1a 64 of the name's bytes;  return mix(h ^ mix(seed))
    word i         = mix(key + i * 0x9e3779b97f4a7c15)
    q_i            = (int)(word_i >> 57) - 64                          (-64 .. 63)
    element i      = offset + q_i / 64 * scale                         (row-major flat index, scale = 2^n)
"""
import numpy as np

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(x):
    x = (x + GOLDEN) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def key(name, seed):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return mix(h ^ mix(seed))


def words(name, seed, n):
    """The first n words of a tensor as uint64 [n]."""
    x = np.uint64(key(name, seed)) + np.arange(n, dtype=np.uint64) * np.uint64(GOLDEN)
    x = x + np.uint64(GOLDEN)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def quants(name, seed, n):
    return (words(name, seed, n) >> np.uint64(57)).astype(np.int64) - 64


def tensor(name, seed, offset, scale, shape):
    """One tensor in float32; exact, see above."""
    q = quants(name, seed, int(np.prod(shape)))
    return (offset + q / 64.0 * scale).astype(np.float32).reshape(shape)


def token_ids(seed, n, vocab):
    """The input ids of a variant. Stored in ids.txt, so only this script needs the rule."""
    return [int(w >> np.uint64(33)) % vocab for w in words("ids", seed, n)]


def rule_of(name, shape, tied):
    """(offset, scale) for a tensor by its name and shape.

    q/64 is uniform in [-1, 1), deviation 0.577. Linear weights keep the variance of their input. An embedding
    that is also the head gets a small scale: the layers then outweigh the token's own embedding in the
    residual stream, else every model would repeat its last token forever.
    """
    if name.endswith("norm.weight"):
        return 1.0, 0.5
    if name.endswith(".bias"):
        return 0.0, 0.25
    if name == "model.embed_tokens.weight":
        return 0.0, 0.0625 if tied else 1.0
    fan_in = shape[-1]
    gain = 4.0 if name.endswith("mlp.gate.weight") else 1.7
    return 0.0, float(2.0 ** np.round(np.log2(gain / np.sqrt(fan_in))))


def read_manifest(path):
    """tensors.txt -> (seed, {name: (offset, scale, shape)})"""
    seed, tensors = None, {}
    with open(path) as f:
        for line in f:
            part = line.split()
            if part[0] == "#":
                if part[1] == "seed":
                    seed = int(part[2])
                continue
            tensors[part[0]] = (float(part[1]), float(part[2]), tuple(int(d) for d in part[3:]))
    return seed, tensors


def write_manifest(path, seed, tensors):
    with open(path, "w") as f:
        f.write(f"# seed {seed}\n")
        for name, (offset, scale, shape) in tensors.items():
            f.write(f"{name} {offset:.17g} {scale:.17g} {' '.join(str(d) for d in shape)}\n")


def checkpoint(seed, tensors):
    """Every tensor of a manifest as float32 arrays."""
    return {n: tensor(n, seed, o, s, shape) for n, (o, s, shape) in tensors.items()}
