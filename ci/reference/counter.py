"""Counter-based random numbers, equal to the bit to kernels/tensor/src/rng.rs, and the values made from them.

A value depends on (seed, stream, index) only: files need not store what a rule produces. Streams are listed in FORMAT.md.
"""

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
STREAM_PARAMETERS = 1 << 32
STREAM_INPUT = 2 << 32
STREAM_TARGET = 3 << 32
STREAM_SAMPLES = 4 << 32


def _mix(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def bits(seed, stream, index):
    """64 random bits; `index` is an array of uint64 or an integer."""
    with np.errstate(over="ignore"):
        a = _mix(np.uint64(seed) + GOLDEN)
        b = _mix(a ^ (np.uint64(stream) * np.uint64(0xD1B54A32D192ED03)))
        return _mix(b + np.asarray(index, np.uint64) * GOLDEN)


def uniform(seed, stream, index):
    """Uniform in [0, 1) with 53 bits, f64."""
    return (bits(seed, stream, index) >> np.uint64(11)).astype(np.float64) / float(1 << 53)


def _indices(shape):
    return np.arange(int(np.prod(shape)), dtype=np.uint64)


def glorot(seed, layer, param, shape, fan_in, fan_out):
    """Start values of a weight: uniform in +-sqrt(6 / (fan_in + fan_out)), f32."""
    limit = np.sqrt(6.0 / (fan_in + fan_out))
    u = uniform(seed, STREAM_PARAMETERS + layer * 16 + param, _indices(shape))
    return ((2.0 * u - 1.0) * limit).astype(np.float32).reshape(shape)


def fields(seed, scale, shape):
    """The input [N, C, D, H, W]: uniform in [-1, 3) * scale, f32. The mean is not 0, else average pools leave nothing."""
    u = uniform(seed, STREAM_INPUT, _indices(shape))
    return ((4.0 * u - 1.0) * scale).astype(np.float32).reshape(shape)


def targets(seed, shape):
    """The target [N, 4]: uniform in [-1, 1), f32."""
    return (2.0 * uniform(seed, STREAM_TARGET, _indices(shape)) - 1.0).astype(np.float32).reshape(shape)


def dropout_mask(seed, layer, step, keep, shape):
    """Whether an element of a dropout layer's input is kept in a step (steps count from 0)."""
    key = bits(seed, layer, step)
    return (uniform(key, layer, _indices(shape)) < keep).reshape(shape)


def samples(seed, tensor, length, count):
    """Sorted indices of the entries of a tensor of `length` values that a digest keeps: one in each of `count` equal
    parts, at a random place; all of them if there are at most `count`."""
    if length <= count:
        return np.arange(length)
    u = uniform(seed, STREAM_SAMPLES + tensor, np.arange(count, dtype=np.uint64))
    return np.floor((np.arange(count) + u) * length / count).astype(np.int64)
