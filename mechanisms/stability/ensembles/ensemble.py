"""An ensemble: one model for each chunk of the private units. It is private, and shows nothing of itself.

One unit alters one model (two where `moved` says so), whatever the learner is. How large chunks are, how many models
there are, and what they answer are data: an interaction (`PrivateClassifier`) answers for them.

>>> def halfway(rows, labels):
...     middle = rows.mean()
...     return lambda asked: (asked > middle).astype(int)
>>> private = Ensemble.fit(halfway, ([1, 2, 3, 7, 8, 9], [0, 0, 0, 1, 1, 1]), 3, "slots")
>>> private
Ensemble(...)
>>> votes_of(private, queries_of(private, [0, 4.75, 9])).tolist()
[[0, 1, 1], [0, 0, 1], [0, 0, 1]]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, Self

import numpy as np
import numpy.typing as npt

from dpledger.decimals import whole
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy, Keystream
from dpledger.mechanisms.stability.ensembles.chunkers import Chunker, Hashed, by_relation, moved, seats
from dpledger.mechanisms.stability.ensembles.forms import Column, Form, finite_or_nan
from dpledger.mechanisms.stability.ensembles.learners import (
    Learner,
    Predict,
    Work,
    check_learner,
    unpacked,
    voted,
)
from dpledger.mechanisms.stability.ensembles.rehearsal import Chunk, rehearse
from dpledger.mechanisms.stability.ensembles.votes import MOST_CLASSES
from dpledger.mechanisms.units import ByUnit, Units
from dpledger.process import Home
from dpledger.progress import bar
from dpledger.relations import Relation
from dpledger.schema import flag

__all__ = [
    "FEWEST_CHUNKS",
    "MOST_CHUNKS",
    "Ensemble",
    "Fitted",
    "alone_of",
    "form_of",
    "queries_of",
    "query_of",
    "votes_of",
]

MOST_CHUNKS = 2**20
ALL_CORES = -1  # of `jobs`, as joblib says it
FEWEST_CHUNKS = 3
_PUBLIC_COUNT = (
    f"a whole number from {FEWEST_CHUNKS} to {MOST_CHUNKS}, chosen without a look at the private data (under "
    "add_remove their number is private, too)"
)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Fitted:
    """What an ensemble is made of. Shows nothing."""

    models: tuple[Predict | None, ...]
    form: Form
    chunker: Chunker
    classes: int | None
    whole_units: bool
    drawn_in_public: bool


class Ensemble:
    """The models of k chunks, as `Ensemble.fit` makes them. Shows nothing, does not pickle, and refuses in a forked
    child. Threads may share it.

    >>> def majority(rows, labels):
    ...     return lambda asked: np.full(len(asked), labels.mean() > 0.5, dtype=int)
    >>> dpl.stability.Ensemble.fit(majority, (np.zeros((9, 2)), [0] * 9), 3, "slots")
    Ensemble(...)
    """

    __slots__ = ("_fitted", "_home")

    def __init__(self, fitted: Fitted) -> None:
        if not isinstance(fitted, Fitted):
            raise ParameterError("fitted", type(fitted).__name__, "what Ensemble.fit(...) makes: call that")
        self._fitted = fitted
        self._home = Home("an ensemble")

    @classmethod
    def fit(
        cls,
        learner: Learner,
        units: object,
        chunks: int,
        chunker: str | Hashed = "auto",
        *,
        classes: int | None = 2,
        ids: object = None,
        grouped: bool = False,
        relation: Relation | str | None = None,
        words: tuple[Column, ...] = (),
        missing: float = 0.0,
        jobs: int = 1,
        progress: bool = True,
        entropy: Entropy | None = None,
        unsafe_entropy: Entropy | None = None,
    ) -> Self:
        """Rehearse the learner on made-up rows, deal the units to chunks, and fit a fresh copy of `learner` to each.

        `learner`: an estimator of scikit-learn's kind, its class, or a function fit(X, y) -> predict (`learners`), that
        makes its estimator inside: what chunks would share is copied or refused (`rehearsal`). `units`: the
        rows and their labels side by side, as a tuple (X, y), or rows alone: arrays, tables, lists; or `ByUnit` of
        them. `chunks`: k, public. `chunker`: slots, random or Hashed(salt); auto: by `relation`, which it needs then.
        `classes`: C, public; a row whose label is none of 0 to C - 1 is left out. None: labels are numbers, and models
        answer with scores from 0 to 1, a classifier with its mean label (for `SoftLabels`). `ids`: an id for each row,
        for units of many rows (as `ByUnit`). `grouped`: True declares that item i is everything of unit i. `words`,
        `missing`: how entries are read (`forms`). `jobs`: processes, through joblib. `entropy`: where random chunks are
        drawn from (default: the operating system); a seeded one is refused, unless it is called `unsafe_entropy`.

        A chunk that is empty, or whose learner fails or ends its worker process, has a model that abstains: nothing
        here raises because of a row (`try_learner` lets a learner say on made-up rows what is wrong).
        Raises ParameterError for bad parameters and containers, and for a learner that cannot be copied, whose chunks
        share something, or that fails on all made-up rows.
        Assumes: the learner keeps nothing from one chunk to the next in a way that no made-up rows show (a file, a
        server); nothing that it holds was computed of the private rows.
        """
        check_learner(learner)
        chunks = _public_count(chunks)
        if classes is not None:
            classes = whole(classes, field="classes", least=1, most=MOST_CLASSES)
        jobs = whole(jobs, field="jobs", least=ALL_CORES, most=4096)
        if jobs == 0:
            raise ParameterError("jobs", 0, "a number of processes, or -1 for all cores")
        grouped, progress = flag(grouped, field="grouped"), flag(progress, field="progress")
        dealer = _chunker(chunker, relation)
        data = _units(units, ids, grouped)
        if len(data.columns) > 2:
            raise ParameterError("units", f"{len(data.columns)} columns side by side", "rows, and their labels")
        form = Form.of(data.columns[0], words=words, missing=finite_or_nan(missing, field="missing"))
        source = _source(entropy, unsafe_entropy)
        work = Work(learner, form, classes)
        rehearse(work, labelled=len(data.columns) == 2, jobs=jobs)
        seat = seats(dealer, data, chunks=chunks, entropy=source)
        models = _train(work, data, seat, chunks, jobs, progress)
        fitted = Fitted(
            models=models,
            form=form,
            chunker=dealer,
            classes=classes,
            whole_units=grouped or data.groups is not None,
            drawn_in_public=dealer == "random" and unsafe_entropy is not None,
        )
        return cls(fitted)

    @property
    def chunks(self) -> int:
        """k, with the chunks that have no model. Public, as all of these."""
        return len(self._fitted.models)

    @property
    def chunker(self) -> Chunker:
        """How units were dealt to chunks."""
        return self._fitted.chunker

    @property
    def classes(self) -> int | None:
        """C; None where models answer with scores."""
        return self._fitted.classes

    @property
    def whole_units(self) -> bool:
        """Whether ids said, or the caller declared, which rows are one unit's."""
        return self._fitted.whole_units

    @property
    def drawn_in_public(self) -> bool:
        """Whether random chunks came from a source that somebody may know."""
        return self._fitted.drawn_in_public

    def __repr__(self) -> str:
        return "Ensemble(...)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an ensemble does not pickle: it is private, and its models would leave")


def form_of(ensemble: Ensemble) -> Form:
    """How rows are read. Public."""
    return ensemble._fitted.form


def queries_of(ensemble: Ensemble, rows: Any) -> Any:
    """Many queries as models get them. ParameterError where they are not rows like those that were fitted."""
    return ensemble._fitted.form.asked(rows)


def query_of(ensemble: Ensemble, row: Any) -> Any:
    """One query, likewise, in a container of it alone."""
    form = ensemble._fitted.form
    return form.asked(form.alone(row))


def alone_of(ensemble: Ensemble, row: Any) -> Any:
    """One of many queries that were given apart. ParameterError for a table, which is none."""
    container = ensemble._fitted.form.alone(row)
    if hasattr(container, "iloc"):
        raise ParameterError("queries", type(row).__name__, "a row each")
    return container[0]


def votes_of(ensemble: Ensemble, queries: Any) -> npt.NDArray[Any]:
    """The class that each model names for each query: integers[chunks, queries], -1 where it abstains; or its score:
    float64, NaN where it abstains. Private.

    A model that fails on some query abstains on all that are asked with it."""
    ensemble._home.require()
    found = voted(ensemble._fitted.models, queries, classes=ensemble.classes)
    ensemble._home.require()  # a model is the caller's code, and may have forked
    return found


def _public_count(chunks: object) -> int:
    if isinstance(chunks, (int, np.integer)) and not isinstance(chunks, (bool, np.timedelta64)):
        return whole(chunks, field="chunks", least=FEWEST_CHUNKS, most=MOST_CHUNKS)
    raise ParameterError("chunks", chunks if isinstance(chunks, (float, str)) else type(chunks).__name__, _PUBLIC_COUNT)


def _chunker(chunker: object, relation: Relation | str | None) -> Chunker:
    """The chunker that is meant, fit for the relation where one is named."""
    known = None if relation is None else Relation.read(relation)
    if isinstance(chunker, str) and chunker == "auto":
        if known is None:
            raise ParameterError("chunker", "auto, and no relation", "the scope's relation (relation=), or a chunker")
        return by_relation(known)
    found: Chunker
    match chunker:
        case Hashed():
            found = chunker
        case str() if chunker == "slots":
            found = "slots"
        case str() if chunker == "random":
            found = "random"
        case _:
            raise ParameterError(
                "chunker",
                chunker if isinstance(chunker, str) else type(chunker).__name__,
                'one of "auto", "slots", "random", or Hashed(salt); runs of a list have no guarantee',
            )
    if known is not None:
        moved(found, known)
    return found


def _units(units: object, ids: object, grouped: bool) -> Units:
    if ids is not None and isinstance(units, (ByUnit, Units)):
        raise ParameterError("ids", "ids, and units that have some", "one of them")
    if grouped and (ids is not None or isinstance(units, ByUnit)):
        raise ParameterError("grouped", "True, and ids", "one of them: items that are whole units, or ids of rows")
    if isinstance(units, Units):
        return units
    return Units.of(units if ids is None else ByUnit(units, units=ids))


def _source(entropy: Entropy | None, unsafe_entropy: Entropy | None) -> Entropy | None:
    if entropy is not None and unsafe_entropy is not None:
        raise ParameterError("unsafe_entropy", "a source, beside entropy", "one of them")
    if isinstance(entropy, Keystream):  # its key came from somewhere: a seed, or a caller
        expected = "a secret source: whoever knows the seed knows the chunks (unsafe_entropy= for tests and audits)"
        raise ParameterError("entropy", "a seeded source", expected)
    return entropy if unsafe_entropy is None else unsafe_entropy


def _train(
    work: Work, data: Units, seat: npt.NDArray[np.int64], chunks: int, jobs: int, progress: bool
) -> tuple[Predict | None, ...]:
    """The model of each chunk, in order."""
    order = np.argsort(seat, kind="stable")
    ends = np.searchsorted(seat[order], np.arange(chunks + 1))

    def tasks(start: int = 0) -> Iterator[tuple[int, Chunk]]:
        for number in range(start, chunks):
            yield number, data.rows(order[ends[number] : ends[number + 1]])

    models: list[Predict | None] = []
    with bar("fitting models", chunks, shown=progress) as advance:
        if jobs == 1:
            for number, chunk in tasks():
                models.append(work.model(chunk, number))
                advance(1)
        else:
            for number, found in enumerate(_in_workers(work, tasks, jobs)):
                models.append(unpacked(found, number=number))
                advance(1)
    return tuple(models)


def _in_workers(work: Work, tasks: Callable[[int], Iterator[tuple[int, Chunk]]], jobs: int) -> Iterator[bytes | None]:
    """The model of each chunk, in order, from worker processes; none of a chunk of which a process dies, since one row
    may be why: then each of those that are left is fitted in a process of its own."""
    from joblib import Parallel, delayed  # here: it takes its time, and may not be needed

    def found(numbered: Iterable[tuple[int, Chunk]]) -> Iterator[bytes | None]:
        each = (delayed(work.packed)(chunk, number) for number, chunk in numbered)
        yield from Parallel(n_jobs=jobs, return_as="generator")(each)

    done = 0
    with suppress(BrokenExecutor):
        for model in found(tasks(0)):
            yield model
            done += 1
        return
    for one in tasks(done):
        model = None
        with suppress(BrokenExecutor):
            [model] = found([one])
        yield model
