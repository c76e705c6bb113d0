import pytest

from kubeproxy.config.errors import ConfigError, Level, Notice
from kubeproxy.config.gates import GATES, Gates, GateStage, resolve

ALPHA = {name for name, gate in GATES.items() if gate.stage is GateStage.ALPHA}
BETA = {name for name, gate in GATES.items() if gate.stage is GateStage.BETA}


def test_without_settings_the_defaults_hold() -> None:
    gates, notices = resolve({})
    assert Gates() == gates
    assert notices == ()
    assert gates.enabled("KubeProxyIPVS")
    assert not gates.enabled("LoggingAlphaOptions")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"LoggingAlphaOptions": True}, {"LoggingAlphaOptions"}, id="one-on"),
        pytest.param({"NFTablesNetlink": False}, {"NFTablesNetlink"}, id="one-off"),
        pytest.param({"AllAlpha": True}, ALPHA, id="all-of-a-stage-on"),
        pytest.param({"AllBeta": False}, BETA, id="all-of-a-stage-off"),
        pytest.param(
            {"AllBeta": False, "WatchListClient": True},
            BETA - {"WatchListClient"},
            id="all-but-the-one-that-is-named",
        ),
        pytest.param({"MultiCIDRServiceAllocator": True}, set(), id="a-locked-one-as-it-is"),
    ],
)
def test_settings_change_the_defaults(given: dict[str, bool], expected: set[str]) -> None:
    gates, _ = resolve(given)
    assert expected == gates.on ^ Gates().on


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"NoSuch": True}, "unrecognized feature gate: NoSuch", id="an-unknown-gate"),
        pytest.param(
            {"NFTablesNetlnk": True},
            "unrecognized feature gate: NFTablesNetlnk (did you mean NFTablesNetlink?)",
            id="a-misspelled-gate",
        ),
        pytest.param(
            {"MultiCIDRServiceAllocator": False},
            "cannot set feature gate MultiCIDRServiceAllocator to false, feature is locked to"
            " true",
            id="a-locked-gate",
        ),
        pytest.param(
            {"NoSuch": True, "NFTablesProxyMode": False},
            "[cannot set feature gate NFTablesProxyMode to false, feature is locked to true,"
            " unrecognized feature gate: NoSuch]",
            id="several",
        ),
    ],
)
def test_what_cannot_be_set_is_refused(given: dict[str, bool], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(given)
    assert expected == str(caught.value)


@pytest.mark.parametrize(
    ("name", "stage"), [("AllowServiceExternalIPs", "GA"), ("KubeProxyIPVS", "deprecated")]
)
def test_setting_a_gate_that_will_go_is_mentioned(name: str, stage: str) -> None:
    _, notices = resolve({name: True, "NFTablesNetlink": True})
    expected = Notice(
        Level.INFO,
        f"Warning: setting {stage} feature gate. It will be removed in a future release.",
        {"featureGate": name, "value": True},
    )
    assert notices == (expected,)
