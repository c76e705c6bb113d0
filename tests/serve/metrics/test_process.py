import time

import pytest

from kubeproxy.serve.metrics.process import (
    Usage,
    parse_boot_time,
    parse_octets,
    parse_usage,
    process_families,
    python_families,
    start_family,
    start_time,
)
from serve.metrics.exposed import exposed

STAT = (
    "7 (a (b) c) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 3 0 4200"
    " 204320768 11468 18446744073709551615 1 1 0"
)
NETSTAT = "TcpExt: A B\nTcpExt: 1 2\nIpExt: X InOctets OutOctets\nIpExt: 0 30 40\n"


def test_a_line_of_proc_stat() -> None:
    expected = Usage(cpu=2.0, virtual=204320768, resident=11468 * 4096, started=42.0)
    assert expected == parse_usage(STAT, ticks=100, page=4096)


@pytest.mark.parametrize(
    ("text", "expected"), [(NETSTAT, (30, 40)), ("TcpExt: A\nTcpExt: 1\n", (0, 0))]
)
def test_octets(text: str, expected: tuple[int, int]) -> None:
    assert expected == parse_octets(text)


def test_the_time_of_the_boot() -> None:
    assert parse_boot_time("cpu 1 2\n\nbtime 1794821479\nprocesses 3\n") == 1794821479


async def test_this_process() -> None:
    started = start_time()
    assert time.time() - 3600 * 24 < started <= time.time()
    text = await exposed(start_family(started), *process_families(), *python_families())
    values = {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in text.splitlines())
        if not name.startswith("#")
    }
    assert values["process_start_time_seconds"] == started
    assert values["process_cpu_seconds_total"] > 0
    assert 1e6 < values["process_resident_memory_bytes"] < values["process_virtual_memory_bytes"]
    assert values["process_virtual_memory_max_bytes"] >= values["process_virtual_memory_bytes"]
    assert 3 <= values["process_open_fds"] <= values["process_max_fds"]
    assert values["python_threads"] >= 1
    assert values["python_tasks"] == 1
    assert values['python_gc_collections_total{generation="2"}'] >= 0
    assert any(name.startswith('python_info{implementation="cpython"') for name in values)
