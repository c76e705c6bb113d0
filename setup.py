"""Building the package: pyproject.toml has all of it but the commit that it is built from."""

import os
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "src"))

from kubeproxy.base.commit import FILE, of_work_tree  # noqa: E402  # found where it is built


class BuildWithCommit(build_py):
    """Copies the modules, and writes the commit beside them.

    It is that of the work tree, or the variable KUBEPROXY_COMMIT where there is only a copy of the
    files, as in the build of an image.
    """

    def run(self) -> None:
        """Build; an editable install is the work tree itself, and is asked when it runs."""
        super().run()
        commit = os.environ.get("KUBEPROXY_COMMIT") or of_work_tree(ROOT)
        if not self.editable_mode:
            target = Path(self.build_lib, "kubeproxy", "base", FILE.name)
            target.write_text(f"{commit}\n")


setup(cmdclass={"build_py": BuildWithCommit})
