"""Failures that are told when they happen: CI may end a run before pytest tells them."""

import pytest


class FailuresAtOnce:
    """Writes the trace of each failed test to the terminal."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        """Write to *terminal*."""
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the trace of a failed setup, test or teardown."""
        if report.failed:
            self._terminal.ensure_newline()
            self._terminal.write_sep("_", f"{report.nodeid} ({report.when}, {report.duration:.0f} s)", red=True)
            self._terminal.write_line(report.longreprtext)


def tell_failures_at_once(config: pytest.Config) -> None:
    """Begin to tell failures; a worker of pytest-xdist has no terminal and leaves that to its controller."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailuresAtOnce(terminal))
