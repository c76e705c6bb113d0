from kubeproxy.base.inet import Family
from kubeproxy.dataplane.contract import FastPathState
from kubeproxy.serve.metrics.fastpath import connections_family, state_families
from kubeproxy.serve.metrics.registry import Registry
from kubeproxy.serve.metrics.run import watch_fast_path


class Path:
    """A fast path that is as it is told."""

    def __init__(self, state: FastPathState, **connections: int) -> None:
        self.state = state
        self._connections = connections

    def connections(self) -> dict[Family, int]:
        return {Family(name): count for name, count in self._connections.items()}

    async def run(self) -> None: ...


ON = FastPathState(wanted=True, reason="", devices=("eth0", "veth1"), packets=20)
OFF = FastPathState(wanted=True, reason="self-test", why_not="no flowtables", packets=20)


def values(path: Path) -> dict[str, float]:
    families = (*state_families(path), connections_family(path))
    return {
        each.about.name.removeprefix("kubeproxy_fast_path") + sample.labels: sample.value
        for each in families
        for sample in each.samples()
    }


def test_while_it_is_on() -> None:
    assert values(Path(ON, IPv4=3, IPv6=0)) == {
        '{reason=""}': 1.0,
        "_devices": 2.0,
        '_connections{ip_family="IPv4"}': 3.0,
        '_connections{ip_family="IPv6"}': 0.0,
    }


def test_while_it_is_off() -> None:
    assert values(Path(OFF)) == {'{reason="self-test"}': 0.0, "_devices": 0.0}


def test_a_mode_without_one_has_no_such_metrics() -> None:
    registry = Registry()
    watch_fast_path(None, registry)
    assert registry.families() == []
    watch_fast_path(Path(ON), registry)
    assert len(registry.families()) == 3
