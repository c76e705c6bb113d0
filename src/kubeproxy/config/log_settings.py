"""The logging section in the terms of the log."""

from kubeproxy.base import klog
from kubeproxy.config.types import Logging


def log_settings(logging: Logging) -> klog.Settings:
    """How to log; the section has been validated."""
    is_json = logging.format == "json"
    routing = logging.options.json if is_json else logging.options.text
    return klog.Settings(
        verbosity=logging.verbosity,
        vmodule=tuple((item.file_pattern, item.verbosity) for item in logging.vmodule),
        json=is_json,
        split_stream=routing.split_stream,
        info_buffer_size=routing.info_buffer_size.value,
    )
