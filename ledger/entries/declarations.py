"""What may be declared: the items that a report asks for, one list for whoever writes, verifies and reports.

A later version may know more of them. What is not on the list and is worth saying has a name that begins with `own_`.

>>> check_item("own_review_board")
'own_review_board'
>>> check_item("regoin")
Traceback (most recent call last):
...
dpledger.errors.UnknownWord: item: expected a known item (did you mean region?); words of your own begin with own_, \
got regoin
"""

from __future__ import annotations

import difflib
import re
from typing import Final

from dpledger.errors import ParameterError, UnknownWord

__all__ = ["ITEMS", "OWN", "check_item", "check_words"]

OWN: Final = "own_"
_WORD = re.compile(r"[a-z][a-z0-9_]{0,63}")

LONGEST: Final = 64  # characters of an item
SYNONYMS: Final = {  # what people call an item that has another name here
    "purpose": "intended_use",
    "controller": "controller_and_contact",
    "n": "population_size",
    "owner": "decision_owner",
    "author": "registry_authors",
    "authors": "registry_authors",
    "publication_date": "first_published",
    "recipients": "output_recipients",
}

ITEMS: Final = frozenset(
    {
        # the product
        "product_name",
        "product_description",
        "controller_and_contact",
        "intended_use",
        "not_intended_for",
        "kind_of_product",
        "region",
        "first_published",
        "dpia_reference",
        "processing_record_reference",
        # how one unit is protected
        "unit_justification",
        "contribution_bounding",
        "sensitivity",
        "population_size",
        "epoch_policy",
        "parameters_chosen_without_data",
        "sampler",
        "accuracy",
        "floating_point",
        "timing",
        "errors",
        # who asks, who receives, whom one trusts
        "query_model",
        "who_may_query",
        "collusion",
        "trust_model",
        "output_recipients",
        "security_at_rest",
        "security_in_use",
        "access_control",
        # the data
        "people",
        "data_categories",
        "data_growth",
        "release_frequency",
        "collection_and_minimisation",
        # around the releases
        "limits",
        "non_dp_releases",
        "invariants",
        "post_processing",
        "synthetic_data",
        "model_files",
        # who answers for it
        "justification",
        "decision_owner",
        "reviewer",
        "next_review",
        "incident_contact",
        "retention_ledger",
        "retention_salts",
        "retention_keys",
        "registry_authors",
    }
)


def check_item(item: str) -> str:
    """`item`, if it is on the list or one's own. UnknownWord for another word, with those that are near, or else the
    list; ParameterError for what is no word."""
    if type(item) is not str or not _WORD.fullmatch(item):
        near = _near(re.sub(r"\W+", "_", item[:LONGEST].lower())) if type(item) is str else []
        meant = f" (did you mean {' or '.join(near)}?)" if near else ""
        form = f"a word: a letter, then letters, digits and _ (a-z, 0-9), at most {LONGEST}"
        raise ParameterError("item", item, form + meant)
    if item not in ITEMS and not (item.startswith(OWN) and len(item) > len(OWN)):
        near = _near(item)
        known = f" (did you mean {' or '.join(near)}?)" if near else f": one of {', '.join(sorted(ITEMS))}"
        raise UnknownWord("item", item, f"a known item{known}; words of your own begin with {OWN}")
    return item


def _near(word: str) -> list[str]:
    """The items that somebody may mean who writes `word`: it is another name, one of their words, or one misspelt.

    >>> _near("regoin"), _near("dpia"), _near("purpose"), _near("zebra")
    (['region'], ['dpia_reference'], ['intended_use'], [])
    """
    if word in ITEMS:
        return [word]
    held = sorted(item for item in ITEMS if word in item.split("_"))
    other = [SYNONYMS[word]] if word in SYNONYMS else []
    return other or held[:3] or difflib.get_close_matches(word, sorted(ITEMS), n=1)


def check_words(text: str) -> str:
    """`text`, if it says something. ParameterError for one that is empty or all white space."""
    if not text.strip():
        raise ParameterError("text", text, "words, not white space alone")
    return text
