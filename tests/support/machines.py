"""Ledgers written on one machine and verified on another: the same one, with and without its vector instructions.

Floating point differs between processors in its last digits: in numpy's loops, in the C library and in OpenBLAS. Each
of them can be told to do without what a plain processor has not got. What random trees cost and promise must be the
same to the last bit; random honest ledgers, whose charges come from floating point, and the golden ledger are verified
both ways, the tests of bytes are run both ways, and what planners choose is the same:

    python tests/support/machines.py
"""

from __future__ import annotations

import importlib
import math
import os
import platform
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import dpledger as dpl
import ledger_golden
from dpledger.accounting.certified import certified_cost, certified_rho
from dpledger.accounting.composition import Composition, Selected
from dpledger.accounting.guarantees import Guarantee
from dpledger.accounting.pricing.costs import cost
from dpledger.accounting.trials import NegativeBinomialTrials, PoissonTrials, Trials
from dpledger.errors import BudgetRefused, CannotCertify
from dpledger.ledger.ledger import Ledger
from dpledger.ledger.signed.keys import VerifyingKey
from dpledger.ledger.verifying import bundle
from dpledger.relations import Relation

__all__ = ["ENVIRONMENTS", "random_ledger", "random_tree"]

LEDGERS, TREES, PLANS = 50, 12, 6
NUMBERS = "numbers"
ORDERS = (Decimal("1.5"), Decimal(8), Decimal(64))
RELATIONS = {relation.value: relation for relation in (Relation.ADD_REMOVE, Relation.REPLACE_ONE)}
TESTS_OF_BYTES = ("test_golden_ledger.py", "test_ledger_vectors.py", "test_spec_examples.py", "test_wire_profile.py")
_SWITCHES = ("NPY_DISABLE_CPU_FEATURES", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "GLIBC_TUNABLES")
_ON_X86 = {
    "OPENBLAS_CORETYPE": "Prescott",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX,-AVX2,-FMA,-FMA4,-AVX512F,-AVX512VL,-AVX2_Usable,-FMA_Usable",
}


def _numpy_features() -> str:
    """What numpy was built to use above its baseline, as far as it is there."""
    core: Any = importlib.import_module("numpy._core._multiarray_umath")  # where numpy says it: it has no public name
    return " ".join(name for name in core.__cpu_dispatch__ if core.__cpu_features__.get(name))


def _environments() -> dict[str, dict[str, str]]:
    plain = {name: value for name, value in os.environ.items() if name not in _SWITCHES}
    on_x86 = _ON_X86 if platform.machine() in {"x86_64", "AMD64"} else {}
    return {"all features": plain, "none": {**plain, **on_x86, "NPY_DISABLE_CPU_FEATURES": _numpy_features()}}


ENVIRONMENTS = _environments()


BINS = dpl.learning.Binning({0: range(1, 40)}, source="made up")


def random_ledger(seed: int) -> Ledger:
    """A ledger whose charges are priced in floating point, in budgets of every kind, or are exact, beside them; with
    claims at the last digit of a profile, prices of plans, and steps that are given back."""
    choose, book = random.Random(seed), Ledger.in_memory()
    for relation in ("add_remove", "replace_one"):
        scope = book.scope(relation, unit="record", relation=relation, budget=_budget(choose), dataset=relation)
        said: dict[str, Any] = {"relation": relation, "by": "a random test", "reason": "a run elsewhere"}
        for _ in range(2):
            tree = random_tree(choose, relation)
            try:
                if isinstance(tree, dpl.Repeated):
                    with scope.charging(tree, steps=tree.times, tail_delta=0, **said) as run:
                        run.grant(choose.randrange(1, tree.times))
                scope.charge(tree, claim=_claim(choose, tree, relation), **said)
            except (BudgetRefused, CannotCertify):
                continue
    return book


def _budget(choose: random.Random) -> Guarantee:
    budgets: list[Guarantee] = [
        dpl.ApproxDP(30, "1e-5"), dpl.ZCDP(20), dpl.RDP((2, 8, 32), (20, 40, 80)), dpl.ApproxDP(60, "1e-6")
    ]  # fmt: skip
    return choose.choice(budgets)


def _claim(choose: random.Random, tree: Composition, relation: str) -> Guarantee | None:
    if choose.random() < 0.5:
        return None
    found = dpl.compose(tree, relation=relation).epsilon(delta="1e-7")
    return dpl.ApproxDP(Decimal.from_float(found.upper), "1e-7") if found.upper < math.inf else None


def random_tree(choose: random.Random, relation: str) -> Composition:
    """Some runs of some draw under `relation`, or the best of a secret number of them."""
    epsilon, rate = f"{choose.uniform(0.05, 2):.3f}", f"{choose.uniform(0.001, 0.3):.4f}"
    users, times = choose.randrange(50, 5000), choose.choice([1, 1, 4, 50])
    laws: list[Composition] = [dpl.LaplaceLaw(epsilon), dpl.GaussianLaw(f"{choose.uniform(0.8, 8):.2f}")]
    law = choose.choice(laws)
    answers = dpl.RandomizedResponseLaw(epsilon, k=choose.choice([2, 3, 5, 20]))
    drawn: list[Composition] = (
        [dpl.PoissonSampled(law, rate=rate), dpl.RandomAllocation(law, steps=choose.choice([5, 20])), answers, law]
        if relation == "add_remove"
        else [
            dpl.SampledWithoutReplacement(law, population=users, batch=users // 10),
            dpl.Shuffled(answers, users=users),
            answers,
            dpl.ExponentialLaw(epsilon),
        ]
    )
    one = choose.choice(drawn)
    if choose.random() < 0.2:
        mean, eta = choose.randrange(2, 50), choose.choice(["0", "0.5", "1"])
        numbers: list[Trials] = [NegativeBinomialTrials(eta, f"{1 / mean:.4f}"), PoissonTrials(mean)]
        return Selected(one, repeats=choose.choice(numbers))
    return one if times == 1 else dpl.Repeated(one, times=times)


def _planned(seed: int) -> str:
    """What a script that runs again under its key must choose again: numbers that a plan or a search found."""
    choose = random.Random(2000 + seed)
    relation = choose.choice(list(RELATIONS.values()))
    epsilon, tenth = f"{choose.uniform(0.2, 9):.3f}", f"{choose.uniform(0.03, 0.3):.3f}"
    rows, cutoff = choose.randrange(10**5, 10**6), choose.randrange(1, 60)
    found: list[Any] = [
        dpl.SparseVector(epsilon, cutoff, 1, 1, "1e-6", mode="target_charging"),
        dpl.ex_post.AccuracyFirst("ridge", rows, 8, "0.02", tenth, beta=tenth),
        dpl.ex_post.AccuracyFirst("logistic", rows, 8, "0.02", tenth, beta=tenth, radius="reference"),
        dpl.ex_post.AccuracyFirst("logistic", rows, 8, "0.02", target_error_rate=tenth, beta=tenth),
        dpl.Quantile(epsilon, tenth, 0, rows),
        dpl.Quantiles(epsilon, (tenth, "0.4", "0.9"), 0, rows),
        dpl.ColumnBounds(epsilon),
        dpl.learning.PrivateLogisticLearner(BINS, rho=tenth, classes=cutoff + 1),
        dpl.learning.PrivateStumpBooster.for_rows(rows // 100, BINS, epsilon),
        dpl.learning.PrivateSQThresholdLearner(rows, epsilon=epsilon, alpha=tenth),
    ]
    clipped = dpl.planning.clipped_pairwise_plan(rows, 20, tenth, tenth, epsilon=epsilon, relation=relation)
    placed = [one.under(relation, dpl.Unit()) for one in found]
    return f"{seed} {placed[-1].plan()} {clipped} {[one.parameters() for one in placed]}"


def _numbers(seed: int) -> str:
    """Every digit of what a random tree costs and promises."""
    choose = random.Random(1000 + seed)
    relation = choose.choice(list(RELATIONS))
    tree = random_tree(choose, relation)
    profile = dpl.compose(tree, relation=relation)
    asked = (
        lambda: profile.epsilon(delta="1e-6"),
        lambda: profile.delta(epsilon=1),
        lambda: cost(tree, RELATIONS[relation], orders=ORDERS),
        lambda: certified_cost(tree, RELATIONS[relation], Decimal("1e-7"), ORDERS),
        lambda: certified_rho(tree, RELATIONS[relation], Decimal("1e-7")),
    )
    return f"{seed} {tree}: " + ", ".join(map(_said, asked))


def _said(asked: Callable[[], object]) -> str:
    try:
        return repr(asked())
    except CannotCertify as error:
        return str(error)


def _write(folder: Path) -> None:
    charges = 0
    for seed in range(LEDGERS):
        book = random_ledger(seed)
        charges += sum(entry.body.kind == "reserved" for entry in book.entries())
        book.export(folder / str(seed))
        (folder / f"{seed}.pub").write_text(book.public_key.text, encoding="utf-8")
    told = [*map(_numbers, range(TREES)), *map(_planned, range(PLANS))]
    (folder / NUMBERS).write_text("\n".join(told), encoding="utf-8")
    print(f"{LEDGERS} ledgers with {charges} charges, the numbers of {TREES} trees and {PLANS} plans written")
    assert charges > 2 * LEDGERS, "ledgers with hardly a charge show nothing"


def _verify(folder: Path) -> None:
    for seed in range(LEDGERS):
        bundle.verify(folder / str(seed), VerifyingKey.parse((folder / f"{seed}.pub").read_text(encoding="utf-8")))
    bundle.verify(ledger_golden.DATA, ledger_golden.KEY.public)
    print(f"{LEDGERS} ledgers and the golden one verify")


def _both_ways() -> None:
    here = str(Path(__file__).resolve())
    tests = [str(Path(here).parents[1] / "ledger" / name) for name in TESTS_OF_BYTES]
    with tempfile.TemporaryDirectory() as scratch:
        folders = {name: Path(scratch) / name for name in ENVIRONMENTS}
        for folder in folders.values():
            folder.mkdir()
        _in_each({name: [here, "write", str(folder)] for name, folder in folders.items()})
        told = [(folder / NUMBERS).read_text(encoding="utf-8").splitlines() for folder in folders.values()]
        apart = [pair for pair in zip(*told, strict=True) if pair[0] != pair[1]]
        assert not apart, f"numbers that differ with the processor: {apart}"
        others = zip(folders, reversed(folders.values()), strict=True)
        _in_each({name: [here, "verify", str(folder)] for name, folder in others})
        _in_each({name: ["-m", "pytest", "-q", *tests] for name in folders})


def _in_each(commands: dict[str, list[str]]) -> None:
    """Run a Python in each environment, side by side."""
    running = {
        name: subprocess.Popen([sys.executable, *command], env=ENVIRONMENTS[name]) for name, command in commands.items()
    }
    for name, one in running.items():
        assert one.wait() == 0, f"failed with {name}: {commands[name]}"


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", folder]:
            _write(Path(folder))
        case ["verify", folder]:
            _verify(Path(folder))
        case _:
            _both_ways()
