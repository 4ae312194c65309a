"""A release as bytes: a safetensors file of float64 arrays with a JSON header, and a checksum over both.

Reading trusts nothing: whatever does not parse, does not match its checksum or is not finite is refused.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from motet.arrays import Array
from motet.errors import InvalidRelease

RELEASE_FORMAT = 1
MAX_RELEASE_BYTES = 2**29  # a release with 8,000 weights


def checksum(header: Mapping[str, Any], tensors: Mapping[str, Array]) -> str:
    """SHA-256 of the header and of every array's name, shape and numbers."""
    digest = hashlib.sha256(json.dumps(header, sort_keys=True, allow_nan=False).encode())
    for name in sorted(tensors):
        digest.update(f"{name}{tensors[name].shape}".encode())
        digest.update(np.ascontiguousarray(tensors[name], dtype="<f8").tobytes())
    return digest.hexdigest()


def pack(header: Mapping[str, Any], tensors: Mapping[str, Array]) -> bytes:
    """The bytes of a file."""
    arrays = {name: np.ascontiguousarray(a, dtype=np.float64) for name, a in tensors.items()}
    complete = {"format": RELEASE_FORMAT, **header, "sha256": checksum(header, arrays)}
    # One entry of metadata: safetensors writes several in no fixed order.
    return safetensors.numpy.save(arrays, {"motet": json.dumps(complete, sort_keys=True, allow_nan=False)})


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    """The header and the arrays that ``pack`` wrote."""
    try:
        (size,) = struct.unpack("<Q", data[:8])
        header = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["motet"])
        format, digest = header.pop("format"), header.pop("sha256")
        tensors = safetensors.numpy.load(data)
    except (struct.error, ValueError, KeyError, TypeError, RecursionError, safetensors.SafetensorError) as error:
        raise InvalidRelease("not a release: expected a file that motet download wrote") from error
    if format != RELEASE_FORMAT:
        raise InvalidRelease(f"this is a release of format {format!r}, this version reads {RELEASE_FORMAT}")
    if any(a.dtype != np.float64 for a in tensors.values()) or checksum(header, tensors) != digest:
        raise InvalidRelease("not a release as it was written: its checksum does not match; download it again")
    if not all(np.isfinite(a).all() for a in tensors.values()):
        raise InvalidRelease("not a release: it has numbers that are not finite")
    return header, tensors
