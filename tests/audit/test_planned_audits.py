"""An audit before it is run, its entry, and the same audit again."""

from __future__ import annotations

import functools
import importlib
import sys
from dataclasses import replace
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpledger as dpl
from dpledger.audit.planned import Audit, differences
from dpledger.audit.tested.neighbours import pair_digest
from dpledger.audit.tested.subjects import code_digest
from dpledger.audit.zoo import case
from dpledger.errors import ParameterError
from dpledger.ledger.entries.bodies import Audited, Intended
from dpledger.mechanisms.numeric import statistics

pytestmark = pytest.mark.sliced

COUNT = dpl.Count(epsilon="0.5", of="rows")


def noisy(data: list[int], rng: np.random.Generator) -> float:
    return len(data) + float(rng.laplace(0, 1))


def an_audit(**changes: Any) -> Audit:
    given: dict[str, Any] = {"mechanism": COUNT, "left": [1], "right": [1, 2], "trials": 2000, "seed": 1}
    return Audit(**given | changes)


def test_what_is_intended_is_what_will_be_run_and_no_data() -> None:
    body = an_audit(left=[41_234], right=[41_234, 7]).body()
    assert isinstance(body, Intended)
    assert (body.mechanism.kind, body.claim, body.trials, body.seed) == ("count", dpl.PureDP("0.5"), 2000, 1)
    assert body.confidence == Decimal("0.95")
    assert "41234" not in repr(body)
    assert repr(an_audit(left=[41_234])) == "<Audit of count: 2,000 runs a side, seed 1>"


def test_a_seed_that_is_not_given_is_drawn_once() -> None:
    first, second = (Audit(COUNT, [1], [1, 2], trials=2000) for _ in range(2))
    assert first.seed != second.seed
    assert first.body().seed == first.seed == first.run(progress=False).seed


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"trials": 1}, "trials"),
        ({"confidence": 1}, "confidence"),
        ({"seed": -1}, "seed"),
        ({"relation": "swap"}, "relation"),
        ({"mechanism": noisy}, "claim"),
        ({"mechanism": 3}, "mechanism"),
        ({"delta": "1"}, "delta"),
        ({"made_up": True, "left": {1}}, "JSON"),
        ({"made_up": 1}, "made_up"),
    ],
)
def test_what_cannot_be_run_is_refused_before_it_is_intended(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ParameterError, match=told):
        an_audit(**changes)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"mechanism": noisy, "claim": dpl.PureDP(1)},
        {"mechanism": noisy, "claim": dpl.PureDP("0.1"), "confidence": "0.9"},
        {"mechanism": noisy, "claim": dpl.GDP(1)},
        {"mechanism": dpl.Gaussian(sensitivity=1, noise_multiplier=2), "left": 0.0, "right": 1.0},
        {"mechanism": dpl.Gaussian(sensitivity=1, noise_multiplier=2), "left": 0.0, "right": 1.0, "delta": "0.001"},
    ],
)
def test_a_recorded_audit_runs_again_from_its_entry_and_says_the_same(changes: dict[str, Any]) -> None:
    audit = an_audit(**changes)
    with dpl.Ledger.in_memory() as book:
        said = book.intend(audit)
        entry = book.record(audit.run(progress=False), intended=said.index)
        book.verify()
    assert isinstance(entry.body, Audited)
    again = Audit.again(entry.body, audit.mechanism, audit.left, audit.right)
    found = again.run(progress=False).body()
    assert differences(entry.body, found) == ()
    other = Audit.again(replace(entry.body, seed=2), audit.mechanism, audit.left, audit.right).run(progress=False)
    assert differences(entry.body, other.body())


def test_a_realised_loss_runs_again_with_its_claim() -> None:
    shown = case("published_coin_billed_too_low")
    assert isinstance(shown.claim, dpl.ex_post.ExPostClaim)
    given: dict[str, Any] = {"mechanism": shown.mechanism, "left": shown.left, "right": shown.right, "batched": True}
    audit = Audit(**given, claim=shown.claim, trials=50_000, seed=1)
    assert audit.body().claim is None
    entry = audit.run(progress=False).body()
    again = Audit.again(entry, **given, loss=shown.claim)
    assert differences(entry, again.run(progress=False).body()) == ()


def test_what_differs_is_named_with_both_values_the_verdict_first() -> None:
    entry = an_audit().run(progress=False).body()
    other = replace(entry, verdict="violation", epsilon_lower="0.75", e_value=Decimal(40))
    assert differences(entry, other) == (
        "verdict was not_refuted, is violation",
        f"epsilon_lower was {entry.epsilon_lower}, is 0.75",
        f"e_value was {entry.e_value}, is 40",
    )


def test_last_digits_of_another_processor_are_no_difference() -> None:
    entry = an_audit().run(progress=False).body()
    assert entry.e_value is not None
    assert differences(entry, replace(entry, e_value=entry.e_value * Decimal("1.0000005"))) == ()
    assert len(differences(entry, replace(entry, e_value=entry.e_value * Decimal("1.000002")))) == 1


def test_outputs_that_were_collected_cannot_be_run_again() -> None:
    outputs = np.arange(200.0)
    entry = dpl.audit_outputs(outputs, outputs.copy(), dpl.PureDP(1)).body()
    with pytest.raises(ParameterError, match="collected"):
        Audit.again(entry, noisy, [1], [1, 2])


def test_the_digest_of_code_is_that_of_the_file_it_stands_in() -> None:
    here = sha256(Path(__file__).read_bytes()).hexdigest()
    assert code_digest(noisy) == here
    count = Path(statistics.__file__)
    assert code_digest(COUNT) == sha256(count.read_bytes()).hexdigest()
    assert code_digest(len) is None
    assert code_digest(eval("lambda data: data")) is None
    assert code_digest(functools.partial(functools.partial(noisy, [1]), rng=None)) == here
    assert code_digest(functools.lru_cache(noisy)) == here


def test_the_result_of_what_is_wrapped_names_the_code_that_was_given() -> None:
    def drawn(data: float, rng: np.random.Generator) -> float:
        return data + rng.laplace()

    found = dpl.analytic.audit_doubles(drawn, 0.0, 1.0, dpl.PureDP(1), trials=100, seed=1, progress=False)
    assert found.body().code == sha256(Path(__file__).read_bytes()).hexdigest()


def test_another_pair_is_not_what_was_intended() -> None:
    audit, tame = (an_audit(left=left, made_up=True, trials=100) for left in ([1], [1, 2, 3]))
    with dpl.Ledger.in_memory() as book:
        said = book.intend(audit)
        assert isinstance(said.body, Intended)
        assert said.body.pair == sha256(b"[[1],[1,2]]").hexdigest()
        with pytest.raises(ParameterError, match="pair differs"):
            book.record(tame.run(progress=False), intended=said.index)
        entry = book.record(audit.run(progress=False), intended=said.index)
        assert isinstance(entry.body, Audited)
        assert entry.body.pair == said.body.pair
        book.verify()


def test_code_that_changed_is_not_what_was_intended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = tmp_path / "job_intended.py"
    job.write_text("def noisy(data, rng):\n    return len(data) + rng.laplace()\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("job_intended")
    monkeypatch.delitem(sys.modules, "job_intended")
    audit = an_audit(mechanism=module.noisy, claim=dpl.PureDP(1), trials=100)
    with dpl.Ledger.in_memory() as book:
        said = book.intend(audit)
        assert isinstance(said.body, Intended)
        assert said.body.code == sha256(job.read_bytes()).hexdigest()
        job.write_text(job.read_text() + "# tame from here on\n")
        with pytest.raises(ParameterError, match="code differs"):
            book.record(audit.run(progress=False), intended=said.index)


def test_no_digest_of_data_that_nobody_said_are_made_up() -> None:
    audit = an_audit(trials=100)
    assert audit.body().pair is None
    found = audit.run(progress=False).body()
    assert found.pair is None
    of_made_up = replace(found, pair="ab" * 32)
    assert Audit.again(of_made_up, COUNT, [1], [1, 2]).run(progress=False).body().pair is None


def test_the_digest_of_a_pair_is_that_of_its_one_text() -> None:
    digest = sha256(b'[[1,2],{"a":null,"b":"\\u00e9"}]').hexdigest()
    assert pair_digest([1, 2], {"b": "\u00e9", "a": None}) == digest
    assert pair_digest((1, 2), {"b": "\u00e9", "a": None}) == digest
    for wrong in (float("nan"), {1, 2}, noisy):
        with pytest.raises(ParameterError, match="JSON"):
            pair_digest(wrong, 0)
