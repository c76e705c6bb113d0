"""`kube-proxy version`: our version and commit, and the Kubernetes release that is followed."""

from typing import Final

import msgspec

from kubeproxy.base.commit import commit
from kubeproxy.base.version import KUBERNETES_VERSION, VERSION, described
from kubeproxy.config.flagset import HELP, Parsed
from kubeproxy.tools.command import OUTPUT, Command, print_answer
from kubeproxy.tools.layout import line


class Versions(msgspec.Struct, frozen=True, rename="camel"):
    """Which program this is; `commit` is empty where it is not known."""

    version: str
    commit: str
    kubernetes_version: str


def _run(parsed: Parsed) -> int:
    found = Versions(VERSION, commit(), KUBERNETES_VERSION)
    print_answer(parsed, found, lambda _: [line(described(found.commit))])
    return 0


COMMAND: Final = Command("version", (OUTPUT, HELP), _run)
main, usage_text = COMMAND.main, COMMAND.usage_text
