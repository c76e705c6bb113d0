import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from kubeproxy.base.errors import KernelError
from kubeproxy.serve.metrics import registry as module
from kubeproxy.serve.metrics.families import Gauge, reading
from kubeproxy.serve.metrics.registry import Registry

Series = Iterator[tuple[tuple[str, ...], float]]


async def text_of(registry: Registry) -> str:
    return "".join([piece async for piece in registry.expose()])


def test_a_name_belongs_to_one_family() -> None:
    registry = Registry()
    registry.add(Gauge("g", ""))
    with pytest.raises(ValueError, match="g: there is a family of this name already"):
        registry.add(Gauge("g", ""))


async def test_families_are_sorted_by_name() -> None:
    registry = Registry()
    registry.add(Gauge("b", ""), Gauge("a", ""))
    assert [line for line in (await text_of(registry)).splitlines() if line[0] != "#"] == [
        "a 0",
        "b 0",
    ]


async def test_a_large_family_comes_in_pieces_and_others_have_their_turn() -> None:
    registry = Registry()
    rows = [((str(number),), float(number)) for number in range(1700)]
    registry.add(
        reading("a", "", lambda: rows, "n"),
        reading("b", "", lambda: rows, "n"),
    )
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    pieces = [piece async for piece in registry.expose()]
    task.cancel()
    assert turns >= len(pieces) - 1 == 6
    assert max(piece.count("\n") for piece in pieces) <= module.PIECE + 4
    values = [line.split()[1] for line in "".join(pieces).splitlines() if line[0] != "#"]
    assert values == 2 * [str(number) for number in range(1700)]


async def test_what_asks_the_kernel_is_read_in_a_thread_of_its_own() -> None:
    registry = Registry()
    names: list[str] = []

    def read() -> Series:
        names.append(threading.current_thread().name)
        yield (), 1.0

    registry.add(*(reading(name, "", read) for name in ("a", "b")), in_thread=True)
    assert "a 1\n" in await text_of(registry)
    assert names == ["scrape_0", "scrape_0"]
    registry.close()


def refuse() -> Series:
    raise KernelError("no such table")
    yield


def dawdle() -> Series:
    time.sleep(0.3)
    yield (), 1.0


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        pytest.param(refuse, 'it cannot be read" err="no such table" metric="a"', id="refused"),
        pytest.param(dawdle, 'reading it took too long" metric="a"', id="slow"),
    ],
)
async def test_a_family_that_cannot_be_read_is_left_out_and_named(
    read: object,
    reason: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    assert callable(read)
    registry = Registry()
    registry.add(reading("a", "", read), in_thread=True)
    registry.add(Gauge("b", "y"))
    assert await text_of(registry) == "# HELP b y\n# TYPE b gauge\nb 0\n"
    assert reason in capsys.readouterr().err
    registry.close()


def test_a_registry_that_was_never_asked_has_nothing_to_give_back() -> None:
    Registry().close()
