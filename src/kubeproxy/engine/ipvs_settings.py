"""The configuration -> how ipvs mode is set up; for the daemon and for `render`."""

from kubeproxy.base.inet import parse_prefix
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.dataplane.ipvs.settings import DEFAULT_SCHEDULER, Settings, Timeouts


def ipvs_settings(config: KubeProxyConfiguration) -> Settings:
    """The settings of ipvs mode."""
    section = config.ipvs
    return Settings(
        masquerade_bit=config.masquerade_bit,
        scheduler=section.scheduler or DEFAULT_SCHEDULER,
        excluded=tuple(filter(None, map(parse_prefix, section.exclude_cidrs))),
        strict_arp=section.strict_arp,
        timeouts=Timeouts(
            int(section.tcp_timeout.seconds),
            int(section.tcp_fin_timeout.seconds),
            int(section.udp_timeout.seconds),
        ),
    )
