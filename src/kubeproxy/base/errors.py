"""The base of our exceptions; the type says whose fault it is. Packages derive their own.

An error names the object and what to do, so that nothing is added where it is caught: in the
command line, the sync loop, and the reconnect loop of a source.
"""


class KubeProxyError(Exception):
    """Anything that we raise on purpose. `exit_code` is what a command ends with because of it."""

    exit_code = 1


class OperatorError(KubeProxyError):
    """The operator can mend it: a flag, a file, a missing permission."""


class FieldError(OperatorError):
    """A part of a question has a wrong value: an option of a command, a parameter of a URL.

    The text is for the command line; other edges make theirs of the fields.
    """

    def __init__(self, field: str, value: str, reason: str) -> None:
        super().__init__(f"--{field} {value}: {reason}")
        self.field = field
        self.value = value
        self.reason = reason


def reason_of(error: OSError) -> str:
    """The text of the operating system, in lower case as Go programs write it."""
    return (error.strerror or str(error)).lower()


class KernelError(KubeProxyError):
    """The kernel, or a tool that stands for it, refused."""


class ApiServerError(KubeProxyError):
    """The API server refused, or answered with something that is not its protocol."""


class NoDaemonError(KubeProxyError):
    """No running kube-proxy answers."""

    exit_code = 3
