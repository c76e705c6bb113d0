"""Why endpoints are left out, and who runs here whatever its state.

What is compiled otherwise is tested by the worked cases and by `cases/`.
"""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from msgspec.structs import replace

from kubeproxy.base.healing import Healing
from kubeproxy.base.inet import Family, Prefix, Protocol, contains
from kubeproxy.base.steps import finish
from kubeproxy.cluster.model.endpoint import Endpoint, Slice, SlicePort
from kubeproxy.cluster.model.serviceport import HEALING_ANNOTATION
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.table import compile as compiling
from kubeproxy.table.compile import compile_service
from kubeproxy.table.entries import Entry
from world import CART, Document, cluster_of, endpoint_slice, seen_by, service, table_of


@pytest.mark.parametrize(
    "state",
    ["", ":unready", ":draining", ":stopped"],
    ids=["ready", "unready", "draining", "stopped"],
)
def test_who_runs_here_does_not_depend_on_its_state(state: str) -> None:
    table = table_of(service(), endpoint_slice(f"L1{state} L2 R1"))
    (entry,) = table.entries.values()
    assert list(map(str, entry.here)) == ["10.64.3.11:8080", "10.64.3.12:8080"]


class Counted(tuple[SlicePort, ...]):
    """Ports of a slice that count how many of them are looked at."""

    __slots__ = ()
    seen = 0

    def __iter__(self) -> Iterator[SlicePort]:
        Counted.seen += len(self)
        return super().__iter__()

    def __getitem__(self, which: Any) -> Any:  # as a tuple has it
        found = super().__getitem__(which)
        Counted.seen += len(found) if isinstance(which, slice) else 1
        return found


def test_the_ports_of_a_slice_are_gone_through_once_for_all_ports_of_the_service() -> None:
    """A Service and its slices may have 20,000 ports each."""
    names = [f"p{number}" for number in range(50)]
    ports = [{"name": name, "port": number} for number, name in enumerate(names, 1)]
    cluster = cluster_of(service({"ports": ports}))
    slice_ = Slice(
        CART,
        Family.IPV4,
        Counted(SlicePort(name, Protocol.TCP, 8000) for name in names),
        (Endpoint("10.65.7.21"),),
    )
    service_ports = cluster.service_ports(Family.IPV4, CART)
    found = finish(compile_service(CART, service_ports, {"cart-1": slice_}, seen_by(cluster)))
    assert [len(entry.cluster) for entry in found.entries] == [1] * 50
    assert Counted.seen == 50


def ports_of(count: int) -> list[Document]:
    return [{"name": f"p{number}", "port": number + 1} for number in range(count)]


def slices_of(count: int, ports: int = 1) -> list[Document]:
    """Slices of a thousand endpoints at most; one of them is on this node."""
    addresses = [f"10.65.{number >> 8}.{number & 255}" for number in range(count)]
    return [
        endpoint_slice(
            spec={
                "ports": ports_of(ports),
                "endpoints": [
                    {"addresses": [each], "nodeName": "heron" if start else "kestrel"}
                    for each in addresses[start : start + 1000]
                ],
            },
            name=f"cart-{start}",
        )
        for start in range(0, count, 1000)
    ]


def test_thousands_of_endpoints_come_out_as_those_of_a_plain_sort() -> None:
    """Runs are sorted in steps, and lists are made in parts."""
    table = table_of(service({"ports": ports_of(1)}), *slices_of(9500))
    (entry,) = table.entries.values()
    addresses = [backend.address for backend in entry.cluster]
    assert sorted(f"10.65.{number >> 8}.{number & 255}:1" for number in range(9500)) == [
        f"{address}:1" for address in addresses
    ]
    assert (entry.endpoints, sum(backend.local for backend in entry.cluster)) == (9500, 1000)


def test_slices_that_change_between_the_steps_are_for_the_next_time() -> None:
    cluster = cluster_of(service({"ports": ports_of(2)}), *slices_of(1500, ports=2))
    ports = cluster.service_ports(Family.IPV4, CART)
    slices = cluster.slices(Family.IPV4, CART)
    steps = compile_service(CART, ports, slices, seen_by(cluster))
    next(steps)
    for key in [*slices]:
        cluster.delete(Kind.ENDPOINT_SLICE, ObjectKey("shop", key))
    assert [len(entry.cluster) for entry in finish(steps).entries] == [1500, 1500]


def test_source_ranges_are_gone_through_once_for_all_ports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A Service may have thousands of both."""
    asked: list[Prefix] = []

    def counting(prefix: Prefix, address: str) -> bool:
        asked.append(prefix)
        return contains(prefix, address)

    monkeypatch.setattr(compiling, "contains", counting)
    cluster = cluster_of(
        service(
            {
                "ports": [{"name": f"p{n}", "port": n} for n in range(1, 21)],
                "loadBalancerSourceRanges": [f"10.{n}.0.0/16" for n in range(30)],
            }
        )
    )
    ports = cluster.service_ports(Family.IPV4, CART)
    here = replace(seen_by(cluster), ip="10.29.0.1")
    compiled = finish(compile_service(CART, ports, {}, here))
    assert len(asked) == 30
    assert [entry.own_vips for entry in compiled.entries] == [True] * 20


# --- healing ----------------------------------------------------------------------------------

POD: Document = {"targetRef": {"kind": "Pod", "name": "p"}}


def healed(parts: str, *documents: Document, ports: list[Document] | None = None) -> Entry:
    annotations = {HEALING_ANNOTATION: parts}
    metadata = {"namespace": "shop", "name": "cart", "annotations": annotations}
    spec: Document = {"selector": {"app": "cart"}, **({"ports": ports} if ports else {})}
    table = table_of({**service(spec), "metadata": metadata}, *documents)
    (entry,) = table.entries.values()
    return entry


def pods(names: str, spec: Document = POD) -> Document:
    """A slice of which all endpoints have something more."""
    made = endpoint_slice(names)
    endpoints = cast("list[Document]", made["endpoints"])
    return {**made, "endpoints": [{**each, **spec} for each in endpoints]}


def test_a_service_asks_for_healing() -> None:
    entry = healed("retryRefused,eject", pods("L1 R1"))
    assert entry.healing == Healing.RETRY_REFUSED | Healing.EJECT
    assert entry.pods == ()


def test_the_node_decides_for_services_that_do_not_say() -> None:
    cluster = cluster_of(service(), endpoint_slice("L1 R1"))
    node = replace(seen_by(cluster), healing=Healing.RETRY_REFUSED)
    ports, slices = cluster.service_ports(Family.IPV4, CART), cluster.slices(Family.IPV4, CART)
    (entry,) = finish(compile_service(CART, ports, slices, node)).entries
    assert entry.healing == Healing.RETRY_REFUSED


def test_only_tcp_is_healed() -> None:
    ports: list[Document] = [{"name": "http", "port": 80, "protocol": "UDP"}]
    assert healed("all", ports=ports).healing == Healing.NONE


def test_the_pods_of_a_service_are_those_in_any_state() -> None:
    entry = healed("resetGone", pods("L1 L2:unready R1:draining R2:stopped"))
    assert list(map(str, entry.pods)) == [
        "10.64.3.11:8080",
        "10.64.3.12:8080",
        "10.65.7.21:8080",
        "10.66.9.31:8080",
    ]
    assert entry.has_selector


def test_pods_that_all_serve_are_kept_once() -> None:
    entry = healed("resetGone", pods("L1 R1"))
    assert entry.pods is entry.cluster


@pytest.mark.parametrize("spec", [{}, {"targetRef": {"kind": "Node", "name": "n"}}])
def test_who_is_no_pod(spec: Document) -> None:
    assert healed("resetGone", pods("L1 R1", spec)).pods == ()


def ejecting(parts: str, endpoints: str, *out: str, spec: Document | None = None) -> Entry:
    annotations = {HEALING_ANNOTATION: parts}
    metadata = {"namespace": "shop", "name": "cart", "annotations": annotations}
    cluster = cluster_of({**service(spec), "metadata": metadata}, endpoint_slice(endpoints))
    ports, slices = cluster.service_ports(Family.IPV4, CART), cluster.slices(Family.IPV4, CART)
    ejected = {(address, 8080) for address in out}
    (entry,) = finish(compile_service(CART, ports, slices, seen_by(cluster), ejected)).entries
    return entry


L1, R1 = "10.64.3.11", "10.65.7.21"


def test_an_endpoint_that_fails_is_left_out() -> None:
    entry = ejecting("all", "L1 L2 R1", R1)
    assert list(map(str, entry.cluster)) == ["10.64.3.11:8080", "10.64.3.12:8080"]
    assert list(map(str, entry.ejected)) == ["10.65.7.21:8080"]
    assert entry.has_endpoints


@pytest.mark.parametrize("out", [(L1, R1), (L1, R1, "10.9.9.9")])
def test_a_list_is_never_emptied(out: tuple[str, ...]) -> None:
    entry = ejecting("all", "L1 R1", *out)
    assert list(map(str, entry.cluster)) == ["10.64.3.11:8080", "10.65.7.21:8080"]
    assert entry.ejected == ()


def test_the_list_of_this_node_is_never_emptied_either() -> None:
    entry = ejecting("all", "L1 R1", L1, spec={"internalTrafficPolicy": "Local"})
    assert list(map(str, entry.local)) == ["10.64.3.11:8080"]
    assert entry.ejected == ()


def test_who_does_not_ask_for_it_keeps_all() -> None:
    assert ejecting("retryRefused", "L1 R1", R1).ejected == ()
