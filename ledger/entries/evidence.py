"""What somebody shows for their word: in words, or as the digest of a file. Text that is meant as the name of a file is
neither, and refused.

>>> shown("their letter of 3 March"), shown(None)
('their letter of 3 March', None)
"""

from __future__ import annotations

import os
import re

from dpledger.errors import ParameterError
from dpledger.files import digest_of
from dpledger.ledger.signed import wire

__all__ = ["Evidence", "shown", "words"]

Evidence = str | os.PathLike[str]

FILE_NAME = re.compile(r"(?!\S*(?:://|@))(?:(?:\.{0,2}/|~/|[A-Za-z]:\\)\S+|\S+\.[A-Za-z]\w{0,7})")
"""One word that begins or ends as the path of a file does, and is no address of the web or of a person."""


def words(text: object, field: str) -> str:
    """Words of a person. ParameterError, naming `field`, for what says nothing or hides something."""
    if not isinstance(text, str) or not text.strip():
        raise ParameterError(field, text, "words, not white space alone")
    return wire.check_text(text, field)


def shown(evidence: Evidence | None) -> str | None:
    """Words as they are; of a file, its digest. ParameterError for words that name a file, or look as if they did."""
    if evidence is None:
        return None
    if isinstance(evidence, str):
        said = words(evidence, "evidence")
        if FILE_NAME.fullmatch(said.strip()) or os.path.isfile(said):
            either = (
                "the pathlib.Path of a file, whose SHA-256 is then recorded, or words that are not the name of a file"
            )
            raise ParameterError("evidence", said, f"{either}, like {f'the letter {said}'!r}")
        return said
    if not isinstance(evidence, os.PathLike):
        raise ParameterError("evidence", type(evidence).__name__, "words, or a path (pathlib.Path) of a file")
    return f"sha256:{digest_of(evidence, field='evidence')}"
