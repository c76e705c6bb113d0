"""Refusals as the API server and those between us and it write them."""

import pytest

from cluster.apijson import EXPIRED, TOO_LARGE, status_body
from kubeproxy.cluster.client.status import Status, decode_status


@pytest.mark.parametrize(
    ("body", "code", "expected"),
    [
        pytest.param(status_body(EXPIRED), 410, EXPIRED, id="a-status-object"),
        pytest.param(status_body(EXPIRED), 0, EXPIRED, id="in-an-error-event"),
        pytest.param(status_body(TOO_LARGE), 504, TOO_LARGE, id="with-causes"),
        pytest.param(
            b'{"details":null,"message":"m"}', 403, Status(403, "Forbidden", "m"), id="nulls"
        ),
        pytest.param(b'{"details":{"causes":[{}]}}', 0, Status(0), id="a-cause-without-reason"),
        pytest.param(
            b"<html>\n 502  bad\n</html>",
            502,
            Status(502, "Bad Gateway", "<html> 502 bad </html>"),
            id="html-of-a-load-balancer",
        ),
        pytest.param(b"\xff" * 999, 799, Status(799, "", "�" * 200), id="bytes-and-no-known-code"),
        pytest.param(b"", 500, Status(500, "Internal Server Error"), id="nothing"),
    ],
)
def test_what_a_refusal_says(body: bytes, code: int, expected: Status) -> None:
    assert expected == decode_status(body, code)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(Status(410), True, id="410"),
        pytest.param(Status(0, "Expired"), True, id="expired"),
        pytest.param(Status(0, "Gone"), True, id="gone-on-old-servers"),
        pytest.param(TOO_LARGE, True, id="too-large"),
        pytest.param(Status(504, "Timeout"), False, id="any-other-timeout"),
    ],
)
def test_which_refusals_are_about_the_version(status: Status, expected: bool) -> None:
    assert expected is status.stale


@pytest.mark.parametrize(
    ("code", "expected"),
    [(429, True), (502, True), (503, True), (504, True), (500, False), (403, False)],
)
def test_which_refusals_may_pass(code: int, expected: bool) -> None:
    assert expected is Status(code).retryable


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(Status(403, "Forbidden", "no"), "403 Forbidden: no", id="all-of-it"),
        pytest.param(Status(500), "500", id="only-a-code"),
    ],
)
def test_a_refusal_in_a_log(status: Status, expected: str) -> None:
    assert expected == str(status)
