"""`kube-proxy bundle`: all that somebody needs who looks for a fault, in one file."""

import contextlib
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Final

from msgspec import DecodeError
from msgspec.structs import replace

from kubeproxy.base.errors import FieldError, OperatorError, reason_of
from kubeproxy.config.flagset import HELP, Flag, Parsed
from kubeproxy.config.kinds import BOOL, DURATION, STRING, STRINGS
from kubeproxy.config.values import Duration, of_seconds
from kubeproxy.serve.status.words import plural
from kubeproxy.tools import client
from kubeproxy.tools.bundle.archive import Part, contents, packed
from kubeproxy.tools.bundle.hide import (
    Replace,
    hidden,
    hiding_addresses,
    hiding_names,
    names_in,
    replacements,
)
from kubeproxy.tools.bundle.parts import gathered, wanted
from kubeproxy.tools.command import Command, say

NAMES: Final = "names"
ADDRESSES: Final = "addresses"
_STANDARD_OUTPUT: Final = "-"
_PROSE: Final = frozenset({"check.txt", "metrics.txt", "versions.txt"})
"""Parts in which a slash does not mean a name."""
_FLAGS: Final = (
    Flag(
        "file",
        STRING,
        "",
        "Where to write it, '-' for standard output; default: kube-proxy-bundle-TIME.tar.gz here.",
        shorthand="f",
    ),
    Flag("force", BOOL, False, "Replace the file if there is one."),
    Flag(
        "hide",
        STRINGS,
        (),
        f"Replace all '{NAMES}' (of Services, namespaces, nodes and hosts), '{ADDRESSES}', or both"
        " with a comma between them.",
    ),
    Flag("timeout", DURATION, of_seconds(60), "How long to wait for each part."),
    *client.FLAGS,
    HELP,
)
_AFTERWARDS: Final = """
Changes nothing. A part that cannot be had is left out; the bundle and the terminal say why. Run
it as root on the node, or in the proxy's pod:

  kubectl -n kube-system exec POD -- kube-proxy bundle -f - > bundle.tar.gz

Exit codes: 0 when the file is written, 1 when it is not.
"""


def _run(parsed: Parsed) -> int:
    target, hide = parsed.value("file", str), _hide(parsed)
    now = time.time()
    folder = name_at(now)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # leaves nothing, as Ctrl-C
    if target == _STANDARD_OUTPUT:
        if sys.stdout.isatty():
            raise FieldError("file", target, "this is a terminal: redirect the output")
        sys.stdout.buffer.write(_packed(folder, _hidden(_gathered(parsed), hide), hide, now))
        return 0
    path = Path(target or f"{folder}.tar.gz")
    with new_file(path, force=parsed.value("force", bool)) as file:
        parts = _hidden(_gathered(parsed), hide)
        file.write(_packed(folder, parts, hide, now))
        size = file.tell()
    there = sum(not part.missing for part in parts)
    _report(f"{path}: {plural(there, 'part')} of {len(parts)}, {_size(size)}")
    return 0


def name_at(now: float) -> str:
    """What a bundle of that time is called."""
    return time.strftime("kube-proxy-bundle-%Y%m%dT%H%M%SZ", time.gmtime(now))


def _packed(folder: str, parts: Sequence[Part], hide: Sequence[str], now: float) -> bytes:
    at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    head = [f"A bundle of kube-proxy, of {at}."]
    if hide:
        head.append(f"Replaced in it, the same each time: {' and '.join(hide)}.")
    listed = Part("contents.txt", "this list", contents(parts, head).encode())
    return packed(folder, [listed, *parts], now)


COMMAND: Final = Command("bundle", _FLAGS, _run, _AFTERWARDS, meant="file")
main, usage_text = COMMAND.main, COMMAND.usage_text


def _hide(parsed: Parsed) -> Sequence[str]:
    given = [str(each).strip() for each in parsed.value("hide", tuple)]
    for each in given:
        if each not in {NAMES, ADDRESSES}:
            raise FieldError("hide", each, f"must be {NAMES}, {ADDRESSES}, or both")
    return sorted(set(given), reverse=True)


# --- gathering --------------------------------------------------------------------------------


def _gathered(parsed: Parsed) -> list[Part]:
    daemon = client.connect(parsed)
    flags = [
        f"--{name}={parsed.value(name, str)}"
        for name in ("socket", "address")
        if parsed.value(name, str)
    ]
    seconds = parsed.value("timeout", Duration)
    if seconds <= Duration():
        raise FieldError("timeout", str(seconds), "must be above 0")
    parts = []
    for each in wanted(daemon, flags, seconds.seconds):
        part = gathered(each)
        parts.append(part)
        _report(f"  {part.name:<26} {part.missing or _size(len(part.data))}")
    return parts


def _report(text: str) -> None:
    say(text, sys.stderr)
    sys.stderr.flush()


def _size(number: int) -> str:
    return f"{number / 1000:,.1f} kB"


def _hidden(parts: Sequence[Part], hide: Sequence[str]) -> list[Part]:
    """The parts, with names and addresses replaced as is wanted."""
    shown = list(parts)
    for each in hide:
        replaced = hiding_addresses(secrets.token_bytes(16))
        if each == NAMES:
            replaced = _hiding_names(parts)
        shown = [_replaced(part, replaced) for part in shown]
    return shown


def _replaced(part: Part, replaced: Replace) -> Part:
    if part.missing:
        return replace(part, missing=replaced(part.missing))
    try:
        return replace(part, data=hidden(part.name, part.data, replaced))
    except DecodeError as error:  # what cannot be read cannot be hidden
        return replace(part, data=b"", missing=f"names in it cannot be replaced: {error}")


def _hiding_names(parts: Sequence[Part]) -> Replace:
    found = [(socket.gethostname(), "node")]
    for part in parts:
        if part.name not in _PROSE:
            with contextlib.suppress(DecodeError):  # then the part is left out
                found += names_in(part.name, part.data)
    return hiding_names(replacements(found))


# --- the file ---------------------------------------------------------------------------------


@contextlib.contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[IO[bytes]]:
    """A file for its owner alone, which is there when all is written, and else never was."""
    if path.exists() and not force:
        raise _exists(path)
    try:
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.") as half:
            yield half
            half.flush()
            if force:  # a link cannot replace
                path.unlink(missing_ok=True)
            os.link(half.name, path)
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError as error:
        raise OperatorError(f"{path} cannot be written: {reason_of(error)}") from error


def _exists(path: Path) -> OperatorError:
    return OperatorError(f"{path} exists: give --force to replace it, or another --file")
