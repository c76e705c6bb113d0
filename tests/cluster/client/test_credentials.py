"""Tokens, certificates and impersonation, against a server that checks them."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from cluster.following import access_to, following
from fakes.apiserver import FakeApiServer
from fakes.certs import Pair, issue, make_authority, server_tls
from kubeproxy.base.errors import OperatorError
from kubeproxy.cluster.client.access import Access, ClusterEntry, UserEntry
from kubeproxy.cluster.client.credentials import Credentials, TokenFile, impersonation_headers

pytestmark = pytest.mark.usefixtures("short_waits")


class Secured(msgspec.Struct):
    """A server that wants TLS and credentials, and its authority."""

    server: FakeApiServer
    authority: Pair


@pytest.fixture
async def secured(tmp_path: Path) -> AsyncIterator[Secured]:
    tls, authority = server_tls(tmp_path, client_certificates=True)
    async with FakeApiServer(tls, {"right"}) as server:
        yield Secured(server, authority)


def trusting(authority: Pair, server_name: str = "") -> ClusterEntry:
    return ClusterEntry(certificate_authority=str(authority.cert), tls_server_name=server_name)


def showing(pair: Pair) -> UserEntry:
    return UserEntry(client_certificate=str(pair.cert), client_key=str(pair.key))


# --- tokens -----------------------------------------------------------------------------------


async def test_a_token_is_sent(secured: Secured) -> None:
    user = UserEntry(token="right")
    async with following(access_to(secured.server, trusting(secured.authority), user)) as consumer:
        await consumer.wait_synced()
    assert secured.server.requests[0].headers["Authorization"] == "Bearer right"


async def test_basic_credentials_are_sent(server: FakeApiServer) -> None:
    user = UserEntry(username="Aladdin", password="open sesame")
    async with following(access_to(server, None, user)) as consumer:
        await consumer.wait_synced()
    expected = "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
    assert expected == server.requests[0].headers["Authorization"]


async def test_an_expired_token_is_reported_and_tried_for_ever(
    secured: Secured, capsys: pytest.CaptureFixture[str]
) -> None:
    user = UserEntry(token="expired")
    async with following(access_to(secured.server, trusting(secured.authority), user)) as consumer:
        await consumer.wait(lambda: len(consumer.attempts) > 8)
        assert not consumer.events
        secured.server.tokens = {"expired"}
        await consumer.wait_synced()
    refused, back = capsys.readouterr().err.splitlines()
    assert "with 401 Unauthorized: Unauthorized" in refused
    assert r"the client is the bearer of the token of kubeconfig user \"u\"" in refused
    assert "expired and belongs to this cluster" in refused
    assert '"API server reachable again"' in back


async def test_a_token_file_is_read_again_when_the_server_wants_a_new_one(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubeproxy.cluster.client.credentials.TOKEN_LIFE", 0.0)
    path = tmp_path / "token"
    path.write_text("right\n")
    user = UserEntry(token_file=str(path))
    async with following(access_to(secured.server, trusting(secured.authority), user)) as consumer:
        await consumer.wait_synced()
        secured.server.tokens = {"new"}
        path.write_text("new\n")
        secured.server.faults.cut_streams()
        await consumer.wait(lambda: [a.code for a in consumer.attempts] == ["200", "200"])
    last = secured.server.requests[-1]
    assert last.headers["Authorization"] == "Bearer new"
    assert "sendInitialEvents" not in last.query


def test_a_token_file_is_read_again_after_50_seconds(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(" one\n")
    token = TokenFile(str(path), 100.0)
    path.write_text("two")
    assert [token.token(now) for now in (100.0, 149.9, 150.0, 151.0)] == [
        "one",
        "one",
        "two",
        "two",
    ]


@pytest.mark.parametrize(
    "content", [None, "", " \n", b"\xff"], ids=["missing", "empty", "blank", "binary"]
)
def test_a_token_that_cannot_be_read_again_stays(
    tmp_path: Path, content: str | bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    token = TokenFile(str(path), 0.0)
    write(path, content)
    assert token.token(60.0) == "one"
    assert token.token(61.0) == "one"
    (line,) = capsys.readouterr().err.splitlines()
    assert '"Unable to rotate token"' in line
    path.write_text("two")
    assert token.token(110.0) == "two"


def write(path: Path, content: str | bytes | None) -> None:
    if content is None:
        path.unlink()
    elif isinstance(content, str):
        path.write_text(content)
    else:
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(None, "open {path}: no such file or directory", id="missing"),
        pytest.param("\n", 'read empty token from file "{path}"', id="empty"),
        pytest.param(b"\xff", 'token file "{path}" does not hold text', id="binary"),
    ],
)
def test_a_token_file_that_cannot_be_read_at_start_is_fatal(
    tmp_path: Path, content: str | bytes | None, expected: str
) -> None:
    path = tmp_path / "token"
    path.touch()
    write(path, content)
    access = Access(server="https://api", user=UserEntry(token_file=str(path)))
    with pytest.raises(OperatorError) as caught:
        Credentials(access, {}, 0.0)
    assert expected.format(path=path) == str(caught.value)


async def test_a_token_stands_in_for_a_token_file_that_cannot_be_read(tmp_path: Path) -> None:
    user = UserEntry(token="t", token_file=str(tmp_path / "missing"))
    access = Access(server="https://api", user=user)
    proof = await Credentials(access, {}, 0.0).prove(0.0, 0.0)
    assert proof.headers == (("Authorization", "Bearer t"),)


@pytest.mark.parametrize(
    ("user", "header"),
    [
        pytest.param(UserEntry(token="top\nsecret"), "Authorization", id="token"),
        pytest.param(UserEntry(as_user="a\rb"), "Impersonate-User", id="impersonated"),
        pytest.param(UserEntry(as_user="a", as_groups=("\0",)), "Impersonate-Group", id="group"),
    ],
)
def test_what_no_header_can_hold_is_refused_at_the_start_and_not_shown(
    user: UserEntry, header: str
) -> None:
    access = Access(server="https://api", user=user)
    with pytest.raises(OperatorError, match=f"the header {header} cannot be sent") as caught:
        Credentials(access, {}, 0.0)
    assert "secret" not in str(caught.value)


async def test_a_token_file_that_no_header_can_hold_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("top\nsecret\n")
    access = Access(server="https://api", user=UserEntry(token_file=str(path)))
    with pytest.raises(OperatorError, match=f"the bearer of token file {path}"):
        await Credentials(access, {}, 0.0).prove(0.0, 0.0)


# --- impersonation ----------------------------------------------------------------------------


def test_impersonation_is_headers() -> None:
    extra = {"Scopes": ("view", "dev"), "acme.com/Project": ("a b",)}
    asked = UserEntry(
        as_user="jane", as_uid="7", as_groups=("devs", "admins"), as_user_extra=extra
    )
    expected = (
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "devs"),
        ("Impersonate-Group", "admins"),
        ("Impersonate-Extra-scopes", "view"),
        ("Impersonate-Extra-scopes", "dev"),
        ("Impersonate-Extra-acme.com%2Fproject", "a b"),
    )
    assert expected == impersonation_headers(asked)
    assert impersonation_headers(UserEntry(as_user="jane")) == (("Impersonate-User", "jane"),)
    assert impersonation_headers(UserEntry()) == ()


async def test_repeated_headers_arrive_repeated(server: FakeApiServer) -> None:
    asked = UserEntry(as_user="jane", as_groups=("devs", "admins"))
    async with following(access_to(server, None, asked)) as consumer:
        await consumer.wait_synced()
    sent = [item for item in server.requests[0].headers.items() if item[0].startswith("Imp")]
    assert list(impersonation_headers(asked)) == sent


# --- TLS --------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_data", [False, True], ids=["files", "data"])
async def test_a_client_certificate_is_shown(
    secured: Secured, tmp_path: Path, as_data: bool
) -> None:
    pair = issue(secured.authority, tmp_path, "client")
    data = UserEntry(
        client_certificate_data=pair.cert.read_text(), client_key_data=pair.key.read_text()
    )
    user = data if as_data else showing(pair)
    async with following(access_to(secured.server, trusting(secured.authority), user)) as consumer:
        await consumer.wait_synced()


async def test_without_a_certificate_the_server_refuses(
    secured: Secured, capsys: pytest.CaptureFixture[str]
) -> None:
    async with following(access_to(secured.server, trusting(secured.authority))) as consumer:
        await consumer.wait(lambda: len(consumer.attempts) > 3)
    (line,) = capsys.readouterr().err.splitlines()
    assert "401 Unauthorized" in line
    assert "the client is anonymous" in line


async def test_a_server_of_another_authority_is_not_trusted_and_tried_for_ever(
    secured: Secured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_authority(tmp_path, "other")
    async with following(access_to(secured.server, trusting(other))) as consumer:
        await consumer.wait(lambda: len(consumer.attempts) > 3)
    assert not secured.server.requests
    (line,) = capsys.readouterr().err.splitlines()
    assert f"the certificate of {secured.server.url} is not trusted (" in line
    assert "check the server URL, certificate-authority and tls-server-name" in line


async def test_an_insecure_client_trusts_every_server(secured: Secured) -> None:
    user = UserEntry(token="right")
    async with following(
        access_to(secured.server, ClusterEntry(insecure_skip_tls_verify=True), user)
    ) as consumer:
        await consumer.wait_synced()


async def test_an_empty_authority_trusts_no_server(
    secured: Secured, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty.crt"
    empty.touch()
    async with following(
        access_to(secured.server, ClusterEntry(certificate_authority=str(empty)))
    ) as consumer:
        await consumer.wait(lambda: len(consumer.attempts) > 1)
    warned, failed = capsys.readouterr().err.splitlines()
    assert "The CA file is empty" in warned
    assert "is not trusted" in failed


@pytest.mark.parametrize(
    ("name", "served"), [("kubernetes", True), ("elsewhere", False)], ids=["right", "wrong"]
)
async def test_the_tls_server_name_is_what_the_certificate_is_checked_against(
    tmp_path: Path, name: str, served: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    tls, authority = server_tls(tmp_path)
    tls = msgspec.structs.replace(tls, pair=issue(authority, tmp_path, "named", ("kubernetes",)))
    async with (
        FakeApiServer(tls) as server,
        following(access_to(server, trusting(authority, server_name=name))) as consumer,
    ):
        await consumer.wait(
            lambda: bool(consumer.events) if served else len(consumer.attempts) > 2
        )
    assert served is ("Hostname mismatch" not in capsys.readouterr().err)


async def test_plain_http_to_a_tls_port_is_explained(
    secured: Secured, capsys: pytest.CaptureFixture[str]
) -> None:
    access = Access(server=secured.server.url.replace("https", "http"))
    async with following(access) as consumer:
        await consumer.wait(lambda: len(consumer.attempts) > 1)
    (line,) = capsys.readouterr().err.splitlines()
    assert "API server unreachable" in line


async def test_tls_to_a_plain_http_port_is_explained(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    access = Access(server=server.url.replace("http", "https"))
    async with following(access) as consumer:
        await consumer.wait(lambda: len(consumer.attempts) > 1)
    (line,) = capsys.readouterr().err.splitlines()
    assert "check that its port speaks TLS" in line


async def test_changed_certificates_count_from_the_next_connection_on(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubeproxy.cluster.client.tls.CHECK_PERIOD", 0.0)
    stranger = make_authority(tmp_path, "stranger")
    ca, cert, key = (tmp_path / name for name in ("c.ca", "c.crt", "c.key"))
    ca.write_text(secured.authority.cert.read_text())
    right = issue(secured.authority, tmp_path, "right")
    cert.write_text(right.cert.read_text())
    key.write_text(right.key.read_text())
    trusted = ClusterEntry(certificate_authority=str(ca))
    user = UserEntry(client_certificate=str(cert), client_key=str(key))
    async with following(access_to(secured.server, trusted, user)) as consumer:
        await consumer.wait_synced()
        ca.write_text(stranger.cert.read_text())
        secured.server.faults.cut_streams()
        await consumer.wait(lambda: consumer.attempts[-1].code == "<error>")
        ca.write_text(secured.authority.cert.read_text())
        await consumer.wait(lambda: consumer.attempts[-1].code == "200")
        assert consumer.lists() == 1


async def test_half_written_certificates_leave_the_old_ones_in_force(
    secured: Secured,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("kubeproxy.cluster.client.tls.CHECK_PERIOD", 0.0)
    pair, other = (issue(secured.authority, tmp_path, name) for name in ("one", "two"))
    access = access_to(secured.server, trusting(secured.authority), showing(pair))
    async with following(access) as consumer:
        await consumer.wait_synced()
        pair.key.write_text(other.key.read_text())
        secured.server.faults.cut_streams()
        await consumer.wait(lambda: [a.code for a in consumer.attempts] == ["200", "200"])
    (line,) = capsys.readouterr().err.splitlines()
    assert "Failed to load changed certificates, the old ones stay" in line


@pytest.mark.parametrize(
    ("cluster", "user", "expected"),
    [
        pytest.param(
            ClusterEntry(certificate_authority_data="no pem"),
            UserEntry(),
            "unable to load root certificates: unable to parse bytes as PEM block",
            id="ca-data",
        ),
        pytest.param(
            ClusterEntry(certificate_authority_data="no pem é"),
            UserEntry(),
            "unable to load root certificates: unable to parse bytes as PEM block",
            id="ca-data-that-is-not-ascii",
        ),
        pytest.param(
            ClusterEntry(certificate_authority="/dev/null/x"),
            UserEntry(),
            "open /dev/null/x: not a directory",
            id="ca-file",
        ),
        pytest.param(
            ClusterEntry(),
            UserEntry(client_certificate_data="x", client_key_data="y"),
            "unable to load the client certificate and key as a matching PEM pair",
            id="certificate",
        ),
    ],
)
def test_certificates_that_cannot_be_loaded_at_start_are_fatal(
    cluster: ClusterEntry, user: UserEntry, expected: str
) -> None:
    with pytest.raises(OperatorError) as caught:
        Credentials(Access(server="https://api", cluster=cluster, user=user), {}, 0.0)
    assert str(caught.value).startswith(expected)


def test_an_encrypted_key_is_refused_without_asking(tmp_path: Path) -> None:
    begin = "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
    body = base64.b64encode(b"0" * 60).decode()
    pair = make_authority(tmp_path)
    key = tmp_path / "encrypted.key"
    key.write_text(f"{begin}{body}\n-----END ENCRYPTED PRIVATE KEY-----\n")
    user = UserEntry(client_certificate=str(pair.cert), client_key=str(key))
    with pytest.raises(OperatorError, match=f"from {pair.cert} and {key} as a matching PEM pair"):
        Credentials(Access(server="https://api", user=user), {}, 0.0)
