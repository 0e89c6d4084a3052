"""`dpledger calibrate`: what it finds, in words and for programs, and how it says no."""

import json
from decimal import Decimal

import pytest
from typer.testing import CliRunner, Result

from dpledger.cli import app

NOISE = {
    "relation": "add_remove",
    "entries": [{"count": 100, "mechanism": {"kind": "gaussian", "noise_multiplier": "free"}}],
}


def calibrate(document: object, *words: str) -> Result:
    result = CliRunner().invoke(app, ["calibrate", "-", *words], input=json.dumps(document))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_least_noise_is_found_and_rechecked() -> None:
    done = calibrate(NOISE, "--epsilon", "1", "--delta", "1e-6", "--json")
    assert done.exit_code == 0
    answer = json.loads(done.stdout)
    assert answer["field"] == "noise_multiplier"
    assert Decimal("42.2") < Decimal(answer["value"]) < Decimal("42.3")
    assert 0.9999 < answer["epsilon"]["lower"] <= answer["epsilon"]["upper"] <= 1


def test_it_answers_in_words_and_in_other_currencies() -> None:
    done = calibrate(NOISE, "--mu", "0.5")
    assert done.stdout.startswith("noise_multiplier = 20\nepsilon at delta 1e-6: [")
    assert calibrate(NOISE, "--rho", "0.5").stdout.startswith("noise_multiplier = 10\n")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "--epsilon"),
        (("--epsilon", "1", "--rho", "1"), "--epsilon"),
        (("--rho", "1", "--delta", "1e-6"), "--epsilon"),
        (("--epsilon", "nan", "--delta", "1e-6"), "epsilon"),
        (("--epsilon", "1", "--delta", "2"), "delta"),
        (("--epsilon", "1"), "no value"),
    ],
)
def test_bad_targets_are_named(words: tuple[str, ...], complaint: str) -> None:
    done = calibrate(NOISE, *words)
    assert done.exit_code == 2
    assert complaint in done.stderr
    assert done.stdout == ""


def test_a_document_without_a_free_number_is_refused() -> None:
    fixed = {"relation": "add_remove", "entries": [{"mechanism": {"kind": "gaussian", "noise_multiplier": "1"}}]}
    done = calibrate(fixed, "--epsilon", "1", "--delta", "1e-6")
    assert done.exit_code == 2
    assert "free" in done.stderr
