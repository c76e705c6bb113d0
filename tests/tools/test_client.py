"""Asking a daemon: which places are tried, and what is reported when none answers."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from fakes.daemon import FakeDaemon, Query, always, serving, unused_port
from kubeproxy.base.errors import FieldError, NoDaemonError, OperatorError
from kubeproxy.config.flagset import parse
from kubeproxy.serve.status.wire import DaemonStatus, FieldProblem
from kubeproxy.tools import client
from kubeproxy.tools.client import FLAGS, Client, ErrorResponse, HungDaemon, NotAllowed, connect
from tools import reported


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[FakeDaemon]:
    with serving(
        FakeDaemon({"/status": always(reported.status())}), tmp_path / "socket"
    ) as daemon:
        yield daemon


def asked(*places: str) -> DaemonStatus:
    return Client(places).get("/status", DaemonStatus)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param([], [client.SOCKET, client.ADDRESS], id="the-usual-places"),
        pytest.param(["--socket=/a"], ["/a"], id="only-this-socket"),
        pytest.param(["--address=::1"], ["::1"], id="only-this-address"),
        pytest.param(["--socket=/a", "--address=b"], ["/a", "b"], id="both-the-socket-first"),
    ],
)
def test_which_places_are_tried(flags: list[str], expected: list[str]) -> None:
    assert expected == connect(parse(FLAGS, flags)).places


def test_over_the_socket(daemon: FakeDaemon) -> None:
    assert reported.status() == asked(daemon.socket)


def test_over_the_address(daemon: FakeDaemon) -> None:
    assert reported.status() == asked(daemon.address)
    assert reported.status() == asked(daemon.address.removeprefix("http://"))


def test_the_next_place_when_one_does_not_answer(daemon: FakeDaemon) -> None:
    assert reported.status() == asked(f"{daemon.socket}.gone", daemon.address)


def test_what_is_asked_arrives_whatever_it_is(daemon: FakeDaemon) -> None:
    daemon.pages["/status/services/a%20b%0D%0A"] = always(reported.status())
    query = {"q": "a&b=c %", "to": ("x", "y")}
    Client([daemon.socket]).get("/status/services/a b\r\n", DaemonStatus, query)
    (arrived,) = daemon.queries("/status/services/a%20b%0D%0A")
    assert arrived == {"q": ["a&b=c %"], "to": ["x", "y"]}


def test_bytes_come_as_they_are(daemon: FakeDaemon) -> None:
    daemon.pages["/status/table"] = always((200, "a line\n"))
    assert Client([daemon.socket]).read("/status/table") == b"a line\n"


def test_an_error_has_the_words_of_the_daemon(daemon: FakeDaemon) -> None:
    daemon.pages["/status"] = always((403, "ask from the node\n"))
    with pytest.raises(ErrorResponse, match=r"^ask from the node$") as raised:
        asked(daemon.socket)
    assert raised.value.exit_code == 1


def test_a_field_that_is_wrong_is_an_option_here(daemon: FakeDaemon) -> None:
    daemon.pages["/status"] = always((400, FieldProblem("no such Service", "to", "crt")))
    with pytest.raises(FieldError, match=r"^--to crt: no such Service$") as raised:
        asked(daemon.socket)
    assert (raised.value.field, raised.value.value) == ("to", "crt")


def test_an_error_of_another_program(daemon: FakeDaemon) -> None:
    daemon.pages["/status"] = always((400, reported.status()))
    assert "another program or version" in str(no_daemon(daemon.socket))


def test_an_error_without_a_text(daemon: FakeDaemon) -> None:
    daemon.pages["/status"] = always((500, ""))
    with pytest.raises(ErrorResponse, match=r"^the daemon answered with status 500$"):
        asked(daemon.socket)


def no_daemon(*places: str) -> NoDaemonError:
    with pytest.raises(NoDaemonError) as raised:
        asked(*places)
    return raised.value


def reasons(error: NoDaemonError) -> list[str]:
    return [line.strip() for line in str(error).splitlines()[1:-1]]


def test_no_daemon(tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{unused_port()}"
    error = no_daemon(f"{tmp_path}/none", address)
    assert error.exit_code == 3
    assert str(error).startswith("no kube-proxy answers here:\n")
    assert str(error).endswith("its metrics address with --address.")
    assert [
        f"{tmp_path}/none: there is no such socket",
        f"{address}: Connection refused",
    ] == reasons(error)


def test_a_socket_that_is_left_over(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert [f"{path}: Connection refused"] == reasons(no_daemon(str(path)))


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        pytest.param((404, "404 page not found\n"), "it has no such page", id="upstreams"),
        pytest.param((200, "<html>"), "is another program or version", id="no-json"),
        pytest.param((200, '{"version": 1}'), "is another program or version", id="other-json"),
    ],
)
def test_another_program_is_no_daemon(
    daemon: FakeDaemon, reply: tuple[int, str], expected: str
) -> None:
    daemon.pages["/status"] = always(reply)
    error = no_daemon(daemon.address)
    assert error.exit_code == 3
    assert expected in str(error)


@contextmanager
def accepting(path: Path, answer: bytes | None) -> Iterator[None]:
    """A server that takes one call, and hangs up after these bytes; None: it does not answer."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        done = threading.Event()

        def take() -> None:
            caller, _ = listening.accept()
            with caller:
                if answer is None:
                    done.wait(30)
                elif answer:
                    caller.recv(65536)
                    caller.sendall(answer)

        thread = threading.Thread(target=take)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def test_something_that_is_no_http(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with accepting(path, b"SSH-2.0\r\n"):
        assert [f"{path}: it does not speak HTTP"] == reasons(no_daemon(str(path)))


def test_a_server_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_HALF", 0.05)
    path = tmp_path / "socket"
    with accepting(path, None):
        error = no_daemon(str(path), "http://127.0.0.1:1")
    assert isinstance(error, HungDaemon)
    assert error.exit_code == 3
    first, process, advice = str(error).splitlines()
    assert first == f"kube-proxy hangs: {path} takes connections, and did not answer within 2 s"
    assert process == f"  process {os.getpid()} runs, and does not get to answer"
    assert "Its rules stay in force" in advice


def test_a_daemon_that_takes_its_time(daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers what is easy meanwhile."""
    monkeypatch.setattr(client, "_HALF", 0.2)
    easy = threading.Event()

    def slow(_: Query) -> DaemonStatus:
        assert easy.wait(30)
        return reported.status()

    def no_page(_: Query) -> tuple[int, str]:
        easy.set()
        return 404, "no such page"

    daemon.pages |= {"/status": slow, "/status/": no_page}
    assert asked(daemon.socket) == reported.status()


def test_a_daemon_whose_queue_is_full(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listening, ExitStack() as callers:
        listening.bind(str(path))
        listening.listen(0)
        caller = callers.enter_context(socket.socket(socket.AF_UNIX))
        caller.connect(str(path))
        error = no_daemon(str(path))
    assert isinstance(error, HungDaemon)


def test_a_daemon_that_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    code = (
        "import os, signal, socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]);"
        " s.listen(); print(flush=True); os.kill(os.getpid(), signal.SIGSTOP)"
    )
    with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE) as stopped:
        assert stopped.stdout is not None
        stopped.stdout.readline()
        os.waitpid(stopped.pid, os.WUNTRACED)
        error = no_daemon(str(path))
        stopped.kill()
    assert f"process {stopped.pid} is stopped by a signal: `kill -CONT {stopped.pid}`" in str(
        error
    )


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="at-once"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", id="in-the-middle"),
    ],
)
def test_a_daemon_that_is_killed_while_it_is_asked(tmp_path: Path, answer: bytes) -> None:
    path = tmp_path / "socket"
    with accepting(path, answer):
        error = no_daemon(str(path))
    assert error.exit_code == 3
    assert [
        f"{path}: the connection was closed before the answer: the daemon has just stopped"
    ] == reasons(error)


def test_a_daemon_that_is_killed_takes_its_socket_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang_up(_: str) -> None:
        raise ConnectionResetError(104, os.strerror(104))

    monkeypatch.setattr(client, "open_connection", hang_up)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert no_daemon(str(tmp_path / "gone")).exit_code == 3


def test_a_daemon_that_hangs_up_does_not_serve_this_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It serves root and the owner of the socket: here the process has another user."""
    path = tmp_path / "socket"
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with accepting(path, b""):
        error = no_daemon(str(path))
    assert isinstance(error, NotAllowed)
    assert error.exit_code == 1
    assert str(error).startswith("permission denied:\n")
    assert [f"{path}: only root and the user of the daemon have access; try sudo"] == reasons(
        error
    )


def test_a_file_that_we_may_not_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may use every file, so the kernel's answer is given by hand here."""

    def refuse(_: str) -> None:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(client, "open_connection", refuse)
    error = no_daemon(str(tmp_path / "socket"))
    assert isinstance(error, NotAllowed)
    assert "try sudo" in str(error)


@pytest.mark.parametrize(
    "place",
    [
        "https://127.0.0.1:10249",
        "http://127.0.0.1:10249/status",
        "http://127.0.0.1:99999",
        "http://[::1:10249",
        "http://",
        "http://this node:10249",
    ],
)
def test_an_address_that_is_none(place: str) -> None:
    with pytest.raises(
        OperatorError, match=r"must be such as http://127\.0\.0\.1:10249"
    ) as raised:
        asked(place)
    assert raised.value.exit_code == 1


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        pytest.param("localhost", ("localhost", 10249), id="only-a-name"),
        pytest.param("[::1]:9", ("::1", 9), id="ipv6-with-a-port"),
        pytest.param("http://10.0.0.1:9/", ("10.0.0.1", 9), id="a-url"),
    ],
)
def test_addresses_in_short(place: str, expected: tuple[str, int]) -> None:
    connection = client.open_connection(place)
    assert expected == (connection.host, connection.port)


def test_an_unknown_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """No name server is asked here, so its answer is given by hand."""

    def unknown(_: str) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(client, "open_connection", unknown)
    assert reasons(no_daemon("kestrl")) == ["kestrl: Name or service not known"]


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
def test_a_host_that_cannot_be(host: str) -> None:
    assert reasons(no_daemon(host)) == [f"{host}: that is not the name of a host"]


@pytest.mark.parametrize("name", ["", "/", "shop/", "/cart", "shop/cart/http"])
def test_a_name_that_no_service_has(daemon: FakeDaemon, name: str) -> None:
    with pytest.raises(OperatorError) as raised:
        Client([daemon.socket]).service(name)
    assert f"no Service has the name {name}: give [NAMESPACE/]NAME" == str(raised.value)
    assert daemon.asked == []


def test_a_path_that_is_none() -> None:
    with pytest.raises(OperatorError, match=r"^--socket status\.sock: must be an absolute path$"):
        connect(parse(FLAGS, ["--socket=status.sock"]))


@pytest.mark.parametrize("command", ["status", "top"])
def test_commands_of_the_daemon_load_nothing_of_a_cluster(command: str, tmp_path: Path) -> None:
    program = (
        "import sys; from kubeproxy.app.cli import main; code = main(sys.argv[1:]);"
        "heavy = {'asyncio', 'aiohttp', 'yaml', 'kubeproxy.cluster', 'kubeproxy.app.daemon'};"
        "print(code, sorted(heavy & set(sys.modules)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, command, f"--socket={tmp_path}/none"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ended.stdout == "3 []\n"
