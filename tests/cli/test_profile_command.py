"""`dpledger profile`: the curve for programs, the words for people, and the picture."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dpledger.cli import app

DOCUMENT = {
    "relation": "add_remove",
    "entries": [{"count": 100, "mechanism": {"kind": "gaussian", "noise_multiplier": "10"}}],
}


def profile(*words: str, document: object = DOCUMENT) -> Result:
    result = CliRunner().invoke(app, ["profile", "-", *words], input=json.dumps(document))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_curve_is_given_to_programs() -> None:
    answer = json.loads(profile("--points", "33", "--json").stdout)
    assert len(answer["profile"]) == 33
    assert answer["profile"][0]["epsilon"] == 0
    assert answer["profile"][0]["delta"]["upper"] == pytest.approx(0.3829249225, rel=1e-6)  # 2 Phi(1/2) - 1
    assert answer["advantage"]["lower"] <= 0.3829249226
    assert [one["false_positives"] for one in answer["true_positives"]] == ["0.1", "0.01", "0.001"]
    assert all(one["delta"]["lower"] <= one["delta"]["upper"] for one in answer["profile"])


def test_people_get_a_short_table_and_what_a_test_may_reach() -> None:
    done = profile()
    assert done.exit_code == 0
    assert "advantage over guessing: at most 0.38" in done.stdout
    assert "false positives at 0.01" in done.stdout
    assert len(done.stdout.splitlines()) < 40


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_picture_is_drawn(tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"curve.{suffix}"
    done = profile("--plot", str(target))
    assert done.exit_code == 0
    assert target.stat().st_size > 5000
    assert target.read_bytes().startswith(b"\x89PNG" if suffix == "png" else b"<?xml")


def test_one_direction_alone_has_the_trade_off_of_its_ordered_pair() -> None:
    both, alone = (
        json.loads(profile("--json", document=document).stdout)["true_positives"]
        for document in (DOCUMENT, {**DOCUMENT, "direction": "add"})
    )
    for larger, smaller in zip(both, alone, strict=True):
        assert float(smaller["false_positives"]) < smaller["rate"]["upper"]
        assert smaller["rate"]["lower"] <= larger["rate"]["upper"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [(("--plot", "curve.txt"), ".png"), (("--points", "1"), "count"), (("--plot", "/nowhere/at/all.png"), "plot")],
)
def test_bad_words_are_named(words: tuple[str, ...], complaint: str) -> None:
    done = profile(*words)
    assert done.exit_code == 2
    assert complaint in done.stderr
