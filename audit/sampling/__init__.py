"""Runs that are runs: seeds, order, copies and engines, so that what is compared is what the mechanism does."""

from dpledger.audit.sampling.chunked import (
    Batched,
    Chunk,
    Part,
    Releases,
    Runs,
    Sampler,
    Samples,
    Side,
    Single,
    Unaided,
    chunks,
    expected_seconds,
    over_chunks,
)

__all__ = [
    "Batched",
    "Chunk",
    "Part",
    "Releases",
    "Runs",
    "Sampler",
    "Samples",
    "Side",
    "Single",
    "Unaided",
    "chunks",
    "expected_seconds",
    "over_chunks",
]
