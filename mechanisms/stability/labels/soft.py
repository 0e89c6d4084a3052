"""Soft labels: private scores from 0 to 1, as precise as the bins in which most models of an ensemble agree.

    models, one a chunk of units          a unit alters one score on each query
    each query: scores -> bins            tested in a partition, and where that fails in its shift by half a bin
    a test fails `failed_tests` times:    the run is over

A score near an edge of a bin splits the models among two; in the shifted partition they are together. A query whose
first test passes is free. Source: Bassily-Thakkar-Thakurta 2018, Algorithms 6 to 8; proofs: docs/proofs/stability.md,
section 10. `plans.soft` says which precision so many records give.

>>> import numpy as np
>>> from dpledger.mechanisms.entropy import seeded
>>> from dpledger.relations import Relation, Unit
>>> def mean(rows, labels):
...     return lambda asked: np.full(len(asked), labels.mean()) * asked
>>> labels = np.arange(90_000) // 400 % 5 < 2
>>> private = Ensemble.fit(mean, (np.zeros(90_000), labels), 400, "slots", classes=None)
>>> soft = SoftLabels(epsilon=1, delta="1e-6", chunks=400, bins=5, failed_tests=2).under(
...     Relation.REPLACE_ONE, Unit("record")
... )
>>> run = soft.open(private, entropy=seeded(3))
>>> run.ask(1.0), run.ask(SoftQuery(1.0, 2)), run.ask_many([0.1, 1.75])
(0.5, 0.25, (0.1, 0.7))
>>> run.close().value.passed_plain
4
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import Entropy
from dpledger.mechanisms.stability.ensembles.ensemble import Ensemble
from dpledger.mechanisms.stability.labels.partitions import FEWEST_BINS, MOST_BINS
from dpledger.mechanisms.stability.labels.soft_run import SoftQuery, SoftRun
from dpledger.mechanisms.stability.over_ensemble import VOTES, OverEnsemble
from dpledger.mechanisms.stability.stable_tests import StableTests, stable_tests
from dpledger.mechanisms.threshold.epochs import Epochs
from dpledger.number_fields import Whole
from dpledger.schema import Plain, given, record, tag

__all__ = ["SoftLabels", "SoftQuery"]

_QUERIES = 1000  # for each failed test, where nobody says how many are planned
_EACH = 2  # tests of a query, at most


@record
class SoftLabels(OverEnsemble):
    """Scores for a stream of rows; halt at the `failed_tests`-th test that fails (mode paper: 2 T of them).

    `bins`: of [0, 1], public: an answer is the middle of one, or of one of the shifted partition. `max_queries`: of
    rows, each of which is tested twice at most. A query is a row, or a `SoftQuery` with bins of its own. No mode
    gaussian. `OverEnsemble` says what the others are. Data: an `Ensemble.fit(..., classes=None)`.
    An answer is a float in [0, 1], or UNSTABLE.

    >>> dpl.stability.SoftLabels(epsilon=1, delta="1e-6", chunks=400, bins=5, failed_tests=2).claim()
    ApproxDP(epsilon=Decimal('1'), delta=Decimal('0.000001'), kind='approx_dp')
    """

    failed_tests: Annotated[Whole, Field(strict=True, ge=1, lt=2**31)] | None = given(default=None)
    bins: Annotated[Whole, Field(strict=True, ge=FEWEST_BINS, le=MOST_BINS)] = given(default=10)
    kind: Literal["soft_labels"] = tag(default="soft_labels")

    def parameters(self) -> Mapping[str, Plain]:
        """All of them, with the mode, the scales and the threshold that are used."""
        values = dict(OverEnsemble.parameters(self))
        values["failed_tests"] = values.pop("cutoff")
        if self.max_queries is not None:
            values["max_queries"] = self.max_queries
        return values

    def open(self, data: Ensemble, *, entropy: Entropy) -> SoftRun:
        """Begin a stream of rows. ParameterError where `inspect` has one."""
        self.inspect(data)
        tests = self._tests().start(VOTES, entropy)
        assert isinstance(tests, Epochs), "no mode gaussian"
        return SoftRun(tests, data, self.distance, self.bins, self._around, self.max_queries)

    def _tests(self) -> StableTests:
        if self.failed_tests is None:
            raise ParameterError("failed_tests", "nothing", "how many failed tests end the run")
        if self.mode == "gaussian":
            raise ParameterError("mode", "gaussian", "a mode whose tests are charged where they fail")
        return stable_tests(
            self.epsilon,
            self.delta,
            self.failed_tests,
            self.mode,
            max_queries=None if self.max_queries is None else _EACH * self.max_queries,
            share=self.share,
            delta_split=self.delta_split,
        )

    def _tests_planned(self) -> int:
        return _EACH * (self.max_queries or _QUERIES * (self.failed_tests or 1))

    def _classes(self) -> None:
        return None

    def _answers(self) -> dict[str, Any]:
        return {"bins": self.bins}
