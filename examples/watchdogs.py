"""Watchdogs for many devices, before and after changing one import.

    python examples/watchdogs.py [--devices N] [--standard]

Each device has a watchdog, a Timer that reports the device as silent. Each message of the device cancels the old Timer
and starts a new one. With threading.Timer this is limited to a few thousand devices, because each pending Timer is a
thread. --standard uses threading.Timer; by default the Timer is hwheel's, and the rest of the program is the same.
"""

import argparse
import threading
import time

SILENCE_S = 2.0


class Device:
    """A device with its watchdog."""

    def __init__(self, number: int, timer_class: type[threading.Timer], silent: list[int]) -> None:
        self.number = number
        self.timer_class = timer_class
        self.silent = silent
        self.watchdog: threading.Timer | None = None

    def report(self) -> None:
        """Restart the watchdog after a message of the device."""
        self.stop()
        self.watchdog = self.timer_class(SILENCE_S, self.silent.append, [self.number])
        self.watchdog.daemon = True
        self.watchdog.start()

    def stop(self) -> None:
        if self.watchdog is not None:
            self.watchdog.cancel()


def watch(devices: int, timer_class: type[threading.Timer]) -> None:
    silent: list[int] = []
    watched = [Device(number, timer_class, silent) for number in range(devices)]
    threads_before = threading.active_count()
    begin = time.perf_counter()
    for one in watched:
        one.report()
    each_us = (time.perf_counter() - begin) / devices * 1e6
    print(f"{devices} watchdogs in {each_us:.1f} us each; threads: {threading.active_count() - threads_before}")
    give_up = time.monotonic() + 60
    while len(silent) < devices / 100 and time.monotonic() < give_up:
        for one in watched:
            if one.number % 100 != 7:  # one in a hundred is silent
                one.report()
        time.sleep(SILENCE_S / 20)
    for one in watched:
        one.stop()
    print("silent:", all(number % 100 == 7 for number in silent) and f"those {len(silent)} that were" or sorted(silent))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=2000)
    parser.add_argument("--standard", action="store_true", help="use threading.Timer, with a thread for each")
    options = parser.parse_args()
    if options.standard:
        from threading import Timer
    else:
        from hwheel import Timer
    watch(options.devices, Timer)


if __name__ == "__main__":
    main()
