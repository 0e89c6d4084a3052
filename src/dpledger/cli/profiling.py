"""`dpledger profile`: the whole privacy profile of a composition document, as numbers and as a picture."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpledger.cli.composing import composition_in
from dpledger.cli.speaking import AsJson, number, share_above, share_below, speaking
from dpledger.errors import ParameterError

if TYPE_CHECKING:
    from dpledger.accounting.profile import Bounds, Profile

__all__ = ["profile"]

FALSE_POSITIVES = ("0.1", "0.01", "0.001")  # at which a membership test is told
FEWEST_ROWS = 17  # of the table for people
FORMATS = ("png", "svg", "pdf")


def profile(
    file: Annotated[Path, typer.Argument(help="A composition document (JSON); - reads standard input.")],
    points: Annotated[int, typer.Option(help="How many points of the curve, 2 to 100000.")] = 257,
    plot: Annotated[Path | None, typer.Option(help="Draw it: a .png, .svg or .pdf file.")] = None,
    as_json: AsJson = False,
) -> None:
    """The whole profile: delta at every epsilon, and how well a membership test can do."""
    with speaking(as_json) as voice:
        if plot is not None and plot.suffix.removeprefix(".").lower() not in FORMATS:
            raise ParameterError("plot", str(plot), "a file named .png, .svg or .pdf")
        from dpledger.accounting.profile import compose

        made = compose(composition_in(file))
        curve = made.curve(points)
        rates = list(zip(FALSE_POSITIVES, _true_positives(made), strict=True))
        every = max(1, (len(curve) - 1) // (FEWEST_ROWS - 1))
        shown = [(f"{at:.6g}", share_below(b.lower, 6), share_above(b.upper, 6)) for at, b in curve[::every]]
        voice.table("privacy profile", ["epsilon", "delta, lower", "delta, upper"], shown)
        advantage = made.advantage()
        voice.say(f"advantage over guessing: at most {share_above(advantage.upper, 6)}")
        for rate, found in rates:
            voice.say(
                f"a test with false positives at {rate} finds at most {share_above(found.upper, 6)} of the members"
            )
        if plot is not None:
            _draw(made, curve, plot)
            voice.say(f"drawn: {plot}")
        voice.give(
            {
                "profile": [{"epsilon": at, "delta": _bounds(b)} for at, b in curve],
                "advantage": _bounds(advantage),
                "true_positives": [{"false_positives": rate, "rate": _bounds(b)} for rate, b in rates],
                **({"plot": str(plot)} if plot is not None else {}),
            }
        )


def _true_positives(made: Profile) -> list[Bounds]:
    """At FALSE_POSITIVES: what a false-negative rate is missing to 1, outward. All at once, for the work of one."""
    from dpledger.accounting.profile import Bounds

    return [
        Bounds(max(0.0, math.nextafter(1 - missed.upper, 0.0)), min(1.0, math.nextafter(1 - missed.lower, 2.0)))
        for missed in made.tradeoffs(FALSE_POSITIVES)
    ]


def _bounds(bounds: Bounds) -> dict[str, float | str]:
    return {"lower": number(bounds.lower), "upper": number(bounds.upper)}


def _draw(made: Profile, curve: tuple[tuple[float, Bounds], ...], path: Path) -> None:
    from dpledger.cli.profile_picture import draw_profile

    try:
        draw_profile(made, curve, path)
    except OSError as error:
        raise ParameterError("plot", str(path), f"a file that can be written ({error.strerror})") from None
