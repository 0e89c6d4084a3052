"""What a run of MLflow has to say of privacy: tags of the charge that paid for its model, and the entries themselves.

    with mlflow.start_run():
        trainer.train()
        log_charge(book, trainer.run)

Needs mlflow: `pip install 'dpledger[mlflow]'`, or `mlflow-skinny`.

| tag | says |
|---|---|
| `dpledger.ledger`, `dpledger.public_key` | which ledger, and the key that verifies it |
| `dpledger.scope`, `dpledger.unit`, `dpledger.relation`, `dpledger.budget` | what is protected, and up to what |
| `dpledger.mechanism`, `dpledger.charge`, `dpledger.entries` | what ran, its charge, from which entry to which |
| `dpledger.delta`, `dpledger.epsilon` | what the charge alone comes to, at most, by its parts as they were planned |
| `dpledger.scope_epsilon`, `dpledger.size` | what the scope had spent, at most, after so many entries |
| `dpledger.attested` | by whom, of a run elsewhere |

The artifact `dpledger/charge.json` has the same, the signed entries of the charge, and the signed head of the ledger.
All of it is in an export of the ledger: no data, no output, no key that signs.

>>> import os, tempfile
>>> from pathlib import Path
>>> from dpledger.accounting.guarantees import ApproxDP, PureDP
>>> from dpledger.ledger.ledger import Ledger
>>> book = Ledger.in_memory()
>>> scope = book.scope("rows", unit="patient", relation="add_remove", budget=ApproxDP(3, "0.000001"))
>>> receipt = scope.charge(PureDP("0.5"), by="A. Smith", reason="counts in March", relation="add_remove")
>>> os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # yours is a server, or a data base
>>> with tempfile.TemporaryDirectory() as folder:
...     mlflow.set_tracking_uri(Path(folder, "runs").as_uri())
...     with mlflow.start_run():
...         tags = log_charge(book, receipt, delta=0)
>>> round(float(tags["dpledger.epsilon"]), 6), tags["dpledger.delta"], tags["dpledger.entries"]
(0.5, '0', '2-3')
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from dpledger.accounting.guarantees import words_of
from dpledger.accounting.profile import compose
from dpledger.attach.extras import extra
from dpledger.decimals import Number, read, text
from dpledger.errors import ParameterError
from dpledger.ledger.accounts import readings, recomposition
from dpledger.ledger.accounts.recomposition import Admission
from dpledger.ledger.charging.charges import Receipt
from dpledger.ledger.entries.bodies import Committed
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.rules.scope_state import ScopeState
from dpledger.ledger.rules.transitions import charged_scope

with extra("mlflow"):
    import mlflow

__all__ = ["log_charge"]

ARTIFACT = "dpledger/charge.json"


@runtime_checkable
class HasReceipt(Protocol):
    """A run that has a receipt, once it is charged: that of a trainer, of Opacus, of `Scope.charging`."""

    @property
    def receipt(self) -> Receipt[Any]: ...


def log_charge(
    book: Ledger, receipt: Receipt[Any] | HasReceipt, *, delta: Number | None = None, run_id: str | None = None
) -> Mapping[str, str]:
    """Log the charge of `receipt`, an entry of `book`, to the run of MLflow `run_id` (default: the one that is active);
    the tags that were set.

    `receipt`: or the run that has it, like `trainer.run`, once it is charged (ScopeError before). `delta`: at which
    both epsilons are read (default: that of the scope's budget).
    Claim: `dpledger.epsilon` is at least the epsilon at `delta` of what was planned, under the scope's relation, and so
    of what ran wherever it stopped, if it ran as its parts say; `dpledger.scope_epsilon` as of `Scope.spent`.
    Source: the certified engine.
    Raises, with nothing logged: ParameterError for a receipt of another ledger, of no charge, or of a run that left its
    guarantee, for a budget without a delta where none is given, and where no run is active; CannotCertify where the
    parts have no bound at `delta`."""
    if not isinstance(book, Ledger):
        raise ParameterError("book", type(book).__name__, "the ledger of the receipt")
    admission, scope = _charge(book, receipt)
    at = readings.own_delta(scope) if delta is None else read(delta, field="delta")
    run = run_id if run_id is not None else _active()
    state = book.state
    said = {
        "ledger": book.id,
        "public_key": book.public_key.text,
        "scope": scope.scope,
        "unit": f"{scope.unit.name}, of {scope.unit.max_contributions} at most",
        "relation": scope.relation.value,
        "budget": words_of(scope.budget),
        "mechanism": admission.mechanism.kind,
        "charge": admission.charge,
        "entries": f"{admission.index}-{admission.ended}",
        "delta": text(at),
        "epsilon": repr(compose(admission.parts, relation=scope.relation).epsilon(at).upper),
        "scope_epsilon": repr(readings.spent(scope, at).upper),
        "size": str(state.size),
        **({} if admission.attested is None else {"attested": admission.attested.by}),
    }
    tags = {f"dpledger.{name}": value for name, value in said.items()}
    client = mlflow.MlflowClient()
    client.log_text(run, json.dumps({**said, **_signed(book, admission)}, indent=2), ARTIFACT)
    for name, value in tags.items():
        client.set_tag(run, name, value)
    return tags


def _charge(book: Ledger, receipt: Receipt[Any] | HasReceipt) -> tuple[Admission, ScopeState]:
    """The charge that the entry of `receipt` ended, and its scope."""
    entry = getattr(receipt.receipt if isinstance(receipt, HasReceipt) else receipt, "entry", None)
    if not isinstance(entry, Entry):
        raise ParameterError("receipt", type(receipt).__name__, f"the receipt of a charge in {book.id}, or its run")
    if entry.ledger != book.id:
        raise ParameterError("receipt", f"one of ledger {entry.ledger}", f"that of a charge in `book`, {book.id}")
    state = book.refresh()
    if not isinstance(entry.body, Committed):
        raise ParameterError("receipt", f"that of an entry {entry.body.kind}", "that of a charge that is committed")
    scope = charged_scope(state, entry.body.path)
    charges = recomposition.admissions(book.entries(stop=state.size), state, scope.scope)
    found = next(one for one in charges if one.charge == entry.body.charge)
    if found.outside_guarantee:
        raise ParameterError("receipt", "that of a run that left its guarantee", "that of one whose parts are true")
    return found, scope


def _signed(book: Ledger, admission: Admission) -> dict[str, Any]:
    """The entries of a charge as they were signed, and the head of the ledger, from which a proof may start."""
    ended = admission.ended
    assert ended is not None, "it is committed"
    kept = {
        entry.index for entry in book.entries(stop=ended + 1) if getattr(entry.body, "charge", None) == admission.charge
    }
    leaves = enumerate(book.leaves(stop=ended + 1))
    return {
        "signed": [{"index": index, **json.loads(leaf)} for index, leaf in leaves if index in kept],
        "head": book.head.decode(),
    }


def _active() -> str:
    run = mlflow.active_run()
    if run is None:
        raise ParameterError("run_id", None, "a run of MLflow, by its id or active (mlflow.start_run)")
    return str(run.info.run_id)
