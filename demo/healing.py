"""The act about pods that fail: the same failures without healing, and with it."""

import select
import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import msgspec

from demo import ruleset
from demo.cluster import Frontend, Pod
from demo.stage import Stage
from demo.traffic import SHOPPER, pod_of
from demo.vandal import REFUSES, VANISHES, failing
from kubeproxy.dataplane.nftables.language import Rule
from lab.dialer import outcome_of
from lab.outcome import Fate, Outcome, Peer
from lab.plan import HOSTS

SERVICE, FILE = "shop/web", "web.yaml"
ANNOTATION = {"kubeproxy.io/healing": "all"}
HEALED = "retry-refused-services"
CONNECTIONS = 60
LATE = 0.9
"""Seconds; a client sends its first packet again after one."""
PATIENCE = 15.0
"""Seconds in which all connections have an outcome."""
HANGS = 1.5
"""Seconds after which a client that still waits for a pod that is gone is said to hang."""


class Trouble(msgspec.Struct, frozen=True):
    """What clients met: refused or otherwise failed connections, and seconds of the answered.

    `end` is what became of a connection that was open to the pod that vanished; None: nothing.
    """

    refused: int
    failed: tuple[str, ...]
    seconds: tuple[float, ...]
    end: Outcome | None


def healing(stage: Stage) -> None:
    """A pod refuses, another one vanishes; then the same with the annotation."""
    screen, cluster = stage.screen, stage.cluster
    _, refusing, vanishing = cluster.pods(SERVICE)
    screen.act(
        "Pods that fail, and connections that heal",
        f"{refusing.name} refuses, as a pod that ends before its slice says so; "
        f"{vanishing.name} vanishes.",
    )
    plain = _trouble(stage, refusing, vanishing)
    screen.claim(
        f"{plain.refused} of {CONNECTIONS} connections were refused",
        holds=0 < plain.refused < CONNECTIONS and not plain.failed,
        instead=", ".join(plain.failed[:2]),
    )
    screen.claim(
        f"a client of {vanishing.name} still waits {HANGS:g} s after its next packet",
        holds=plain.end is None,
        instead=str(plain.end),
    )
    namespace, _, name = SERVICE.partition("/")
    words = " ".join(f"{key}={value}" for key, value in ANNOTATION.items())
    screen.command(f"kubectl annotate service -n {namespace} {name} {words}")
    cluster.annotate(FILE, ANNOTATION)
    stage.proxy.wait(lambda: bool(ruleset.read(stage.node).elements.get(HEALED)))
    healed = _trouble(stage, refusing, vanishing)
    late = [each for each in healed.seconds if each > LATE]
    screen.claim(
        f"{CONNECTIONS} connections, none failed; {len(late)} were retried, and answered within "
        f"{max(late, default=0.0):.1f} s",
        holds=len(healed.seconds) == CONNECTIONS and bool(late),
        instead=f"{healed.refused} were refused {', '.join(healed.failed[:2])}",
    )
    screen.claim(
        f"the client of {vanishing.name} is told that it is gone",
        holds=healed.end is not None and healed.end.fate is Fate.FAILED,
        instead=str(healed.end or "it still waits"),
    )
    screen.pause(0.7)


def _trouble(stage: Stage, refusing: Pod, vanishing: Pod) -> Trouble:
    """Connect while a pod refuses; then another one vanishes, which had a client."""
    web = stage.cluster.frontend(SERVICE)
    with ExitStack() as closing:
        client = closing.enter_context(_client_of(stage, vanishing, web))
        closing.enter_context(_failing(stage, refusing, REFUSES))
        outcomes = _connect(stage, web)
        closing.enter_context(_failing(stage, vanishing, VANISHES))
        before = (stage.cluster.directory / FILE).read_text()
        stage.cluster.remove(FILE, vanishing.name)
        stage.proxy.wait(lambda: not ruleset.leads(stage.node, web, vanishing.address))
        client.send(b"still there?\n")
        end = _outcome(client, HANGS)
        stage.cluster.write(FILE, before)
        stage.proxy.wait(lambda: ruleset.leads(stage.node, web, vanishing.address))
    fates = [outcome.fate for outcome, _ in outcomes]
    return Trouble(
        refused=fates.count(Fate.REFUSED),
        failed=tuple(
            str(each) for each, _ in outcomes if each.fate not in (Fate.ANSWERED, Fate.REFUSED)
        ),
        seconds=tuple(took for each, took in outcomes if each.fate is Fate.ANSWERED),
        end=end,
    )


def _connect(stage: Stage, web: Frontend) -> list[tuple[Outcome, float]]:
    """The outcomes of many connections at once, each with how long it took."""
    began = time.monotonic()
    with ExitStack() as closing:
        waiting = {}
        poll = select.poll()
        for _ in range(CONNECTIONS):
            opened = closing.enter_context(stage.traffic.open(SHOPPER, web))
            waiting[opened.fileno()] = opened
            poll.register(opened, select.POLLIN)
        found = []
        while waiting and (left := began + PATIENCE - time.monotonic()) > 0:
            for fd, _ in poll.poll(1000 * left):
                poll.unregister(fd)
                outcome = outcome_of(waiting[fd], _source(waiting.pop(fd)))
                found.append((outcome, time.monotonic() - began))
        nothing = [Outcome(Fate.SILENT, _source(each)) for each in waiting.values()]
        return [*found, *((each, PATIENCE) for each in nothing)]


@contextmanager
def _client_of(stage: Stage, pod: Pod, web: Frontend) -> Iterator[socket.socket]:
    """A connection through the service that this pod has answered."""
    while True:
        with stage.traffic.open(SHOPPER, web) as opened:
            outcome = _outcome(opened, PATIENCE)
            if outcome is not None and pod_of(outcome, [pod]):
                yield opened
                return


def _outcome(opened: socket.socket, seconds: float) -> Outcome | None:
    """What a socket says within so many seconds."""
    poll = select.poll()
    poll.register(opened, select.POLLIN)
    return outcome_of(opened, _source(opened)) if poll.poll(1000 * seconds) else None


def _source(opened: socket.socket) -> Peer:
    return Peer(*opened.getsockname()[:2])


def _failing(stage: Stage, pod: Pod, rule: Rule) -> AbstractContextManager[None]:
    """The pod does that with what it receives."""
    (namespace,) = (stage.network.of(host) for host in HOSTS.values() if host.ipv4 == pod.address)
    return failing(namespace, pod.address, rule)
