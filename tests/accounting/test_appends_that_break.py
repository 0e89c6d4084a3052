"""An append that fails leaves the accountant as it was."""

from __future__ import annotations

import pytest

from dpledger.accounting.accountant import Accountant
from dpledger.accounting.composition import (
    Repeated,
)
from dpledger.accounting.guarantees import PureDP
from dpledger.accounting.profile import Profile, compose


def test_an_append_that_breaks_appends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    accountant = Accountant("1e-5")
    before = accountant.append(PureDP("0.1"), 3)
    written = accountant.record()
    with monkeypatch.context() as patched:
        patched.setattr(Profile, "epsilon", out_of_memory)
        with pytest.raises(MemoryError):
            accountant.append(PureDP("0.2"))
    assert accountant.epsilon == before
    assert accountant.record() == written
    again = accountant.append(PureDP("0.1"))
    whole = compose(Repeated(PureDP("0.1"), times=4)).epsilon("1e-5")
    assert max(again.lower, whole.lower) <= min(again.upper, whole.upper)
    assert again.upper <= whole.upper * (1 + 1e-4)


def out_of_memory(profile: Profile, delta: object) -> None:
    raise MemoryError
