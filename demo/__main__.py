"""Entry: namespaces, the network, the proxy, the acts; exit code 0 when every claim held."""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Final

from rich.text import Text

from demo import acts, healing, insight, ruleset, witness
from demo.cluster import Cluster
from demo.machine import enter_namespaces
from demo.proxy import Proxy, ProxyFailed
from demo.screen import Screen, open_console
from demo.stage import DIRECTORY, MANIFESTS, Stage
from demo.traffic import SHOPPER, Traffic, pod_of
from kubeproxy.base.errors import OperatorError
from lab.network import Network
from lab.responders import Responders

PICTURE = """\
clients outside        +--------------+   pods of kestrel: web-1, web-2 ...
192.0.2.50, .200 ... --|   kestrel    |-- and the client shopper, 10.64.3.50
everywhere else -------|  kube-proxy  |-- pods of heron and merlin: web-3 ...
                       +--------------+"""
WITNESS: Final = "The rules are read over netlink; nft is here, and is a witness of what they are."
NO_WITNESS: Final = "The rules are read over netlink. (nft is not here; nothing needs it.)"
ACTS: Final = (
    acts.balancing,
    acts.draining,
    acts.affinity,
    acts.rejection,
    acts.source_ranges,
    insight.explaining,
    insight.counting,
    insight.querying,
    insight.program,
    insight.repair,
    healing.healing,
)


def main() -> int:
    """Play all acts, or print why this machine cannot."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    screen = Screen(open_console(terminal=terminal))
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        enter_namespaces()
        _play(screen)
    except (OperatorError, ProxyFailed) as error:
        screen.say(Text(f"make demo: {error}", style="red"))
        return 1
    except KeyboardInterrupt:
        screen.say("Stopped. Nothing is left behind.")
        return 128 + signal.SIGINT
    return 1 if screen.wrong else 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _play(screen: Screen) -> None:
    began = time.monotonic()
    with ExitStack() as closing:
        stage = _open_stage(screen, closing)
        for act in ACTS:
            act(stage)
        errors = stage.proxy.errors()
        screen.say()
        screen.claim(
            "kube-proxy is still running, and logged no error",
            holds=stage.proxy.is_running and not errors,
            instead=" ".join(errors[:1]),
        )
        sent = stage.traffic.sent
    _close(screen, f"{sent:,} connections in {time.monotonic() - began:.0f} s")


def _close(screen: Screen, figures: str) -> None:
    if screen.wrong:
        text = f"{screen.wrong} of {screen.claims} claims did NOT hold"
        screen.say(Text(f"{text}: {figures}.", style="bold red"))
        return
    text = f"All {screen.claims} claims held: {figures}."
    screen.say(Text.assemble((text, "bold green"), " Nothing is left behind."))


def _open_stage(screen: Screen, closing: ExitStack) -> Stage:
    """The network, with a proxy that has programmed the examples."""
    screen.say(Text("kube-proxy, in a network that ends with this program", style="bold"))
    screen.say("No root, no cluster; nothing of this machine's own network is touched.")
    screen.say(WITNESS if witness.is_here() else NO_WITNESS)
    screen.say()
    screen.show(PICTURE)
    network = _network(closing)
    DIRECTORY.mkdir()
    cluster = Cluster(DIRECTORY / MANIFESTS)
    traffic = Traffic(network)
    proxy = Proxy(network.node, DIRECTORY, MANIFESTS)
    closing.callback(proxy.stop)
    screen.say()
    screen.command(f"kube-proxy {' '.join(proxy.arguments)}")
    web, pods = cluster.frontend("shop/web"), cluster.pods("shop/web")

    def is_served() -> bool:
        return pod_of(traffic.send([SHOPPER], web)[0], pods) is not None

    proxy.start()
    took = proxy.wait(is_served, rest=0.01)
    before = ruleset.counters(network.node, cluster.frontends)
    traffic.let_in.clear()
    screen.claim(
        f"{len(cluster.frontends)} service addresses are programmed; first connection served "
        f"after {took:.1f} s",
        holds=len(before) == len(cluster.frontends),
        instead=f"only {len(before)} are",
    )
    screen.pause(0.7)
    return Stage(screen, network, cluster, proxy, traffic, before)


def _network(closing: ExitStack) -> Network:
    try:
        network = Network()
    except AssertionError as error:
        raise OperatorError(f"the demo cannot build its network: {error}") from error
    closing.callback(network.close)
    with _interrupts_ignored():
        responders = Responders(network)
    closing.callback(responders.close)
    return network


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Processes that are started meanwhile ignore Ctrl-C: we stop them."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


if __name__ == "__main__":
    sys.exit(main())
