"""The whole public surface as one table: how each public function and method is called well, and how it may be called
badly. A public name that is not in the table fails the test that walks it."""

from __future__ import annotations

import dataclasses
import inspect
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import dpledger as dpl
from dpledger import keys
from dpledger.accounting.composition import Composition
from dpledger.accounting.documents import DocumentLine
from dpledger.errors import ApprovalNeeded
from dpledger.ledger.rules.approvals import approval_of
from dpledger.ledger.stores.memory import MemoryStore
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.learning.representations.representations import HashedPointRepresentation
from dpledger.mechanisms.learning.users.mistakes import mistakes_of
from dpledger.mechanisms.learning.users.reading import users_of
from dpledger.mechanisms.stability.ensembles.ensemble import Fitted
from dpledger.mechanisms.stability.ensembles.forms import Form
from learners import Constant, majority
from public_names import public
from spec_kinds import kind_of, members

__all__ = ["ANSWERS", "DOORS", "WORDS", "Door", "doors_wanted", "parameters"]

# ---- doors ----------------------------------------------------------------------------------------------------------


ALL_KINDS = sum(len(f"'{kind_of(record)}', ") for record in members(Composition))
"""Characters of the list of all kinds of a tree, in a message."""


@dataclass(frozen=True, slots=True)
class Door:
    """A public callable. `good`: arguments that work, by parameter; `names`: by what else a message may
    name a parameter, where it checks several together; `left`: parameters that are not given bad values, and why.
    `numbers`: a parameter that is a list of numbers, which a message may show. `longest`:
    characters of a message; a list of all kinds of a tree is long, one of all declarations longer, and so is a refusal
    of a run elsewhere."""

    call: Callable[..., object]
    good: Mapping[str, object] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    left: Mapping[str, str] = field(default_factory=dict)
    numbers: str = ""
    longest: int = ALL_KINDS + 100


LEAF = dpl.LaplaceLaw("0.1")
COUNT = dpl.Count(1, of="rows")
RUN: dict[str, object] = {
    "rate": "0.5", "steps": 2, "noise_multiplier": 4, "clip_norm": 1, "dimension": 2, "expected_batch_size": 5
}  # fmt: skip
PROBED = dpl.DPSGD(**(RUN | {"noise_multiplier": 1}))  # type: ignore[arg-type]
MADE_UP = np.linspace(-1, 1, 32).reshape(16, 2)
AT_ONCE = "0.001"  # seconds of an audit whose parameters are looked at: its first runs
ERM: dict[str, Any] = {"target_excess_risk": 1, "family": "ridge", "rows": 100, "dimension": 2, "regularisation": 1}
PLANNED: dict[str, object] = {
    "max_queries": 20, "epsilon": 1, "delta": "1e-6", "beta": "0.05", "mode": "kov",
    "delta_split": "0.5",
}  # fmt: skip
COUNTED: dict[str, object] = {
    "regime": "realizable", "gamma": 0, "learner": None, "counting": "iid", "dissent": "0.3"
}  # fmt: skip
NOT_OF_STUDENTS = ("max_queries", "counting", "dissent")
ELSEWHERE: dict[str, object] = {
    "parts": LEAF, "by": "me", "reason": "words", "relation": "add_remove", "of": None, "evidence": None, "claim": None,
    "key": None, "tail_delta": None, "mechanism": "declared_run", "library": "elsewhere", "parameters": None,
}  # fmt: skip
WHAT = "parts|Repeated.times"
ELSEWHERE_NAMES = {"parts": WHAT, "claim": "claim|epsilon|delta"}
ORDERS = (dpl.filters.Boundary(30, "1e-7"), dpl.filters.Boundary(9, "1e-8"))
DATA_OF_AUDITS = {"left": "data", "right": "data"}
DATA = {"data": "data never raise by what they hold: the mechanisms' own tests"}
FITTED_FORM = Form(None, None, (), 0.0)
FITTED = Fitted((None,) * 3, FITTED_FORM, "slots", 2, False, False)
VOTES = {"epsilon": 20, "delta": "1e-6", "chunks": 1001, "cutoff": 2, "max_queries": 50}
SIDES = {"values": "values are data", "distances": "distances are data"}
ROWS = {"x": "rows are data"}
DATA_BY_UNIT = {"units": "an id is data: whatever it is belongs to somebody or to nobody"}
WEIGHED = {"examples": "examples|weights"}
OWN_CODE = "the caller's own code: what it raises is the caller's"
ACCURATE: dict[str, object] = {"alpha": "0.1", "beta": "0.1"}
ONE_OF = {"epsilon": "epsilon|sampling_rate", "sampling_rate": "epsilon|sampling_rate"}
CELLS = {"bits": "bits|a", "dimension": "dimension|bits"}
HASHED = dpl.learning.HashedPointRepresentation(dimension=20, bits=12, a="0.0125", seed=1)
OWN_SIZE = {"learner": OWN_CODE}
INJECTED = "a part that tests and stores put in, typed by a protocol"


def student() -> dpl.stability.Student:
    """Of two public rows."""
    return dpl.stability.Student(np.zeros(2, np.int64), np.ones(2, np.bool_), FITTED_FORM, Constant([0, 0])(None, None))


def profile() -> dpl.results.Profile:
    return dpl.compose(dpl.GaussianLaw(1))


def book() -> dpl.Ledger:
    return dpl.Ledger.in_memory()


def scope() -> dpl.Scope:
    return book().scope("rows", unit="record", relation="add_remove", budget=dpl.ApproxDP(100, "1e-6"))


def with_a_run() -> Any:
    """A scope in which a run is open under the key `model`, with a step granted."""
    own, plan = scope(), dpl.Repeated(dpl.LaplaceLaw("0.1"), times=2)
    said: dict[str, Any] = {"by": "me", "reason": "words", "relation": "add_remove", "key": "model"}
    own.charging(plan, steps=2, tail_delta=0, **said).__enter__().grant()
    return own


def stepped() -> dpl.results.DeclaredRun:
    plan = dpl.Repeated(dpl.LaplaceLaw("0.1"), times=2)
    return scope().charging(plan, steps=2, tail_delta=0, by="me", reason="words", relation="add_remove").__enter__()


def squares() -> dpl.Scope:
    """A scope that prices a plan by a formula: by its certified profile one of two steps takes seconds."""
    return book().scope("squares", unit="record", relation="add_remove", budget=dpl.GDP(1))


SIGNER = keys.SigningKey.generate(dpl.Ledger.in_memory().id)
RIGHT = object()  # a key of the right name


def with_another_key(successor: Any = None) -> object:
    """A ledger whose key is another one: of the right name, where none is given."""
    made = kept()
    return made.rotate_key(keys.SigningKey.generate(made.id) if successor is None else successor)


def with_another_owner(owner: Any, approval: Any = None) -> object:
    """A ledger whose owner is another one, which the one before approves, where nothing is given."""
    first, signer, recovery = (keys.SigningKey.generate("example/" + digit * 32) for digit in "022")
    made = dpl.Ledger.begin(MemoryStore(), signer, recovery.public, owner=first.public)
    try:
        return made.rotate_owner(owner, approval=approval)
    except ApprovalNeeded as needed:
        return made.rotate_owner(owner, approval=approval_of(needed.request, first))


def kept() -> dpl.Ledger:
    """A ledger with an entry of each of the first kinds."""
    made = book()
    made.scope("rows", unit="record", relation="add_remove", budget=dpl.PureDP(100))
    return made


def appended() -> dpl.Accountant:
    made = dpl.Accountant("1e-5")
    made.append(LEAF)
    return made


def coin(value: float, rng: np.random.Generator) -> float:
    """Of one word, and of two values, so that a search for a word is short."""
    return float(rng.random() < 0.5)


@cache
def audited() -> dpl.results.AuditResult:
    return dpl.audit_outputs(np.arange(200.0), np.arange(200.0), dpl.PureDP(1))


def planned() -> dpl.Audit:
    return dpl.Audit(spread, 0, 1, dpl.PureDP(1), trials=100, seed=1)


def spread(_: object, rng: np.random.Generator) -> float:
    return float(rng.normal())


def noisy_step(state: float, rows: Any, rng: np.random.Generator) -> float:
    return float(np.sum(rows - state) + rng.normal())


def noisy_sum(rows: Any, rng: np.random.Generator) -> float:
    return float(np.sum(rows) + rng.normal())


def first_of(model: float, _: object) -> float:
    return model


def trained() -> dpl.results.TrainingAudit:
    return dpl.audit_training(
        noisy_sum, [0.0], dpl.PureDP(1), score=first_of, canaries=[1.0] * 10, seed=1, progress=False
    )


def folder() -> Path:
    return Path(tempfile.mkdtemp())


OF_USERS: dict[str, Any] = {
    "concept_class": dpl.learning.ThresholdClass(8), "epsilon": 1, "resolution": "0.1", "margin": "0.1", "share": "0.5"
}  # fmt: skip
PLANNED_OF_USERS: dict[str, Any] = {
    "concept_class": dpl.learning.ThresholdClass(8), "examples": 3, "alpha": "0.3", "beta": "0.3", "epsilon": 1,
    "share": "0.5",
}  # fmt: skip


def no_mistakes() -> object:
    """Two users, right by a threshold."""
    users = users_of(dpl.learning.UserSample(np.zeros((2, 1)), np.ones((2, 1))), 8)
    return mistakes_of(dpl.learning.ThresholdClass(8), users)


@cache
def hashed_users() -> object:
    """A learner of users by hashed points."""
    return dpl.learning.UserLevelSurrogateLearner.planned(
        dpl.learning.PointClass(2**40), 3, "0.4", "0.4", epsilon=1, seed=1
    )


def of(make: Callable[[], object], method: str) -> Callable[..., object]:
    """A method of an object made anew for each call."""

    def call(*args: object, **kwargs: object) -> object:
        return getattr(make(), method)(*args, **kwargs)

    return call


def zeros(batch: Any) -> object:
    return np.zeros((len(batch), 2))


GEOMETRIC = dpl.planning.NegativeBinomialTrials(eta=1, gamma="0.1")

DOORS: dict[str, Door] = {
    # accounting: leaves, nodes, documents
    "ex_post.Chain": Door(dpl.ex_post.Chain, {"of": LEAF, "reached": dpl.PureDP(0)}),
    "planning.Converted": Door(dpl.planning.Converted, {"of": LEAF, "to": dpl.PureDP(1), "relation": "add_remove"}),
    "DiscreteGaussianLaw": Door(dpl.DiscreteGaussianLaw, {"sigma": 2, "sensitivity": 1}),
    "DiscreteLaplaceLaw": Door(dpl.DiscreteLaplaceLaw, {"scale": 2, "sensitivity": 1}),
    "Document": Door(dpl.Document, {"relation": "add_remove", "entries": (DocumentLine(LEAF),)}),
    "Document.read": Door(dpl.Document.read, {"path": "nowhere.json"}, names={"path": "document"}),
    "ex_post.ExPostDP": Door(
        dpl.ex_post.ExPostDP,
        {"epsilon": 1, "sense": "integrated", "delta": "1e-6", "outcome": dpl.ex_post.ExPostOutcome("0.5")},
    ),
    "ex_post.ExPostOutcome": Door(dpl.ex_post.ExPostOutcome, {"epsilon": "0.5"}),
    "ExponentialLaw": Door(dpl.ExponentialLaw, {"epsilon": 1}),
    "GaussianLaw": Door(dpl.GaussianLaw, {"noise_multiplier": 1}),
    "Group": Door(dpl.Group, {"of": LEAF, "k": 2, "relation": "add_remove"}),
    "LaplaceLaw": Door(dpl.LaplaceLaw, {"epsilon": 1}),
    "Parallel": Door(dpl.Parallel, {"of": (LEAF, LEAF)}),
    "PmfPair": Door(dpl.PmfPair, {"left": ("0.5", "0.5"), "right": ("0.25", "0.75")}),
    "PoissonSampled": Door(dpl.PoissonSampled, {"of": LEAF, "rate": "0.5"}),
    "PostProcessed": Door(dpl.PostProcessed, {"of": LEAF}),
    "RandomAllocation": Door(dpl.RandomAllocation, {"of": LEAF, "steps": 2}),
    "RandomizedResponseLaw": Door(dpl.RandomizedResponseLaw, {"epsilon": 1, "k": 2}),
    "Repeated": Door(dpl.Repeated, {"of": LEAF, "times": 3, "done": 1}),
    "SampledWithoutReplacement": Door(dpl.SampledWithoutReplacement, {"of": LEAF, "population": 10, "batch": 2}),
    "PrivateSelection": Door(
        dpl.PrivateSelection,
        {"of": dpl.Count(epsilon=1, of="rows"), "repeats": GEOMETRIC, "best": "smallest", "entry": 0},
    ),
    "planning.OffsetZCDP": Door(dpl.planning.OffsetZCDP, {"rho": "0.01", "xi": "0.001"}),
    "planning.PermuteAndFlipLaw": Door(dpl.planning.PermuteAndFlipLaw, {"epsilon": 1}),
    "planning.GaussianWithReplacementLaw": Door(
        dpl.planning.GaussianWithReplacementLaw, {"noise_multiplier": 2, "population": 9, "draws": 2}
    ),
    "planning.MixtureOfGaussiansLaw": Door(
        dpl.planning.MixtureOfGaussiansLaw, {"sigma": 2, "sensitivities": (1, 2), "weights": ("0.25", "0.5")}
    ),
    "planning.TruncatedSampledGaussianLaw": Door(
        dpl.planning.TruncatedSampledGaussianLaw, {"noise_multiplier": 2, "rate": "0.1", "population": 9, "batch": 2}
    ),
    "planning.Selected": Door(dpl.planning.Selected, {"of": LEAF, "repeats": GEOMETRIC}),
    "planning.NegativeBinomialTrials": Door(
        dpl.planning.NegativeBinomialTrials, {"eta": 1, "gamma": "0.1", "most": 100}
    ),
    "planning.PoissonTrials": Door(dpl.planning.PoissonTrials, {"mean": 5, "most": 100}),
    "Sequence": Door(dpl.Sequence, {"of": (LEAF, LEAF)}),
    "Shuffled": Door(dpl.Shuffled, {"of": LEAF, "users": 10}),
    "planning.SparseVectorLaw": Door(
        dpl.planning.SparseVectorLaw,
        {"mode": "basic", "cutoff": 1, "epsilon": 1, "delta": 0, "threshold_scale": 2, "query_scale": 4},
    ),
    # guarantees and filters
    "GDP": Door(dpl.GDP, {"mu": 1}),
    "RDP": Door(dpl.RDP, {"orders": (2, 3), "epsilons": (1, 1)}),
    "ZCDP": Door(dpl.ZCDP, {"rho": 1, "delta": 0}),
    "ApproxDP": Door(dpl.ApproxDP, {"epsilon": 1, "delta": "1e-6"}),
    "BoundedRange": Door(dpl.BoundedRange, {"eta": 1}),
    "PrivacyCurve": Door(dpl.PrivacyCurve, {"epsilons": (0, 1), "deltas": ("0.5", "0.1"), "reached": ()}),
    "PureDP": Door(dpl.PureDP, {"epsilon": 1}),
    "filters.gaussians": Door(dpl.filters.gaussians, {"epsilon": 1, "delta": "1e-7"}),
    "filters.advanced": Door(dpl.filters.advanced, {"epsilon": 1, "delta_boundary": "1e-7", "delta_sum": "1e-7"}),
    "ex_post.LinearBoundary": Door(dpl.ex_post.LinearBoundary, {"tuning": 1, "delta": "1e-6"}),
    "ex_post.MixtureBoundary": Door(dpl.ex_post.MixtureBoundary, {"tuning": 1, "delta": "1e-6"}),
    "filters.Allowance": Door(dpl.filters.Allowance, {"law": LEAF, "steps": 10, "delta_rest": 0}),
    "filters.AllowanceFilter": Door(
        dpl.filters.AllowanceFilter,
        {"law": LEAF, "steps": 10, "epsilon_law": 1, "delta_law": "1e-7", "epsilon_rest": 1, "delta_rest": "1e-7"},
        {"delta_law": "delta_law|delta_rest", "epsilon_law": "epsilon_law|epsilon_rest"},
    ),
    "ex_post.Odometer": Door(
        dpl.ex_post.Odometer,
        {"boundary": "mixture", "tuning": 1, "delta_boundary": "1e-7", "delta_sum": "1e-7"},
    ),
    "filters.BasicFilter": Door(dpl.filters.BasicFilter, {"epsilon": 1, "delta_sum": "1e-7"}),
    "filters.Boundary": Door(dpl.filters.Boundary, {"order_minus_one": 30, "delta_boundary": "1e-7"}),
    "filters.EitherFilter": Door(dpl.filters.EitherFilter, {"epsilon": 1, "delta_sum": "1e-7", "boundaries": ORDERS}),
    "filters.GDPFilter": Door(dpl.filters.GDPFilter, {"mu": 1}),
    "filters.PureFilter": Door(dpl.filters.PureFilter, {"epsilon": 1}),
    "filters.RDPFilter": Door(dpl.filters.RDPFilter, {"orders": (2, 3), "epsilons": (1, 1)}),
    "filters.ZCDPFilter": Door(dpl.filters.ZCDPFilter, {"rho": 1, "delta_sum": 0}),
    "Relation": Door(dpl.Relation, {"value": "add_remove"}, names={"value": "relation"}),
    "Unit": Door(dpl.Unit, {"name": "record", "max_contributions": 1}, names={"name": "unit"}),
    "Unit.read": Door(dpl.Unit.read, {"value": "record"}, names={"value": "unit"}),
    # the engine
    "planning.Bounds": Door(
        dpl.planning.Bounds,
        {"lower": 0.0, "upper": 1.0},
        names={"lower": "Bounds", "upper": "Bounds"},
    ),
    "compose": Door(
        lambda what=LEAF, **more: dpl.compose(what, **more),
        {"what": LEAF, "relation": None, "direction": None, "verify": None, "order": "any", "effort": 1},
        names={"what": WHAT},
    ),
    "results.Profile.curve": Door(of(profile, "curve"), {"count": 2}),
    "results.Profile.delta": Door(of(profile, "delta"), {"epsilon": 1}),
    "results.Profile.deltas": Door(of(profile, "deltas"), {"epsilons": (1, 2)}),
    "results.Profile.epsilon": Door(of(profile, "epsilon"), {"delta": "1e-5"}),
    "results.Profile.epsilons": Door(of(profile, "epsilons"), {"deltas": ("1e-5", "1e-6")}, numbers="deltas"),
    "results.Profile.posterior": Door(of(profile, "posterior"), {"prior": "0.5", "false_positives": "0.1"}),
    "results.Profile.tradeoff": Door(of(profile, "tradeoff"), {"alpha": "0.1"}),
    "results.Profile.tradeoffs": Door(
        of(profile, "tradeoffs"), {"alphas": ("0.1",)}, names={"alphas": "alpha"}, numbers="alphas"
    ),
    "results.Profile.true_positives": Door(of(profile, "true_positives"), {"false_positives": "0.1"}),
    "calibrate": Door(
        dpl.calibrate,
        {"make": dpl.LaplaceLaw, "target": dpl.PureDP(1), "seek": "most", "within": ("0.1", 2), "digits": 2},
    ),
    "planning.calibrate_count": Door(
        dpl.planning.calibrate_count, {"make": lambda n: (LEAF, n), "target": dpl.PureDP(1), "within": (1, 20)}
    ),
    "Accountant": Door(dpl.Accountant, {"delta": "1e-5", "relation": "add_remove", "direction": None}),
    "Accountant.append": Door(of(lambda: dpl.Accountant("1e-5"), "append"), {"what": LEAF, "count": 2}, {"what": WHAT}),
    "Accountant.merge": Door(of(appended, "merge"), {"other": appended()}),
    "Accountant.resume": Door(dpl.Accountant.resume, {"record": appended().record()}),
    # mechanisms
    "AboveThreshold": Door(
        dpl.AboveThreshold, {"epsilon": 20, "threshold": 10, "sensitivity": 1, "max_queries": 5, "share": "0.5"}
    ),
    "ClippedMean": Door(dpl.ClippedMean, {"epsilon": 1, "lower": 0, "upper": 10}),
    "ClippedSum": Door(dpl.ClippedSum, {"epsilon": 1, "lower": 0, "upper": 10}),
    "ColumnBounds": Door(dpl.ColumnBounds, {"epsilon": 1, "tail": "0.01"}),
    "ColumnBounds.interval": Door(dpl.ColumnBounds(epsilon=1).interval, {"confidence": "0.95"}),
    "Quantile": Door(dpl.Quantile, {"epsilon": 1, "q": "0.5", "lower": 0, "upper": 10}),
    "Quantiles": Door(dpl.Quantiles, {"epsilon": 1, "qs": ("0.25", "0.5"), "lower": 0, "upper": 10}, numbers="qs"),
    "TopK": Door(dpl.TopK, {"epsilon": 1, "k": 1, "categories": ("a", "b")}),
    "Variance": Door(dpl.Variance, {"epsilon": 1, "lower": 0, "upper": 10}),
    "Count": Door(dpl.Count, {"epsilon": 1, "of": "rows"}),
    "Count.interval": Door(COUNT.interval, {"confidence": "0.95"}),
    "ExponentialMechanism": Door(dpl.ExponentialMechanism, {"candidates": 3, "epsilon": 1, "sensitivity": 2}),
    "ExponentialMechanism.loss": Door(
        dpl.ExponentialMechanism(candidates=3, epsilon=1, sensitivity=1).loss, {"beta": "0.1"}
    ),
    "PermuteAndFlip": Door(dpl.PermuteAndFlip, {"candidates": ("a", "b"), "epsilon": 1, "sensitivity": 1}),
    "PermuteAndFlip.loss": Door(dpl.PermuteAndFlip(candidates=3, epsilon=1, sensitivity=1).loss, {"beta": "0.1"}),
    "RandomizedResponse": Door(dpl.RandomizedResponse, {"answers": ("a", "b"), "epsilon": 1}),
    "RandomizedResponse.estimate": Door(
        dpl.RandomizedResponse(answers=("a", "b"), epsilon=1).estimate, {"published": ("a", "b", "a")}
    ),
    "learning.Segments": Door(dpl.learning.Segments, {"scores": [1, 2], "counts": [3, 4]}),
    "Gaussian": Door(dpl.Gaussian, {"sensitivity": 1, "noise_multiplier": 1}),
    "Gaussian.interval": Door(dpl.Gaussian(sensitivity=1, sigma=1).interval, {"confidence": "0.95"}),
    "Geometric": Door(dpl.Geometric, {"sensitivity": 1, "epsilon": 1}),
    "Geometric.interval": Door(dpl.Geometric(sensitivity=1, epsilon=1).interval, {"confidence": "0.95"}),
    "ex_post.Doubling": Door(
        dpl.ex_post.Doubling,
        {"first": "0.1", "rounds": 3, "accepts": 5, "check_epsilon": 1, "sensitivity": 1, "error_sensitivity": 1},
    ),
    "ex_post.NoiseReduction": Door(
        dpl.ex_post.NoiseReduction,
        {
            "least": "0.1",
            "most": 2,
            "levels": 4,
            "accepts": 5,
            "check_epsilon": 1,
            "sensitivity": 1,
            "error_sensitivity": 1,
        },
        {"least": "least|most", "boundary": "boundary|noise"},
    ),
    "ex_post.GradualGaussian": Door(
        dpl.ex_post.GradualGaussian, {"mu": 1, "sensitivity": 1}, {"mu": "mu|noise_multiplier"}
    ),
    "ex_post.GradualGaussian.interval": Door(
        dpl.ex_post.GradualGaussian(mu=2, sensitivity=1).interval, {"mu": 1, "confidence": "0.95"}
    ),
    "ex_post.GradualMean": Door(dpl.ex_post.GradualMean, {"epsilon": 1, "lower": 0, "upper": 10}),
    "ex_post.GradualRelease": Door(dpl.ex_post.GradualRelease, {"epsilon": 1, "sensitivity": 1}),
    "ex_post.GradualRelease.noise": Door(dpl.ex_post.GradualRelease(epsilon=2, sensitivity=1).noise, {"epsilon": 1}),
    "ex_post.GradualRelease.interval": Door(
        dpl.ex_post.GradualRelease(epsilon=2, sensitivity=1).interval, {"epsilon": 1, "confidence": "0.95"}
    ),
    "GroupBy": Door(
        dpl.GroupBy,
        {"by": "key", "statistics": (COUNT,), "keys": ("a",), "units": "id"},
        {"key_delta": "key_delta|key_epsilon", "by": "by|keys"},
    ),
    "GroupBy.published_from": Door(
        dpl.GroupBy("key", (), key_epsilon=1, key_delta="1e-5").published_from, {"probability": "0.5"}
    ),
    "Histogram": Door(dpl.Histogram, {"epsilon": 1, "categories": ("a", "b")}),
    "Histogram.interval": Door(dpl.Histogram(1, edges=(0, 1)).interval, {"confidence": "0.95"}),
    "IntegerGaussian": Door(dpl.IntegerGaussian, {"sensitivity": 1, "sigma": 1}),
    "IntegerGaussian.interval": Door(dpl.IntegerGaussian(sensitivity=1, sigma=1).interval, {"confidence": "0.95"}),
    "Laplace": Door(dpl.Laplace, {"sensitivity": 1, "epsilon": 1}),
    "Laplace.interval": Door(dpl.Laplace(sensitivity=1, epsilon=1).interval, {"confidence": "0.95"}),
    "stability.Hashed": Door(dpl.stability.Hashed, {"salt": "a text"}),
    "stability.Ensemble.fit": Door(
        dpl.stability.Ensemble.fit,
        {
            "learner": Constant(lambda asked: [0] * len(asked)),
            "units": (np.zeros((9, 2)), [0] * 9),
            "chunks": 3,
            "chunker": "slots",
            "relation": None,
            "ids": None,
            "words": (),
            "unsafe_entropy": None,
        },
        {"ids": "ids|units|chunker", "units": "units|data|chunks", "relation": "relation|slots"},
        {"learner": OWN_CODE, "unsafe_entropy": INJECTED},
    ),
    "stability.Ensemble": Door(dpl.stability.Ensemble, {"fitted": FITTED}),
    "stability.try_learner": Door(
        dpl.stability.try_learner,
        {
            "learner": Constant(lambda asked: [0] * len(asked)),
            "made_up_rows": np.zeros((4, 2)),
            "made_up_labels": [0, 1, 0, 1],
            "words": (),
        },
        {"made_up_rows": "data|made_up_rows", "made_up_labels": "data|made_up_rows"},
        {"learner": OWN_CODE},
    ),
    "stability.SampleAndAggregate": Door(dpl.stability.SampleAndAggregate, VOTES),
    "stability.PrivateClassifier": Door(dpl.stability.PrivateClassifier, VOTES),
    "stability.NoisyVotes": Door(
        dpl.stability.NoisyVotes,
        {
            "sigma": 40,
            "chunks": 250,
            "max_queries": 300,
            "threshold": 200,
            "threshold_sigma": 100,
            "max_answers": 50,
        },
        names={"max_queries": "max_queries|max_answers"},
    ),
    "stability.HybridVotes": Door(
        dpl.stability.HybridVotes,
        {"of": dpl.stability.PrivateClassifier(20, "1e-6", 1001, cutoff=2, max_queries=50), "sigma": 40},
    ),
    "stability.LabelPrivateLearner": Door(
        dpl.stability.LabelPrivateLearner,
        {"of": dpl.stability.NoisyVotes(sigma=40, chunks=250, max_queries=300), "student": "a rule"},
    ),
    "stability.SoftLabels": Door(
        dpl.stability.SoftLabels,
        {"epsilon": 20, "delta": "1e-6", "chunks": 1001, "failed_tests": 2, "max_queries": 50},
    ),
    "stability.SoftQuery": Door(
        dpl.stability.SoftQuery, {"row": [0.0], "bins": 4}, left={"row": "a query is read by its run"}
    ),
    "stability.bins_of_width": Door(dpl.stability.bins_of_width, {"width": "0.1"}),
    "stability.Student.predict": Door(of(student, "predict"), {"rows": np.zeros((2, 2))}, {"rows": "queries"}),
    "stability.Student.teach": Door(
        of(student, "teach"),
        {"student": Constant(lambda asked: [0] * len(asked)), "rows": np.zeros((2, 2))},
        {"student": "learner", "rows": "queries|rows"},
        {"student": OWN_CODE},
    ),
    "stability.ProposeTestRelease": Door(
        dpl.stability.ProposeTestRelease, {"epsilon": 1, "delta": "1e-6", "local_sensitivity": 2}
    ),
    "stability.ProposeTestRelease.released_from": Door(
        of(lambda: dpl.stability.ProposeTestRelease(1, "1e-6", 2), "released_from"), {"beta": "0.05"}
    ),
    "stability.SideBySide": Door(dpl.stability.SideBySide, {"values": ["a", "b"], "distances": [1, 2]}, left=SIDES),
    "stability.StableQueries": Door(
        dpl.stability.StableQueries, {"epsilon": 1, "delta": "1e-6", "cutoff": 2, "max_queries": 50}
    ),
    "stability.StableRelease": Door(dpl.stability.StableRelease, {"epsilon": 1, "delta": "1e-6"}),
    "stability.StableRelease.released_from": Door(
        of(lambda: dpl.stability.StableRelease(1, "1e-6"), "released_from"), {"beta": "0.05"}
    ),
    "planning.stable_plan": Door(
        dpl.planning.stable_plan, {"epsilon": 1, "delta": "1e-6", "cutoff": 2, "max_queries": 50, "beta": "0.05"}
    ),
    "planning.subsample_plan": Door(dpl.planning.subsample_plan, {**PLANNED, "cutoff": 2, "dissent": "0.3"}),
    "planning.binclas_plan": Door(
        dpl.planning.binclas_plan, {"n": 10**8, "vc": 1, **PLANNED, **COUNTED}, {"vc": "vc|dimension"}, OWN_SIZE
    ),
    "planning.binclas_required_n": Door(
        dpl.planning.binclas_required_n,
        {"rate": "0.1", "vc": 1, **PLANNED, **COUNTED},
        {"vc": "vc|dimension"},
        OWN_SIZE,
    ),
    "planning.label_private_plan": Door(
        dpl.planning.label_private_plan,
        {
            "vc": 1,
            "alpha": "0.1",
            **{name: value for name, value in (PLANNED | COUNTED).items() if name not in NOT_OF_STUDENTS},
        },
        {"vc": "vc|dimension"},
        OWN_SIZE,
    ),
    "planning.soft_plan": Door(
        dpl.planning.soft_plan,
        {"n": 10**8, "mu": lambda size: 1 / size, "zeta": "0.1", "uncertain": 2, **PLANNED},
        {"max_queries": "max_queries|uncertain"},
        {"mu": OWN_CODE},
    ),
    "stability.PublicPool": Door(dpl.stability.PublicPool, {"records": np.zeros(3)}),
    "stability.estimate_stability": Door(
        dpl.stability.estimate_stability,
        {
            "learner": lambda records, coins: lambda grid: np.zeros(len(grid)),
            "sampler": lambda rng, n: rng.random(n),
            "n": 3,
            "grid": np.zeros(1),
            "repetitions": 2,
            "seed": 1,
            "beta": "0.05",
            "most_move": "0.5",
        },
        left={"learner": OWN_CODE, "sampler": OWN_CODE, "n": "a number that is right draws as many records"},
    ),
    "SparseVector": Door(dpl.SparseVector, {"epsilon": 20, "cutoff": 1, "threshold": 10, "sensitivity": 1}),
    "ex_post.AccuracyFirst": Door(dpl.ex_post.AccuracyFirst, ERM),
    "ex_post.AccuracyFirst.within": Door(dpl.ex_post.AccuracyFirst(**ERM).within, {"left": 1000}),
    "DPSGD": Door(dpl.DPSGD, RUN, {"relation": "relation|label_flip"}),
    "learning.DPFTRL": Door(
        dpl.learning.DPFTRL,
        {**RUN, "groups": 2, "coefficients": (1, "0.5")},
        {"relation": "relation|label_flip", "groups": "coefficients|groups"},
        numbers="coefficients",
    ),
    "learning.banded_factor": Door(
        dpl.learning.banded_factor, {"steps": 9, "bands": 3, "momentum": "0.5"}, {"steps": "steps|bands"}
    ),
    "learning.private_ftrl": Door(
        lambda **given: dpl.learning.private_ftrl(**{"scope": scope(), **given}),
        {
            "data": np.zeros((10, 2)),
            "gradients": zeros,
            **RUN,
            "groups": 2,
            "coefficients": (1, "0.5"),
            "grid": None,
            "example_rows": None,
            "key": None,
            "tail_delta": None,
        },
        names={
            "dimension": "dimension|gradients",
            "example_rows": "example_rows|gradients|data",
            "groups": "coefficients|groups",
        },
        left=DATA | {"gradients": OWN_CODE},
        numbers="coefficients",
    ),
    "ByUnit": Door(dpl.ByUnit, {"rows": [1, 2], "units": [1, 2]}, {"rows": "data|units|rows"}, DATA_BY_UNIT),
    "learning.check_batch_invariance": Door(
        dpl.learning.check_batch_invariance,
        {"gradients": zeros, "made_up_rows": np.zeros((3, 2)), "microbatch": None},
        names={"made_up_rows": "data|made_up_rows|gradients"},
        left={"gradients": OWN_CODE},
    ),
    "learning.probe_sgd": Door(
        dpl.learning.probe_sgd,
        {"plan": PROBED, "gradients": np.negative, "made_up_rows": MADE_UP, "exploding": None},
        names={"made_up_rows": "data|made_up_rows|gradients|exploding", "gradients": "gradients"},
        left={"gradients": OWN_CODE},
    ),
    "results.ProbeReport.finding": Door(
        of(cache(lambda: dpl.learning.probe_sgd(PROBED, np.negative, MADE_UP)), "finding"),
        {"name": "noise"},
    ),
    "learning.probe_loop": Door(
        dpl.learning.probe_loop,
        {
            "gradient": lambda _, batch, rng: batch.sum(axis=0) + rng.normal(size=2),
            "made_up_rows": MADE_UP,
            "state": len,
            "sampler": lambda rows, rng: [np.flatnonzero(rng.random(rows) < 0.5)],
            "rate": "0.5",
            "noise_multiplier": 1,
            "clip_norm": 1,
            "expected_batch_size": 8,
            "shares_rows": False,
            "exploding": None,
            "counted_after": None,
            "generators": None,
        },
        names={"made_up_rows": "data|made_up_rows|exploding"},
        left=dict.fromkeys(("gradient", "state", "sampler", "counted_after", "generators", "shares_rows"), OWN_CODE),
    ),
    # learning
    "learning.ExponentialPPACLearner": Door(
        dpl.learning.ExponentialPPACLearner,
        {"concept_class": dpl.learning.ThresholdClass(8), "epsilon": 1, "monotone": False},
    ),
    "learning.ExponentialPPACLearner.plan": Door(
        of(lambda: dpl.learning.ExponentialPPACLearner(dpl.learning.ThresholdClass(8), 1), "plan"),
        {"alpha": "0.1", "beta": "0.1", "agnostic": False},
    ),
    "learning.Binning": Door(
        dpl.learning.Binning, {"edges": {"age": [18, 65]}, "categories": {"colour": ["red"]}, "source": "a form"}
    ),
    "learning.Binning.equal": Door(
        dpl.learning.Binning.equal, {"ranges": {"age": (0, 100)}, "bins": 4, "source": "a form"}
    ),
    "learning.StumpClass": Door(dpl.learning.StumpClass, {"binning": dpl.learning.Binning({0: [1]}, source="a form")}),
    "learning.StumpClass.predict": Door(
        of(lambda: dpl.learning.StumpClass(dpl.learning.Binning({0: [1]}, source="a form")), "predict"),
        {"place": 0, "x": [[1]]},
        left=ROWS,
    ),
    "learning.StumpClass.words": Door(
        of(lambda: dpl.learning.StumpClass(dpl.learning.Binning({0: [1]}, source="a form")), "words"), {"place": 0}
    ),
    "learning.PrivateLogisticLearner": Door(
        dpl.learning.PrivateLogisticLearner,
        {"binning": dpl.learning.Binning({0: [1]}, source="a form"), "rho": 1, "classes": 3, "steps": 5},
    ),
    "learning.PrivateStumpBooster": Door(
        dpl.learning.PrivateStumpBooster,
        {"binning": dpl.learning.Binning({0: [1]}, source="a form"), "epsilon": 1, "rounds": 5, "gamma": "0.2"},
    ),
    "learning.PrivateStumpBooster.for_rows": Door(
        dpl.learning.PrivateStumpBooster.for_rows,
        {"rows": 400, "binning": dpl.learning.Binning({0: [1]}, source="a form"), "epsilon": 1},
    ),
    "learning.UserLevelMedian": Door(
        dpl.learning.UserLevelMedian, {"points": 8, "epsilon": 1, "low": 0, "high": 8, "mass": 1}, {"low": "low|high"}
    ),
    "learning.UserLevelMedian.plan": Door(of(lambda: dpl.learning.UserLevelMedian(8, 1), "plan"), {"beta": "0.1"}),
    "learning.UserLevelThresholdLearner": Door(
        dpl.learning.UserLevelThresholdLearner,
        {
            "concept_class": dpl.learning.ThresholdClass(8),
            "epsilon": 1,
            "alpha": "0.5",
            "beta": "0.1",
            "comparison": "sharp",
            "estimate_share": "0.25",
            "median_share": "0.25",
            "resolution": "0.05",
            "margin": "0.1",
        },
        {"alpha": "alpha|margin", "estimate_share": "estimate_share|median_share", "resolution": "resolution|margin"},
    ),
    "learning.UserLevelThresholdLearner.plan": Door(
        of(lambda: dpl.learning.UserLevelThresholdLearner(dpl.learning.ThresholdClass(8), 1, "0.5"), "plan"),
        {"beta": None},
    ),
    "learning.FiniteClass": Door(dpl.learning.FiniteClass, {"matrix": [[0, 1]]}),
    "learning.FiniteClass.predict": Door(
        of(lambda: dpl.learning.FiniteClass([[0, 1]]), "predict"), {"place": 0, "x": [1]}, left=ROWS
    ),
    "learning.ParityClass": Door(dpl.learning.ParityClass, {"dimension": 3}),
    "learning.ParityClass.predict": Door(
        of(lambda: dpl.learning.ParityClass(3), "predict"), {"place": 0, "x": [1]}, left=ROWS
    ),
    "learning.PointClass": Door(dpl.learning.PointClass, {"points": 3}),
    "learning.PointClass.predict": Door(
        of(lambda: dpl.learning.PointClass(3), "predict"), {"place": 0, "x": [1]}, left=ROWS
    ),
    "learning.ThresholdClass": Door(dpl.learning.ThresholdClass, {"points": 3}),
    "learning.ThresholdClass.predict": Door(
        of(lambda: dpl.learning.ThresholdClass(3), "predict"), {"place": 0, "x": [1]}, left=ROWS
    ),
    "learning.StatisticalQueryOracle": Door(
        dpl.learning.StatisticalQueryOracle,
        {
            "epsilon": 1,
            "queries": 3,
            "mode": "uniform",
            "values": "real",
            "low": 0,
            "high": 1,
            "n": 20_000,
            "tolerance": "0.1",
            "beta": "0.1",
            "chains": 2,
        },
    ),
    "learning.StatisticalQueryOracle.plan": Door(
        of(lambda: dpl.learning.StatisticalQueryOracle(1, 3), "plan"),
        {"tolerance": "0.1", "beta": "0.1", "sharp": False},
    ),
    "learning.DomainQuery": Door(dpl.learning.DomainQuery, {"values": [[0, 1], [1, 0]]}),
    "learning.JointQuery": Door(dpl.learning.JointQuery, {"of": [majority], "l1": 1, "justification": "one query"}),
    "planning.query_size": Door(
        dpl.planning.query_size,
        {
            "queries": 3,
            "tolerance": "0.1",
            "beta": "0.1",
            "epsilon": 1,
            "mode": "fixed",
            "chains": None,
            "in_steps": False,
            "width": 1,
            "moved": 1,
            "sharp": False,
        },
    ),
    "learning.PrivateConjunctionLearner": Door(
        dpl.learning.PrivateConjunctionLearner, {"variables": 3, "epsilon": 1, "alpha": "0.1", "beta": "0.1"}
    ),
    "learning.PrivateSQThresholdLearner": Door(
        dpl.learning.PrivateSQThresholdLearner, {"points": 9, "epsilon": 1, "alpha": "0.1", "beta": "0.1"}
    ),
    "learning.LabeledSample": Door(
        dpl.learning.LabeledSample,
        {"x": [1], "y": [1], "units": ["a"]},
        {"x": "data|units|x", "y": "data|units|y", "units": "data|units"},
        DATA_BY_UNIT,
    ),
    "learning.UserSample": Door(dpl.learning.UserSample, {"x": np.ones((1, 1)), "y": np.ones((1, 1))}),
    "learning.cap_users": Door(
        dpl.learning.cap_users,
        {"data": dpl.ByUnit(([1, 2], [1, 0]), ["a", "a"]), "examples": 1, "entropy": seeded(1)},
    ),
    "learning.MinErrorTest": Door(
        dpl.learning.MinErrorTest,
        {"concept_class": dpl.learning.ThresholdClass(8), "guess": "0.2", "resolution": "0.1", "epsilon": 1},
    ),
    "learning.MinimumErrorEstimator": Door(
        dpl.learning.MinimumErrorEstimator,
        {
            "concept_class": dpl.learning.ThresholdClass(8),
            "resolution": "0.1",
            "epsilon": 1,
            "below_half": False,
            "search": "scan",
        },
    ),
    "learning.MinimumErrorEstimator.plan": Door(
        of(lambda: dpl.learning.MinimumErrorEstimator(dpl.learning.ThresholdClass(8), "0.1", 1), "plan"),
        {"beta": "0.1"},
    ),
    "learning.MinimumErrorEstimator.searched": Door(
        of(lambda: dpl.learning.MinimumErrorEstimator(dpl.learning.ThresholdClass(8), "0.1", 1), "searched"),
        {"mistakes": no_mistakes(), "entropy": seeded(1)},
        left={"mistakes": "what users were counted by"},
    ),
    "learning.UserLevelProperLearner": Door(dpl.learning.UserLevelProperLearner, OF_USERS),
    "learning.UserLevelProperLearner.planned": Door(dpl.learning.UserLevelProperLearner.planned, PLANNED_OF_USERS),
    "learning.UserLevelProperLearner.plan": Door(
        of(lambda: dpl.learning.UserLevelProperLearner(**OF_USERS), "plan"), {"beta": "0.1"}
    ),
    "learning.UserLevelSurrogateLearner": Door(
        dpl.learning.UserLevelSurrogateLearner,
        {
            **OF_USERS,
            "concept_class": dpl.learning.PointClass(2**40),
            "representation": HashedPointRepresentation(dimension=40, bits=9, a="0.1", seed=1),
        },
        {"concept_class": "concept_class|representation"},
    ),
    "learning.UserLevelSurrogateLearner.planned": Door(
        dpl.learning.UserLevelSurrogateLearner.planned,
        {**PLANNED_OF_USERS, "concept_class": dpl.learning.PointClass(2**40), "seed": 1},
        {"alpha": "alpha|needed"},
    ),
    "learning.UserLevelSurrogateLearner.plan": Door(
        of(hashed_users, "plan"),
        {"alpha": "0.4", "beta": "0.4"},
        {"alpha": "alpha|resolution", "beta": "beta|resolution"},
    ),
    "learning.PrivateParityLearner": Door(
        dpl.learning.PrivateParityLearner, {"dimension": 3, "epsilon": 1}, names=ONE_OF
    ),
    "learning.PrivateParityLearner.plan": Door(
        of(lambda: dpl.learning.PrivateParityLearner(dimension=3, epsilon=1, fail_probability="0.01"), "plan"), ACCURATE
    ),
    "learning.RepeatedParity": Door(
        dpl.learning.RepeatedParity,
        {"dimension": 3, "epsilon": 1, "mode": "until_success", "stop_probability": "0.05"},
        names={**ONE_OF, "runs": "runs|mode", "stop_probability": "stop_probability|mode", "max_runs": "max_runs|mode"},
    ),
    "learning.RepeatedParity.plan": Door(
        of(lambda: dpl.learning.RepeatedParity(dimension=3, epsilon=1, mode="basic", runs=9), "plan"), ACCURATE
    ),
    "planning.parity_plan": Door(
        dpl.planning.parity_plan, {"dimension": 3, **ACCURATE, "epsilon": 1, "relation": "replace_one", "mode": "basic"}
    ),
    "learning.TrivialRepresentation": Door(
        dpl.learning.TrivialRepresentation, {"concept_class": dpl.learning.ThresholdClass(8)}
    ),
    "learning.HashedPointRepresentation": Door(
        dpl.learning.HashedPointRepresentation,
        {"dimension": 20, "bits": 12, "a": "0.0125", "seed": 1, "copies": 1},
        names=CELLS,
    ),
    "learning.HashedPointRepresentation.drawn": Door(
        dpl.learning.HashedPointRepresentation.drawn,
        {"dimension": 20, "bits": 12, "a": "0.0125", "copies": 1},
        names=CELLS,
    ),
    "learning.HashedPointRepresentation.cells": Door(of(lambda: HASHED, "cells"), {"x": [1], "copy": 0}, left=ROWS),
    "learning.HashedPointRepresentation.occupied": Door(of(lambda: HASHED, "occupied"), {"copy": 0}),
    "learning.BoostedRepresentation": Door(
        dpl.learning.BoostedRepresentation, {"dimension": 20, "a": "0.6", "b": "0.4", "seed": 1, "bits": 4}
    ),
    "learning.BoostedRepresentation.drawn": Door(
        dpl.learning.BoostedRepresentation.drawn, {"dimension": 20, "a": "0.6", "b": "0.4", "bits": 4}
    ),
    "learning.RealizableRepresentationLearner": Door(
        dpl.learning.RealizableRepresentationLearner, {"representation": HASHED, "epsilon": 1}
    ),
    "learning.RealizableRepresentationLearner.plan": Door(
        of(lambda: dpl.learning.RealizableRepresentationLearner(representation=HASHED, epsilon=1), "plan"), ACCURATE
    ),
    "learning.SurrogateAgnosticLearner": Door(
        dpl.learning.SurrogateAgnosticLearner,
        {"concept_class": dpl.learning.PointClass(2**20), "representation": HASHED, "epsilon": 1},
        names={"concept_class": "concept_class|representation"},
    ),
    "learning.SurrogateAgnosticLearner.plan": Door(
        of(
            lambda: dpl.learning.SurrogateAgnosticLearner(
                concept_class=dpl.learning.ThresholdClass(8),
                representation=dpl.learning.TrivialRepresentation(dpl.learning.ThresholdClass(8)),
                epsilon=1,
            ),
            "plan",
        ),
        ACCURATE,
    ),
    "learning.ClippedPairwiseEM": Door(
        dpl.learning.ClippedPairwiseEM, {"concept_class": dpl.learning.ThresholdClass(8), "epsilon": 1, "clip": 3}
    ),
    "learning.ClippedPairwiseEM.plan": Door(
        of(lambda: dpl.learning.ClippedPairwiseEM(dpl.learning.ThresholdClass(8), epsilon=1, clip=3), "plan"), ACCURATE
    ),
    "planning.clipped_pairwise_plan": Door(
        dpl.planning.clipped_pairwise_plan,
        {"size": 9, "examples": 9, **ACCURATE, "epsilon": 1, "relation": "replace_one"},
    ),
    "planning.compare_private_nonprivate": Door(
        dpl.planning.compare_private_nonprivate,
        {"concepts": dpl.learning.ThresholdClass(8), **ACCURATE, "epsilon": 1, "agnostic": False, "delta": "1e-6"},
    ),
    "planning.order_bounds": Door(
        dpl.planning.order_bounds,
        {"vc": 1, "rep_dim": 3, "alpha": "0.1", "epsilon": 1, "examples": 1, "thresholds": False},
    ),
    "plan": Door(
        dpl.plan,
        {
            "what": dpl.learning.ThresholdClass(8),
            **ACCURATE,
            "epsilon": 1,
            "relation": "replace_one",
            "agnostic": False,
        },
    ),
    "planning.reachable_error": Door(
        dpl.planning.reachable_error,
        {
            "what": dpl.learning.ThresholdClass(8),
            "available": 400,
            "beta": "0.1",
            "epsilon": 1,
            "relation": "replace_one",
            "agnostic": False,
        },
    ),
    "planning.recommend": Door(
        dpl.planning.recommend,
        {
            **ACCURATE,
            "epsilon": 1,
            "examples": 3,
            "concepts": dpl.learning.ParityClass(3),
            "relation": "replace_one",
            "realizable": False,
        },
    ),
    "learning.AgnosticContract": Door(dpl.learning.AgnosticContract, {"alpha": "0.1", "beta": "0.1"}),
    "learning.PACContract": Door(dpl.learning.PACContract, {"alpha": "0.1", "beta": "0.1"}),
    "learning.PPACContract": Door(dpl.learning.PPACContract, {"alpha": "0.1", "beta": "0.1", "epsilon": 1, "delta": 0}),
    "learning.row_sums": Door(dpl.learning.row_sums, {"terms": np.ones((2, 3))}),
    "planning.ftrl_plan": Door(
        dpl.planning.ftrl_plan,
        {
            "n_public": 1000,
            "epochs": 1,
            "batch": 500,
            "target": dpl.ZCDP(1),
            "dimension": 10,
            "momentum": "0.5",
            "groups": 2,
            "scope": None,
            "scope_filter": None,
        },
        names={"n_public": "n_public|batch|groups|epochs", "batch": "batch|groups|epochs"},
    ),
    "planning.dpsgd_plan": Door(
        dpl.planning.dpsgd_plan,
        {
            "n_public": 1000,
            "epochs": 1,
            "batch": 500,
            "target": dpl.ZCDP(1),
            "dimension": 10,
            "scope": None,
            "scope_filter": None,
        },
    ),
    # the ledger
    "keys.Delegating": Door(keys.Delegating, {"signer": SIGNER, "entries": 10}, {"signer": "signer|key"}),
    "keys.SigningKey.generate": Door(keys.SigningKey.generate, {"name": SIGNER.public.name}),
    "keys.SigningKey.from_seed": Door(keys.SigningKey.from_seed, {"name": SIGNER.public.name, "seed": bytes(32)}),
    "keys.SigningKey.from_text": Door(
        keys.SigningKey.from_text,
        {"text": SIGNER.to_text(), "passphrase": None},
        {"text": "signing key", "passphrase": "passphrase|signing key"},
    ),
    "keys.VerifyingKey": Door(
        keys.VerifyingKey, {"name": "a", "public": SIGNER.public.public}, {"name": "name", "public": "public key"}
    ),
    "keys.VerifyingKey.parse": Door(keys.VerifyingKey.parse, {"text": SIGNER.public.text}, {"text": "verifying key"}),
    "Ledger.create": Door(
        lambda path="a.ledger", **given: dpl.Ledger.create(path, **given).close(),
        {"path": "nowhere/a", "name": "a", "owner": None, "witnesses": None},
        {
            "path": "ledger|key",
            "name": "name|ledger",
            "keys": "keys|ledger",
            "owner": "owner|public key|ledger",
            "passphrase": "passphrase|ledger|key",
            "witnesses": "witnesses|key of a witness|ledger",
        },
    ),
    "Ledger.open_or_create": Door(
        lambda path="a.ledger", **given: dpl.Ledger.open_or_create(path, **given).close(),
        {"path": "nowhere/a", "name": "a", "owner": None, "keys": None, "witnesses": None},
        {
            "path": "ledger|key",
            "name": "name|ledger",
            "owner": "owner|public key|ledger",
            "keys": "keys|ledger",
            "passphrase": "passphrase|ledger|key",
            "witnesses": "witnesses|key of a witness|ledger",
        },
    ),
    "Ledger.open": Door(
        dpl.Ledger.open,
        {"path": "nowhere.ledger", "key": None},
        {"path": "ledger", "key": "key|ledger", "passphrase": "passphrase|ledger"},
    ),
    "Ledger.look": Door(dpl.Ledger.look, {"path": "nowhere.ledger"}, {"path": "ledger"}),
    "Ledger.accept_rollback": Door(
        dpl.Ledger.accept_rollback,
        {"path": "nowhere.ledger", "by": "me", "reason": "lost", "key": None},
        {"path": "ledger", "by": "ledger", "reason": "ledger", "key": "key|ledger", "passphrase": "passphrase|ledger"},
    ),
    "Ledger.revoke_key": Door(
        dpl.Ledger.revoke_key,
        {"path": "nowhere.ledger", "recovery": "nowhere.key", "last_trusted": 0, "reason": "stolen"},
        dict.fromkeys(("path", "recovery", "last_trusted", "reason", "passphrase"), "key|ledger|recovery|passphrase"),
    ),
    "Ledger.rotate_key": Door(
        lambda successor=RIGHT: with_another_key(None if successor is RIGHT else successor), {"successor": RIGHT}
    ),
    "Ledger.rotate_owner": Door(
        with_another_owner,
        {"owner": keys.SigningKey.generate("example/" + "1" * 32).public, "approval": None},
        {"owner": "owner|public key", "approval": "approval|request|owner"},
    ),
    "Ledger.in_memory": Door(dpl.Ledger.in_memory, {"name": "memory"}),
    "Ledger.scope": Door(
        of(book, "scope"),
        {
            "name": "rows",
            "unit": "record",
            "relation": "add_remove",
            "budget": dpl.ApproxDP(1, "1e-6"),
            "orders": (9, "2.5"),
            "allowance": None,
            "keep": "value",
            "parents": (),
            "dataset": None,
            "odometer": None,
        },
        {"name": "scope", "parents": "parents|scope", "budget": "budget|orders"},
    ),
    "Ledger.declare": Door(of(kept, "declare"), {"item": "accuracy", "text": "words", "by": "me"}, longest=900),
    "Ledger.declare_file": Door(of(kept, "declare_file"), {"path": "nowhere.yaml"}, {"path": "declarations|path"}),
    "Ledger.end": Door(of(kept, "end"), {"reason": "done"}),
    "Ledger.entries": Door(lambda **given: list(kept().entries(**given)), {"stop": 1}),
    "Ledger.entry": Door(of(kept, "entry"), {"index": 0}),
    "Ledger.leaves": Door(lambda **given: list(kept().leaves(**given)), {"stop": 1}),
    "Ledger.record": Door(
        of(kept, "record"),
        {"note": audited().body(), "about": ("rows",), "intended": None},
        {"about": "about|scope", "intended": "intended|note"},
    ),
    "Ledger.intend": Door(of(kept, "intend"), {"audit": planned(), "about": ("rows",)}, {"about": "about|scope"}),
    "Ledger.verify": Door(
        of(kept, "verify"),
        {"key": None, "since": (), "witnesses": None},
        {"witnesses": "witnesses|key of a witness"},
    ),
    "Ledger.export": Door(lambda folder: kept().export(folder), {"folder": "nowhere"}),
    "Ledger.prove": Door(of(kept, "prove"), {"index": 0}),
    "Ledger.backup": Door(of(kept, "backup"), {"path": "copy.ledger"}, names={"path": "ledger"}),
    "Scope.declare": Door(of(scope, "declare"), {"item": "accuracy", "text": "words", "by": "me"}, longest=900),
    "Scope.end": Door(of(scope, "end"), {"reason": "done"}),
    "Scope.note_lost": Door(of(scope, "note_lost"), {"charge": "a" * 32, "note": "words"}, names={"note": "charge"}),
    "Scope.open": Door(
        of(scope, "open"),
        {
            "mechanism": dpl.SparseVector(20, 1, 10, sensitivity=1),
            "data": [1],
            "key": None,
            "tail_delta": None,
            "resume": False,
        },
        left=DATA,
    ),
    "Scope.settle": Door(lambda key: with_a_run().settle(key), {"key": "model"}),
    "Scope.afford": Door(
        of(scope, "afford"), {"what": dpl.LaplaceLaw("0.1"), "of": None, "most": 10, "tail_delta": None}
    ),
    "Scope.plan_training": Door(
        of(squares, "plan_training"),
        {"rate": "0.5", "steps": 2, "expected_batch_size": 2, "dimension": 3, "digits": 2, "key": None},
    ),
    "Scope.charge": Door(of(scope, "charge"), {**ELSEWHERE, "wait": 0.0}, ELSEWHERE_NAMES),
    "Scope.guard": Door(
        lambda **given: scope().guard(**given),
        {
            "code": repr,
            "by": "me",
            "reason": "words",
            "d_in": None,
            "claim": LEAF,
            "relation": "add_remove",
            "of": None,
            "evidence": None,
            "key": None,
            "tail_delta": None,
        },
        {"claim": f"claim|{WHAT}", "code": "code|function"},
    ),
    "Scope.as_diffprivlib": Door(
        lambda **given: scope().as_diffprivlib(**given).spend(0.5, 0),
        {"relation": "add_remove", "by": "me", "reason": "words", "of": None, "evidence": None},
    ),
    "Scope.charging": Door(of(scope, "charging"), {**ELSEWHERE, "steps": None, "resume": False}, ELSEWHERE_NAMES),
    "Scope.charges": Door(
        lambda **given: scope().charges(**given)(print)("a call"),
        ELSEWHERE,
        ELSEWHERE_NAMES,
    ),
    "results.DeclaredRun.grant": Door(lambda count: stepped().grant(count), {"count": 1}),
    "results.DeclaredRun.token": Door(lambda step: stepped().token(step), {"step": None}),
    "results.DeclaredRun.broke_off": Door(lambda why: stepped().broke_off(why), {"why": "words"}),
    "Scope.quote": Door(
        of(scope, "quote"),
        {"what": COUNT, "relation": None, "of": None, "tail_delta": None},
        {"what": f"{WHAT}|parts|what|relation"},
    ),
    "Scope.record": Door(
        of(scope, "record"), {"note": audited().body(), "intended": None}, {"intended": "intended|note"}
    ),
    "Scope.intend": Door(of(scope, "intend"), {"audit": planned()}),
    "Scope.release": Door(
        of(scope, "release"),
        {"mechanism": COUNT, "data": [1], "key": None, "wait": 0.0, "tail_delta": None},
        {"mechanism": "mechanism|data"},
        DATA,
    ),
    "Scope.reserve": Door(of(scope, "reserve"), {"mechanism": COUNT, "key": None, "tail_delta": None}),
    "Scope.spent": Door(of(scope, "spent"), {"delta": "1e-6"}),
    "private_search": Door(
        lambda **given: dpl.private_search(**{"scope": scope(), **given}),
        {
            "candidates": (1, 2),
            "data": np.zeros((10, 2)),
            "trials": 2,
            "epsilon": 1,
            "training": dpl.DPSGD(0.5, 2, 4, 1, 2, 5),
            "train": lambda candidate, step: step(zeros),
            "wrong": lambda model, row: False,
            "held_out": "0.5",
            "example_rows": None,
            "key": None,
            "tail_delta": None,
        },
        names={"example_rows": "example_rows|wrong|data"},
        left=DATA | {"train": OWN_CODE, "wrong": OWN_CODE},
    ),
    "private_sgd": Door(
        lambda **given: dpl.private_sgd(**{"scope": scope(), **given}),
        {
            "data": np.zeros((10, 2)),
            "gradients": zeros,
            **RUN,
            "grid": None,
            "example_rows": None,
            "key": None,
            "tail_delta": None,
            "resume": False,
        },
        names={"dimension": "dimension|gradients", "example_rows": "example_rows|gradients|data"},
        left=DATA | {"gradients": OWN_CODE},
    ),
    # audits and reports
    "audit_mechanism": Door(
        dpl.audit_mechanism,
        {
            "mechanism": spread,
            "left": 0,
            "right": 1,
            "claim": dpl.PureDP(1),
            "trials": 100,
            "confidence": "0.9",
            "delta": None,
            "relation": "add_remove",
            "unit": "record",
            "batched": False,
            "seconds": AT_ONCE,
            "stop_at_violation": True,
            "each_seconds": None,
            "texts": False,
            "floats": "numbers",
            "made_up": False,
            "seed": 1,
            "jobs": 1,
            "progress": False,
        },
        names={"batched": "batched|mechanism"},
        left={"left": DATA["data"], "right": DATA["data"], "jobs": "a number that is right starts processes"},
    ),
    "Audit": Door(
        dpl.Audit,
        {
            "mechanism": spread,
            "left": 0,
            "right": 1,
            "claim": dpl.PureDP(1),
            "trials": 100,
            "confidence": "0.9",
            "delta": None,
            "relation": "add_remove",
            "unit": "record",
            "batched": False,
            "stop_at_violation": True,
            "each_seconds": None,
            "texts": False,
            "floats": "numbers",
            "made_up": False,
            "seed": 1,
        },
        left={"left": DATA["data"], "right": DATA["data"]},
    ),
    "Audit.again": Door(
        dpl.Audit.again,
        {
            "entry": replace(audited().body(), seed=1),
            "mechanism": spread,
            "left": 0,
            "right": 1,
            "loss": None,
            "unit": "record",
            "batched": False,
        },
        {"loss": "loss|claim"},
        left={"left": DATA["data"], "right": DATA["data"]},
    ),
    "Audit.run": Door(
        of(planned, "run"),
        {"seconds": None, "jobs": 1, "progress": False},
        left={"jobs": "a number that is right starts processes"},
    ),
    "audit_steps": Door(
        dpl.audit_steps,
        {
            "gradient": noisy_step,
            "states": ((0, np.zeros(3)),),
            "canary": 1.0,
            "claim": dpl.GDP(1),
            "gradients": None,
            "space": "records",
            "direction": None,
            "rehearsals": 2,
            "steps": 1,
            "stop_at_violation": True,
            "confidence": "0.9",
            "delta": None,
            "seed": 1,
            "progress": False,
        },
        names={"delta": "delta|claim"},
        left={"canary": "an item like those of a batch, which are the caller's"},
        longest=ALL_KINDS + 300,
    ),
    "audit_training": Door(
        dpl.audit_training,
        {
            "train": noisy_sum,
            "data": [0.0],
            "claim": dpl.PureDP(1),
            "score": first_of,
            "canaries": [1.0] * 10,
            "trainings": None,
            "steps": None,
            "confidence": "0.9",
            "delta": None,
            "seed": 1,
            "jobs": 1,
            "progress": False,
        },
        names={"delta": "delta|claim"},
        left={"data": DATA["data"], "train": OWN_CODE, "score": OWN_CODE},
        longest=ALL_KINDS + 300,
    ),
    "audit_service": Door(
        dpl.audit_service,
        {
            "call": lambda _: float(np.random.default_rng().normal()),
            "left": 0,
            "right": 1,
            "claim": dpl.PureDP(1),
            "quota": 200,
            "rate": None,
            "seconds": AT_ONCE,
            "each_seconds": None,
            "times": False,
            "texts": False,
            "stop_at_violation": True,
            "confidence": "0.9",
            "delta": None,
            "relation": "add_remove",
            "seed": 1,
            "progress": False,
        },
        left={
            "left": DATA["data"],
            "right": DATA["data"],
            "rate": "a small rate that is right takes as long as it says",
        },
    ),
    "audit_search": Door(
        dpl.audit_search,
        {
            "mechanism": spread,
            "claim": dpl.PureDP(1),
            "neighbours": {"answers": {"count": 1, "moves": 1}},
            "trials": 100,
            "seconds": None,
            "confidence": "0.9",
            "delta": None,
            "relation": "add_remove",
            "unit": "record",
            "batched": False,
            "texts": False,
            "seed": 1,
            "jobs": 1,
            "progress": False,
        },
        names={"batched": "batched|mechanism"},
        left={"jobs": "a number that is right starts processes"},
    ),
    "analytic.audit_account": Door(
        dpl.analytic.audit_account,
        {"what": LEAF, "claim": dpl.PureDP(1), "relation": "add_remove", "name": "account"},
        names={"what": WHAT},
    ),
    "analytic.audit_sensitivity": Door(
        dpl.analytic.audit_sensitivity,
        {
            "query": len,
            "declared": 1,
            "neighbours": {"rows": {"type": "boolean"}},
            "norm": "l1",
            "pairs": 3,
            "relation": "add_remove",
            "unit": "record",
            "seed": 0,
        },
    ),
    "analytic.audit_doubles": Door(
        dpl.analytic.audit_doubles,
        {
            "mechanism": coin,
            "left": 0.0,
            "right": 0.0,
            "claim": dpl.PureDP(1),
            "trials": 100,
            "confidence": "0.9",
            "delta": None,
            "relation": "add_remove",
            "unit": "record",
            "stop_at_violation": True,
            "seed": 1,
            "jobs": 1,
            "progress": False,
        },
        left={"jobs": "a number that is right starts processes", **DATA_OF_AUDITS},
    ),
    "audit_replay": Door(
        dpl.audit_replay,
        {
            "job": dpl.Laplace(sensitivity=1, epsilon=1),
            "left": 0,
            "right": 1,
            "claim": dpl.PureDP(1),
            "relation": "add_remove",
            "unit": "record",
            "seed": 1,
        },
        left={"left": DATA["data"], "right": DATA["data"]},
    ),
    "learning.Population": Door(
        dpl.learning.Population, {"name": "one", "examples": ((0, 1),), "weights": (1,)}, WEIGHED
    ),
    "learning.hard_populations": Door(
        dpl.learning.hard_populations, {"concepts": dpl.learning.ThresholdClass(8), "alpha": "0.1"}
    ),
    "learning.check_contract": Door(
        dpl.learning.check_contract,
        {
            "learner": dpl.learning.ExponentialPPACLearner(dpl.learning.ThresholdClass(2), 1),
            "contract": dpl.learning.PACContract("0.2", "0.2"),
            "n": 5,
            "populations": [dpl.learning.Population("one", ((0, 1),), (1,))],
            "concepts": None,
            "examples": 1,
            "trials": 10,
            "error": "1e-6",
            "relation": "add_remove",
            "seed": 0,
        },
        left={"learner": OWN_CODE},
    ),
    "audit_outputs": Door(
        dpl.audit_outputs,
        {
            "left_outputs": list(range(100)),
            "right_outputs": list(range(100)),
            "claim": dpl.PureDP(1),
            "paired": False,
            "stop_at_violation": True,
            "floats": "numbers",
            "confidence": "0.95",
            "delta": None,
            "relation": "add_remove",
            "name": "mine",
        },
    ),
    "assert_not_refuted": Door(
        dpl.assert_not_refuted,
        {
            "mechanism": dpl.Laplace(sensitivity=1, epsilon=1),
            "pairs": [(0, 1)],
            "claim": None,
            "alpha": "0.001",
            "must_detect": 100,
            "trials": 100,
            "seconds": None,
            "seed": 0,
            "relation": "add_remove",
            "unit": "record",
            "batched": False,
            "jobs": 1,
        },
        names={"mechanism": "mechanism|claim", "alpha": "alpha|confidence", "batched": "batched|mechanism"},
        left={"claim": "one that is false is refuted", "jobs": "a number that is right starts processes"},
    ),
    "ex_post.ExPostClaim": Door(dpl.ex_post.ExPostClaim, {"loss": None, "delta": "1e-6", "cap": 1}),
    "results.TrainingAudit.plot": Door(of(trained, "plot"), {"path": "nowhere/a.png"}, {"path": "plot"}),
    "results.AuditResult.plot": Door(of(audited, "plot"), {"path": "nowhere/a.png"}, {"path": "plot"}),
    "report": Door(dpl.report, {"book": kept()}),
}

WORDS: dict[str, str] = {
    "learning.FAIL": "an answer",
    "stability.UNSTABLE": "an answer",
    "Composition": "a union of types, for annotations",
}
"""Public names that are no door."""

PROTOCOL = "the protocol of mechanisms, which a scope asks: tests/support/mechanism_conformance.py"
ANSWERS: dict[str, str] = {
    **dict.fromkeys(
        (f"{name}.{method}" for name in ("GroupBy", "PrivateSelection") for method in ("plain_of", "value_of")),
        PROTOCOL,
    ),
    "ClippedSum.in_units": "of steps that were drawn",
    "Histogram.places": "rows are data",
    **dict.fromkeys(
        (
            "stability.PrivateClassifier.start",
            "stability.SampleAndAggregate.start",
            "stability.NoisyVotes.winner",
            "stability.HybridVotes.beside",
        ),
        "between the mechanisms of a vote",
    ),
    "planning.FTRLPlan": "dpledger makes it",
    "ByUnit.at_most": "what statistics do with it: tests/mechanisms/test_caps_of_columns.py",
    **dict.fromkeys(
        (
            "results.Profile",
            "analytic.AccountAudit",
            "analytic.SensitivityAudit",
            "results.AuditResult",
            "results.ProbeReport",
            "results.TrainingAudit",
            "results.ReplayResult",
            "planning.TrainingPlan",
            "results.Receipt",
            "Scope",
            "results.Session",
        ),
        "dpledger makes it",
    ),
    "results.DeclaredRun": "dpledger makes it",
    "planning.StablePlan": "dpledger makes it",
    **dict.fromkeys(
        ("planning.ClassifierPlan", "planning.LabelPrivatePlan", "planning.SoftPlan", "planning.SubsamplePlan"),
        "dpledger makes it",
    ),
    **dict.fromkeys(("stability.MeanSquare", "stability.StabilityEstimate"), "dpledger makes it"),
    **dict.fromkeys(("stability.MeanSquare", "stability.FirstMoment"), "dpledger makes it"),
    **dict.fromkeys(("BudgetRefused", "DpledgerError", "ParameterError"), "dpledger raises it"),
    "Audit.changes": "between audits and the ledger",
    **dict.fromkeys(
        (
            "keys.KmsKey",
            "keys.KmsKey.at",
            "keys.KmsKey.sign",
            "keys.SshAgentKey",
            "keys.SshAgentKey.sign",
            "keys.Signer",
            "keys.Signer.sign",
            "keys.Delegating.sign",
            "keys.SigningKey",
            "keys.SigningKey.from_environment",
            "keys.SigningKey.load",
            "keys.SigningKey.save",
            "keys.SigningKey.sign",
            "keys.SigningKey.to_text",
            "keys.VerifyingKey.verify",
        ),
        "files, agents and services: tests/ledger/test_keys_ed25519.py and test_keys_elsewhere.py",
    ),
    **dict.fromkeys(
        ("Ledger", "Ledger.begin", "Ledger.resume"), "made with a store, a signer and a clock of the caller's own"
    ),
    **dict.fromkeys(
        ("Ledger.draw", "Ledger.transact", "Ledger.kept", "Ledger.stated"),
        "between the rooms of the ledger",
    ),
    "Ledger.cosigned": "asks witnesses, over the network",
    **dict.fromkeys(
        ("learning.Binning.read", "learning.Binning.rows", "learning.Binning.numbered", "learning.Binning.tests"),
        "rows are data",
    ),
    **dict.fromkeys(
        ("learning.StumpClass.labels", "learning.StumpClass.sums", "learning.PrivateStumpBooster.scores"),
        "of rows in their bins",
    ),
    **dict.fromkeys(
        (f"learning.{name}Class.errors" for name in ("Finite", "Threshold", "Point", "Stump", "Parity")),
        "of a sample that its learner reads",
    ),
    **dict.fromkeys(
        ("stability.SideBySide.first", "stability.SideBySide.count", "stability.SideBySide.index"),
        "of a sequence that its run reads",
    ),
    **dict.fromkeys(
        (f"learning.{name}Contract.accepts" for name in ("PAC", "PPAC", "Agnostic")),
        "exact fractions, of an audit's own",
    ),
    **dict.fromkeys(
        (
            "learning.Population.drawn",
            "learning.Population.error",
            "learning.Population.repeated",
            "learning.Population.users",
        ),
        "between the parts of an audit",
    ),
    **dict.fromkeys(("learning.Population.least_error",), "takes a class of concepts alone"),
    **dict.fromkeys(
        ("results.AuditResult.body", "analytic.AccountAudit.body", "analytic.SensitivityAudit.body"),
        "between audits and the ledger",
    ),
    "ex_post.Judged": "data, and the caller's own code",
    "stability.Lesson": "data, and the caller's own code",
    "stability.Student": "what a release answers",
    "results.Session.ask": "a query is the caller's own code",
    "results.Session.ask_many": "queries are the caller's own code",
}
"""Public callables that people do not call, or that take nothing but code or data of the caller's own; and why."""

_LOSS = dpl.stability.Smooth(1, 1)
_DESCENT: dict[str, object] = {"loss": _LOSS, "n": 100}
_LOST = dpl.ex_post.ExPostDP(1, "integrated", "1e-9")
DOORS |= {
    "stability.Smooth": Door(dpl.stability.Smooth, {"lipschitz": 1, "smoothness": 1}),
    "stability.Constant": Door(dpl.stability.Constant, {"size": 1, "count": 1}),
    "stability.Listed": Door(dpl.stability.Listed, {"sizes": ("0.5", "0.25")}, numbers="sizes"),
    "stability.mean_learner": Door(dpl.stability.mean_learner, {"samples": 50, "variance": "0.25"}),
    **{
        f"stability.{name}": Door(
            getattr(dpl.stability, name), {**_DESCENT, "steps": dpl.stability.Constant("0.1", 100)}, {"n": "n|steps"}
        )
        for name in ("convex_first_moment", "convex_mean_square")
    },
    "stability.convex_sampled_mean_square": Door(
        dpl.stability.convex_sampled_mean_square, {**_DESCENT, "step": "0.1", "steps": 9}
    ),
    "stability.nonconvex_first_moment": Door(
        dpl.stability.nonconvex_first_moment, {**_DESCENT, "first": "0.1", "steps": 9}
    ),
    **{
        f"stability.{name}": Door(getattr(dpl.stability, name), {**_DESCENT, "convexity": "0.5", "step": "0.1"})
        for name in ("strongly_convex_first_moment", "strongly_convex_sampled_mean_square")
    },
    "stability.strongly_convex_mean_square": Door(
        dpl.stability.strongly_convex_mean_square, {**_DESCENT, "convexity": "0.5", "epochs": 2}
    ),
    "ex_post.ProvedTail": Door(dpl.ex_post.ProvedTail, {"epsilon": 1, "probability": "1e-9", "proof": "Lemma 2"}),
    "ex_post.constant": Door(dpl.ex_post.constant, {"promise": dpl.PureDP(1)}),
    "ex_post.in_sense": Door(dpl.ex_post.in_sense, {"promise": dpl.ex_post.ExPostDP(1, "pure"), "sense": "integrated"}),
    "ex_post.with_slack": Door(dpl.ex_post.with_slack, {"promise": _LOST, "slack": "0.1"}),
    "ex_post.post_processed": Door(dpl.ex_post.post_processed, {"promise": _LOST}),
    "ex_post.guarantee": Door(dpl.ex_post.guarantee, {"promise": _LOST}),
    "ex_post.guarantee_by_tail": Door(
        dpl.ex_post.guarantee_by_tail, {"delta": "1e-6", "tail": dpl.ex_post.ProvedTail(3, "1e-7", "Lemma 2")}
    ),
    "ex_post.group": Door(dpl.ex_post.group, {"promise": _LOST, "k": 2}),
    "ex_post.poisson_sampled": Door(
        dpl.ex_post.poisson_sampled, {"promise": _LOST, "rate": "0.1", "relation": "add_remove"}
    ),
    "ex_post.sampled_without_replacement": Door(
        dpl.ex_post.sampled_without_replacement,
        {"promise": _LOST, "population": 10, "batch": 2, "relation": "replace_one"},
        {"population": "population|batch"},
    ),
    "ex_post.concurrent": Door(dpl.ex_post.concurrent, {"promises": [_LOST, _LOST]}),
}

_OF_GUARANTEES = {"epsilon_at", "needs", "sum_of", "in_words"}  # which the rooms ask, with decimals that were read
_PROTOCOL = {"under", "inspect", "release", "sample", "probe", "open", "resume", "begun", "level_of", "sampled_of"}


def named(name: str) -> Any:
    """What a public name, with dots, names."""
    thing: Any = dpl
    for step in name.split("."):
        thing = getattr(thing, step)
    return thing


def doors_wanted() -> set[str]:
    """Every public function, constructor, and method with parameters: what the table must hold."""
    found = set()
    for name, thing in public().items():
        if name in WORDS:
            continue
        found.add(name)
        if not inspect.isclass(thing) or issubclass(thing, Exception):
            continue
        for method, function in inspect.getmembers(thing, callable):
            is_asked = hasattr(thing, "claim") and method in _PROTOCOL
            is_asked |= hasattr(thing, "own_delta") and method in _OF_GUARANTEES
            is_own = not method.startswith("_") and not is_asked
            if is_own and set(inspect.signature(function).parameters) - {"self"}:
                found.add(f"{name}.{method}")
    return found


def parameters(name: str) -> set[str]:
    """The parameters of a public callable, but those that are a protocol's."""
    thing = named(name)
    if inspect.isclass(thing) and issubclass(thing, Enum):
        return {"value"}
    if dataclasses.is_dataclass(thing):
        return {part.name for part in dataclasses.fields(thing) if part.init}
    return set(inspect.signature(thing).parameters) - {"self", "clock", "entropy", "advance"}


TRIED = "tried in the tests of its module"
_BINS = dpl.learning.Binning({"a": [1]}, source="made up")
_CLASSES: dict[str, Any] = {
    "learning.FiniteClass": dpl.learning.FiniteClass([[0, 1], [1, 0]]),
    "learning.PointClass": dpl.learning.PointClass(3),
    "learning.ThresholdClass": dpl.learning.ThresholdClass(3),
    "learning.ParityClass": dpl.learning.ParityClass(3),
    "learning.StumpClass": dpl.learning.StumpClass(_BINS),
}
_MEAN = dpl.ClippedMean(epsilon=1, lower=0, upper=1)
_COUNTS = dpl.Histogram(epsilon=1, edges=(0, 1))
_VARIANCE = dpl.Variance(epsilon=1, lower=0, upper=1)
_COLUMNS: dict[str, dict[str, Any]] = {
    "Count": {"of": "rows"}, "Histogram": {"edges": (0, 1)}, "ClippedSum": {"lower": 0, "upper": 1},
    "Quantile": {"q": "0.5", "lower": 0, "upper": 1}, "Quantiles": {"qs": ("0.5",), "lower": 0, "upper": 1},
    "TopK": {"k": 1, "categories": ("a", "b")},
}  # fmt: skip
_ITSELF = dpl.learning.TrivialRepresentation(dpl.learning.ThresholdClass(7))
_HASHED = dpl.learning.HashedPointRepresentation(dimension=3, bits=2, a="0.5", seed=1)
_FOUND = ("0", "0.2", (("0.5", 1, "0.25", True),))
LEARNED: tuple[tuple[str, Any, Any], ...] = (
    (
        "learning.ExponentialPPACLearner",
        dpl.learning.ExponentialPPACLearner(dpl.learning.ThresholdClass(7), epsilon=1),
        3,
    ),
    (
        "learning.PrivateLogisticLearner",
        dpl.learning.PrivateLogisticLearner(dpl.learning.Binning({"age": [18]}, source="a form"), rho=1),
        ((1, 2, 3, 4),),
    ),
    (
        "learning.PrivateStumpBooster",
        dpl.learning.PrivateStumpBooster(binning=dpl.learning.Binning({"age": [18]}, source="a form"), epsilon=1),
        (0,),
    ),
    ("learning.PrivateParityLearner", dpl.learning.PrivateParityLearner(dimension=3, epsilon=1), 5),
    ("learning.RepeatedParity", dpl.learning.RepeatedParity(dimension=3, epsilon=1, mode="basic", runs=2), None),
    ("learning.PrivateConjunctionLearner", dpl.learning.PrivateConjunctionLearner(3, epsilon=1), ((0,), (1, 2))),
    ("learning.PrivateSQThresholdLearner", dpl.learning.PrivateSQThresholdLearner(7, epsilon=1), 3),
    ("learning.RealizableRepresentationLearner", dpl.learning.RealizableRepresentationLearner(_ITSELF, epsilon=1), 3),
    (
        "learning.SurrogateAgnosticLearner",
        dpl.learning.SurrogateAgnosticLearner(dpl.learning.ThresholdClass(7), _ITSELF, epsilon=1),
        3,
    ),
    (
        "learning.ClippedPairwiseEM",
        dpl.learning.ClippedPairwiseEM(dpl.learning.ThresholdClass(7), epsilon=1, clip=1),
        3,
    ),
    (
        "learning.MinimumErrorEstimator",
        dpl.learning.MinimumErrorEstimator(dpl.learning.ThresholdClass(7), "0.1", 1),
        _FOUND,
    ),
    (
        "learning.UserLevelProperLearner",
        dpl.learning.UserLevelProperLearner(dpl.learning.ThresholdClass(7), 1, "0.1", "0.1"),
        (3, _FOUND, 1),
    ),
    (
        "learning.UserLevelSurrogateLearner",
        dpl.learning.UserLevelSurrogateLearner(
            dpl.learning.PointClass(8), _HASHED, epsilon=1, resolution="0.1", margin="0.1"
        ),
        (1, _FOUND, None),
    ),
    (
        "learning.UserLevelThresholdLearner",
        dpl.learning.UserLevelThresholdLearner(dpl.learning.ThresholdClass(7), epsilon=1, alpha="0.4"),
        (3, _FOUND, ((3, "here", ()),)),
    ),
    ("ex_post.AccuracyFirst", dpl.ex_post.AccuracyFirst("ridge", 200, 2, "0.3", "0.4"), ((0.5, -0.5), True, 7)),
)
DOORS |= {
    **{f"{name}.words": Door(one.words, {"place": 0}, left={"place": TRIED}) for name, one in _CLASSES.items()},
    **{
        f"{name}.for_error": Door(
            partial(getattr(dpl, name).for_error, **given),
            {"error": 20, "confidence": "0.9"},
            left=dict.fromkeys(("error", "confidence", "fields"), TRIED),
        )
        for name, given in _COLUMNS.items()
    },
    **{
        f"{name}.interval": Door(getattr(dpl, name)(epsilon=1, **given).interval, {"confidence": "0.95"})
        for name, given in _COLUMNS.items()
        if name not in ("Count", "Histogram")
    },
    "Variance.plain_of": Door(_VARIANCE.plain_of, {"value": _VARIANCE.value_of((1, 1, 1))}, left={"value": TRIED}),
    "Variance.value_of": Door(_VARIANCE.value_of, {"plain": (1, 1, 1)}, left={"plain": TRIED}),
    **{
        f"{name}.for_error": Door(
            partial(getattr(dpl, name).for_error, lower=0, upper=10),
            {"error": 5, "confidence": "0.9", "rows": 1000},
            left=dict.fromkeys(("error", "confidence", "fields"), TRIED),
        )
        for name in ("ClippedMean", "Variance")
    },
    **{
        f"{name}.within": Door(
            getattr(dpl, name)(epsilon=1, lower=0, upper=10).within, {"confidence": "0.95", "rows": 1000}
        )
        for name in ("ClippedMean", "Variance")
    },
    "ColumnBounds.for_error": Door(
        dpl.ColumnBounds.for_error,
        {"error": 500, "confidence": "0.9"},
        left=dict.fromkeys(("error", "confidence", "fields"), TRIED),
    ),
    "Laplace.for_error": Door(
        partial(dpl.Laplace.for_error, sensitivity=1),
        {"error": 1, "confidence": "0.9"},
        left=dict.fromkeys(("error", "confidence", "fields"), TRIED),
    ),
    "Geometric.for_error": Door(
        partial(dpl.Geometric.for_error, sensitivity=1),
        {"error": 9, "confidence": "0.9"},
        left=dict.fromkeys(("error", "confidence", "fields"), TRIED),
    ),
    "ClippedMean.plain_of": Door(_MEAN.plain_of, {"value": _MEAN.value_of((1, 1))}, left={"value": TRIED}),
    "ClippedMean.value_of": Door(_MEAN.value_of, {"plain": (1, 1)}, left={"plain": TRIED}),
    "Histogram.plain_of": Door(_COUNTS.plain_of, {"value": _COUNTS.value_of((1,))}, left={"value": TRIED}),
    "Histogram.value_of": Door(_COUNTS.value_of, {"plain": (1,)}, left={"plain": TRIED}),
    **{
        f"{name}.{verb}": door
        for name, learner, plain in LEARNED
        for verb, door in {
            "plain_of": Door(learner.plain_of, {"value": learner.value_of(plain)}, left={"value": TRIED}),
            "value_of": Door(learner.value_of, {"plain": plain}, left={"plain": TRIED}),
        }.items()
    },
}
