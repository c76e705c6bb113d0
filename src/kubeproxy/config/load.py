"""The command line, and the file that it names, to the effective configuration.

The order is upstream's: file or flags, defaults, the node's name, feature gates. Validation comes
after it, in `validate`, because logging must be set up in between. This is where files are read
and written; everything else here is a function of values.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from kubeproxy.base import klog
from kubeproxy.base.errors import reason_of
from kubeproxy.config.decode import decode
from kubeproxy.config.defaults import Modes, with_defaults, with_platform_defaults
from kubeproxy.config.document import to_yaml
from kubeproxy.config.errors import ConfigError, Level, Notice
from kubeproxy.config.flags import (
    config_from_flags,
    with_hostname_override,
    with_logging_flags,
)
from kubeproxy.config.flagset import Parsed
from kubeproxy.config.gates import LOGGING_ALPHA_OPTIONS, Gates, resolve
from kubeproxy.config.types import KubeProxyConfiguration, Logging, Winkernel, put


class Loaded(msgspec.Struct, frozen=True):
    """The configuration in force, not yet validated, and notices about it."""

    config: KubeProxyConfiguration
    gates: Gates
    notices: tuple[Notice, ...]


def load(parsed: Parsed, modes: Modes, mode: str = "") -> Loaded:
    """The configuration of a command line; raises ConfigError, `failed complete: ...`.

    `mode` takes the place of the configured mode: defaults depend on it.
    """
    path = parsed.value("config", str)
    try:
        return complete(parsed, _read(path) if path else None, modes, mode)
    except ConfigError as error:
        raise ConfigError(f"failed complete: {error}") from error


def complete(parsed: Parsed, text: str | None, modes: Modes, mode: str = "") -> Loaded:
    """The effective configuration of a command line and the text of its config file, if any."""
    notices: list[Notice] = []
    if mode:
        values, given = {**parsed.values, "proxy-mode": mode}, parsed.given | {"proxy-mode"}
        parsed = replace(parsed, values=values, given=given)
    if text is None:
        config = config_from_flags(parsed)
    else:
        decoded, notices = _decoded(text, parsed.value("config", str))
        config = with_defaults(replace(decoded, mode=mode or decoded.mode))
    config, of_mode = with_platform_defaults(config, modes)
    config = with_hostname_override(config, parsed)
    gates, of_gates = resolve(config.feature_gates)
    if text is not None:
        logging, of_logging = _without_ungated_split(config.logging, gates)
        config = with_logging_flags(replace(config, logging=logging), parsed)
        notices += of_logging
    return Loaded(config, gates, (*notices, *of_mode, *of_gates, *_for_windows(config)))


def _decoded(text: str, path: str) -> tuple[KubeProxyConfiguration, list[Notice]]:
    """The configuration in a text; errors name the file that it is of."""
    try:
        return decode(text)
    except ConfigError as error:
        raise ConfigError(f"{error} (in {path})" if path else str(error)) from error


def _without_ungated_split(logging: Logging, gates: Gates) -> tuple[Logging, list[Notice]]:
    """The file's logging section without split streams when the feature is off.

    Upstream never reads this field of the file, so that files exist which set it without the
    feature gate; refusing them would break what works.
    """
    is_split = logging.options.text.split_stream or logging.options.json.split_stream
    if gates.enabled(LOGGING_ALPHA_OPTIONS) or not is_split:
        return logging, []
    for name in ("text", "json"):
        logging = put(logging, f"options.{name}.split_stream", False)
    message = "splitStream has no effect without the feature gate LoggingAlphaOptions"
    return logging, [Notice(Level.WARNING, message, {"field": "logging.options"})]


def _for_windows(config: KubeProxyConfiguration) -> Iterator[Notice]:
    """A notice about settings that have no effect on this system."""
    given = {
        "winkernel": config.winkernel != Winkernel(),
        "windowsRunAsService": config.windows_run_as_service,
    }
    fields = [name for name, is_given in given.items() if is_given]
    if fields:
        message = "These config fields matter on Windows only and have no effect here"
        yield Notice(Level.WARNING, message, {"fields": fields})


def node_name(config: KubeProxyConfiguration, hostname: str) -> str:
    """The name of this node's Node object."""
    name = (config.hostname_override or hostname).strip().lower()
    if not name:
        raise ConfigError("empty hostname is invalid")
    return name


def log_settings(logging: Logging) -> klog.LogSettings:
    """The logging section, which has been validated, as settings of the log."""
    is_json = logging.format == "json"
    routing = logging.options.json if is_json else logging.options.text
    return klog.LogSettings(
        verbosity=logging.verbosity,
        vmodule=tuple((item.file_pattern, item.verbosity) for item in logging.vmodule),
        json=is_json,
        split_stream=routing.split_stream,
        info_buffer_size=routing.info_buffer_size.value,
    )


# --- files ------------------------------------------------------------------------------------


def _read(path: str) -> str:
    """The text of the config file."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except IsADirectoryError as error:
        raise ConfigError(f"read {path}: is a directory") from error
    except OSError as error:
        raise ConfigError(f"open {path}: {reason_of(error)}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"failed to decode: {path} is not UTF-8: {error.reason}") from error


def write_config(path: str, config: KubeProxyConfiguration) -> None:
    """Write the effective configuration to a file, which may be /dev/stdout."""
    try:
        Path(path).write_text(to_yaml(config), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"open {path}: {reason_of(error)}") from error
