"""`kube-proxy completion SHELL` prints the completion of a shell, `complete` what it asks for."""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from kubeproxy.base.errors import KubeProxyError, OperatorError
from kubeproxy.base.printable import printable
from kubeproxy.config.flags import FLAGS
from kubeproxy.config.flagset import HELP, Parsed
from kubeproxy.serve.status.wire import ServiceList
from kubeproxy.tools import client
from kubeproxy.tools.command import Command, say
from kubeproxy.tools.names import TOOLS
from kubeproxy.tools.shell.candidates import SHELLS, CommandLine, Word, candidates

_SCRIPTS: Final = {"bash": "kube-proxy.bash", "zsh": "_kube-proxy", "fish": "kube-proxy.fish"}
_MOST: Final = 500
_AFTER: Final = """
Try it in a running shell:
  bash   source <(kube-proxy completion bash)
  zsh    source <(kube-proxy completion zsh)
  fish   kube-proxy completion fish | source

Keep it, where the package did not already bring it:
  bash   kube-proxy completion bash > ~/.local/share/bash-completion/completions/kube-proxy
  zsh    kube-proxy completion zsh > DIRECTORY/_kube-proxy, in a directory of $fpath
  fish   kube-proxy completion fish > ~/.config/fish/completions/kube-proxy.fish

Names of Services come from the running proxy, for root and the proxy's own user.
"""


def script(shell: str) -> str:
    """The completion of a shell, to be sourced by it."""
    return Path(__file__).with_name(_SCRIPTS[shell]).read_text()


def _run(parsed: Parsed) -> int:
    if len(parsed.positionals) != 1 or parsed.positionals[0] not in SHELLS:
        raise OperatorError(f"say which shell: kube-proxy completion {'|'.join(SHELLS)}")
    say(script(parsed.positionals[0]).rstrip("\n"))
    return 0


COMMAND: Final = Command(
    "completion bash|zsh|fish", (HELP,), _run, after=_AFTER, takes_arguments=True
)
main, usage_text = COMMAND.main, COMMAND.usage_text


# --- what the scripts ask for -----------------------------------------------------------------


def complete(arguments: Sequence[str]) -> int:
    """Print what the last word may become, a word and what it is in a line."""
    words = [*arguments[1:]] if arguments[:1] == ["--"] else [*arguments]
    for word in candidates(command_line(words or [""]), _services):
        say(f"{word.text}\t{printable(word.about)}" if word.about else word.text)
    return 0


def command_line(words: Sequence[str]) -> CommandLine:
    """Which command is typed, and what behind it."""
    commands = [Word(name, tool.what) for name, tool in TOOLS.items()]
    first, rest = words[0], words[1:]
    if first == "help" and rest:
        return CommandLine((), rest, commands)
    if not rest or first not in TOOLS:
        return CommandLine(FLAGS, words, () if rest else [*commands, Word("help")])
    command: Command = import_module(f"kubeproxy.tools.{TOOLS[first].module}").COMMAND
    if first == "completion":
        return CommandLine(command.flags, rest, [Word(shell) for shell in SHELLS])
    return CommandLine(command.flags, rest, None if command.takes_arguments else ())


def _services(given: Mapping[str, str], text: str) -> Iterator[str]:
    """The Services of the running proxy with a text in their name; none where none answers."""
    places = [given[flag.name] for flag in client.FLAGS if given.get(flag.name)]
    daemon = client.Client(places or (client.SOCKET, client.ADDRESS))
    try:
        found = daemon.get(client.SERVICES, ServiceList, {"q": text, "limit": str(_MOST)})
    except KubeProxyError:
        return
    for each in found.services:
        yield f"{each.namespace}/{each.service}"
