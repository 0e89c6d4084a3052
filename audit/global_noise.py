"""The generators that a process shares, seeded for as long as a block of runs takes, and put back as they were.

Code that takes no generator draws from one of these, or from a source of its own, of which nobody knows. Seeded by the
name of a chunk, no two chunks share noise, and the same seed gives the same runs.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
from numpy.random.mtrand import get_bit_generator, set_bit_generator

__all__ = ["seeded_globals"]


@contextmanager
def seeded_globals(sequence: np.random.SeedSequence) -> Iterator[None]:
    """Seed the global generators of `random`, of numpy and, where it is loaded, of torch, each by itself.

    Whoever draws from them in another thread meanwhile draws from the seeded ones."""
    for_random, for_numpy, for_torch = sequence.spawn(3)
    with ExitStack() as undo:
        undo.callback(random.setstate, random.getstate())
        random.seed(int.from_bytes(for_random.generate_state(8).tobytes(), "little"))
        undo.callback(set_bit_generator, get_bit_generator())
        set_bit_generator(np.random.MT19937(for_numpy))
        _seed_torch(int(for_torch.generate_state(1, np.uint64)[0]) >> 1, undo)
        yield


def _seed_torch(seed: int, undo: ExitStack) -> None:
    torch = sys.modules.get("torch")  # what never imported it draws nothing from it
    if torch is None:
        return
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    undo.enter_context(torch.random.fork_rng(devices))
    torch.default_generator.manual_seed(seed)
    if devices:
        torch.cuda.manual_seed_all(seed)
