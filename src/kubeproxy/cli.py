"""`kube-proxy`: finds the subcommand, and turns what goes wrong into a message and an exit code.

Without a subcommand it is the daemon, with upstream's flags. Exit codes: 0 when what was asked
for was done, 1 for any error, 128 plus the number of the signal that ended the daemon.
"""

import sys
from collections.abc import Callable, Sequence

from kubeproxy import klog
from kubeproxy.config.errors import UsageError
from kubeproxy.errors import KubeProxyError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code comes back."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] == "explain":
        from kubeproxy.commands import explain  # noqa: PLC0415  # the daemon must start lean

        return _guarded(explain.main, explain.usage_text, given[1:])
    from kubeproxy.commands import run  # noqa: PLC0415  # the tools do not need the daemon

    return _guarded(run.main, run.usage_text, given)


def _guarded(
    command: Callable[[Sequence[str]], int], usage: Callable[[], str], arguments: Sequence[str]
) -> int:
    try:
        return command(arguments)
    except UsageError as error:
        if error.show_usage:
            print(usage(), file=sys.stderr)  # noqa: T201  # the command line speaks to people
        print(f"Error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    except KubeProxyError as error:
        klog.error("command failed", err=error)
        return 1
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has seen enough
        return 1
    finally:
        klog.flush()
