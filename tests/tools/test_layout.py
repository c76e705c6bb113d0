"""Lines, columns and colours, for a terminal of some width and for a pipe."""

import pytest

from kubeproxy.tools.layout import (
    Column,
    Display,
    Span,
    Style,
    cut,
    fitted,
    line,
    painted,
    prose,
    table,
    without_middle,
)

WIDE = Display()
HEADS = (Column("NAME", least=4), Column("COUNT", right=True), Column("WHERE", least=5))
ROWS: list[tuple[str | Span, ...]] = [
    ("shop/cart", "7", "10.112.0.21"),
    ("a-very-long-namespace/name", Span("1234567", Style.RED), ""),
]


def texts(width: int | None) -> list[str]:
    return [painted(each, WIDE) for each in table(HEADS, ROWS, width)]


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        pytest.param(
            None,
            [
                "NAME                          COUNT  WHERE",
                "shop/cart                         7  10.112.0.21",
                "a-very-long-namespace/name  1234567",
            ],
            id="a-pipe-gets-everything",
        ),
        pytest.param(
            36,
            [
                "NAME              COUNT  WHERE",
                "shop/cart             7  10.112.0.21",
                "a-very-long-n…  1234567",
            ],
            id="the-widest-gives-way-first",
        ),
        pytest.param(
            23,
            [
                "NAME      COUNT  WHERE",
                "shop/…        7  10.11…",
                "a-ver…  1234567",
            ],
            id="then-all-that-may",
        ),
        pytest.param(
            1,
            [
                "NAME    COUNT  WHERE",
                "sho…        7  10.1…",
                "a-v…  1234567",
            ],
            id="but-not-beyond-their-least",
        ),
    ],
)
def test_columns(width: int | None, expected: list[str]) -> None:
    assert expected == texts(width)


def test_a_table_without_rows_is_its_header() -> None:
    assert [painted(each, WIDE) for each in table(HEADS, [], 80)] == ["NAME  COUNT  WHERE"]


LINE = line("red ", Span("wine", Style.RED), " and more")


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        pytest.param(17, "red wine and more", id="it-fits"),
        pytest.param(16, "red wine and mo…", id="one-too-many"),
        pytest.param(6, "red w…", id="inside-a-style"),
        pytest.param(1, "…", id="no-room-but-for-the-mark"),
        pytest.param(0, "", id="no-room-at-all"),
    ],
)
def test_lines_are_cut(width: int, expected: str) -> None:
    assert expected == "".join(span.text for span in cut(LINE, width))
    assert expected == painted(LINE, Display(width))


def test_colours() -> None:
    assert painted(LINE, Display(colours=True)) == "red \x1b[31mwine\x1b[0m and more"


def test_names_do_nothing_to_a_terminal() -> None:
    hostile = line("shop/\x1b[2Jcart\r\n", Span("\x9b31m\u202e", Style.RED))
    assert painted(hostile, WIDE) == "shop/\ufffd[2Jcart\ufffd\ufffd\ufffd31m\ufffd"


def test_one_long_text_does_not_make_every_row_long() -> None:
    ports = ",".join(f"p{number}:{number}/UDP" for number in range(2000))
    rows = [("rtp", ports, "1/1"), ("web", "80/TCP", "3/3")]
    heads = (Column("NAME"), Column("PORTS", least=10), Column("ENDPOINTS", right=True))
    head, rtp, web = (painted(each, Display()) for each in table(heads, rows, None))
    assert rtp == f"rtp   {ports}        1/1"
    assert (len(head), len(web)) == (117, 117)
    assert [len(painted(each, Display())) for each in table(heads, rows, 40)] == [40, 40, 40]


SENTENCE = "it is on node heron, and the traffic policy is Local"


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        pytest.param(None, [f"  {SENTENCE}"], id="a-pipe-gets-one-line"),
        pytest.param(80, [f"  {SENTENCE}"], id="it-fits"),
        pytest.param(
            40,
            ["  it is on node heron, and the traffic", "    policy is Local"],
            id="it-goes-on-in-the-next-line",
        ),
    ],
)
def test_prose(width: int | None, expected: list[str]) -> None:
    assert expected == [painted(each, Display(width)) for each in prose(SENTENCE, width, "  ")]


def test_names_are_not_broken() -> None:
    lines = prose("node:30080/TCP: served by shop/cart-of-a-client:http", 34)
    assert [painted(each, Display()) for each in lines] == [
        "node:30080/TCP: served by",
        "  shop/cart-of-a-client:http",
    ]


# --- texts that are lines already -------------------------------------------------------------

TEXT = """\
10.64.3.50 (pod) -> 10.112.0.20:80/TCP   on node kestrel, nftables mode
  frontend   cluster IP 10.112.0.20:80/TCP of Service shop/web, port http
               10.64.3.11:8080  33.3 %  on this node
  source     kept: the client is a pod, which every endpoint can answer directly"""


def test_a_pipe_gets_a_fact_a_line() -> None:
    assert [painted(each, WIDE) for each in fitted(TEXT, None, 13)] == TEXT.split("\n")


NARROW = """\
10.64.3.50 (pod) -> 10.112.0.20:80/TCP   on node kestrel,
             nftables mode
  frontend   cluster IP 10.112.0.20:80/TCP of Service
             shop/web, port http
               10.64.3.11:8080  33.3 %  on this node
  source     kept: the client is a pod, which every endpoint
             can answer directly"""


def test_a_narrow_terminal_gets_whole_words() -> None:
    assert "\n".join(painted(each, WIDE) for each in fitted(TEXT, 60, 13)) == NARROW


# --- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "width", "expected"),
    [
        pytest.param(["a", "bc"], 2, ["a", "bc"], id="there-is-room"),
        pytest.param([], 3, [], id="none"),
        pytest.param(["abcdefg", "abcdefh"], 5, ["ab…fg", "ab…fh"], id="the-middle-goes"),
        pytest.param(["abcdefg", "abc"], 5, ["ab…fg", "abc"], id="short-ones-stay"),
        pytest.param(
            ["aaaaXaaaaaaaa", "aaaaYaaaaaaaa"],
            8,
            ["aaaaX…aa", "aaaaY…aa"],
            id="where-they-differ-stays",
        ),
        pytest.param(["aaaaa", "aaaaa"], 3, ["a…a", "a…a"], id="equal-names"),
        pytest.param(["aaXaa", "aaYaa"], 3, ["a…a", "a…a"], id="no-place-keeps-them-apart"),
    ],
)
def test_names_lose_their_middle(names: list[str], width: int, expected: list[str]) -> None:
    assert expected == without_middle(names, width)


def test_the_middle_of_a_name_goes_when_no_column_can_leave() -> None:
    heads = (
        Column("NAME", least=4, names=True),
        Column("A", leaves=1),
        Column("B", leaves=2),
        Column("C", least=2),
    )
    rows = [("shop/storefront-one", "aaa", "bbb", "cccc"), ("shop/storefront-two", "a", "b", "c")]

    def shown(width: int) -> list[str]:
        return [painted(each, WIDE).rstrip() for each in table(heads, rows, width)]

    assert shown(40)[1] == "shop/storefront-one  aaa  bbb  cccc"
    assert shown(34)[1] == "shop/storefront-one  aaa  bbb  cc…"
    assert shown(28)[1] == "shop/storefront-one  aaa  c…"
    assert shown(23) == [
        "NAME                 C",
        "shop/storefront-one  c…",
        "shop/storefront-two  c",
    ]
    assert shown(14) == ["NAME        C", "shop…t-one  c…", "shop…t-two  c"]
