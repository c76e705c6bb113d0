"""Links, anchors and repository paths in the documents lead somewhere."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
)
WITH_PATHS = (
    *("README.md", "CONTRIBUTING.md", "docs/architecture.md"),
    *("docs/health.md", "docs/metrics.md", "docs/performance.md"),
)
"""Documents whose paths in backticks and in code trees must exist."""

_FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^    .*\n?)+", re.MULTILINE)
_BACKTICKS = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"")
_HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
_PATH = re.compile(r"[\w.*-]+(/[\w.*-]+)*/?")
_FILE = re.compile(r".+\.(py|md|yaml|toml|case)")
_PLACEHOLDER = re.compile(r"[A-Z]{2,}[A-Z_]*(?!\w*\.md)")


def links(text: str) -> list[str]:
    """The relative links of a document, those in code left out."""
    prose = _BACKTICKS.sub("", _FENCE.sub("", text))
    found = ["".join(each) for each in _LINK.findall(prose)]
    return [link for link in found if "://" not in link]


def anchors(text: str) -> set[str]:
    """The anchors of a document's headings, as they are made where it is read."""
    counts: Counter[str] = Counter()
    found = set()
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        shown = _LINK.sub("", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading))
        anchor = re.sub(r"[^\w -]", "", shown.lower()).replace(" ", "-")
        found.add(f"{anchor}-{counts[anchor]}" if counts[anchor] else anchor)
        counts[anchor] += 1
    return found


def broken_links(document: Path) -> Iterator[str]:
    for link in links(document.read_text()):
        name, _, anchor = link.partition("#")
        target = document.parent / name if name else document
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            yield link


def named_paths(text: str) -> Iterator[str]:
    """What looks like a path of the repository in backticks."""
    tops = {path.name for path in ROOT.iterdir() if path.is_dir()}
    for quoted in _BACKTICKS.findall(_FENCE.sub("", text)):
        name = quoted.strip("`")
        looks_so = name.endswith("/") or _FILE.fullmatch(name) or name.partition("/")[0] in tops
        is_path = "/" in name or _FILE.fullmatch(name)
        if looks_so and is_path and _PATH.fullmatch(name) and not _PLACEHOLDER.search(name):
            yield name


def tree_paths(text: str) -> Iterator[str]:
    """The paths of code trees: blocks whose first line is a folder, deeper lines are inside it.

    A line has names, then two blanks or more, then what they are.
    """
    for block in (*_FENCE.findall(text), *_INDENTED.findall(_FENCE.sub("", text))):
        lines = [line for line in block.splitlines() if line.strip() and "```" not in line]
        folders: list[tuple[int, str]] = []
        if not lines or not re.match(r" *[\w./-]+/( |$)", lines[0]):
            continue
        for line in lines:
            depth = len(line) - len(line.lstrip())
            folders = [each for each in folders if each[0] < depth]
            inside = folders[-1][1] if folders else ""
            names = re.split(r" {2,}", line.strip())[0].split(" ")
            yield from (inside + name for name in names if not _PLACEHOLDER.search(name))
            if names[0].endswith("/"):
                folders.append((depth, inside + names[0]))


def missing_paths(text: str) -> list[str]:
    """Paths that no file or folder has, or ends with: `table/entries.py` is one of `src`."""
    tops = [path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")]
    quoted = [
        name
        for name in named_paths(text)
        if not any(ROOT.glob(name)) and not any(any(top.rglob(name)) for top in tops)
    ]
    return quoted + [name for name in tree_paths(text) if not any(ROOT.glob(name))]


@pytest.mark.parametrize("document", [str(path.relative_to(ROOT)) for path in DOCUMENTS])
def test_every_link_leads_to_a_file_and_a_heading(document: str) -> None:
    assert list(broken_links(ROOT / document)) == []


@pytest.mark.parametrize("document", WITH_PATHS)
def test_every_path_exists(document: str) -> None:
    assert missing_paths((ROOT / document).read_text()) == []


@pytest.mark.parametrize(
    ("link", "is_broken"),
    [
        ("[a](other.md)", False),
        ("[a](other.md#two-words-its)", False),
        ("[a](other.md#same-1)", False),
        ("[a](#here)", False),
        ("[a](https://example.com/none.md)", False),
        ("`[a](none.md)`", False),
        ("```\n[a](none.md)\n```", False),
        ("[a](none.md)", True),
        ('<img src="none.png" width="1">', True),
        ("[a](other.md#same-2)", True),
        ("[a](#no-heading)", True),
    ],
)
def test_which_links_are_broken(tmp_path: Path, link: str, is_broken: bool) -> None:
    (tmp_path / "other.md").write_text("# Two words: `it's`\n## Same\n## Same\n```\n# no\n```\n")
    document = tmp_path / "document.md"
    document.write_text(f"# Here\n\n{link}\n")
    assert bool(list(broken_links(document))) is is_broken


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("`tests/world.py`, `table/`, `world.py`", []),
        ("`tests/none.py` and `none.py`", ["tests/none.py", "none.py"]),
        ("`none/`", ["none/"]),
        ("`tests/NAME.py`, `nat/prerouting`, `a b/`, `/run/none/`", []),
        (
            "    tests/\n      world.py none.py   two files\n      lab/\n        plan.py\n",
            [
                "tests/none.py",
            ],
        ),
        ("```\ntests/   all\n  lab/none.py\n  */plan.py\n```", ["tests/lab/none.py"]),
        ("    none here\n      tests/none.py\n", []),
    ],
)
def test_which_paths_are_missing(text: str, missing: list[str]) -> None:
    assert missing_paths(text) == missing
