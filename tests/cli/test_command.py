"""The command line: help, version, bad options, and JSON without rich."""

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hwheel
import hwheel_core
from hwheel.cli.main import main
from programs import output_of

WITHOUT_RICH = "import sys; sys.modules['rich'] = None; from hwheel.__main__ import main; sys.exit(main())"


def refused(capsys, *arguments):
    """Return the one line on standard error of a command that fails."""
    try:
        status = main([*arguments])
    except SystemExit as stop:
        status = stop.code
    captured = capsys.readouterr()
    assert status == 2
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    return captured.err


def test_the_version_names_the_build_and_the_interpreter(tmp_path):
    version, core, python = output_of("-m", "hwheel", "--version", cwd=tmp_path).splitlines()
    assert version == f"hwheel {hwheel.__version__}"
    kind = "debug" if hwheel_core.DEBUG else "release"
    assert re.fullmatch(rf"core: {kind} build, \w.* with -O2 -pthread.*, Cython 3\.\d+\.\d+", core)
    assert re.fullmatch(rf"python: CPython {re.escape(platform.python_version())} with(out)? the GIL, \w+ \w+", python)


@pytest.mark.parametrize(
    "command", [[], ["demo"], ["run"], ["trace"], ["tune"], ["deliver"], ["pending"], ["letters"], ["move"], ["top"]]
)
def test_help_has_examples_and_fits_80_columns(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        main([*command, "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert "examples:\n  hwheel " in text
    assert max(map(len, text.splitlines())) <= 80


def test_without_a_command_help_goes_to_stderr_with_status_2(capsys):
    assert main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and "hwheel trace" in captured.err


def test_without_rich_trace_json_works(tmp_path):
    assert len(json.loads(output_of("-c", WITHOUT_RICH, "trace", "--json", cwd=tmp_path))["steps"]) == 19


@pytest.mark.parametrize(
    ("redirection", "status", "text"),
    [(">&-", 0, ""), ("> /dev/full", 2, "hwheel trace: cannot write: No space left on device\n")],
)
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux")
def test_closed_or_full_standard_output(redirection, status, text, tmp_path):
    done = subprocess.run(
        f"'{sys.executable}' -P -m hwheel trace --json {redirection}",
        shell=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (status, text)


def test_a_closed_pipe_causes_no_traceback(tmp_path):
    done = subprocess.run(
        f"'{sys.executable}' -P -m hwheel trace --json --delays $(seq 1000) | head -c 1",  # about 2 MB of output
        shell=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == ("{", "")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["fly"], "fly"),
        (["trace", "--tick", "0"], "--tick/--tick-ms: must be at least 1, not 0"),
        (["trace", "--tick", "one"], "'one' is not a whole number"),
        (["trace", "--tick", "4611686018427387904"], "64 bits"),
        (["trace", "--wheel-size", "1"], "--wheel-size: must be from 2 to 1048576, not 1"),
        (["trace", "--wheel-size", "1048577"], "--wheel-size"),
        (["trace", "--start", "-1"], "--start/--start-ms: must be at least 0, not -1"),
        (["trace", "--delays", "5,,6"], "--delays: '' is not a whole number"),
        (["trace", "--delays"], "--delays"),
        (["trace", "--start", "1", "--delays", "9223372036854775807"], "64 bits"),
        (["trace", "--delays", "9223372036854775808"], "--delays"),
        (["trace", "--unknown"], "--unknown"),
        (["demo", "--count", "0"], "--count: must be at least 1, not 0"),
        (["demo", "--rate", "0"], "--rate: must be above 0, not 0"),
        (["demo", "--rate", "nan"], "--rate: must be finite, not nan"),
        (["demo", "--cancel-ratio", "1.5"], "--cancel-ratio: must be from 0 to 1, not 1.5"),
        (["demo", "--cancel-ratio", "most"], "'most' is not a number"),
        (["demo", "--tick-ms", "0"], "must be at least 1, not 0"),
        (["demo", "--tick-ms", "4611686018427387904"], "64 bits"),
        (["demo", "--wheel-size", "1"], "must be from 2 to"),
        (["demo", "--timeout-ms", "5", "4"], "MIN must not be above MAX, got 5 4"),
        (["demo", "--timeout-ms", "-5", "4"], "must be above 0, not -5"),
        (["demo", "--seed", "-1"], "--seed"),
        (["tune", "nowhere"], "no such file or directory"),
        (["tune", ".", "--master", "local"], "need --spark"),
        (["tune", ".", "--spark", "--per-file"], "cannot be used with --spark"),
        (["tune", ".", "--key", "user"], "need --spark"),
        (["tune", ".", "--spark", "--key", "user"], "must be given together"),
        (["tune", ".", "--ticks", "0"], "must be at least 1"),
    ],
)
def test_a_bad_option_prints_one_line_and_returns_status_2(arguments, text, capsys):
    line = refused(capsys, *arguments)
    assert line.startswith("hwheel")
    assert text in line


@pytest.mark.parametrize("verbose", [False, True])
def test_only_verbose_shows_the_traceback_of_an_unexpected_error(verbose, capsys, monkeypatch):
    def fail(options):
        raise RuntimeError("the reason\nin full\n\nand a dump")

    monkeypatch.setattr("hwheel.cli.trace.command.run", fail)
    assert main(["trace", *["--verbose"] * verbose]) == 2
    done = capsys.readouterr()
    lines = done.err.splitlines()
    assert lines[-2] == "hwheel trace: RuntimeError: the reason in full" and "--verbose" in lines[-1]
    assert ("Traceback" in done.err) == verbose and (len(lines) > 2) == verbose and done.out == ""


def test_running_main_by_path_does_not_shadow_the_standard_library():
    path = Path(hwheel.__file__).with_name("__main__.py")
    assert hwheel.__version__ in output_of(str(path), "--version")
