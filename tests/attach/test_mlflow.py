"""What a run of MLflow is told of a charge: tags, and signed entries. Against the library, on a store of files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlflow
import pytest

from dpledger.accounting.composition import GaussianLaw, PoissonSampled, Repeated
from dpledger.accounting.guarantees import ZCDP, ApproxDP, PureDP
from dpledger.accounting.profile import compose
from dpledger.attach.mlflow import ARTIFACT, log_charge
from dpledger.errors import ParameterError, ScopeError
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.scope import Scope
from dpledger.mechanisms.numeric import Laplace
from dpledger.relations import Unit

WHO: dict[str, Any] = {"by": "A. Smith", "reason": "the model of the study", "relation": "add_remove", "of": "unit"}
STEPS = Repeated(PoissonSampled(GaussianLaw(4), rate="0.1"), times=10)


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    yield
    mlflow.set_tracking_uri(before)


@pytest.fixture
def book() -> Iterator[Ledger]:
    with Ledger.in_memory() as made:
        yield made


@pytest.fixture
def scope(book: Ledger) -> Scope:
    return book.scope("rows", unit=Unit("patient", 3), relation="add_remove", budget=ApproxDP(3, "1e-6"))


def artifact(run: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(mlflow.artifacts.load_text(f"{run.info.artifact_uri}/{ARTIFACT}"))
    return found


def test_a_charge_is_told_by_its_tags_and_its_signed_entries(book: Ledger, scope: Scope) -> None:
    scope.charge(PureDP("0.25"), **WHO)
    another = book.scope("others", unit="other", relation="add_remove", budget=PureDP(1), dataset="others")
    with mlflow.start_run() as run:
        with scope.charging(STEPS, steps=10, tail_delta=0, **WHO) as training:
            training.grant(4)
            another.charge(PureDP("0.1"), **WHO)  # between its entries
            training.grant(2)
            with pytest.raises(ScopeError, match="not charged yet"):
                log_charge(book, training)
        told = log_charge(book, training)
        assert told == log_charge(book, training.receipt)
    tags = mlflow.MlflowClient().get_run(run.info.run_id).data.tags
    assert {name: value for name, value in tags.items() if name.startswith("dpledger.")} == dict(told)
    planned = compose(STEPS).epsilon("1e-6").upper  # where it stopped may depend on what it showed
    [_, charge] = scope.releases()
    assert told == {
        "dpledger.ledger": book.id,
        "dpledger.public_key": str(book.state.opened.public_key),  # type: ignore[union-attr]
        "dpledger.scope": "rows",
        "dpledger.unit": "patient, of 3 at most",
        "dpledger.relation": "add_remove",
        "dpledger.budget": told["dpledger.budget"],
        "dpledger.mechanism": "declared_run",
        "dpledger.charge": charge.charge,
        "dpledger.entries": f"{charge.index}-{charge.ended}",
        "dpledger.delta": "0.000001",
        "dpledger.epsilon": repr(planned),
        "dpledger.scope_epsilon": repr(scope.spent().upper),
        "dpledger.size": str(len(book)),
        "dpledger.attested": "A. Smith",
    }
    kept = artifact(run)
    leaves = list(book.leaves())
    assert [json.loads(leaves[one["index"]]) | {"index": one["index"]} for one in kept["signed"]] == kept["signed"]
    kinds = [book.entry(one["index"]).body.kind for one in kept["signed"]]
    assert kinds == ["reserved", "started", "progress", "progress", "committed"]
    assert kept["head"] == book.head.decode()
    assert {f"dpledger.{name}" for name in kept} >= set(told)


def test_a_release_is_told_without_its_value(book: Ledger, scope: Scope) -> None:
    receipt = scope.release(Laplace(epsilon="0.5", sensitivity=1, justification="each counts once"), 2)
    with mlflow.start_run() as run:
        told = log_charge(book, receipt, delta=0)
    assert told["dpledger.delta"] == "0"
    assert 0.5 <= float(told["dpledger.epsilon"]) < 0.5 + 1e-12
    assert "dpledger.attested" not in told
    assert not {"value", "salt", "redeem"} & set(artifact(run))


def test_a_run_by_its_id_and_a_budget_without_a_delta(book: Ledger) -> None:
    scope = book.scope("rho", unit="patient", relation="add_remove", budget=ZCDP(1))
    receipt = scope.charge(GaussianLaw(5), **WHO)
    run = mlflow.MlflowClient().create_run("0")
    with pytest.raises(ParameterError, match=r"^delta: "):
        log_charge(book, receipt, run_id=run.info.run_id)
    told = log_charge(book, receipt, run_id=run.info.run_id, delta="1e-5")
    assert 0 < float(told["dpledger.epsilon"]) < float(told["dpledger.scope_epsilon"])


def test_what_is_no_charge_here_is_refused_with_nothing_logged(book: Ledger, scope: Scope) -> None:
    receipt = scope.charge(PureDP("0.25"), **WHO)
    with pytest.raises(ParameterError, match=r"^run_id: "):
        log_charge(book, receipt)
    with scope.charging(PureDP("0.25"), **WHO) as left:
        broken = left.broke_off("it ran elsewhere than it said")
    with Ledger.in_memory() as elsewhere, mlflow.start_run() as run:
        opened = SimpleNamespace(entry=book.entry(1))
        for wrong, other in ((receipt, elsewhere), (broken, book), (scope, book), (opened, book)):
            with pytest.raises(ParameterError, match=r"^receipt: "):
                log_charge(other, wrong)  # type: ignore[arg-type]
        with pytest.raises(ParameterError, match=rf"{re.escape(elsewhere.id)}.* one of ledger {re.escape(book.id)}"):
            log_charge(elsewhere, receipt)
        with pytest.raises(ParameterError, match=r"^book: "):
            log_charge(scope, receipt)  # type: ignore[arg-type]
    data = mlflow.MlflowClient().get_run(run.info.run_id).data
    assert not [name for name in data.tags if name.startswith("dpledger")]
