"""What ipvs mode programs, without a kernel: servers, sets, addresses and rules that can refuse.

They refuse what the real ones refuse, and keep what they refused: commands in a wrong order show.
"""

import errno
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family, family_of, pack
from kubeproxy.dataplane.ipvs import apply, prepare
from kubeproxy.linux.ipset import IpsetFailed
from kubeproxy.linux.ipvs import Ipvs
from kubeproxy.linux.netlink.ipvs import (
    AddReal,
    AddServer,
    Command,
    DeleteReal,
    DeleteServer,
    RealKey,
    RealServer,
    ServerKey,
    SetReal,
    SetServer,
    VirtualServer,
    command_request,
)
from kubeproxy.linux.netlink.message import WHOLE_BATCH, MessageError
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.linux.xtables import Xtables, XtablesFailed

SCHEDULERS = ("rr", "mh", "sh")
_SET = re.compile(r"--match-set (\S+)")


def _listed(address: str, port: int) -> str:
    packed = pack(address)
    text = packed.hex(":", 2) if len(packed) > 4 else packed.hex().upper()
    return f"[{text}]:{port:04X}" if ":" in text else f"{text}:{port:04X}"


class FakeServers(Ipvs):
    """Virtual servers. `broken` refuses commands about these; `busy` are reals in use."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[ServerKey, VirtualServer] = {}
        self.weights: dict[ServerKey, dict[RealKey, int]] = {}
        self.busy: set[tuple[ServerKey, RealKey]] = set()
        self.broken: set[ServerKey] = set()
        self.unreadable = ""
        self.asked: list[Command] = []
        self.refused: list[Command] = []
        self.timeouts: tuple[int, int, int] | None = None
        self.reads = 0

    def servers(self, family: Family) -> dict[ServerKey, VirtualServer]:
        self._check()
        return {key: each for key, each in self.kept.items() if family_of(key.address) is family}

    def find(self, key: ServerKey) -> VirtualServer | None:
        self._check()
        return self.kept.get(key)

    def reals(self, key: ServerKey) -> dict[RealKey, RealServer]:
        self._check()
        return {
            real: RealServer(weight, int((key, real) in self.busy))
            for real, weight in self.weights.get(key, {}).items()
        }

    def listing(self) -> str:
        self._check()
        lines = ["IP Virtual Server version 1.2.1 (size=4096)", "Prot", "  -> RemoteAddress"]
        for key, weights in self.weights.items():
            lines.append(f"{key.protocol.name}  {_listed(key.address, key.port)} rr  ")
            lines += [
                f"  -> {_listed(real.address, real.port)}      Masq    {weight}      0          0"
                for real, weight in weights.items()
            ]
        return "\n".join(lines) + "\n"

    def run(self, commands: Sequence[Command]) -> dict[Command, Refused]:
        self.asked += commands
        found = {}
        for command in commands:
            command_request(0, command)  # what cannot be encoded is not refused by the kernel
        for command in commands:
            number = errno.EIO if command.key in self.broken else self._run(command)
            if number:
                self.refused.append(command)
                what = type(command).__name__
                found[command] = Refused(what, MessageError(WHOLE_BATCH, number))
        return found

    def check(self, scheduler: str) -> None:
        if scheduler not in SCHEDULERS:
            raise KernelError(f"the kernel has no ipvs scheduler {scheduler}")

    def set_timeouts(self, tcp: int, tcp_fin: int, udp: int) -> None:
        self._check()
        self.timeouts = (tcp, tcp_fin, udp)

    def _check(self) -> None:
        self.reads += 1
        if self.unreadable:
            raise KernelError(self.unreadable)

    def _run(self, command: Command) -> int:
        key = command.key
        if isinstance(command, AddServer):
            if key in self.kept:
                return errno.EEXIST
            self.kept[key], self.weights[key] = command.server, {}
        elif key not in self.kept:
            return errno.ESRCH
        elif isinstance(command, SetServer):
            self.kept[key] = command.server
        elif isinstance(command, DeleteServer):
            del self.kept[key], self.weights[key]
        else:
            return self._run_real(command, self.weights[key])
        return 0

    def _run_real(
        self, command: AddReal | SetReal | DeleteReal, weights: dict[RealKey, int]
    ) -> int:
        if isinstance(command, AddReal) == (command.real in weights):
            return errno.EEXIST if isinstance(command, AddReal) else errno.ENOENT
        if isinstance(command, DeleteReal):
            del weights[command.real]
        else:
            weights[command.real] = command.weight
        return 0


class FakeSets:
    """The `ipset` program: what is made twice, or gone already, is no error."""

    IpsetFailed = IpsetFailed

    def __init__(self) -> None:
        self.kept: dict[str, tuple[str, set[str]]] = {}
        self.full: set[str] = set()
        self.broken = ""
        self.restored: list[str] = []
        self.read: set[str] = set()
        self.checked = 0
        self.can_match = True

    def check(self) -> None:
        self.checked += 1

    def check_matches(self) -> None:
        if not self.can_match:
            raise IpsetFailed("CAP_NET_RAW is missing")

    def restore(self, text: str) -> None:
        self.restored.append(text)
        if self.broken:
            raise IpsetFailed(self.broken)
        for number, line in enumerate(text.splitlines(), 1):
            verb, name, rest = line.split(" ", 2)
            if verb == "create":
                self.kept.setdefault(name, (rest, set()))
            elif name not in self.kept:
                raise IpsetFailed(f"line {number}: there is no set {name}", number)
            elif verb == "del":
                self.kept[name][1].discard(rest)
            elif rest in ("0.0.0.0", "::"):  # of a set of addresses; others take it
                raise IpsetFailed(f"line {number}: null-valued element", number)
            elif name in self.full and rest not in self.kept[name][1]:
                raise IpsetFailed(f"line {number}: the set {name} is full", number)
            else:
                self.kept[name][1].add(rest)

    def save(self, wanted: Iterable[str]) -> str:
        kept = {name: self.kept[name] for name in wanted if name in self.kept}
        self.read |= kept.keys()
        return "".join(
            f"create {name} {options} bucketsize 12 initval 0x1\n"
            + "".join(f"add {name} {member}\n" for member in sorted(members))
            for name, (options, members) in kept.items()
        )

    def members(self) -> dict[str, set[str]]:
        return {name: members for name, (_, members) in self.kept.items() if members}


class FakeDevice:
    """The dummy device. `broken` are addresses that it refuses to take or give."""

    def __init__(self) -> None:
        self.made = 0
        self.kept: dict[str, None] = {}
        self.broken: set[str] = set()

    def ensure_dummy(self, _device: str) -> bool:
        self.made += 1
        return self.made == 1

    def device_addresses(self, _device: str, family: Family) -> tuple[str, ...]:
        return tuple(address for address in self.kept if family_of(address) is family)

    def change_addresses(
        self, _device: str, add: Collection[str], remove: Collection[str]
    ) -> dict[str, Refused]:
        if not add and not remove:
            return {}
        if not self.made:
            raise KernelError("there is no such device")
        for address in add:
            if address not in self.broken:
                self.kept[address] = None
        for address in remove:
            if address not in self.broken:
                self.kept.pop(address, None)
        refusal = MessageError(WHOLE_BATCH, errno.EADDRNOTAVAIL)
        return {
            address: Refused(f"cannot change {address}", refusal)
            for address in self.broken.intersection((*add, *remove))
        }


class FakeTables(Xtables):
    """The iptables programs: rules are kept as they are written."""

    def __init__(self, sets: FakeSets, family: Family) -> None:
        super().__init__(family)
        self.sets = sets
        self.kept: dict[str, dict[str, list[str]]] = {
            "nat": {chain: [] for chain in ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING")},
            "filter": {chain: [] for chain in ("INPUT", "FORWARD", "OUTPUT")},
        }
        self.broken = ""
        self.restored: list[str] = []

    def is_nft(self) -> bool:
        return False

    def save(self, table: str) -> str:
        if self.broken == "save":
            raise XtablesFailed("cannot save")
        return f"# remark\n*{table}\n" + "".join(
            f":{chain} - [0:0]\n" + "".join(f"-A {chain} {rule}\n" for rule in rules)
            for chain, rules in self.kept[table].items()
        )

    def restore(self, text: str) -> None:
        self.restored.append(text)
        if self.broken:
            raise XtablesFailed(self.broken)
        chains: dict[str, list[str]] = {}
        for line in text.splitlines():
            if line.startswith("*"):
                chains = self.kept[line[1:]]
            elif line.startswith(":"):
                chains[line[1:].split()[0]] = []
            elif line != "COMMIT":
                self._rule(chains, line)

    def _rule(self, chains: dict[str, list[str]], line: str) -> None:
        verb, chain, rule = line.split(" ", 2)
        unknown = [name for name in _SET.findall(rule) if name not in self.sets.kept]
        target = rule.rpartition("-j ")[2].split()[0]
        if unknown or chain not in chains or (target.startswith("KUBE-") and target not in chains):
            raise XtablesFailed(f"refused: {line}")
        if verb == "-I":
            chains[chain].insert(0, rule)
        else:
            chains[chain].append(rule)


class FakeKernel:
    """All of it, of one family; `sysctls` hold what was set."""

    def __init__(self, family: Family = Family.IPV4) -> None:
        self.servers = FakeServers()
        self.sets = FakeSets()
        self.device = FakeDevice()
        self.tables = FakeTables(self.sets, family)
        self.sysctls: dict[str, int] = {}

    def ensure_sysctl(self, name: str, value: int) -> bool:
        was, self.sysctls[name] = self.sysctls.get(name), value
        return was != value

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Have ipvs mode use it, for as long as the context lasts."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(apply, "ipset", self.sets)
            patch.setattr(prepare, "ipset", self.sets)
            patch.setattr(apply, "links", self.device)
            patch.setattr(prepare, "ensure_sysctl", self.ensure_sysctl)
            yield

    def state(self) -> tuple[object, ...]:
        """All that is programmed, to be compared."""
        return (
            dict(self.servers.kept),
            {key: dict(weights) for key, weights in self.servers.weights.items()},
            {name: set(members) for name, members in self.sets.members().items()},
            set(self.device.kept),
            self.tables.kept,
        )
