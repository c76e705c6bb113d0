"""`kube-proxy status`: is the running proxy well, and what does it do."""

from functools import partial
from typing import Final

from kubeproxy.config.flagset import HELP, Parsed
from kubeproxy.serve.status.wire import DaemonStatus
from kubeproxy.tools import client
from kubeproxy.tools.command import OUTPUT, Command, print_answer
from kubeproxy.tools.status.view import is_unwell, screen

UNWELL: Final = 1
"""The exit code when the daemon runs and something is wrong."""
_AFTERWARDS: Final = """
Exit codes: 0 when the proxy is well, 1 when it runs and is not (the reasons stand at the top) or
could not be asked, 3 when no proxy answers.
"""


def _run(parsed: Parsed) -> int:
    status = client.connect(parsed).get("/status", DaemonStatus)
    print_answer(parsed, status, partial(screen, status))
    return UNWELL if is_unwell(status) else 0


COMMAND: Final = Command("status", (OUTPUT, *client.FLAGS, HELP), _run, _AFTERWARDS)
main, usage_text = COMMAND.main, COMMAND.usage_text
