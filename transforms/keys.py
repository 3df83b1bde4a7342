"""Document keys as arrays: 128 bits each, in a fixed-size binary column or as two 64-bit halves."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from schemas.arrow import KEY_BYTES

__all__ = ["key_array", "key_halves"]


def key_halves(keys: pa.FixedSizeBinaryArray) -> tuple[np.ndarray, np.ndarray]:
    """The low and high halves of each key, uint64[documents] each, little-endian on any machine."""
    start = keys.offset * KEY_BYTES
    data = memoryview(keys.buffers()[1])[start : start + len(keys) * KEY_BYTES]
    halves = np.frombuffer(data, "<u8").astype(np.uint64).reshape(len(keys), 2)
    return np.ascontiguousarray(halves[:, 0]), np.ascontiguousarray(halves[:, 1])


def key_array(low: np.ndarray, high: np.ndarray) -> pa.FixedSizeBinaryArray:
    """The inverse of :func:`key_halves`."""
    halves = np.stack([low, high], axis=1).astype("<u8")
    data = pa.py_buffer(np.ascontiguousarray(halves))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(KEY_BYTES), len(low), [None, data])
