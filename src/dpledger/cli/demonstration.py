"""`dpledger demo`: the main job, end to end, on real data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpledger.cli.speaking import AsJson, speaking

__all__ = ["demo"]


def demo(
    out: Annotated[Path, typer.Option(help="A folder for what the demo writes; it must be empty or not there.")] = Path(
        "demo"
    ),
    as_json: AsJson = False,
) -> None:
    """Train and query privately on real data, keep within a budget, prove it, audit it, report it."""
    with speaking(as_json) as voice:
        from dpledger.cli.demo_walk import Walk

        walk = Walk(out, voice)
        voice.give(walk.run())
