"""A kernel that refuses a service, or everything: which services suffer, and which do not."""

import asyncio
import errno
from collections.abc import Sequence

import pytest

from dataplane.nftables.plane import Plane, expected_elements, service
from fakes.nftables import FakeNftables
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import pack
from kubeproxy.dataplane.nftables import elements, names, pins
from kubeproxy.dataplane.nftables.elements import frontend_key, head, pin_bytes, tail
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.linux.nfnetlink import GenerationChanged
from kubeproxy.table.entries import Backend, Entry

A, B, C = service("a", 1), service("b", 2), service("c", 3)


# --- refusals ---------------------------------------------------------------------------------


def key_of(entry: Entry) -> tuple[str, bytes]:
    return names.SERVICE_CHOICES, head(frontend_key(entry.frontends[0], entry.protocol))


async def test_a_service_that_is_refused_is_named_and_the_others_are_programmed(
    plane: Plane,
) -> None:
    plane.kernel.ruleset.refused[key_of(B)] = errno.ENOSPC
    report = await plane.sync(A, B, C, full=True)
    assert [B.name] == list(report.failed)
    assert "No space left on device" in report.failed[B.name]
    assert expected_elements(A, C) == plane.elements


async def test_it_is_programmed_when_the_kernel_relents(plane: Plane) -> None:
    plane.kernel.ruleset.refused[key_of(B)] = errno.ENOSPC
    await plane.sync(A, B, C, full=True)
    assert [B.name] == list((await plane.sync(A, B, C)).failed)
    plane.kernel.ruleset.refused.clear()
    assert (await plane.sync(A, B, C)).failed == {}
    assert expected_elements(A, B, C) == plane.elements


async def test_a_refused_service_does_not_hold_up_changes_of_others(plane: Plane) -> None:
    plane.kernel.ruleset.refused[key_of(B)] = errno.ENOSPC
    await plane.sync(A, B, full=True)
    report = await plane.sync(service("a", 1, 5), B, C)
    assert [B.name] == list(report.failed)
    assert expected_elements(service("a", 1, 5), C) == plane.elements


async def test_a_refused_service_that_goes_away_is_no_longer_tried(plane: Plane) -> None:
    plane.kernel.ruleset.refused[key_of(B)] = errno.ENOSPC
    await plane.sync(A, B, full=True)
    assert (await plane.sync(A)).failed == {}
    assert expected_elements(A) == plane.elements


async def test_several_services_can_be_refused(plane: Plane) -> None:
    entries = [service(f"s{number}", number) for number in range(1, 12)]
    for entry in entries[:10]:
        plane.kernel.ruleset.refused[key_of(entry)] = errno.ENOSPC
    report = await plane.sync(*entries, full=True)
    assert {entry.name for entry in entries[:10]} == set(report.failed)
    assert expected_elements(entries[10]) == plane.elements


async def test_a_kernel_that_refuses_half_the_cluster_is_a_failure_of_the_whole(
    plane: Plane,
) -> None:
    entries = [service(f"s{number}", number) for number in range(1, 30)]
    for entry in entries:
        plane.kernel.ruleset.refused[key_of(entry)] = errno.ENOSPC
    with pytest.raises(KernelError):
        await plane.sync(*entries, full=True)


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOMEM])
async def test_a_kernel_that_refuses_everything_is_reported(plane: Plane, number: int) -> None:
    plane.kernel.broken = number
    with pytest.raises(Refused):
        await plane.sync(A, full=True)
    plane.kernel.broken = 0
    await plane.sync(A, full=True)
    assert expected_elements(A) == plane.elements


async def test_an_element_of_no_single_service_is_a_failure_of_the_whole(plane: Plane) -> None:
    plane.kernel.ruleset.refused[names.CLUSTER_IPS, head(pack("10.112.0.1"))] = errno.ENOSPC
    with pytest.raises(Refused, match="No space left"):
        await plane.sync(A, full=True)


async def test_a_chain_that_is_refused_is_a_failure_of_the_whole(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    await plane.sync(full=True)
    monkeypatch.setattr("fakes.ruleset.LONGEST_NAME", 3)
    with pytest.raises(Refused, match="Numerical result out of range"):
        await plane.sync(A, full=True)


async def test_a_table_whose_changes_are_refused_is_replaced_in_one_transaction(
    plane: Plane, capsys: pytest.CaptureFixture[str]
) -> None:
    await plane.sync(A, full=True)
    plane.kernel.stubborn = True
    report = await plane.sync(A, B, full=True)
    assert (report.failed, plane.commits) == ({}, 2)
    assert expected_elements(A, B) == plane.elements
    said = capsys.readouterr().err
    assert "Changes of rules refused again, replacing the whole table" in said
    plane.kernel.stubborn = False
    assert (await plane.sync(A, B, full=True)).written == 0


@pytest.mark.parametrize("times", [1, 4])
async def test_others_may_be_faster_a_few_times(plane: Plane, times: int) -> None:
    plane.kernel.others = times
    await plane.sync(A, full=True)
    assert expected_elements(A) == plane.elements


async def test_others_that_are_always_faster_are_a_failure(plane: Plane) -> None:
    plane.kernel.others = 5
    with pytest.raises(GenerationChanged):
        await plane.sync(A, full=True)
    assert plane.kernel.others == 0


# --- clients that are kept --------------------------------------------------------------------


STICKY = service("s", 4, affinity=60)
PIN = head((1).to_bytes(4, "little") + pack("192.0.2.50"))


def pin_to(plane: Plane, backend: Backend) -> dict[bytes, bytes]:
    held = plane.table.sets[names.AFFINITY].elements
    held[PIN] = tail(pin_bytes(backend))
    return held


async def test_pins_are_forgotten_with_their_service(plane: Plane) -> None:
    await plane.sync(STICKY, full=True)
    pin_to(plane, STICKY.cluster[1])
    await plane.sync(service("s", 4, 1, affinity=60))
    await plane.nftables.pins.settle()
    assert PIN in plane.table.sets[names.AFFINITY].elements
    await plane.sync(service("s", 4, 1))
    await plane.nftables.pins.settle()
    assert plane.table.sets[names.AFFINITY].elements == {}


async def test_a_sync_waits_for_no_pins(plane: Plane) -> None:
    """It ends without giving way, while the task that forgets them is due."""
    await plane.sync(STICKY, full=True)
    pin_to(plane, STICKY.cluster[1])
    running = asyncio.create_task(plane.nftables.pins.run())
    await asyncio.sleep(0)
    with pytest.raises(StopIteration):
        plane.sync(A).send(None)
    assert PIN in plane.table.sets[names.AFFINITY].elements
    running.cancel()


@pytest.mark.parametrize("counts", [(3, 1, 3), (1, 2, 1), (2, 3, 2, 1)])
async def test_endpoints_with_the_same_hash_keep_nothing_from_being_programmed(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, counts: Sequence[int]
) -> None:
    monkeypatch.setattr(elements, "pin_bytes", lambda _: b"same")
    await plane.sync(STICKY, full=True)
    for count in counts:
        wanted = service("s", 4, count, affinity=60)
        assert (await plane.sync(wanted)).failed == {}
        assert (await plane.sync(wanted, full=True)).failed == {}
        assert expected_elements(wanted) == plane.elements


async def test_pins_that_cannot_be_forgotten_now_do_not_pass_to_another_service(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next service to be numbered does not get the number of the one that left."""
    await plane.sync(STICKY, full=True)
    pin_to(plane, STICKY.cluster[0])
    busy = FakeNftables(plane.kernel.ruleset)
    busy.broken = errno.EINTR
    monkeypatch.setattr(pins, "Nfnetlink", lambda: busy)
    await plane.sync()
    with pytest.raises(KernelError):
        await plane.nftables.pins.settle()
    await plane.sync(service("t", 5, affinity=60), full=True)
    (number,) = plane.table.sets[names.SERVICE_AFFINITY].elements.values()
    (pinned,) = plane.table.sets[names.AFFINITY].elements
    assert number[-4:] != pinned[-4:]
    busy.broken = 0
    plane.nftables.pins.forget()
    await plane.nftables.pins.settle()
    assert plane.table.sets[names.AFFINITY].elements == {}
