"""Prometheus' own judgement of the alert rules: whether they are valid, and when they fire."""

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from deploy.overlays import overlay

INTERVAL = 30
"""Seconds between two values of a series, as the ServiceMonitor has it."""
_RULES, _TEST = "rules.yaml", "test.yaml"


def write_rules(directory: Path) -> Path:
    """The rules of deploy/monitoring as a file that Prometheus reads, without the operator."""
    path = directory / _RULES
    path.write_text(yaml.safe_dump(overlay("monitoring")["PrometheusRule", "kubeproxy"]["spec"]))
    return path


def promtool(*arguments: str) -> str:
    """Run it; what it objects to is a failure."""
    beside = str(Path(sys.executable).parent)
    program = shutil.which("promtool", path=beside) or shutil.which("promtool")
    assert program is not None, "promtool is missing: run `make packages`"
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_test(
    directory: Path, series: Mapping[str, str], **expected: Sequence[Mapping[str, object]]
) -> None:
    """Have the rules meet these series, whose values are in promtool's notation.

    `expected` is `alert_rule_test` or `promql_expr_test`, as promtool reads it.
    """
    interval = f"{INTERVAL}s"
    test = {
        "interval": interval,
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        **{kind: list(each) for kind, each in expected.items()},
    }
    document = {
        "rule_files": [str(write_rules(directory))],
        "evaluation_interval": interval,
        "tests": [test],
    }
    path = directory / _TEST
    path.write_text(yaml.safe_dump(document))
    promtool("test", "rules", str(path))


def expect_firing(
    directory: Path, series: Mapping[str, str], minutes: int, alerts: Sequence[str]
) -> None:
    """Fail unless exactly these alerts fire after so many minutes of the series, each once."""
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in alerts]
    asked = 'count by (alertname) (ALERTS{alertstate="firing"})'
    expected = {"expr": asked, "eval_time": f"{minutes}m", "exp_samples": samples}
    run_test(directory, series, promql_expr_test=[expected])
