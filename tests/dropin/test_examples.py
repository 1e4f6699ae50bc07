"""The example programs of the drop-ins."""

import importlib.util
import re
from pathlib import Path

import pytest

from programs import output_of

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name, *options):
    return output_of("-P", EXAMPLES / name, *options, patience_s=200)


@pytest.mark.parametrize("options", [[], ["--standard", "--devices", "200"]], ids=["hwheel", "standard"])
def test_watchdogs_report_exactly_the_silent_devices(options):
    printed = run("watchdogs.py", *options)
    count = 2 if options else 20  # one device in 100 is silent, of 200 or, by default, 2,000
    assert f"silent: those {count} that were\n" in printed
    threads = int(re.search(r"threads: (\d+)", printed)[1])
    assert threads >= 200 if options else threads < 20


def test_deliveries_example_reports_exactly_the_late_deliveries():
    printed = run("deliveries.py")
    assert re.fullmatch(r"9998 arrived, [\d.]+ us for each cancel; late: \[17, 4711\]\n", printed)


@pytest.mark.skipif(importlib.util.find_spec("resource") is None, reason="the example needs resource limits")
def test_idle_timeout_example_drops_all_idle_connections():
    printed = run("idle_timeout_server.py", "--connections", "100", "--seconds", "1", "--idle", "0.4")
    line = r"([\d,]+) messages.* dropped (\d+) while the others talked, (\d+) after, left open (\d+)"
    outcomes = re.findall(line, printed)
    assert len(outcomes) == 3
    for messages, early, late, still_open in outcomes:
        assert int(messages.replace(",", "")) >= 100
        assert int(early) + int(late) == 100
        assert int(early) >= 10 or int(late) > 90  # on a slow machine idle connections may last until the end
        assert still_open == "0"


def test_the_census_finds_the_leak_of_the_server(tmp_path):
    pytest.importorskip("rich")
    printed = run("timer_leak.py", "--svg", tmp_path / "picture.svg")
    line = (EXAMPLES / "timer_leak.py").read_text().partition("    def close_idle")[0].count("\n") + 1
    assert printed.startswith(f"  100 pending: __main__:{line} Connection.close_idle, owner __main__.Connection\n")
    for picture in (tmp_path / "picture.svg", EXAMPLES.parent / "docs" / "pictures" / "live" / "timer_leak.svg"):
        shown = picture.read_text().replace("&#160;", " ")
        assert f"__main__:{line} Connection.close_idle" in shown and "http://www.w3.org" in shown
