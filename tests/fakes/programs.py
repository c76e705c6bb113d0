"""Programs of the system, as scripts in a directory that holds all that can be found."""

from pathlib import Path

import pytest

from kubeproxy.linux import tools


def only_in(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have programs found in this directory and nowhere else."""
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.setattr(tools, "_ELSEWHERE", str(directory))


def install(directory: Path, name: str, script: str) -> None:
    """Put a program there that runs these lines of shell."""
    program = directory / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
