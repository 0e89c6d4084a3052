"""Functions as people write them, each with a claim and a schema, and no pair: what a search has to find, and what it
must leave alone. `python tests/support/faults_to_find.py` prints what is found in a minute each."""

from __future__ import annotations

import csv
import io
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import dpledger as dpl

__all__ = ["CORRECT", "FAULTS", "UNTUNED", "Case"]

Generator = np.random.Generator
Bools = npt.NDArray[np.bool_]
UNIT = {"rows": {"type": "number", "low": 0, "high": 1}}
SIGNED = {"rows": {"type": "number", "low": -1, "high": 1}}
ANY = {"rows": {"type": "number"}}
TEXTS = {"rows": {"type": "text"}}
PARTIES = {"rows": {"type": "category", "values": ["red", "green", "blue"]}}
FLAGS = {"rows": {"type": "boolean"}}
ANSWERS = {"answers": {"count": 6, "moves": 1}}
VISITS = {"rows": {"type": "time", "zone": True}}
TABLE = {"table": {"age": {"type": "integer", "low": 0, "high": 100}, "city": {"type": "text"}}}
LABELLED = {"rows": [{"type": "number", "low": 0, "high": 1}, {"type": "category", "values": ["yes", "no"]}]}
CITIES = ("a", "b")
ONE = dpl.PureDP(1)


@dataclass(frozen=True, slots=True)
class Case:
    """A function and what is said of it."""

    mechanism: Any
    schema: Mapping[str, Any]
    claim: Any = ONE
    relation: str = "add_remove"

    @property
    def name(self) -> str:
        return str(getattr(self.mechanism, "__name__", type(self.mechanism).__name__))


# ---- faults ---------------------------------------------------------------------------------------------------------


def no_noise_on_nothing(rows: list[float], rng: Generator) -> float:
    return sum(rows) + rng.laplace() if rows else 0.0


def distinct_words(rows: list[str], rng: Generator) -> float:
    return len({word for text in rows for word in text.split()}) + rng.laplace()


def clip_passes_nan(rows: list[float], rng: Generator) -> float:
    return float(np.clip(np.array(rows, float), 0, 1).sum()) + rng.laplace()


def sum_of_logarithms(rows: list[float], rng: Generator) -> float:
    """Clips what is too large, not what is too small."""
    with np.errstate(all="ignore"):
        return float(np.minimum(np.log(np.array(rows, float)), 1).sum()) + rng.laplace()


def mean_by_true_count(rows: list[float], rng: Generator) -> float:
    count = max(len(rows), 1)
    return sum(rows) / count + rng.laplace(scale=1 / count)


def count_in_a_byte(rows: list[bool], rng: Generator) -> float:
    return int(np.array(rows, dtype=bool).sum(dtype=np.int8)) + rng.laplace()


def signed_sum_exchanged(rows: list[float], rng: Generator) -> float:
    """A row that is exchanged moves it by 2."""
    return sum(rows) + rng.laplace(scale=1)


def exponential_without_half(rows: list[str], rng: Generator) -> str:
    counts = Counter(rows)
    scores = np.array([counts[party] for party in ("red", "green", "blue")], float)
    weights = np.exp(scores - scores.max())
    return ("red", "green", "blue")[rng.choice(3, p=weights / weights.sum())]


def histogram_of_own_bins(rows: list[float], rng: Generator) -> list[float]:
    counts, edges = np.histogram(rows, bins=3)
    return [*(counts + rng.laplace(size=3)), *edges]


def refuses_what_is_no_number(rows: list[str], rng: Generator) -> float:
    return sum(int(text) >= 0 for text in rows if text.strip().isnumeric() or float(text)) + rng.laplace()


def days_of_visits(rows: list[Any], rng: Generator) -> npt.NDArray[np.float64]:
    """One number a day, from the first day to the last."""
    days = [visit.toordinal() for visit in rows] or [0]
    counts = np.bincount(np.array(days) - min(days), minlength=min(max(days) - min(days) + 1, 500))
    return np.asarray(counts[:500] + rng.laplace(size=min(counts.size, 500)))


def median_by_rank(rows: list[float], rng: Generator) -> float:
    """Adds the noise of a mean to a median."""
    return float(sorted([*rows, 0.5])[len(rows) // 2]) + rng.laplace(scale=1 / max(len(rows), 1))


def sample_variance(rows: list[float], rng: Generator) -> float:
    with np.errstate(all="ignore"):
        mean = np.sum(rows) / np.float64(len(rows))
        return float(((np.array(rows) - mean) ** 2).sum() / np.float64(len(rows) - 1)) + rng.laplace()


def cities_that_are_there(table: Any, rng: Generator) -> dict[str, float]:
    return {city: count + rng.laplace() for city, count in table["city"].value_counts().items()}


def sparse_vector_without_noise_on_answers(answers: list[float], rng: Generator) -> list[bool]:
    threshold = 1 + rng.laplace(scale=2)
    return [answer >= threshold for answer in answers]


def tokens_without_a_cap(rows: list[str], rng: Generator) -> float:
    return sum(len(re.findall(r"\w+", text)) for text in rows) + rng.laplace()


def each_row_with_noise(rows: list[float], rng: Generator) -> list[float]:
    return [row + rng.laplace() for row in rows]


def noisy_maximum_with_its_value(answers: list[float], rng: Generator) -> float:
    return float(np.max(np.array(answers) + rng.laplace(scale=2, size=len(answers))))


def suppresses_small_tables(table: Any, rng: Generator) -> float | None:
    return None if len(table) < 10 else float(len(table) + rng.laplace())


def normalised_by_the_largest(rows: list[float], rng: Generator) -> float:
    largest = max(map(abs, rows), default=1) or 1
    return sum(row / largest for row in rows) + rng.laplace(scale=0.5)


def seeded_by_the_data(rows: list[float], rng: Generator) -> float:
    return sum(rows) + np.random.default_rng(len(rows)).laplace()


def half_the_noise(rows: list[float], rng: Generator) -> float:
    return sum(rows) + rng.laplace(scale=0.5)


def refuses_a_row_that_is_there_twice(rows: list[float], rng: Generator) -> float:
    if len(set(rows)) < len(rows):
        raise ValueError("duplicate")
    return len(rows) + rng.laplace()


def mean_age_of_a_city(table: Any, rng: Generator) -> dict[str, float]:
    """Every city of the schema, but the noise of a sum of ages of 50."""
    ages = table.groupby("city")["age"].sum()
    return {city: float(ages.get(city, 0)) + rng.laplace(scale=50) for city in CITIES}


def gaussian_of_half_sigma(rows: list[float], rng: Generator) -> float:
    return sum(rows) + rng.normal(scale=0.5)


FAULTS = (
    Case(no_noise_on_nothing, UNIT),
    Case(distinct_words, TEXTS),
    Case(clip_passes_nan, ANY),
    Case(sum_of_logarithms, UNIT),
    Case(mean_by_true_count, UNIT),
    Case(count_in_a_byte, FLAGS),
    Case(signed_sum_exchanged, SIGNED, relation="replace_one"),
    Case(exponential_without_half, PARTIES, relation="replace_one"),
    Case(histogram_of_own_bins, UNIT),
    Case(refuses_what_is_no_number, TEXTS),
    Case(days_of_visits, VISITS),
    Case(median_by_rank, UNIT),
    Case(sample_variance, UNIT),
    Case(cities_that_are_there, TABLE),
    Case(sparse_vector_without_noise_on_answers, ANSWERS),
    Case(tokens_without_a_cap, TEXTS),
    Case(each_row_with_noise, UNIT),
    Case(noisy_maximum_with_its_value, ANSWERS),
    Case(suppresses_small_tables, TABLE),
    Case(normalised_by_the_largest, UNIT),
    Case(seeded_by_the_data, UNIT),
    Case(half_the_noise, UNIT),
    Case(refuses_a_row_that_is_there_twice, UNIT),
    Case(mean_age_of_a_city, TABLE),
    Case(gaussian_of_half_sigma, UNIT, dpl.GDP(1)),
)


# ---- more of them, written when the search stood ---------------------------------------------------------------------


def share_of_a_label(rows: list[tuple[float, str]], rng: Generator) -> float:
    return sum(label == "yes" for _, label in rows) / max(len(rows), 1) + rng.laplace(scale=0.1)


def longest_text(rows: list[str], rng: Generator) -> float:
    return max(map(len, rows), default=0) + rng.laplace()


def oldest(table: Any, rng: Generator) -> float:
    return float(table["age"].max() if len(table) else 0) / 100 + rng.laplace(scale=0.1)


def gaussian_of_a_point(rows: list[float], rng: Generator) -> float:
    return sum(rows) + rng.normal(scale=1.5)


def exact_threshold(answers: list[float], rng: Generator) -> list[bool]:
    return [bool(answer + rng.laplace(scale=2) >= 1) for answer in answers]


def answers_too_often(rows: list[bool], rng: Generator) -> list[bool]:
    return [bool(row) if rng.random() < 0.9 else not row for row in rows]


def comma_separated(rows: list[str], rng: Generator) -> float | None:
    parsed = list(csv.reader(io.StringIO("\n".join(rows))))
    return sum(len(row) == 1 for row in parsed) + rng.laplace() if all(len(row) <= 1 for row in parsed) else None


def truncated_to_the_rows(rows: list[float], rng: Generator) -> float:
    return float(min(max(sum(rows) + rng.laplace(), 0), len(rows)))


def standardised(rows: list[float], rng: Generator) -> float:
    if len(rows) < 2:
        return float(rng.laplace())
    with np.errstate(all="ignore"):
        scores = np.clip((np.array(rows) - np.mean(rows)) / np.std(rows), -1, 1)
    return float(np.nan_to_num(scores).max()) + rng.laplace(scale=0.5)


def bounds_from_the_data(rows: list[float], rng: Generator) -> float:
    width = max(rows) - min(rows) if rows else 1
    return float(np.mean(rows) if rows else 0.5) + rng.laplace(scale=width / max(len(rows), 1) + 1e-12)


def weekdays_that_are_there(rows: list[Any], rng: Generator) -> dict[int, float]:
    days = Counter(visit.weekday() for visit in rows)
    return {day: visits + rng.laplace() for day, visits in days.items()}


def whole_noise(rows: list[int], rng: Generator) -> int:
    """Rows from 0 to 2, with the noise of rows from 0 to 1."""
    return int(sum(rows)) + int(rng.laplace())


def most_frequent_text(rows: list[str], rng: Generator) -> str:
    return max(sorted(set(rows)), key=rows.count) if rows else "none"


def scaled_by_the_count(rows: list[float], rng: Generator) -> float:
    return float(len(rows) ** 1.1) + rng.laplace()


def clipped_after_the_noise(rows: list[float], rng: Generator) -> float:
    return float(np.clip(sum(row + rng.laplace(scale=0.5) for row in rows), 0, 10))


UNTUNED = (
    Case(share_of_a_label, LABELLED),
    Case(longest_text, TEXTS),
    Case(oldest, TABLE),
    Case(gaussian_of_a_point, UNIT, dpl.ApproxDP(1, "1e-5")),
    Case(exact_threshold, ANSWERS),
    Case(answers_too_often, FLAGS, relation="replace_one"),
    Case(comma_separated, TEXTS),
    Case(truncated_to_the_rows, UNIT),
    Case(standardised, UNIT),
    Case(bounds_from_the_data, UNIT),
    Case(weekdays_that_are_there, VISITS),
    Case(whole_noise, {"rows": {"type": "integer", "low": 0, "high": 2}}),
    Case(most_frequent_text, TEXTS),
    Case(scaled_by_the_count, UNIT),
    Case(clipped_after_the_noise, UNIT),
)


# ---- as they should be ----------------------------------------------------------------------------------------------


def clipped_sum(rows: list[float], rng: Generator) -> float:
    return float(np.clip(np.nan_to_num(np.array(rows, float)), 0, 1).sum()) + rng.laplace()


def count(rows: list[bool], rng: Generator) -> float:
    return len(rows) + rng.laplace()


def clipped_mean_exchanged(rows: list[float], rng: Generator) -> float:
    return (sum(rows) + 2 * rng.laplace()) / max(len(rows), 1)


def exponential(rows: list[str], rng: Generator) -> str:
    counts = Counter(rows)
    weights = np.exp(np.array([counts[party] / 2 - len(rows) / 2 for party in ("red", "green", "blue")]))
    return ("red", "green", "blue")[rng.choice(3, p=weights / weights.sum())]


def histogram_of_public_bins(rows: list[float], rng: Generator) -> npt.NDArray[np.float64]:
    return np.asarray(np.histogram(rows, bins=4, range=(0, 1))[0] + rng.laplace(size=4))


def counts_what_is_a_number(rows: list[str], rng: Generator) -> float:
    return sum(bool(re.fullmatch("[0-9]+", text)) for text in rows) + rng.laplace()


def visits_of_each_hour(rows: list[Any], rng: Generator) -> npt.NDArray[np.float64]:
    counts = np.bincount([visit.hour for visit in rows], minlength=24)
    return np.asarray(counts + rng.laplace(size=24))


def cities_of_the_schema(table: Any, rng: Generator) -> dict[str, float]:
    counts = table["city"].value_counts()
    return {city: int(counts.get(city, 0)) + rng.laplace() for city in CITIES}


def sparse_vector(answers: list[float], rng: Generator) -> list[bool]:
    """Algorithm 1 of Lyu, Su and Li (2017), of one positive answer."""
    threshold, told = 1 + rng.laplace(scale=2), list[bool]()
    for answer in answers:
        told.append(bool(answer + rng.laplace(scale=4) >= threshold))
        if told[-1]:
            break
    return told


def capped_tokens(rows: list[str], rng: Generator) -> float:
    return sum(min(len(re.findall(r"\w+", text)), 5) for text in rows) + rng.laplace(scale=5)


def noisy_maximum(answers: list[float], rng: Generator) -> int:
    return int(np.argmax(np.array(answers) + rng.laplace(scale=2, size=len(answers))))


def each_answer_at_random(rows: list[bool], rng: Generator) -> list[bool]:
    """Randomised response, of as many rows on both sides."""
    told: Bools = np.array(rows, bool) ^ (rng.random(len(rows)) < 1 / (1 + math.e))
    return [bool(one) for one in told]


def gaussian(rows: list[float], rng: Generator) -> float:
    return sum(rows) + rng.normal()


CORRECT = (
    Case(clipped_sum, ANY),
    Case(count, FLAGS),
    Case(clipped_mean_exchanged, SIGNED, relation="replace_one"),
    Case(exponential, PARTIES, relation="replace_one"),
    Case(histogram_of_public_bins, UNIT),
    Case(counts_what_is_a_number, TEXTS),
    Case(visits_of_each_hour, VISITS),
    Case(cities_of_the_schema, TABLE),
    Case(sparse_vector, ANSWERS),
    Case(capped_tokens, TEXTS),
    Case(noisy_maximum, ANSWERS),
    Case(each_answer_at_random, FLAGS, relation="replace_one"),
    Case(gaussian, UNIT, dpl.GDP(1)),
    Case(dpl.Count(1, of="rows"), FLAGS, None),
    Case(dpl.Histogram(epsilon=1, categories=("red", "green", "blue")), PARTIES, None),
)


def _table(seconds: float, say: Callable[[str], object]) -> None:
    for faulty, cases in ((True, FAULTS), (True, UNTUNED), (False, CORRECT)):
        found = 0
        for case in cases:
            started = time.perf_counter()
            result = dpl.audit_search(
                case.mechanism,
                case.claim,
                neighbours=case.schema,
                relation=case.relation,
                seconds=seconds,
                seed=1,
                progress=False,
            )
            found += result.verdict == "violation"
            say(f"{case.name:45} {result.verdict:12} {time.perf_counter() - started:5.1f} s  {result.searched}")
        say(f"{found} of {len(cases)} {'faults found' if faulty else 'correct ones refuted'}\n")


if __name__ == "__main__":
    _table(60.0, lambda line: sys.stdout.write(f"{line}\n"))
