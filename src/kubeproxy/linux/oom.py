"""How soon the kernel ends this process when memory runs out."""

from pathlib import Path

from kubeproxy.base.errors import KernelError

_OWN = Path("/proc/self/oom_score_adj")


def ensure_oom_score_adj(score: int, path: Path = _OWN) -> None:
    """Give this process a score from -1000 (never) to 1000 (first).

    A lower score than the present one takes CAP_SYS_RESOURCE.
    """
    try:
        if int(path.read_text()) != score:
            path.write_text(str(score))
    except (OSError, ValueError) as error:
        raise KernelError(f"cannot set {path} to {score}: {error}") from error
