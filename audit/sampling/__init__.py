"""Runs that are runs: seeds, order, copies and engines, so that what is compared is what the mechanism does."""

from dpledger.audit.sampling.copies import shares_memory
from dpledger.audit.sampling.digests import digest
from dpledger.audit.sampling.released import released
from dpledger.audit.sampling.runs import PROBED, Runs
from dpledger.audit.sampling.ways import Batched, Releases, Sampler, Samples, Single, Unaided, listed

__all__ = [
    "PROBED",
    "Batched",
    "Releases",
    "Runs",
    "Sampler",
    "Samples",
    "Single",
    "Unaided",
    "digest",
    "listed",
    "released",
    "shares_memory",
]
