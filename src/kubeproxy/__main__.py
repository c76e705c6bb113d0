"""`python -m kubeproxy` is `kube-proxy`."""

import sys

from kubeproxy.app.cli import main

if __name__ == "__main__":
    sys.exit(main())
