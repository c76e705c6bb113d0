"""A Unix socket: which users are admitted, and which process owns the file."""

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kubeproxy.serve.http import server
from kubeproxy.serve.http.access import SOCKET_PEER
from kubeproxy.serve.http.answer import Answer, text
from kubeproxy.serve.http.listening import ListenError, listen_unix
from kubeproxy.serve.http.request import Request
from kubeproxy.serve.http.server import serve_unix
from waiting import until


def page(request: Request) -> Answer:
    return text(f"{request.path} for {request.peer}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "status.sock"


def is_open(path: Path) -> bool:
    """Whether a process listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        return caller.connect_ex(str(path)) == 0


def is_there(path: Path) -> bool:
    return path.is_socket()


def remove(path: Path) -> None:
    path.unlink()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextlib.asynccontextmanager
async def serving(path: Path) -> AsyncIterator[None]:
    task = asyncio.create_task(serve_unix(str(path), page))
    try:
        await until(lambda: is_open(path))
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def ask(path: Path) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        writer.write(b"GET /status HTTP/1.0\r\n\r\n")
        return await reader.read()
    finally:
        writer.close()


async def test_we_ourselves_are_answered(path: Path) -> None:
    async with serving(path):
        answer = await ask(path)
    assert answer.startswith(b"HTTP/1.0 200 OK\r\n")
    assert answer.endswith(f"/status for {SOCKET_PEER}".encode())


@pytest.mark.parametrize(
    ("caller", "expected"),
    [
        pytest.param(0, True, id="root"),
        pytest.param(1000, True, id="our-own-user"),
        pytest.param(1001, False, id="another-user"),
    ],
)
def test_which_users_are_admitted(
    caller: int, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Client(socket.socket):
        """A client with the credentials that the kernel reports."""

        def getsockopt(self, *_: int) -> bytes:  # type: ignore[override]
            return server._CREDENTIALS.pack(4711, caller, 0)

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with Client(socket.AF_UNIX) as client:
        assert expected == server.is_admitted(client)


async def test_a_user_that_is_not_admitted_gets_no_answer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "is_admitted", lambda _: False)
    async with serving(path):
        with contextlib.suppress(ConnectionError):
            assert await ask(path) == b""


async def test_it_is_ours_alone_and_goes_with_us(path: Path) -> None:
    async with serving(path):
        assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert not is_there(path)


async def test_what_a_process_left_that_is_no_more_is_replaced(path: Path) -> None:
    listen_unix(str(path)).close()
    assert is_there(path)
    async with serving(path):
        assert b"200 OK" in await ask(path)


async def test_another_process_keeps_its_socket(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serving(path):
        await asyncio.wait_for(serve_unix(str(path), page), 5)
        assert (
            f'"The status socket cannot be opened, going on without" err="{path}: another process'
            " has it, or it is no socket; give this process a path of its own (statusSocket,"
            ' --status-socket)"'
        ) in capsys.readouterr().err
        assert b"200 OK" in await ask(path)


async def test_the_socket_of_another_process_stays(path: Path) -> None:
    async with serving(path):
        remove(path)
        other = listen_unix(str(path))
    assert is_there(path)
    other.close()


async def test_another_process_may_remove_it(path: Path) -> None:
    async with serving(path):
        remove(path)
    assert not is_there(path)


def test_a_file_that_is_no_socket_stays(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("mine")
    with pytest.raises(ListenError, match="or it is no socket"):
        listen_unix(str(path))
    assert path.read_text() == "mine"


def test_a_path_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(ListenError, match="AF_UNIX path too long; give this process a path"):
        listen_unix(str(tmp_path / ("a" * 108)))


def test_a_directory_that_cannot_be_had(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ListenError, match=r"file/status\.sock: "):
        listen_unix(str(tmp_path / "file" / "status.sock"))
