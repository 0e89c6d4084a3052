"""Where another library is not installed, its adapter says which extra brings it, and so do the pages."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import warm_process
from dpledger.attach.extras import extra

pytestmark = pytest.mark.sliced

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
WITHOUT = """
import sys

for name in [name for name in sys.modules if name.partition(".")[0] == "{missing}"]:
    del sys.modules[name]

class Missing:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == "{missing}":
            raise ModuleNotFoundError(f"No module named '{missing}'", name="{missing}")

sys.meta_path.insert(0, Missing)
try:
    import dpledger.attach.{module}
except ModuleNotFoundError as error:
    print(f"{{error.name}}: {{error}}")
"""


@pytest.mark.parametrize(
    ("module", "missing", "named"),
    [
        ("opacus", "opacus", "opacus"),
        ("opacus", "torch", "opacus"),
        ("opacus.objects", "torch", "opacus"),
        ("sklearn", "sklearn", "sklearn"),
        ("dp_accounting", "dp_accounting", "dp-accounting"),
        ("dp_accounting.writing", "dp_accounting", "dp-accounting"),
        ("huggingface", "transformers", "huggingface"),
        ("diffprivlib", "diffprivlib", "diffprivlib"),
        ("lightning", "pytorch_lightning", "lightning"),
        ("lightning", "opacus", "lightning"),
        ("mlflow", "mlflow", "mlflow"),
    ],
)
def test_an_adapter_without_its_library_names_the_extra(module: str, missing: str, named: str) -> None:
    code = WITHOUT.format(missing=missing, module=module)
    told = warm_process.run(code).stdout.strip()
    assert told == f"{missing}: No module named '{missing}'; what this module needs: pip install 'dpledger[{named}]'"


def test_a_version_that_lacks_a_name_is_told_as_well() -> None:
    said = r"cannot import name 'no_such_name'.*'dpledger\[sklearn\]'"
    with pytest.raises(ImportError, match=said) as raised, extra("sklearn"):
        from sklearn.base import no_such_name  # noqa: F401
    assert isinstance(raised.value.__cause__, ImportError)


def test_other_errors_pass_as_they_are() -> None:
    with pytest.raises(ValueError, match=r"^as it is$"), extra("opacus"):
        raise ValueError("as it is")


@pytest.mark.parametrize(
    ("page", "named"),
    [
        ("private_learning.md", "sklearn"),
        ("runs_elsewhere.md", "opacus"),
        ("dp_accounting.md", "dp-accounting"),
        ("trainers.md", "huggingface"),
        ("trainers.md", "lightning"),
        ("trainers.md", "mlflow"),
    ],
)
def test_a_page_says_what_to_install_before_the_block_that_needs_it(page: str, named: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    assert named in EXTRAS
    assert text.index(f"pip install 'dpledger[{named}]'") < text.index(
        f"from dpledger.attach.{named.replace('-', '_')} import"
    )


def test_every_extra_that_is_named_is_one() -> None:
    """No name has an underscore: older versions of pip find an extra by the hyphen alone."""
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", *(ROOT / "attach").rglob("*.py")]
    named = {one for page in pages for one in re.findall(r"dpledger\[([\w-]+)\]", page.read_text())}
    assert not [one for one in EXTRAS if "_" in one]
    assert named >= {"opacus", "sklearn"}
    assert named <= EXTRAS.keys()
