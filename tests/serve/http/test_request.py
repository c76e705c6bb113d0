from collections.abc import Mapping

import pytest

from kubeproxy.serve.http.request import (
    BadRequest,
    Head,
    Request,
    end_of_head,
    parse_head,
    wants_json,
)


def head(text: str) -> Head:
    return parse_head(text.encode("latin-1"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
            Head(Request("GET", "/healthz", {}, {"host": "x"})),
            id="a-probe",
        ),
        pytest.param(
            "GET /a%20b?x=1&x=2&y&z=%2F HTTP/1.1\r\nHost:x\r\n\r\n",
            Head(
                Request(
                    "GET",
                    "/a b",
                    {"x": "1", "y": "", "z": "/"},
                    {"host": "x"},
                    pairs=(("x", "1"), ("x", "2"), ("y", ""), ("z", "/")),
                )
            ),
            id="escapes-and-a-query-whose-first-value-counts",
        ),
        pytest.param(
            "GET http://node:10256/livez?v HTTP/1.1\nHost: x\n\n",
            Head(Request("GET", "/livez", {"v": ""}, {"host": "x"}, pairs=(("v", ""),))),
            id="a-whole-url-typed-with-bare-line-feeds",
        ),
        pytest.param(
            "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
            Head(Request("OPTIONS", "*", {}, {"host": "x"})),
            id="the-server-as-a-whole",
        ),
        pytest.param(
            "GET / HTTP/1.0\r\n\r\n",
            Head(Request("GET", "/"), http11=False, keep_alive=False),
            id="http-1.0-ends-after-one",
        ),
        pytest.param(
            "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
            Head(Request("GET", "/", {}, {"connection": "Keep-Alive"}), http11=False),
            id="http-1.0-that-stays",
        ),
        pytest.param(
            "GET / HTTP/1.1\r\nHost: x\r\nConnection: foo, Close\r\n\r\n",
            Head(
                Request("GET", "/", {}, {"host": "x", "connection": "foo, Close"}),
                keep_alive=False,
            ),
            id="http-1.1-that-leaves",
        ),
        pytest.param(
            "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nA: 1\r\na:2 \r\n\r\n",
            Head(
                Request("PUT", "/", {}, {"host": "x", "content-length": "3", "a": "1, 2"}),
                length=3,
            ),
            id="a-body-and-a-repeated-header",
        ),
    ],
)
def test_a_head_is_read(text: str, expected: Head) -> None:
    assert expected == head(text)


def test_a_name_that_is_repeated_has_several_values() -> None:
    request = head("GET /?to=b&from=x&to=a&to=b HTTP/1.1\r\nHost: x\r\n\r\n").request
    assert request.values("to") == ["b", "a", "b"]
    assert request.values("interface") == []


@pytest.mark.parametrize(
    ("format_", "headers", "expected"),
    [
        pytest.param("", {}, False, id="by-default"),
        pytest.param("", {"accept": "application/json"}, True, id="the-header"),
        pytest.param("", {"accept": "text/html, application/json;q=0.9"}, True, id="among-others"),
        pytest.param("json", {}, True, id="the-query"),
        pytest.param("text", {"accept": "application/json"}, False, id="the-query-comes-first"),
    ],
)
def test_which_requests_want_json(
    format_: str, headers: Mapping[str, str], expected: bool
) -> None:
    assert expected == wants_json(Request("GET", "/", {"format": format_}, headers))


@pytest.mark.parametrize(
    ("text", "status"),
    [
        pytest.param("\x16\x03\x01\x02\r\n\r\n", 400, id="a-tls-hello"),
        pytest.param("GET /\r\n\r\n", 400, id="http-0.9"),
        pytest.param("G\x00T / HTTP/1.1\r\nHost: x\r\n\r\n", 400, id="no-method"),
        pytest.param("GET / HTTQ/1.1\r\nHost: x\r\n\r\n", 400, id="no-protocol"),
        pytest.param("PRI * HTTP/2.0\r\n\r\n", 505, id="http-2"),
        pytest.param("GET healthz HTTP/1.1\r\nHost: x\r\n\r\n", 400, id="a-path-without-slash"),
        pytest.param("GET / HTTP/1.1\r\n\r\n", 400, id="no-host"),
        pytest.param("GET / HTTP/1.1\r\nHost: x\r\nfoo\r\n\r\n", 400, id="no-colon"),
        pytest.param("GET / HTTP/1.1\r\nHost: x\r\n b: c\r\n\r\n", 400, id="folded"),
        pytest.param("GET / HTTP/1.1\r\nHost: x\x00y\r\n\r\n", 400, id="a-control-character"),
        pytest.param(
            "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400, id="negative-length"
        ),
        pytest.param(
            f"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: {'9' * 5000}\r\n\r\n",
            400,
            id="a-length-of-more-digits-than-python-reads",
        ),
        pytest.param(
            "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            400,
            id="two-lengths",
        ),
        pytest.param(
            "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
            411,
            id="a-body-of-unknown-length",
        ),
    ],
)
def test_what_is_no_request_is_refused(text: str, status: int) -> None:
    with pytest.raises(BadRequest) as caught:
        head(text)
    assert status == caught.value.status


@pytest.mark.parametrize("text", ["GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.0\n\n"])
def test_the_end_of_a_head_is_found_however_it_is_cut(text: str) -> None:
    data = text.encode()
    for cut in range(len(data)):
        assert end_of_head(data[:cut], 0) is None
        assert end_of_head(data + b"rest", cut) == len(data)


def test_a_client_that_waits_before_its_body_is_known() -> None:
    waits = head("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nExpect: 100-Continue\r\n\r\n")
    assert waits.expects_continue
    assert not head("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n").expects_continue
