"""Making a witness: its file, its key beside it for its owner alone, and the policy that ledgers name it by.

north.witness           the newest heads (`witness_file`)
north.witness.key       the key that cosigns (owner only)
north.witness.policy    the name, the public key and the address: give it to those who make ledgers, and to verifiers
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dpledger import files
from dpledger.errors import ParameterError
from dpledger.files import path_of
from dpledger.ledger.witnessing.cosigning import CosigningKey, WitnessKey
from dpledger.ledger.witnessing.policy import WitnessPolicy
from dpledger.ledger.witnessing.witness_file import WitnessFile

__all__ = ["FoundedWitness", "founded", "key_beside"]


@dataclass(frozen=True, slots=True)
class FoundedWitness:
    """What was made: the files of the key and of the policy, and the public key."""

    key: Path
    policy: Path
    public: WitnessKey


def founded(path: str | os.PathLike[str], name: str, url: str) -> FoundedWitness:
    """Make a witness at `path`, called `name`, which is asked at `url`: all three files, or none. ParameterError where
    one is there, cannot be written, or for a name or an address that no policy may have."""
    file = path_of(path, "witness")
    key, policy = _beside(file, "key"), _beside(file, "policy")
    signer = CosigningKey.generate(name)
    text = WitnessPolicy.parse(f"witness witness {signer.public.text} {url}\nquorum witness\n").text
    for one in (file, key, policy):
        if os.path.lexists(one):
            raise ParameterError("witness", str(one), "a path where nothing exists yet: keys are never overwritten")
    written: list[Path] = []
    try:
        signer.save(key)
        written.append(key)
        WitnessFile.create(file)
        written.append(file)
        files.write_new(policy, text.encode("ascii"), field="witness")
    except BaseException:
        for one in written:
            with suppress(OSError):
                one.unlink(missing_ok=True)
        raise
    return FoundedWitness(key, policy, signer.public)


def key_beside(path: str | os.PathLike[str]) -> CosigningKey:
    """The key of the witness at `path`. ParameterError where there is none, or others than its owner may read it."""
    return CosigningKey.load(_beside(path_of(path, "witness"), "key"))


def _beside(file: Path, what: str) -> Path:
    return file.with_name(f"{file.name}.{what}")
