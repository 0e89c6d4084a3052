"""What a ledger announces to the log of the program that uses it: every change of its state, in ids alone.

    event              when                                           fields
    the entry's kind   an entry of that kind is durable               ledger, index, scopes; charge, rule if it has them
    `resumed`          a handle was opened on a ledger that existed   ledger, size
    `failed`           the store, or a rule of the record, refused    error; ledger, size where they are known
                       an append or a look

`ledger` and `charge` are ids, `scopes` the ids of the levels as the caller named them, `index` is the entry's, `rule`
what settled the charge, `size` how many entries the handle has seen, `error` the class of the error. Never data,
outputs, parameters, claims, amounts, texts, signing keys, nor the keys of releases: those are the caller's own words.

Events are structlog's, handed to the standard library's logger `dpledger.ledger`: at level info, `failed` at warning.
Nothing is written anywhere unless the program sets its logging up, however structlog itself is configured. They leave
after the transaction and outside its lock, so an error in the program's logging changes nothing in the ledger; it is
not seen here. The index tells the order of events from several threads. How to switch it on: docs/events.md.

>>> logging.getLogger("dpledger").handlers
[<NullHandler (NOTSET)>]
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from dpledger.errors import EvidenceError
from dpledger.ledger.entries.bodies import KINDS, Committed
from dpledger.ledger.entries.entry import Entry
from dpledger.ledger.rules.scope_state import State

__all__ = ["EVENTS", "FIELDS", "appended", "failures", "resumed"]

RESUMED, FAILED = "resumed", "failed"
EVENTS = KINDS | {RESUMED, FAILED}
"""The names of all events."""
FIELDS = frozenset({"ledger", "index", "scopes", "charge", "rule", "size", "error"})
"""The names of all fields that an event may have, beside `event`."""

logging.getLogger("dpledger").addHandler(logging.NullHandler())  # else a warning would go to standard error
_HEARD_BY = logging.getLogger("dpledger.ledger")


@cache
def _log() -> Any:
    """Made once somebody listens. With structlog comes rich, which draws from the generator of `random` as it is
    imported: that is put back, for the program may have seeded it."""
    drawn = random.getstate()
    try:
        import structlog
    finally:
        random.setstate(drawn)

    return structlog.wrap_logger(
        _HEARD_BY,
        processors=[structlog.stdlib.filter_by_level, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        context_class=dict,
        cache_logger_on_first_use=True,
    )


def appended(entries: Iterable[Entry]) -> None:
    """These entries are durable."""
    with suppress(Exception):
        if not _HEARD_BY.isEnabledFor(logging.INFO):  # most programs: then nothing is put together
            return
    for entry in entries:
        body = entry.body
        found = {
            "scopes": tuple(level.scope for level in getattr(body, "path", ())),
            "charge": getattr(body, "charge", None),
            "rule": body.rule if isinstance(body, Committed) else None,
        }
        with suppress(Exception):
            _log().info(body.kind, ledger=entry.ledger, index=entry.index, **{k: v for k, v in found.items() if v})


def resumed(state: State) -> None:
    """A handle was opened on the ledger that `state` is of."""
    with suppress(Exception):
        if _HEARD_BY.isEnabledFor(logging.INFO):
            _log().info(RESUMED, **_seen(state))


@contextmanager
def failures(state: State) -> Iterator[None]:
    """A context in which an error of the record or its store is announced, and goes on. `state`: what the handle has
    seen."""
    try:
        yield
    except EvidenceError as error:
        with suppress(Exception):
            if _HEARD_BY.isEnabledFor(logging.WARNING):
                _log().warning(FAILED, error=type(error).__name__, **_seen(state))
        raise


def _seen(state: State) -> dict[str, Any]:
    if state.opened is None:
        return {}
    return {"ledger": state.keys.name, "size": state.size}
