"""`dpledger calibrate`: the least noise, or the most steps, for which a document meets a target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpledger.cli.composing import document_in
from dpledger.cli.speaking import AsJson, as_options, bounds_in_words, number, speaking
from dpledger.errors import CannotCertify, InfeasiblePlan, ParameterError

if TYPE_CHECKING:
    from dpledger.accounting.guarantees import Guarantee

__all__ = ["calibrate"]

DELTA_TO_SHOW = "1e-6"  # for a target that is no (epsilon, delta)


def calibrate(
    file: Annotated[Path, typer.Argument(help='A composition document; one number is "free". - reads standard input.')],
    epsilon: Annotated[str | None, typer.Option(help="The target's epsilon.")] = None,
    delta: Annotated[str | None, typer.Option(help="The target's delta, with --epsilon (default 0).")] = None,
    rho: Annotated[str | None, typer.Option(help="A zCDP target instead.")] = None,
    mu: Annotated[str | None, typer.Option(help="A GDP target instead.")] = None,
    as_json: AsJson = False,
) -> None:
    """Find the free number: the least noise, or the most of anything else, that certifiably meets the target."""
    with speaking(as_json) as voice:
        with as_options():
            target = _target(epsilon, delta, rho, mu)
        from decimal import Decimal

        from dpledger.accounting.planning.templates import read_template
        from dpledger.accounting.profile import compose
        from dpledger.decimals import text

        template = read_template(document_in(file))
        try:
            found = template.calibrated(target)
        except (CannotCertify, InfeasiblePlan) as error:
            if epsilon is not None and delta is None:
                error.add_note(
                    "the target has delta 0, which no Gaussian noise and no sampled training meets: give --delta"
                )
            raise
        at = delta if delta is not None else (DELTA_TO_SHOW if epsilon is None else "0")
        spent = compose(template.filled(found)).epsilon(at)
        value = text(Decimal(found))
        voice.say(f"{template.field} = {value}")
        voice.say(f"epsilon at delta {at}: {bounds_in_words(spent.lower, spent.upper)}")
        bounds = {"lower": number(spent.lower), "upper": number(spent.upper)}
        voice.give({"field": template.field, "value": value, "delta": at, "epsilon": bounds})


def _target(epsilon: str | None, delta: str | None, rho: str | None, mu: str | None) -> Guarantee:
    from dpledger.accounting.guarantees import GDP, ZCDP, ApproxDP

    match (epsilon, rho, mu):
        case (str(), None, None):
            return ApproxDP(epsilon, delta or 0)
        case (None, str(), None) if delta is None:
            return ZCDP(rho)
        case (None, None, str()) if delta is None:
            return GDP(mu)
        case _:
            raise ParameterError("calibrate", "another target", "--epsilon with --delta, or --rho, or --mu")
