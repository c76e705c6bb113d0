"""Watches and lists in protobuf: whatever the bytes are, nothing is raised."""

from cluster.apijson import listed
from cluster.recorded import OBJECTS, protobuf
from fakes.apiprotobuf import event_frame
from fuzz.rounds import fuzz_bytes
from kubeproxy.cluster.client.resources import ENDPOINT_SLICES, SERVICES, Resource, own_node
from kubeproxy.cluster.client.status import decode_status
from kubeproxy.cluster.objects.protobuf import unwrapped
from kubeproxy.cluster.watch.listwatch import ListWatch
from kubeproxy.cluster.watch.protobuf_wire import PROTOBUF

SEEDS = [
    protobuf("watch"),
    protobuf("list"),
    protobuf("missing"),
    *(event_frame("ADDED", kind, unwrapped(data)) for kind, _, data in OBJECTS),
    *(event_frame("DELETED", kind, unwrapped(data)) for kind, _, data in OBJECTS[:3]),
]


def follow(resource: Resource, data: bytes) -> None:
    """As a stream that is cut in the middle, and as a list."""
    watch = ListWatch(resource)
    watch.next_request(0.0, 0.5)
    watch.opened(0.0, PROTOBUF)
    for chunk in (data[: len(data) // 2], data[len(data) // 2 :]):
        list(watch.receive(chunk))
    watch.closed(1.0)
    watch.next_request(2.0, 0.5)
    whole = ListWatch(resource, watch_list=False)
    whole.next_request(0.0, 0.5)
    listed(whole, data, PROTOBUF)


def test_protobuf() -> None:
    def check(data: bytes) -> None:
        for resource in (SERVICES, ENDPOINT_SLICES, own_node("kestrel")):
            follow(resource, data)
        decode_status(data)

    assert fuzz_bytes(SEEDS, check)
