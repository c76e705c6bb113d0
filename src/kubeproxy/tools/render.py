"""`kube-proxy render`: what would be programmed, as text, without privileges."""

from typing import Final

from kubeproxy.base.errors import FieldError
from kubeproxy.base.inet import Family
from kubeproxy.config.flags import FLAGS
from kubeproxy.config.flagset import Flag, Parsed
from kubeproxy.config.kinds import STRING
from kubeproxy.config.load import load
from kubeproxy.config.validate import validate
from kubeproxy.dataplane.modes import MODES, load_mode
from kubeproxy.tools.clusterflags import SHARED_FLAGS
from kubeproxy.tools.command import Command
from kubeproxy.tools.snapshot import read_view

_OWN: Final = (
    Flag("mode", STRING, "", "The proxy mode; default: that of the configuration.", "Rules"),
    Flag("family", STRING, "", "IPv4 or IPv6; default: both.", "Rules"),
    Flag("node", STRING, "", "The node whose rules are wanted; default: this host.", "Rules"),
)


def _run(parsed: Parsed) -> int:
    loaded = load(parsed, MODES, parsed.value("mode", str))
    validate(loaded.config, loaded.gates, MODES)
    render = load_mode(loaded.config.mode).render
    families = _families(parsed.value("family", str))
    view = read_view(parsed, loaded)
    for family in families:
        print(render(loaded.config, view.tables[family], view.nodes[family]))  # noqa: T201  # rules
    return 0


def _families(wanted: str) -> tuple[Family, ...]:
    if not wanted:
        return tuple(Family)
    found = tuple(family for family in Family if family.value.lower() == wanted.lower())
    if not found:
        raise FieldError("family", wanted, "must be IPv4 or IPv6")
    return found


COMMAND: Final = Command(
    "render", (*_OWN, *FLAGS), _run, listed=(*_OWN, *SHARED_FLAGS), kernel=True
)
main, usage_text = COMMAND.main, COMMAND.usage_text
