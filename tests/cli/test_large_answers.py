"""Answers beyond every promise: they are said, with an exponent."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from dpledger.cli import app

DOCUMENT = json.dumps(
    {
        "relation": "add_remove",
        "entries": [{"count": 10**12, "mechanism": {"kind": "gaussian", "noise_multiplier": "0.0001"}}],
    }
)


def test_an_epsilon_of_ten_to_the_nineteen_is_an_answer() -> None:
    """10^12 Gaussians of mu = 10^4 are one of mu = 10^10: epsilon is about mu^2/2 + 4.3 mu."""
    told = CliRunner().invoke(app, ["compose", "-", "--delta", "1e-5"], input=DOCUMENT)
    assert told.exit_code == 0, told.output
    assert told.output.startswith("epsilon at delta 1e-5: [5.000000004e+19, 5.000000005e+19]")
    given = CliRunner().invoke(app, ["compose", "-", "--delta", "1e-5", "--json"], input=DOCUMENT)
    bounds = json.loads(given.output)["epsilon"]
    assert 5.0000000042e19 < bounds["lower"] <= bounds["upper"] < 5.0000000043e19
