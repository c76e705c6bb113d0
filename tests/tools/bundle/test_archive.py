"""The tar: every part has a file, also one that could not be had."""

import io
import tarfile

from kubeproxy.tools.bundle.archive import Part, contents, packed

PARTS = (Part("a.txt", "the first", b"one"), Part("b.txt", "the second", missing="it is gone"))


def test_what_could_not_be_had_says_why() -> None:
    with tarfile.open(fileobj=io.BytesIO(packed("x", PARTS, 1.5))) as tar:
        found = [(each.name, each.mtime, each.mode, _read(tar, each)) for each in tar]
    assert found == [
        ("x/a.txt", 1, 0o600, b"one"),
        ("x/b.txt.missing", 1, 0o600, b"it is gone\n"),
    ]


def _read(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    content = tar.extractfile(entry)
    assert content is not None
    return content.read()


def test_the_list() -> None:
    assert contents(PARTS, ["A bundle."]) == (
        "A bundle.\n\na.txt: the first\nb.txt: the second\n    COULD NOT BE HAD: it is gone\n"
    )
