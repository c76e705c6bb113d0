"""HTTP requests: whatever comes, it is a request or a refusal."""

import contextlib

from fuzz.rounds import fuzz_bytes
from kubeproxy.serve.http.request import BadRequest, end_of_head, parse_head, wants_json

SEEDS = [
    b"GET /healthz?v=1&v=2 HTTP/1.1\r\nHost: node:10256\r\nAccept: application/json\r\n\r\n",
    b"POST http://x/flags/v?format=json HTTP/1.0\nContent-Length: 1\nConnection: close\n\n2",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n",
]


def read_request(data: bytes) -> None:
    end = end_of_head(data, 0)
    if end is None:
        return
    with contextlib.suppress(BadRequest):
        head = parse_head(data[:end])
        assert head.length >= 0
        assert isinstance(head.keep_alive, bool)
        assert isinstance(head.expects_continue, bool)
        wants_json(head.request)
        head.request.values("v")


def test_requests() -> None:
    fuzz_bytes(SEEDS, read_request)
