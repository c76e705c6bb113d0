"""What the logging section must be; checked first, because everything later may log."""

from collections.abc import Iterator
from typing import Final

from kubeproxy.config.duration import Duration
from kubeproxy.config.errors import ConfigError, joined
from kubeproxy.config.field_error import forbidden, invalid, required
from kubeproxy.config.gates import LOGGING_ALPHA_OPTIONS, LOGGING_BETA_OPTIONS, Gates
from kubeproxy.config.types import FormatOptions, Logging, VModuleItem

_LARGEST: Final = 2**31 - 1


def validate_logging(logging: Logging, gates: Gates) -> None:
    """Raise ConfigError, `initialize logging: ...`, with everything that is wrong."""
    problems = list(_problems(logging, gates))
    if problems:
        raise ConfigError(f"initialize logging: {joined(problems)}")


def _problems(logging: Logging, gates: Gates) -> Iterator[str]:
    if logging.flush_period <= Duration():
        path = "logging.flushFrequency"
        yield invalid(path, logging.flush_frequency, "Must be greater than zero")
    if logging.format not in ("text", "json"):
        yield invalid("logging.format", logging.format, "Unsupported log format")
    elif logging.format == "json" and not gates.enabled(LOGGING_BETA_OPTIONS):
        detail = f"Log format json is disabled, see {LOGGING_BETA_OPTIONS} feature"
        yield forbidden("logging.format", detail)
    yield from _verbosity("logging.verbosity", logging.verbosity)
    if logging.vmodule and logging.format != "text":
        yield forbidden("logging.vmodule", "Only supported for text log format")
    for index, item in enumerate(logging.vmodule):
        yield from _vmodule(f"logging.vmodule[{index}]", item)
    if not gates.enabled(LOGGING_ALPHA_OPTIONS):
        yield from _alpha_options(logging.options)


def _verbosity(path: str, verbosity: int) -> Iterator[str]:
    if verbosity > _LARGEST:
        yield invalid(path, verbosity, f"Must be <= {_LARGEST}")


def _vmodule(path: str, item: VModuleItem) -> Iterator[str]:
    if not item.file_pattern:
        yield required(path, "File pattern must not be empty")
    if any(sign in item.file_pattern for sign in "=,"):
        detail = "File pattern must not contain equal sign or comma"
        yield invalid(path, item.file_pattern, detail)
    yield from _verbosity(path, item.verbosity)


def _alpha_options(options: FormatOptions) -> Iterator[str]:
    """What cannot be set while its feature is off."""
    detail = f"Feature {LOGGING_ALPHA_OPTIONS} is disabled"
    for name, routing in (("text", options.text), ("json", options.json)):
        path = f"logging.options.{name}"
        if routing.split_stream:
            yield forbidden(f"{path}.splitStream", detail)
        if routing.info_buffer_size.value != 0:
            yield forbidden(f"{path}.infoBufferSize", detail)
