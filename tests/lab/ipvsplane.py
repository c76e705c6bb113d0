"""ipvs mode driven by the test itself, without a daemon: any scheduler, any pace of draining."""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from kubeproxy.base.inet import Family, Protocol, pack
from kubeproxy.dataplane.contract import Update
from kubeproxy.dataplane.ipvs.apply import IpvsDataplane
from kubeproxy.dataplane.ipvs.prepare import prepare
from kubeproxy.dataplane.ipvs.settings import IpvsSettings
from kubeproxy.linux.ipvs import Ipvs
from kubeproxy.linux.xtables import Xtables
from kubeproxy.table.diff import diff, patch
from kubeproxy.table.entries import Backend, Entry, Table
from lab.connection import Connection
from lab.dialer import Dialer
from lab.entries import served, service_ip
from lab.ipvs import reals
from lab.network import Network
from lab.outcome import Outcome, Probe
from lab.plan import HOSTS, NODE_NAME_OF, crowd
from waiting import until
from world import NODE_NAME, Mode, node

DRAIN_PERIOD = 0.1
NUMBER = 21
_RELEASE = "6.1"


def endpoint(name: str, family: Family) -> Backend:
    """An endpoint of the plan."""
    return Backend(HOSTS[name].address(family), 8080, NODE_NAME_OF[name] == NODE_NAME)


class Plane:
    """One family of ipvs mode on kestrel, and one service: names of the plan are its endpoints."""

    def __init__(self, network: Network, family: Family, settings: IpvsSettings) -> None:
        self.network = network
        self.family = family
        self.address = service_ip(NUMBER, family)
        self._dialer = Dialer(network)
        self._open: list[Connection] = []
        self._table = Table(family)
        self._runner = asyncio.Runner()
        self._full = True
        self.settings = settings
        tuned = msgspec.structs.replace(settings, drain_period=DRAIN_PERIOD)
        with network.node.entered():
            servers = Ipvs()
            prepare(servers, tuned, _RELEASE)
            self._dataplane = IpvsDataplane(tuned, servers, Xtables(family))

    def serve(self, endpoints: str, protocol: Protocol = Protocol.TCP) -> None:
        """Have the service have these endpoints."""
        found = [endpoint(name, self.family) for name in endpoints.split()]
        self.put(served(NUMBER, found, self.family, protocol))

    def put(self, *entries: Entry) -> None:
        """These are all entries now."""
        wanted = Table(self.family)
        for entry in entries:
            wanted.put(entry)
        changes = diff(self._table, wanted)
        patch(self._table, changes)
        update = Update(self._table, node(Mode.IPVS, self.family), changes, self._full)
        with self.network.node.entered():
            report = self._runner.run(self._dataplane.apply(update))
            if self.family is Family.IPV6:
                addresses = [address for each in entries for address in _addresses(each)]
                self._runner.run(until(lambda: all(map(_is_at_work, addresses))))
        assert report.failed == {}
        self._full = False

    def look_after(self) -> None:
        """Let the dataplane look at who drains, once or a few times."""

        async def watch() -> None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._dataplane.watch(lambda _: None), 3 * DRAIN_PERIOD)

        with self.network.node.entered():
            self._runner.run(watch())

    def weights(self, protocol: Protocol = Protocol.TCP) -> dict[str, int]:
        """The real servers by name, with their weights."""
        found = reals(self.network.node, self.address, 80, protocol)
        names = {host.address(self.family): host.name for host in HOSTS.values()}
        return {names[address]: weight for address, weight in found.items()}

    def connect(self, source: str = "P", protocol: Protocol = Protocol.TCP) -> Connection:
        """A connection to the service that stays."""
        opened = Connection(self._dialer.open(self._probe(source, protocol)))
        self._open.append(opened)
        return opened

    def dial(self, count: int, source: str = "P", protocol: Protocol = Protocol.TCP) -> list[str]:
        """Who answers that many connections, one after the other."""
        probe = self._probe(source, protocol)
        return [_who(self._dialer.dial([probe])[0]) for _ in range(count)]

    def dial_crowd(self, count: int) -> list[str]:
        """Who answers each of that many clients."""
        probes = [
            Probe("X", crowd(number, self.family), self.address, 80) for number in range(count)
        ]
        return [_who(outcome) for outcome in self._dialer.dial(probes)]

    def dial_from(self, port: int, addresses: Sequence[str]) -> list[str]:
        """Who answers at each address when the client uses that port."""
        source = HOSTS["P"].address(self.family)
        found = []
        for address in addresses:
            probe = Probe("P", source, address, 80)
            opened = Connection(self._dialer.open(probe, port))
            found.append(opened.answer.who)
            opened.close()
        return found

    def close(self) -> None:
        """End; no virtual server stays in the kernel. The rest is for the next one to find."""
        for opened in self._open:
            opened.close()
        self._runner.run(self._dataplane.close())
        self._runner.close()
        self.network.node.run(["ipvsadm", "-C"])

    def _probe(self, source: str, protocol: Protocol) -> Probe:
        return Probe(source, HOSTS[source].address(self.family), self.address, 80, protocol)


def _addresses(entry: Entry) -> set[str]:
    return {frontend.address for frontend in entry.frontends if frontend.address}


def _is_at_work(address: str) -> bool:
    """Whether the kernel takes packets to an IPv6 address in: it sees to that in its own time."""
    routes = Path("/proc/thread-self/net/ipv6_route").read_text()
    return f"{pack(address).hex()} 80 " in routes


def _who(outcome: Outcome) -> str:
    return outcome.who or str(outcome)


@contextlib.contextmanager
def plane(network: Network, family: Family, scheduler: str = "rr") -> Iterator[Plane]:
    """A plane for as long as the context lasts."""
    opened = Plane(network, family, IpvsSettings(scheduler=scheduler))
    try:
        yield opened
    finally:
        opened.close()


def entries(family: Family, endpoints: str, numbers: Iterable[int]) -> list[Entry]:
    """Services of TCP with the same endpoints."""
    found = [endpoint(name, family) for name in endpoints.split()]
    return [served(number, found, family) for number in numbers]
