from collections.abc import AsyncIterator

import pytest

from kubeproxy.serve.http.answer import (
    Answer,
    chunk,
    encode_head,
    http_date,
    keeps_open,
    not_found,
    refusal,
)
from kubeproxy.serve.http.request import BadRequest, Head, Request

REQUEST = Request("GET", "/")
DATE = b"Date: Mon, 16 Nov 2026 00:23:35 GMT\r\n"
NOW = 1794788615.5


async def pieces() -> AsyncIterator[bytes]:
    yield b"a"


STREAM = Answer(200, (("A", "b"),), pieces())
WHOLE = Answer(503, (("A", "b"),), b"body")


@pytest.mark.parametrize(
    ("answer", "head", "expected"),
    [
        pytest.param(
            WHOLE,
            Head(REQUEST),
            b"HTTP/1.1 503 Service Unavailable\r\nA: b\r\n" + DATE + b"Content-Length: 4\r\n\r\n",
            id="whole",
        ),
        pytest.param(
            WHOLE,
            Head(REQUEST, keep_alive=False),
            b"HTTP/1.1 503 Service Unavailable\r\nA: b\r\n"
            + DATE
            + b"Content-Length: 4\r\nConnection: close\r\n\r\n",
            id="the-last-one",
        ),
        pytest.param(
            WHOLE,
            Head(REQUEST, http11=False),
            b"HTTP/1.0 503 Service Unavailable\r\nA: b\r\n"
            + DATE
            + b"Content-Length: 4\r\nConnection: keep-alive\r\n\r\n",
            id="http-1.0-that-stays",
        ),
        pytest.param(
            STREAM,
            Head(REQUEST),
            b"HTTP/1.1 200 OK\r\nA: b\r\n" + DATE + b"Transfer-Encoding: chunked\r\n\r\n",
            id="in-pieces",
        ),
        pytest.param(
            STREAM,
            Head(REQUEST, http11=False),
            b"HTTP/1.0 200 OK\r\nA: b\r\n" + DATE + b"\r\n",
            id="in-pieces-to-http-1.0-which-the-end-ends",
        ),
    ],
)
def test_a_head_is_written(answer: Answer, head: Head, expected: bytes) -> None:
    assert expected == encode_head(answer, head, NOW)


def test_http_10_cannot_go_on_after_a_body_without_length() -> None:
    assert not keeps_open(STREAM, Head(REQUEST, http11=False))
    assert keeps_open(WHOLE, Head(REQUEST, http11=False))


def test_a_chunk_says_its_length_in_hex() -> None:
    assert chunk(b"x" * 26) == b"1a\r\n" + b"x" * 26 + b"\r\n"


@pytest.mark.parametrize(
    ("error", "body"),
    [
        pytest.param(BadRequest(400), b"400 Bad Request", id="plain"),
        pytest.param(
            BadRequest(400, "missing required Host header"),
            b"400 Bad Request: missing required Host header",
            id="with-a-reason",
        ),
    ],
)
def test_a_refusal_is_what_go_says(error: BadRequest, body: bytes) -> None:
    head = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
    assert head + b"Connection: close\r\n\r\n" + body == refusal(error)


def test_what_go_says_of_an_unknown_path() -> None:
    expected = Answer(
        404,
        (
            ("Content-Type", "text/plain; charset=utf-8"),
            ("X-Content-Type-Options", "nosniff"),
        ),
        b"404 page not found\n",
    )
    assert expected == not_found(REQUEST)


def test_a_date_has_two_digits_everywhere() -> None:
    assert http_date(1136214245) == "Mon, 02 Jan 2006 15:04:05 GMT"
