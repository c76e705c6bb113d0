import pytest

from kubeproxy.base.printable import printable, printable_lines


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("shop/cart é世", "shop/cart é世", id="what-can-be-read-stays"),
        pytest.param("\x1b[2Jcart", "\ufffd[2Jcart", id="escape-sequences"),
        pytest.param("a\x9b31m", "a\ufffd31m", id="the-other-kind-of-them"),
        pytest.param("a\r\nb\tc", "a\ufffd\ufffdb\ufffdc", id="line-ends"),
        pytest.param("a\u202eb", "a\ufffdb", id="right-to-left"),
    ],
)
def test_printable(text: str, expected: str) -> None:
    assert expected == printable(text)


def test_lines_stay_lines() -> None:
    assert printable_lines("a\x1b[2J\n\nb\r\n") == "a\ufffd[2J\n\nb\ufffd\n"
