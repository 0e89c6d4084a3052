"""Code that somebody holds, behind a budget: each call is charged, durably, before it runs.

    count = scope.guard(measurement, d_in=1, by=..., reason=...)                                     of OpenDP
    ask = scope.guard(function, claim=PureDP("0.1"), relation=..., by=..., reason=...)               anything else
    count(rows), ask(rows)

Each call is a run elsewhere (`declared_runs`): admitted or refused, recorded as attested, settled at its cap. Nothing
that the code raises leaves it, since it may depend on one record.

>>> from dpledger.accounting.guarantees import PureDP
>>> from dpledger.ledger.ledger import Ledger
>>> scope = Ledger.in_memory().scope("rows", unit="record", relation="add_remove", budget=PureDP(1))
>>> smith = {"by": "A. Smith", "reason": "counts of the study", "relation": "add_remove"}
>>> ask = scope.guard(lambda rows: len(rows) + 1, claim=PureDP("0.4"), **smith)  # with noise of its own
>>> ask([1, 2, 3])
4
>>> ask.charged, [(one.mechanism.kind, one.attested.by) for one in scope.releases()]
('pure_dp(epsilon=0.4)', [('dpledger.ledger.charging.guards.lambda_line_1', 'A. Smith')])
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import FunctionType
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar, overload

from dpledger.accounting import filters
from dpledger.accounting.composable import Composable, own_words
from dpledger.accounting.composition import Composition
from dpledger.accounting.guarantees import GUARANTEES, words_of
from dpledger.accounting.reach import Of
from dpledger.accounting.rules import cost
from dpledger.decimals import ZERO, Number
from dpledger.errors import CannotCertify, ContractViolation, ParameterError, RelationError
from dpledger.ledger.charging.declared_runs import DeclaredRun, TakesDeclaredRuns
from dpledger.ledger.charging.requests import ELSEWHERE, kind_of
from dpledger.ledger.entries.evidence import Evidence
from dpledger.ledger.rules.scope_state import ScopeState
from dpledger.mechanisms.callers import begins_later, came_to, signature_of
from dpledger.mechanisms.measurements import MapPromise, Measurement, is_interactive, measured, rows_apart
from dpledger.relations import Relation

__all__ = ["Guarded", "GuardsCode", "as_kind", "name_of"]

P = ParamSpec("P")
T = TypeVar("T")

MEASUREMENT = "opendp_measurement"
RAISED = "the guarded code raised an error, which is withheld"
LATE = "the guarded code returned what answers later, which is withheld"
LONGEST_KIND = 128
_OTHER = re.compile(r"[^A-Za-z0-9._:/@-]")


class GuardsCode(TakesDeclaredRuns):
    """What a scope does for code that somebody holds."""

    @overload
    def guard(
        self,
        code: Measurement,
        *,
        by: str,
        reason: str,
        d_in: Number,
        claim: None = ...,
        relation: Relation | str | None = ...,
        of: Of | None = ...,
        evidence: Evidence | None = ...,
        key: str | None = ...,
        tail_delta: Number | None = ...,
    ) -> Guarded[[Any], Any]: ...
    @overload
    def guard(
        self,
        code: Callable[P, T],
        *,
        by: str,
        reason: str,
        d_in: None = ...,
        claim: Composable,
        relation: Relation | str | None = ...,
        of: Of | None = ...,
        evidence: Evidence | None = ...,
        key: str | None = ...,
        tail_delta: Number | None = ...,
    ) -> Guarded[P, T]: ...
    def guard(
        self,
        code: Callable[..., Any],
        *,
        by: str,
        reason: str,
        d_in: Number | None = None,
        claim: Composable | None = None,
        relation: Relation | str | None = None,
        of: Of | None = None,
        evidence: Evidence | None = None,
        key: str | None = None,
        tail_delta: Number | None = None,
    ) -> Guarded[..., Any]:
        """`code`, behind this scope: each call is charged, durably, before it runs, and is not called where the scope
        refuses. What it returns is handed out once the charge is committed; what it raises is withheld, and the full
        charge stands.

        A measurement of OpenDP is charged what its own map says at `d_in`: how far apart, in its input metric, the data
        of two neighbours are (`mechanisms.measurements`). Where the metric counts rows or identifiers, `d_in` must be
        enough for one unit of the scope under its relation, and `relation` and `of` are not asked; else, of a number
        that was computed from rows, they are, as of `charge`. Anything else that is called is charged `claim`, what one
        call costs, as `compose` takes it: `relation` and `of` say under what and of whom, as of `charge`.
        `by`, `reason`, `evidence`, `key`, `tail_delta`: as of `charge`; under a key it is one call for ever.

        Claim: the scope keeps its budget with it, if each call keeps the claim, or the map is right, for the data that
        it is given. Source: docs/proofs/filters.md, "Runs elsewhere"; `measurements.rows_apart`.
        Raises ParameterError for what is no measurement and has no claim, a claim of no loss, what only begins to run
        when it is called, or a `d_in` that is not enough; RelationError where a metric or a domain says nothing of the
        scope's neighbours; the errors of `charge`. A call raises those of `charge`, AlreadySpent for a used key,
        TypeError, with nothing charged, for other arguments than the code takes; ContractViolation, once it is
        charged, where the code raised, or returned a coroutine, a generator or a queryable."""
        _require_guardable(code)
        name, library, parameters = _named(code), ELSEWHERE, None
        if isinstance(code, Measurement):
            found, relation, of = self._of_a_map(code, d_in, claim, relation, of)
            claim, name, library, parameters = found.promises, MEASUREMENT, found.library, dict(found.parameters)
        elif d_in is not None:
            raise ParameterError(
                "d_in", d_in, f"nothing: a {type(code).__name__} has no map; say what a call costs (claim=)"
            )
        elif claim is None:
            expected = "what one call costs, like PureDP('0.1'): only a measurement of OpenDP says it by itself"
            raise ParameterError("claim", "nothing", expected)
        else:
            _require_composable(claim)
        signature = signature_of(code)
        said: tuple[Any, ...] = (by, reason, relation, of, evidence)
        request = self._declared(claim, said, None, key, tail_delta, name, library, parameters)
        if not isinstance(code, Measurement):
            _require_loss(request.parts, self._ledger.state.scopes[self.name].relation)

        def charging() -> DeclaredRun:
            return self.charging(
                claim,
                by=by,
                reason=reason,
                relation=relation,
                of=of,
                evidence=evidence,
                key=key,
                tail_delta=tail_delta,
                mechanism=name,
                library=library,
                parameters=parameters,
            )

        return Guarded(code, signature.bind, charging, request.parts, self.name, by)

    def _of_a_map(
        self, one: Measurement, d_in: object, claim: object, relation: Relation | str | None, of: Of | None
    ) -> tuple[MapPromise, Relation | str | None, Of | None]:
        """What its map says, and under which relation and of what: of one unit of the scope where the metric counts
        rows, else as it is said."""
        scope = self._ledger.state.scopes[self.name]
        if claim is not None:
            raise ParameterError("claim", "one", "nothing: a measurement is charged by its own map (d_in=)")
        apart = rows_apart(one, scope.unit, scope.relation)
        found = measured(one, d_in, _delta_of(scope))
        if apart is None:
            return found, relation, of
        if relation is not None and Relation.read(relation) is not scope.relation:
            raise RelationError(
                f"relation: d_in in {one.input_metric} already says for which neighbours the map holds; leave it "
                f"out, or give that of the scope, {scope.relation.value}"
            )
        if of == "row" or int(found.parameters["d_in"]) < apart:
            expected = (
                f"at least {apart}: under {scope.relation.value}, two datasets that differ in one {scope.unit.name} of "
                f"the scope (max_contributions={scope.unit.max_contributions}) are that far apart in "
                f"{one.input_metric}"
            )
            raise ParameterError("of" if of == "row" else "d_in", of if of == "row" else d_in, expected)
        return found, scope.relation, "unit"


class Guarded(Generic[P, T]):
    """Code behind a scope: call it as the code itself. Made by `Scope.guard`.

    It may be shared by threads; it does not pickle, and charges nothing in a forked child, where it refuses. Each call
    that is admitted is one charge, marked as attested: the ledger says on whose word, and recomputes its price, not
    what the code does."""

    def __init__(
        self,
        code: Callable[P, T],
        bind: Callable[..., object],
        charging: Callable[[], DeclaredRun],
        parts: Composition,
        scope: str,
        by: str,
    ) -> None:
        self._code = code
        self._bind = bind
        self._charging = charging
        self.parts = parts
        self._scope = scope
        self._by = by
        self.__doc__ = f"{_named(code)}, guarded: {self._says()}"

    def __repr__(self) -> str:
        return f"<Guarded {_named(self._code)}: {self._says()}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("guarded code does not pickle: open the ledger in the other process, and guard it there")

    @property
    def charged(self) -> str:
        """What each call is charged, in words: what it promises one unit of the scope."""
        return _words(self.parts)

    def _says(self) -> str:
        word = f"on the word of {self._by}: attested, not recomputed"
        return f"each call is charged {self.charged} in scope {self._scope}, {word}"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Charge, run, and hand out. Raises as `Scope.guard` says."""
        self._bind(*args, **kwargs)
        with self._charging() as run:
            run.start()
            made = came_to(lambda: self._code(*args, **kwargs))
            if made is None:
                run.broke_off(RAISED)
                raise ContractViolation(
                    f"{_named(self._code)} raised an error while it read the data; the full charge stands. The "
                    "error's message is withheld, since it may depend on one record: call the code itself on public "
                    "or made-up data to see it"
                )
            if begins_later(made[0]) or is_interactive(made[0]):
                run.broke_off(LATE)
                raise ContractViolation(
                    f"{_named(self._code)} returned an object that answers later (a coroutine, a generator, an "
                    "interaction). It is withheld, and the full charge stands. Run an interaction inside `with "
                    "scope.charging(...)`, whose charge is held until its block ends"
                )
        return made[0]


def _require_composable(claim: Composable) -> None:
    """ParameterError, by the name of the parameter, for what is nothing that is composed."""
    try:
        own_words(claim)
    except ParameterError as error:
        raise ParameterError("claim", error.value, error.expected) from None


def _require_loss(parts: Composition, relation: Relation) -> None:
    """ParameterError for a claim that a call loses nothing."""
    try:
        price = cost(parts, relation)
    except CannotCertify:  # of a curve, which has no price in a currency
        return
    if not price.delta and ZERO in (price.pure, price.rho, price.mu_squared):
        raise ParameterError(
            "claim",
            _words(parts),
            "a loss above 0: a function that reads the data has one, and any other needs no guard",
        )


def _require_guardable(code: object) -> None:
    """ParameterError for what of another library is no measurement, and for what is not called."""
    expected = "a measurement of OpenDP, or a function with a claim="
    if isinstance(code, type) or not callable(code):
        ours = " (a mechanism of dpledger goes to `scope.release`)" if hasattr(code, "claim") else ""
        raise ParameterError("code", kind_of(code), expected + ours)
    if isinstance(code, Measurement) or not hasattr(code, "input_metric"):
        return
    if hasattr(code, "output_metric"):
        raise ParameterError("code", "a transformation, which adds no noise", f"{expected}: chain it with its noise")
    raise ParameterError("code", f"an {type(code).__name__}, which answers later", f"{expected}, which answers once")


def _delta_of(scope: ScopeState) -> Any:
    """The delta of the scope's own budget; 0 where it has none."""
    budget = filters.budget_guarantee(scope.filter)
    return budget.fails if budget.is_point else ZERO


def name_of(code: object) -> str:
    """What a function, or an object that is called, goes by, where it is audited and where it is charged: its own
    `kind`, else its module and name. A script that runs is the module that it would be imported as. A lambda goes by
    its line: name what you mean to audit with `def`."""
    while isinstance(code, functools.partial):
        code = code.func
    kind = getattr(code, "kind", None)
    if kind:
        return str(kind)
    module = getattr(code, "__module__", None) or type(code).__module__
    name = str(getattr(code, "__qualname__", type(code).__qualname__))
    if isinstance(code, FunctionType) and name.endswith("<lambda>"):
        name += f"_line_{code.__code__.co_firstlineno}"
    return f"{_imported(module)}.{name.replace('<locals>.', '').replace('<lambda>', 'lambda')}"


def _imported(module: str) -> str:
    """The name under which others import a module: that of what runs as `__main__` is in its spec (`python -m`), else
    it is the file's. What was typed at a prompt has neither."""
    if module != "__main__":
        return module
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return str(spec.name)
    return module if file is None else Path(file).stem


def as_kind(name: str) -> str:
    """A name in the ledger's alphabet. One that has to be changed for that ends in a digest of itself, so that two of
    them stay two.

    >>> as_kind("clinic.mean"), as_kind("Anfälle")
    ('clinic.mean', 'Anf_lle@073c54ff')
    """
    kind = _OTHER.sub("_", name if re.match("[A-Za-z0-9]", name) else f"python:{name}")
    if len(kind) > LONGEST_KIND or not kind.endswith(name):
        kind = f"{kind[: LONGEST_KIND - 9]}@{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return kind


def _named(code: object) -> str:
    """What to call it: as an audit does, by which reports tie one to the other."""
    return MEASUREMENT if isinstance(code, Measurement) else as_kind(name_of(code))


def _words(parts: Composition) -> str:
    return words_of(parts) if isinstance(parts, GUARANTEES) else f"a {parts.kind}"
