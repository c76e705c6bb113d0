from kubeproxy.base import klog
from kubeproxy.config.load import log_settings
from kubeproxy.config.types import FormatOptions, Logging, OutputRouting, VModuleItem
from kubeproxy.config.values import Quantity

OPTIONS = FormatOptions(
    text=OutputRouting(split_stream=True, info_buffer_size=Quantity("1k", 1000)),
    json=OutputRouting(split_stream=False, info_buffer_size=Quantity("2k", 2000)),
)


def test_text() -> None:
    logging = Logging(verbosity=3, vmodule=(VModuleItem("a*", 4),), options=OPTIONS)
    expected = klog.LogSettings(3, (("a*", 4),), False, True, 1000)
    assert expected == log_settings(logging)


def test_json() -> None:
    expected = klog.LogSettings(json=True, info_buffer_size=2000)
    assert expected == log_settings(Logging(format="json", options=OPTIONS))
