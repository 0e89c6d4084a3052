"""The true losses of mechanisms that the zoo has as people write them, each from the definition in its docstring."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from dpledger.audit.zoo import Case
from sparse_vector_oracle import Law, Noise
from zoo_laws import LINE, Floats, Oracle, finite, gaussian, laplace, laplace_above, laplace_cells, on_a_line, shifted
from zoo_oracle import comparison_losses

__all__ = ["WRITTEN", "halting"]

CITIES = ("Lima", "Oslo", "Rome")
Shifts = tuple[Hashable, list[tuple[float, Any]]]
Line = tuple[Mapping[Hashable, float], Floats]


# ---- counts ---------------------------------------------------------------------------------------------------------


def by_key(shown: Any, rows: Any) -> Shifts:
    adults = len([age for age in rows if age > 17])
    return (adults, [(len(rows), 2)]) if shown.exact else (None, [(len(rows), 2), (adults, 2)])


def numbers_among(shown: Any, texts: Any) -> Shifts:
    good = [text for text in texts if text.isdecimal()]
    return ("raises", []) if shown.strict and len(good) < len(texts) else (None, [(len(good), 1)])


def ages(_: Any, rows: Any) -> Shifts:
    for row in rows:
        if "age" not in row:
            return "KeyError", []
        if not row["age"].isdecimal():
            return "ValueError", []
    return None, [(len(rows), 1)]


def rows_read(shown: Any, rows: Any) -> Shifts:
    missing = [place for place, value in enumerate(rows) if value is None]
    read = missing[0] if shown.stops and missing else len(rows) - len(missing)
    return (None, [(read, shown.scale)]) if shown.scale else (read, [])


def or_none(shown: Any, rows: Any) -> Line:
    count = len(rows)
    seen = np.where(LINE >= 5, laplace(LINE - count), 0.0)
    if shown.exact:
        return ({"none": 1.0}, 0 * LINE) if count < 5 else ({"none": 0.0}, laplace(LINE - count))
    return {"none": laplace_above(count - 5)}, seen


def rounded(shown: Any, rows: Any) -> Mapping[Hashable, float]:
    centre = 10 * ((len(rows) + 5) // 10) if shown.before else len(rows)
    return laplace_cells(centre, 1.0, 60)


def geometric(shown: Any, rows: Any) -> Mapping[Hashable, float]:
    q, ones = math.exp(-1), rows.count(1)
    if shown.one_sided:
        return {ones + k: (1 - q) * q**k for k in range(60)}
    return {k: (1 - q) / (1 + q) * q ** abs(k - ones) for k in range(-60, 60)}


def non_negative(shown: Any, rows: Any) -> Line:
    density = np.where(LINE >= 0, laplace(LINE - len(rows)), 0.0)
    above = laplace_above(-len(rows))
    return ({}, density / above) if shown.redrawn else ({"zero": 1 - above}, np.where(LINE > 0, density, 0.0))


# ---- noise ----------------------------------------------------------------------------------------------------------


def seeded(shown: Any, rows: Any) -> Shifts:
    match shown.seed:
        case "given":
            return None, [(len(rows), 1)]
        case "fixed":
            return len(rows), []  # and one number that is always the same
        case _:
            return len(rows) + np.random.default_rng(sum(rows)).laplace(), []


def of_bits(shown: Any, rows: Any) -> Mapping[Hashable, float]:
    half = 2 ** (shown.bits - 1)
    sizes = [-math.log(1 - (2 * k + 1) / (2 * half)) for k in range(half)]
    return {len(rows) + sign * size: 1 / (2 * half) for size in sizes for sign in (-1, 1)}


def exponential(_: Any, rows: Any) -> Line:
    return {}, np.where(len(rows) <= LINE, np.exp(np.minimum(0, len(rows) - LINE)), 0.0)


def of_groups(shown: Any, rows: Any) -> Shifts:
    zeros, ones = len(rows) - sum(rows), sum(rows)
    return (zeros - ones, [(zeros, 1)]) if shown.shared else (None, [(zeros, 1), (ones, 1)])


def cached(shown: Any, names: Any) -> Shifts:
    hits = len(names) - len(set(names))
    return hits * shown.told, [(sum(min(4, len(name)) for name in names), 4)]


# ---- sums -----------------------------------------------------------------------------------------------------------


def clipped_mean(shown: Any, rows: Any) -> Line:
    low, high = (min(rows), max(rows)) if shown.own else (0, 10)
    mean, scale = sum(rows) / len(rows), 10 / len(rows)
    if low == high:
        return {low: 1.0}, 0 * LINE
    inside = np.where((low < LINE) & (high > LINE), laplace(LINE - mean, scale), 0.0)
    return {low: laplace_above(mean - low, scale), high: laplace_above(high - mean, scale)}, inside


def clipped_sum(shown: Any, rows: Any) -> Shifts:
    return None, [(float(np.clip(rows, 0, 1).sum()) if shown.clips else sum(rows), 1)]


def running(shown: Any, rows: Any) -> Shifts:
    return None, [(total, shown.scale) for total in itertools.accumulate(rows)]


def median(_: Any, rows: Any) -> Shifts:
    below, middle, above = sorted(rows)
    gap = max(above - middle, middle - below)
    return (None, [(middle, gap)]) if gap else (middle, [])


# ---- groups ---------------------------------------------------------------------------------------------------------


def counts_of(rows: Any) -> list[tuple[float, Any]]:
    return [(rows.count(city), 1) for city in CITIES]


def keys_above(shown: Any, rows: Any) -> Mapping[Hashable, float]:
    """Whether each city is shown: where one can be on a single side, its count tells no more."""
    chances = [laplace_above(float(shown.least) - rows.count(city)) if city in rows else 0.0 for city in CITIES]
    every = itertools.product((0, 1), repeat=len(CITIES))
    return {bits: math.prod(p if bit else 1 - p for p, bit in zip(chances, bits, strict=True)) for bits in every}


def visits(shown: Any, rows: Any) -> Shifts:
    kept = [
        shop
        for user in {user for user, _ in rows}
        for shop in [shop for other, shop in rows if other == user][: shown.most]
    ]
    return None, counts_of(kept)


def large_groups(shown: Any, rows: Any) -> Line:
    """Of Rome, where alone the two sides differ."""
    count = rows.count("Rome")
    if shown.exact:
        return {count if count >= 3 else "none": 1.0}, 0 * LINE
    return {"none": laplace_above(count - 3)}, np.where(LINE >= 3, laplace(LINE - count), 0.0)


def bloom(shown: Any, word: Any) -> Mapping[Hashable, float]:
    true = {hashlib.sha256(f"{salt}{word}".encode()).digest()[0] % 8 for salt in (0, 1)}
    flip = float(shown.flip)
    every = itertools.product((False, True), repeat=8)
    return {bits: math.prod(flip if (at in true) != bit else 1 - flip for at, bit in enumerate(bits)) for bits in every}


def half_of(shown: Any, rows: Any) -> Line:
    subsets = itertools.product((0, 1), repeat=len(rows))
    densities = [laplace(LINE - sum(np.multiply(rows, bits))) / 2 ** len(rows) for bits in subsets]
    return {}, np.array(densities) if shown.told else np.sum(densities, axis=0)


# ---- searches -------------------------------------------------------------------------------------------------------


def halting(shown: Any, queries: Any, halts: int, *, redrawn: bool) -> Mapping[str, float]:
    """Sparse vector by the law of its mirror image, in which it is tests that fail that count."""
    scales = float(shown.threshold_scale), float(shown.query_scale)
    threshold, query = (Noise(scale, False) for scale in scales)
    tie = 0.0 if any(scales) else 1e-9  # without any noise a query at the threshold is not above it
    return Law(threshold, query, 0.0, halts, refreshed=redrawn).distribution([tie - value for value in queries])


def best(shown: Any, rows: Any) -> Line:
    """The place and the value; of the place alone, the integral of that by the trapezoidal rule between kinks."""
    points = LINE if shown.told else np.linspace(-80, 80, 320_001)
    densities = []
    for place, centre in enumerate(rows):
        density = _noise(shown.noise, points - centre)
        for other, value in enumerate(rows):
            if other != place:
                density = density * _below(shown.noise, points - value)
        densities.append(density)
    if shown.told:
        return {}, np.array(densities)
    step = float(points[1] - points[0])
    return {place: float(density.sum()) * step for place, density in enumerate(densities)}, np.zeros(1)


def _noise(noise: str, z: Floats) -> Floats:
    return laplace(z, 2.0) if noise == "laplace" else np.where(z >= 0, np.exp(-np.maximum(z, 0) / 2) / 2, 0.0)


def _below(noise: str, z: Floats) -> Floats:
    tail = np.exp(-np.abs(z) / 2)
    return np.where(z < 0, tail / 2, 1 - tail / 2) if noise == "laplace" else np.where(z > 0, 1 - tail, 0.0)


def told_value(shown: Case) -> float:
    losses = comparison_losses(
        float(shown.mechanism.threshold_scale),  # type: ignore[attr-defined]
        float(shown.mechanism.query_scale),  # type: ignore[attr-defined]
        shown.left,  # type: ignore[arg-type]
        shown.right,  # type: ignore[arg-type]
    )
    return max(losses.values())


# ---- by name --------------------------------------------------------------------------------------------------------

_NUMBER = shifted(lambda _, rows: (None, [(len(rows), 1)]))

_FAMILIES: Mapping[Oracle, str] = {
    _NUMBER: "noise_of_many_bits noise_of_both_signs",
    shifted(by_key): "counts_in_a_dict counts_in_a_dict_one_exact",
    shifted(lambda shown, rows: (len(rows) * shown.total, [(len(rows), 1)])): (
        "count_in_a_sentence count_in_a_sentence_with_total"
    ),
    shifted(lambda shown, rows: (None, [(len(rows), shown.scale)])): "count_as_json count_as_json_half_noise",
    on_a_line(or_none): "count_or_none count_or_none_by_true_count",
    shifted(numbers_among): "texts_counted raises_on_one_record",
    shifted(ages): "exception_tells_of_one_record",
    shifted(rows_read): "rows_read rows_read_up_to_a_missing_one rows_read_without_noise",
    finite(rounded): "rounded_after_noise rounded_before_noise",
    finite(lambda shown, rows: laplace_cells(len(rows), 0.001, 20_000, float(shown.scale))): (
        "count_as_decimal scale_is_epsilon"
    ),
    finite(geometric): "share_as_fraction share_as_fraction_one_sided",
    on_a_line(non_negative): "count_clamped_at_zero count_redrawn_below_zero",
    shifted(seeded): "seed_given seed_fixed seed_of_the_data",
    finite(of_bits): "noise_of_few_bits",
    on_a_line(exponential): "noise_of_one_sign",
    shifted(lambda shown, rows: (None, [(len(rows), 1)] * (1 if shown.cached else 2))): (
        "asked_twice_cached asked_twice"
    ),
    gaussian(lambda _: 1.0): "gaussian_claimed_as_pure gaussian_in_a_dataclass",
    shifted(of_groups): "noise_of_each_group noise_shared_by_groups",
    shifted(cached): "cache_of_rows cache_of_rows_counts_hits",
    shifted(lambda _, rows: (None, [(sum(rows), 2), (len(rows), 2)])): "sum_and_count",
    shifted(lambda _, rows: (None, [(sum(rows) / len(rows), 2 / len(rows))])): "mean_by_true_count",
    on_a_line(clipped_mean): "clipped_to_public_range clipped_to_own_range",
    shifted(clipped_sum): "sum_of_clipped sum_of_unclipped",
    shifted(running): "running_sums running_sums_noise_of_one",
    shifted(lambda _, rows: (len(rows), [(x, 1) for x in rows])): "noisy_rows noisy_rows_come_and_go",
    shifted(median): "median_with_its_gap",
    shifted(lambda shown, rows: (frozenset(rows) if shown.keys != "public" else None, counts_of(rows))): (
        "histogram_of_public_keys histogram_of_own_keys"
    ),
    finite(keys_above): "histogram_of_frequent_keys histogram_of_rare_keys",
    shifted(lambda shown, rows: (str(counts_of(rows)) if shown.exact else None, counts_of(rows))): (
        "frame_of_noisy_counts frame_with_true_counts"
    ),
    shifted(lambda shown, rows: (shown.numbered * len(rows), [(rows[-1], 10)])): "last_row last_row_in_its_place",
    shifted(visits): "visits_one_of_each_user visits_all_of_each_user",
    on_a_line(large_groups): "groups_by_noisy_size groups_by_true_size",
    finite(bloom): "rappor rappor_bit_by_bit",
    finite(lambda _, rows: {row: many / len(rows) for row, many in Counter(rows).items()}): (
        "row_at_random row_of_few_at_random"
    ),
    on_a_line(half_of): "half_of_rows half_of_rows_told",
    shifted(lambda _, names: (frozenset(names), [(len(names), 1)])): "pseudonyms",
    finite(lambda shown, rows: halting(shown, rows, shown.halts, redrawn=shown.redrawn)): (
        "sparse_vector_1 sparse_vector_2 sparse_vector_4 sparse_vector_5 sparse_vector_6"
    ),
    told_value: "sparse_vector_3",
    on_a_line(best): "noisy_maximum noisy_maximum_with_value noisy_maximum_with_value_exponential",
}

WRITTEN: Mapping[str, Oracle] = {name: oracle for oracle, names in _FAMILIES.items() for name in names.split()}
"""By name."""
