from fakes.fastpath import FakeFastPath
from kubeproxy.dataplane.contract import FastPathState
from kubeproxy.serve.metrics.fastpath import connections_family, state_families
from kubeproxy.serve.metrics.registry import Registry
from kubeproxy.serve.metrics.run import watch_fast_path

ON = FastPathState(wanted=True, reason="", devices=("eth0", "veth1"), packets=20)
OFF = FastPathState(wanted=True, reason="self-test", why_not="no flowtables", packets=20)


def values(path: FakeFastPath) -> dict[str, float]:
    families = (*state_families(path), connections_family(path))
    return {
        each.about.name.removeprefix("kubeproxy_fast_path") + sample.labels: sample.value
        for each in families
        for sample in each.samples()
    }


def test_while_it_is_on() -> None:
    assert values(FakeFastPath(ON, IPv4=3, IPv6=0)) == {
        '{reason=""}': 1.0,
        "_devices": 2.0,
        '_connections{ip_family="IPv4"}': 3.0,
        '_connections{ip_family="IPv6"}': 0.0,
    }


def test_while_it_is_off() -> None:
    assert values(FakeFastPath(OFF)) == {'{reason="self-test"}': 0.0, "_devices": 0.0}


def test_a_mode_without_one_has_no_such_metrics() -> None:
    registry = Registry()
    watch_fast_path(None, registry)
    assert registry.families() == []
    watch_fast_path(FakeFastPath(ON), registry)
    assert len(registry.families()) == 3
