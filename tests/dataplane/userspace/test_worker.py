"""What workers do with real connections."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dataplane.userspace.proxy import LOOPBACK, SECONDS, Endpoint, Pair, Proxy, proxy, read, reset
from kubeproxy.dataplane.userspace.orders import Close, Settings
from kubeproxy.dataplane.userspace.relay import DIAL_SECONDS
from kubeproxy.dataplane.userspace.workers import Worker, WorkerEnded

MEGABYTE = 1 << 20


Listen = Callable[..., Endpoint]


@pytest.fixture
def listen() -> Iterator[Listen]:
    """Opens endpoints."""
    with contextlib.ExitStack() as stack:
        yield lambda backlog=100: stack.enter_context(Endpoint(backlog))


@pytest.fixture
def pair(listen: Listen) -> Iterator[Pair]:
    """The two ends of a connection."""
    endpoint = listen()
    with proxy(endpoint.address) as opened, opened.dial() as client, endpoint.accept() as server:
        yield Pair(client, server)


# --- TCP --------------------------------------------------------------------------------------


def test_each_half_ends_by_itself(pair: Pair) -> None:
    pair.client.sendall(b"question")
    pair.client.shutdown(socket.SHUT_WR)
    assert read(pair.server, 100) == b"question"  # and then the end
    pair.server.sendall(b"answer")
    pair.server.shutdown(socket.SHUT_WR)
    assert read(pair.client, 100) == b"answer"


@pytest.mark.parametrize("breaking", [0, 1], ids=["the-client", "the-endpoint"])
def test_one_that_breaks_off_is_a_reset_for_the_other(pair: Pair, breaking: int) -> None:
    pair[1 - breaking].sendall(b"half")
    assert read(pair[breaking], 4) == b"half"
    reset(pair[breaking])
    with pytest.raises(ConnectionResetError):
        pair[1 - breaking].recv(1)


def test_much_goes_through_unharmed_both_ways_at_once(pair: Pair) -> None:
    data = os.urandom(MEGABYTE) * 24
    senders = [threading.Thread(target=end.sendall, args=(data,)) for end in pair]
    found: list[bytes] = []
    readers = [
        threading.Thread(target=lambda end=end: found.append(read(end, len(data)))) for end in pair
    ]
    for thread in (*senders, *readers):
        thread.start()
    for thread in (*senders, *readers):
        thread.join(SECONDS)
    assert [each == data for each in found] == [True, True]


def test_a_refusal_leads_to_the_next_endpoint(listen: Listen) -> None:
    endpoint = listen()
    with socket.socket() as closed:
        closed.bind((LOOPBACK, 0))
        with proxy(closed.getsockname(), endpoint.address) as opened:
            for _ in range(4):
                with opened.dial() as client, endpoint.accept() as server:
                    server.sendall(b"x")
                    assert client.recv(1) == b"x"


@contextlib.contextmanager
def full(listen: Listen) -> Iterator[Endpoint]:
    """An endpoint that accepts no further connections, and does not refuse them either."""
    endpoint = listen(backlog=0)
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(endpoint.address)
        yield endpoint


def test_silence_leads_to_the_next_endpoint_after_a_quarter_of_a_second(listen: Listen) -> None:
    endpoint = listen()
    with full(listen) as silent, proxy(silent.address, endpoint.address) as opened:
        begun = time.monotonic()
        with opened.dial(), endpoint.accept():
            assert time.monotonic() - begun >= DIAL_SECONDS[0]


def test_silence_everywhere_is_a_reset_after_all_tries(listen: Listen) -> None:
    assert DIAL_SECONDS == (0.25, 0.5, 1.0, 2.0)
    with full(listen) as silent, proxy(silent.address) as opened:
        begun = time.monotonic()
        with opened.dial() as client:
            with pytest.raises(ConnectionResetError):
                client.recv(1)
            assert time.monotonic() - begun >= sum(DIAL_SECONDS)


def test_a_stream_goes_on_while_endpoints_change_and_the_listener_closes(listen: Listen) -> None:
    first, second = listen(), listen()
    with proxy(first.address) as opened, opened.dial() as client, first.accept() as server:
        sent = bytearray()
        for number in range(200):
            opened.lead_to(*((first.address, second.address)[: number % 3]))
            data = bytes([number]) * 5000
            client.sendall(data)
            sent += data
            assert read(server, len(data)) == data
        opened.lead_to(second.address)
        with opened.dial(), second.accept():  # the same port, the other endpoint
            pass
        opened.tell(Close(1))
        client.sendall(b"after")
        assert read(server, 5) == b"after"
        with pytest.raises(ConnectionRefusedError):
            opened.dial()


def test_without_endpoints_a_connection_is_reset() -> None:
    with proxy() as opened, pytest.raises(ConnectionResetError), opened.dial() as client:
        client.recv(1)


def memory_of(pid: int) -> int:
    """The resident memory of a process, in bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def test_a_slow_reader_makes_the_sender_wait_and_costs_no_memory(listen: Listen) -> None:
    endpoint = listen()
    with proxy(endpoint.address) as opened, opened.dial() as client, endpoint.accept() as server:
        client.sendall(bytes(MEGABYTE))
        assert len(read(server, MEGABYTE)) == MEGABYTE
        before = memory_of(opened.worker.pid)
        client.setblocking(False)
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while sent < 512 * MEGABYTE:
                if not select.select((), (client,), (), 1.0)[1]:
                    break
                sent += client.send(bytes(MEGABYTE))
        assert sent < 256 * MEGABYTE, "nobody made it wait"
        assert memory_of(opened.worker.pid) - before < 8 * MEGABYTE
        client.settimeout(SECONDS)
        assert len(read(server, sent)) == sent


def test_without_descriptors_clients_wait_and_are_served_afterwards(
    listen: Listen,
    capfd: pytest.CaptureFixture[str],
) -> None:
    endpoint = listen()
    with proxy(endpoint.address) as opened, contextlib.ExitStack() as stack:
        used = len(list(Path(f"/proc/{opened.worker.pid}/fd").iterdir()))
        opened.limit_descriptors(used + 7)
        clients = [stack.enter_context(opened.dial()) for _ in range(8)]
        said = ""
        deadline = time.monotonic() + SECONDS
        while "Out of file descriptors" not in said:
            assert time.monotonic() < deadline
            said += capfd.readouterr().err
        assert "ulimit -n" in said
        assert "shop/cart:http" in said
        opened.limit_descriptors(1024)
        for _ in clients:
            stack.enter_context(endpoint.accept())


# --- UDP --------------------------------------------------------------------------------------


@contextlib.contextmanager
def datagrams(*, timeout: float = SECONDS) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.bind((LOOPBACK, 0))
        opened.settimeout(timeout)
        yield opened


def test_a_client_of_udp_keeps_its_endpoint_until_it_is_idle() -> None:
    with (
        datagrams() as first,
        datagrams() as second,
        datagrams() as client,
        proxy(first.getsockname(), second.getsockname(), tcp=False, idle=0.5) as opened,
    ):
        for text in (b"one", b"two"):
            client.sendto(text, opened.address)
            data, sender = first.recvfrom(100)
            assert data == text
        first.sendto(b"answer", sender)
        assert client.recvfrom(100) == (b"answer", opened.address)
        while opened.worker.counted().taken:
            pass
        client.sendto(b"three", opened.address)
        assert second.recv(100) == b"three"


def test_a_client_of_udp_leaves_an_endpoint_that_goes() -> None:
    with (
        datagrams() as first,
        datagrams() as second,
        datagrams() as client,
        proxy(first.getsockname(), tcp=False, idle=60) as opened,
    ):
        client.sendto(b"one", opened.address)
        assert first.recv(100) == b"one"
        opened.lead_to(second.getsockname())
        client.sendto(b"two", opened.address)
        assert second.recv(100) == b"two"


def test_clients_of_udp_get_the_answers_to_their_own_questions() -> None:
    with (
        datagrams() as endpoint,
        datagrams() as one,
        datagrams() as other,
        proxy(endpoint.getsockname(), tcp=False, idle=60) as opened,
    ):
        for client in (one, other):
            client.sendto(str(client.getsockname()[1]).encode(), opened.address)
        for _ in range(2):
            endpoint.sendto(*endpoint.recvfrom(100))
        for client in (one, other):
            assert client.recv(100) == str(client.getsockname()[1]).encode()


# --- processes --------------------------------------------------------------------------------


def test_with_several_workers_a_client_keeps_its_endpoint(listen: Listen) -> None:
    endpoints = [listen() for _ in range(3)]
    addresses = [each.address for each in endpoints]
    with proxy(*addresses, count=3, affinity=100) as opened:
        taken = set()
        for host in range(1, 25):
            reached = {who_accepts(opened, f"127.0.0.{host}", endpoints) for _ in range(4)}
            assert len(reached) == 1
            taken |= reached
        assert len(taken) > 1
        counts = [worker.counted().listeners[1] for worker in opened.pool.workers]
        assert min(counts) > 0, "one process had no client at all"


def who_accepts(opened: Proxy, source: str, endpoints: list[Endpoint]) -> int:
    with opened.dial(source):
        ready = select.select([each.socket for each in endpoints], (), (), SECONDS)[0]
        number = next(n for n, each in enumerate(endpoints) if each.socket is ready[0])
        endpoints[number].accept().close()
        return number


def test_a_worker_that_is_killed_is_noticed_and_replaced(listen: Listen) -> None:
    endpoint = listen()
    with proxy(endpoint.address) as opened:
        pid = opened.worker.pid
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(WorkerEnded, match=f"worker {pid} does not answer"):
            opened.lead_to(endpoint.address)
        (fresh,) = opened.pool.replace_ended()
        assert fresh is opened.worker
        assert fresh.pid != pid
        assert fresh.counted().taken == 0
        assert list(opened.pool.replace_ended()) == []


DAEMON = """
import os, signal
from kubeproxy.dataplane.userspace.orders import Settings
from kubeproxy.dataplane.userspace.workers import Worker
worker = Worker(Settings(0.25))
worker.counted()
print(worker.pid, flush=True)
signal.pause()
"""


def test_workers_end_with_their_daemon_however_it_ends() -> None:
    daemon = subprocess.Popen([sys.executable, "-c", DAEMON], stdout=subprocess.PIPE, text=True)
    assert daemon.stdout is not None
    pid = int(daemon.stdout.readline())
    descriptor = os.pidfd_open(pid)
    daemon.kill()
    daemon.wait()
    assert select.select((descriptor,), (), (), SECONDS)[0], "the worker lives on"
    os.close(descriptor)
    daemon.stdout.close()


def test_ctrl_c_is_for_the_daemon() -> None:
    worker = Worker(Settings(0.25))
    try:
        worker.counted()  # it has begun
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(worker.pid, number)
        assert worker.counted().taken == 0
    finally:
        worker.close()
    assert worker.has_ended()
