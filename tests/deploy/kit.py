"""The files of `deploy/`, and the tools that check them."""

import subprocess
from pathlib import Path

from tests.programs import required

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def promtool() -> str:
    """Return the path of promtool; skip the test without one, and fail it if CI is set."""
    words = "no promtool was found: run tools/ensure_promtool.sh, or set LRQ_TEST_PROMTOOL to the path of one"
    return required("LRQ_TEST_PROMTOOL", "promtool", str(ROOT / ".venv/promtool/usr/bin/promtool"), words=words)


def prometheus() -> str:
    """Return the path of Prometheus, which comes with promtool; without one, skip the test, or fail in CI."""
    words = "no prometheus was found beside promtool: run tools/ensure_promtool.sh, or set LRQ_TEST_PROMETHEUS"
    beside = Path(promtool()).with_name("prometheus")
    return required("LRQ_TEST_PROMETHEUS", str(beside), "prometheus", words=words)


def helm() -> str:
    """Return the path of helm; skip the test without one, and fail it if CI is set."""
    words = "no helm was found: run tools/ensure_helm.sh, or set LRQ_TEST_HELM to the path of one"
    return required("LRQ_TEST_HELM", "helm", str(ROOT / ".venv/helm/helm"), words=words)


def systemd_analyze() -> str:
    """Return the path of systemd-analyze; skip the test without it, and fail it if CI is set."""
    words = "no systemd-analyze was found: run tools/ensure_systemd.sh, or set LRQ_TEST_SYSTEMD to the path of one"
    return required("LRQ_TEST_SYSTEMD", "systemd-analyze", words=words)


def systemctl() -> str:
    """Return the path of systemctl, which comes with systemd-analyze; without it, skip the test, or fail in CI."""
    words = "no systemctl was found beside systemd-analyze: run tools/ensure_systemd.sh"
    return required("", str(Path(systemd_analyze()).with_name("systemctl")), words=words)


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a tool with text output, also from its stderr."""
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
