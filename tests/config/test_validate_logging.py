import pytest

from kubeproxy.config.errors import ConfigError, joined
from kubeproxy.config.gates import Gates
from kubeproxy.config.types import FormatOptions, Logging, OutputRouting, VModuleItem
from kubeproxy.config.validate import validate_logging
from kubeproxy.config.values import Quantity, of_seconds

ALPHA = Gates(Gates().on | {"LoggingAlphaOptions"})
NO_BETA = Gates(Gates().on - {"LoggingBetaOptions"})
ROUTED = OutputRouting(split_stream=True, info_buffer_size=Quantity("1k", 1000))


@pytest.mark.parametrize(
    ("logging", "gates"),
    [
        pytest.param(Logging(), Gates(), id="nothing"),
        pytest.param(Logging(format="json"), Gates(), id="json"),
        pytest.param(Logging(flush_frequency=1), Gates(), id="a-nanosecond"),
        pytest.param(Logging(verbosity=2**31 - 1), Gates(), id="the-highest-verbosity"),
        pytest.param(Logging(vmodule=(VModuleItem("a", 1),)), NO_BETA, id="patterns"),
        pytest.param(Logging(options=FormatOptions(ROUTED, ROUTED)), ALPHA, id="alpha-options"),
    ],
)
def test_what_is_right_is_taken(logging: Logging, gates: Gates) -> None:
    validate_logging(logging, gates)


@pytest.mark.parametrize(
    ("logging", "gates", "expected"),
    [
        pytest.param(
            Logging(flush_frequency=-1),
            Gates(),
            "logging.flushFrequency: Invalid value: -1: Must be greater than zero",
            id="a-negative-number-of-nanoseconds",
        ),
        pytest.param(
            Logging(flush_frequency=of_seconds(-1)),
            Gates(),
            'logging.flushFrequency: Invalid value: "-1s": Must be greater than zero',
            id="a-negative-duration",
        ),
        pytest.param(
            Logging(format="xml"),
            Gates(),
            'logging.format: Invalid value: "xml": Unsupported log format',
            id="an-unknown-format",
        ),
        pytest.param(
            Logging(format="json"),
            NO_BETA,
            "logging.format: Forbidden: Log format json is disabled, see LoggingBetaOptions"
            " feature",
            id="json-without-its-gate",
        ),
        pytest.param(
            Logging(verbosity=2**31),
            Gates(),
            "logging.verbosity: Invalid value: 2147483648: Must be <= 2147483647",
            id="too-high-a-verbosity",
        ),
        pytest.param(
            Logging(format="json", vmodule=(VModuleItem("a", 1),)),
            Gates(),
            "logging.vmodule: Forbidden: Only supported for text log format",
            id="patterns-with-json",
        ),
        pytest.param(
            Logging(vmodule=(VModuleItem("", 1),)),
            Gates(),
            "logging.vmodule[0]: Required value: File pattern must not be empty",
            id="an-empty-pattern",
        ),
        pytest.param(
            Logging(vmodule=(VModuleItem("a", 1), VModuleItem("a=b", 2**31))),
            Gates(),
            '[logging.vmodule[1]: Invalid value: "a=b": File pattern must not contain equal sign'
            " or comma, logging.vmodule[1]: Invalid value: 2147483648: Must be <= 2147483647]",
            id="a-pattern-that-cannot-be-written-as-a-flag",
        ),
        pytest.param(
            Logging(options=FormatOptions(text=OutputRouting(split_stream=True))),
            Gates(),
            "logging.options.text.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled",
            id="split-streams-without-their-gate",
        ),
        pytest.param(
            Logging(options=FormatOptions(json=ROUTED)),
            Gates(),
            "[logging.options.json.splitStream: Forbidden: Feature LoggingAlphaOptions is"
            " disabled, logging.options.json.infoBufferSize: Forbidden: Feature"
            " LoggingAlphaOptions is disabled]",
            id="everything-without-the-gate",
        ),
    ],
)
def test_what_is_wrong_is_named(logging: Logging, gates: Gates, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate_logging(logging, gates)
    assert f"initialize logging: {expected}" == str(caught.value)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        pytest.param(["a"], "a", id="one"),
        pytest.param(["a", "b"], "[a, b]", id="two"),
        pytest.param(["a", "a"], "a", id="one-twice"),
        pytest.param(["b", "a", "b"], "[b, a]", id="the-order-stays"),
    ],
)
def test_texts_are_joined(texts: list[str], expected: str) -> None:
    assert expected == joined(texts)
