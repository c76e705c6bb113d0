"""`kube-proxy`: finds the subcommand, and turns errors into a message and an exit code.

Without a subcommand it is the daemon, with upstream's flags. Exit codes: 0 for
success, 1 for any error (2 of `diff`, where 1 is a difference), 2 when `check` could not find
out, 3 when a command needs a running daemon and there is none, 128 plus the number of the signal
that ended it.
"""

import errno
import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from kubeproxy.base import klog
from kubeproxy.base.errors import KubeProxyError
from kubeproxy.base.printable import printable_lines
from kubeproxy.config.errors import UsageError
from kubeproxy.tools.names import TOOLS

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code comes back."""
    _open_closed_streams()
    sys.set_int_max_str_digits(0)  # a number that is too large gets its error, however long it is
    given = list(sys.argv[1:] if arguments is None else arguments)
    if unreadable := [each for each in given if not _is_text(each)]:
        _print_error(UsageError(f"the argument {unreadable[0]!a} is not UTF-8"))
        return 1
    if given[:1] == ["help"]:
        given = [*given[1:2], "--help"]
    if given[:1] == ["complete"]:  # asked by shells, for each word that a person completes
        completion = importlib.import_module("kubeproxy.tools.shell.completion")
        return _guarded(completion.complete, completion.usage_text, _print_error, given[1:])
    if given and given[0] in TOOLS:
        tool = importlib.import_module(f"kubeproxy.tools.{TOOLS[given[0]].module}")
        return _guarded(tool.main, tool.usage_text, _print_error, given[1:])
    if given and (meant := _meant(given[0])):
        _print_error(UsageError(f"there is no command {given[0]!r}: did you mean {meant}?"))
        return 1
    from kubeproxy.app import run  # noqa: PLC0415  # the tools do not need the daemon

    return _guarded(run.main, run.usage_text, _log_error, given)


def kubectl_plugin(arguments: Sequence[str] | None = None) -> int:
    """Run the command line of `kubectl kubeproxy`; the exit code comes back."""
    from kubeproxy.tools.kubectl import command  # noqa: PLC0415  # no other command needs it

    _open_closed_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    return _guarded(command.main, command.usage_text, _print_error, given)


def kubectl_completion(arguments: Sequence[str] | None = None) -> int:
    """Complete a command line of `kubectl kubeproxy`, for kubectl."""
    from kubeproxy.tools.kubectl import command  # noqa: PLC0415  # as above

    given = list(sys.argv[1:] if arguments is None else arguments)
    return _guarded(command.complete, command.usage_text, _print_error, given)


def _open_closed_streams() -> None:
    """Open streams that were closed (`>&-`), so that no socket gets their descriptor."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115  # until the end


def _is_text(argument: str) -> bool:
    """Whether an argument can be shown, sent and written: bytes that are no UTF-8 cannot."""
    return not any("\ud800" <= char <= "\udfff" for char in argument)


def _meant(word: str) -> str:
    """The subcommand that was probably meant, "" if the word looks like none."""
    if word.startswith("-"):
        return ""
    return next(iter(get_close_matches(word, TOOLS, 1)), "")


def _print_error(error: Exception) -> None:
    text = printable_lines(str(error))
    print(f"Error: {text}", file=sys.stderr)  # noqa: T201  # the command line speaks to people


def _log_error(error: Exception) -> None:
    klog.error("command failed", err=error)


def _give_up_output() -> None:
    """Drop what is not written yet: the interpreter would complain at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _guarded(
    command: Callable[[Sequence[str]], int],
    usage: Callable[[], str],
    report: Callable[[Exception], None],
    arguments: Sequence[str],
) -> int:
    try:
        code = command(arguments)
        sys.stdout.flush()
    except UsageError as error:
        if error.show_usage:
            print(usage(), file=sys.stderr)  # noqa: T201  # as above
        _print_error(error)
        return error.exit_code
    except KubeProxyError as error:
        report(error)
        return error.exit_code
    except BrokenPipeError:
        _give_up_output()  # the reader has seen enough
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        _give_up_output()
        _print_error(OSError(f"the output cannot be written: {error.strerror}"))
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    else:
        return code
    finally:
        klog.flush()
