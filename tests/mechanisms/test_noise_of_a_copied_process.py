"""A copy of the process's memory (a machine that is snapshot and run twice) repeats no noise that is drawn after it."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable

import numpy as np
import pytest

import dpledger as dpl
from dpledger.mechanisms.entropy import Entropy, Keystream, SystemEntropy, seeded, system


def state_of(source: Entropy) -> dict[str, object]:
    """What a snapshot of the memory holds of a source, but for which process it is in."""
    return {name: value for name, value in vars(source).items() if name != "_home"}


def test_the_source_of_releases_holds_nothing_to_copy() -> None:
    source = system()
    for count in (1, 256, 257, 5000):
        source.words(count)
        assert state_of(source) == {}


def test_a_stream_with_a_key_is_what_such_a_copy_repeats() -> None:
    """The twin: what a handle of a ledger kept before, so that the test above can fail."""
    assert state_of(seeded(7))
    assert np.array_equal(seeded(7).words(300), seeded(7).words(300))


@pytest.mark.parametrize("count", [1, 256, 257, 5000])
def test_no_keystream_outlives_its_call(count: int) -> None:
    def streams() -> int:
        return sum(isinstance(found, Keystream) for found in gc.get_objects())

    gc.collect()
    before, source = streams(), system()
    words = source.words(count)
    assert streams() == before
    assert words.dtype == np.uint64
    assert words.shape == (count,)


def test_calls_never_repeat() -> None:
    source = system()
    drawn = [source.words(count).tobytes() for count in (256, 256, 300, 300)]
    assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize("make", [system, lambda: seeded(7)], ids=["system", "seeded"])
def test_a_source_is_not_copied(make: Callable[[], Entropy]) -> None:
    with pytest.raises(TypeError, match="does not pickle"):
        copy.deepcopy(make())


def test_a_handle_draws_from_the_system() -> None:
    book = dpl.Ledger.in_memory()
    sources = [found for found in gc.get_referents(*gc.get_referents(book)) if isinstance(found, SystemEntropy)]
    held = [value for value in gc.get_objects() if isinstance(value, SystemEntropy)]
    assert sources or held
    assert not any(isinstance(value, Keystream) for value in vars(book).values())
