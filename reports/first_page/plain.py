"""What ran, in the words of somebody who does not know its technical name; the annexes have that name.

>>> plain("dp_sgd"), plain("somebodys_own")
('training of a model', 'somebodys_own')
>>> plainly(["dp_sgd", "count"])
('counts', 'training of a model')
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from dpledger.reports import words

__all__ = ["WORDS", "budget_named", "plain", "plainly", "unit_of"]

MODEL, RULE, FINER = "training of a model", "a learned rule", "numbers refined step by step"
NUMBERS, CHOICE, QUERIES = "noisy numbers", "a choice of the best", "threshold queries"
STABLE, LABELS = "answers that no single person changes", "labels by many models"

WORDS: Mapping[str, str] = {
    "above_threshold": QUERIES,
    "accuracy_first": "a model trained until it is exact enough",
    "clipped_mean": "means",
    "clipped_pairwise_em": RULE,
    "clipped_sum": "sums",
    "column_bounds": "the bounds of a column",
    "count": "counts",
    "declared_run": "runs elsewhere",
    "doubling": FINER,
    "dp_ftrl": MODEL,
    "dp_sgd": MODEL,
    "exponential_mechanism": CHOICE,
    "exponential_ppac_learner": RULE,
    "gaussian": NUMBERS,
    "geometric": NUMBERS,
    "gradual_gaussian": FINER,
    "gradual_mean": "means refined step by step",
    "gradual_release": FINER,
    "group_by": "statistics by groups",
    "histogram": "tables of counts",
    "hybrid_votes": LABELS,
    "integer_gaussian": NUMBERS,
    "label_private_learner": LABELS,
    "laplace": NUMBERS,
    "min_error_test": "a test of whether a rule fits",
    "minimum_error_estimator": RULE,
    "noise_reduction": FINER,
    "noisy_votes": LABELS,
    "permute_and_flip": CHOICE,
    "private_classifier": RULE,
    "private_conjunction": RULE,
    "private_logistic_learner": RULE,
    "private_parity": RULE,
    "private_search": "the best of many trainings",
    "private_selection": "the best of many releases",
    "private_sq_threshold": RULE,
    "private_stump_booster": RULE,
    "propose_test_release": STABLE,
    "quantile": "a quantile",
    "quantiles": "several quantiles",
    "randomized_response": "answers that people randomise",
    "realizable_representation_learner": RULE,
    "repeated_parity": RULE,
    "sample_and_aggregate": STABLE,
    "soft_labels": LABELS,
    "sparse_vector": QUERIES,
    "stable_queries": STABLE,
    "stable_release": STABLE,
    "statistical_queries": "averages of answers",
    "surrogate_agnostic_learner": RULE,
    "top_k": "the most frequent categories",
    "user_level_median": "a median",
    "user_level_proper_learner": RULE,
    "user_level_surrogate_learner": RULE,
    "user_level_threshold_learner": RULE,
    "variance": "variances",
}
"""By the tag of a mechanism of ours. What others call theirs is printed as they call it."""

UNITS: Mapping[str, str] = {
    "copies": "steps",
    "delta": "δ",
    "mixed": "ε",
    "mixed_pure": "ε",
    "mixed_rdp": "ε",
    "mu_squared": "μ²",
    "pure": "ε",
    "rdp": "the divergence that is allowed",
    "rho": "ρ",
}


def plain(kind: str) -> str:
    """What a mechanism of this tag makes."""
    return WORDS.get(kind, words.tag(kind))


def plainly(kinds: Iterable[str], among: Iterable[str] = ()) -> tuple[str, ...]:
    """What mechanisms of these tags make, in order; with the tag where another one of `among` makes the same.

    >>> plainly(["gaussian"], among=["gaussian", "laplace", "count"])
    ('noisy numbers (gaussian)',)
    """
    found = set(kinds)
    shared = Counter(plain(kind) for kind in found.union(among))
    return tuple(sorted(plain(kind) + (f" ({words.tag(kind)})" if shared[plain(kind)] > 1 else "") for kind in found))


def budget_named(*scopes: str) -> str:
    """A scope by its plain name: it is one budget for one group of people."""
    return ("budget " if len(scopes) == 1 else "budgets ") + ", ".join(f"“{scope}”" for scope in scopes)


def unit_of(account: str) -> str:
    """What an account is counted in."""
    family, _, place = account.rpartition("_")
    return UNITS.get(family if place.isdecimal() else account, words.account(account))
