"""`make bench`: measure everything in one run, print tables, write JSON, and draw pictures. See README.md."""

import argparse
import json
import os
import sys
from dataclasses import asdict
from io import TextIOWrapper
from pathlib import Path
from typing import Any

try:
    import numpy  # noqa: F401
    from rich.console import Console
except ImportError as missing:
    sys.exit(f"{missing}. The benchmarks need: pip install --group bench (make bench does that)")

sys.path.insert(0, str(Path(__file__).parent))
from containers import cached, delaying, expiring
from core import all_entries, headlines, lateness, memory, operations, pause, slack, threads, wheel_sizes
from lib.machine import load_average, machine
from lib.pictures import NoMatplotlib, draw
from lib.settings import ALL

OUT = Path(__file__).parents[1] / "build" / "bench"

# Each has measure(settings, on_turn), which returns the part of the JSON, and show(part, console).
PARTS: dict[str, Any] = {
    "operations": operations,
    "memory": memory,
    "pause": pause,
    "all_entries": all_entries,
    "wheel_sizes": wheel_sizes,
    "lateness": lateness,
    "slack": slack,
    "containers": expiring,
    "cached": cached,
    "queues": delaying,
    "threads": threads,
}


def main(arguments: list[str] | None = None) -> int:
    """Run the command, and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    usual_size = "full" if os.environ.get("QUICK", "") in ("", "0") else "quick"
    parser.add_argument("--size", choices=ALL, default=usual_size, help="how much to measure")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; may be given several times")
    parser.add_argument("--out", type=Path, default=OUT, help="where to put the JSON and the pictures")
    options = parser.parse_args(arguments)
    settings = ALL[options.size]
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # so that a log shows progress
    console = Console(width=None if sys.stdout.isatty() else 160)
    result: dict[str, Any] = {"settings": asdict(settings), "machine": machine()}
    about = result["machine"]
    console.print(
        f"hwheel {about['hwheel']} ({about['commit']}), {about['python']}, {about['processors']} processors "
        f"of {about['processor']}, load average {about['load_average'][0]}; {settings.name} run\n"
    )
    if about["hwheel_debug_build"]:
        console.print("This is a debug build of hwheel: its figures mean nothing.", style="red")
    for name in options.only or PARTS:
        if not console.is_terminal:
            console.print(f"measuring: {name}")
        with console.status(name) as status:
            result[name] = PARTS[name].measure(settings, lambda turn, name=name: status.update(f"{name}, {turn}"))
        PARTS[name].show(result[name], console)
    headlines.show(result, console)
    result["machine"]["load_average_at_end"] = load_average()
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "bench.json").write_text(json.dumps(result, indent=1))
    console.print(f"\n{options.out / 'bench.json'}: all figures, round by round")
    try:
        for file in draw(result, options.out):
            console.print(str(file))
    except NoMatplotlib as missing:
        console.print(str(missing), style="yellow")
    return 0


if __name__ == "__main__":
    sys.exit(main())
