"""The lag of messages in the files of `hwheel deliver`, on the system clock."""

import json
import time
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

from hwheel.spark.deliver.delivery import start_delivery
from hwheel.spark.deliver.settings import DeliverySettings, Places, WheelOptions

SETTINGS = (("1 second", "1 second"), ("250 milliseconds", "100 milliseconds"))  # trigger and tick
SECONDS = 60
A_SECOND = 10_000
WARM_UP_S = 25  # earlier messages are not counted, because workers start and Java compiles


def lags(spark: SparkSession, directory: Path, trigger: str, tick: str) -> dict[str, object]:
    """Send messages that are due within 5 to 15 s, and compare when their files were written."""
    (directory / "in").mkdir(parents=True)
    to = directory / "out"
    places = Places(*(str(directory / name) for name in ("in", "out", "dead", "checkpoint")))
    wheel = WheelOptions(tick, 512, 2, 2, "10 minutes")
    delivery = start_delivery(spark, DeliverySettings(places, wheel, trigger=trigger))
    rng, number = np.random.default_rng(0), 0
    counted_from_ms = int((time.time() + WARM_UP_S) * 1000)
    begun = time.monotonic()
    for second in range(SECONDS):
        now_ms = int(time.time() * 1000)
        hidden = directory / "in" / f".{second}"
        with hidden.open("w") as file:
            for due in (now_ms + 5000 + rng.integers(0, 10_000, A_SECOND)).tolist():
                message = {"id": f"m{number}", "key": f"k{number % 1000}", "due": due, "payload": "p" * 32}
                file.write(json.dumps(message) + "\n")
                number += 1
        hidden.rename(hidden.with_name(f"{second}.json"))
        time.sleep(max(0.0, begun + second + 1 - time.monotonic()))
    while delivery.sink.rows < number:
        if (error := delivery.error()) is not None:
            raise RuntimeError(error)
        time.sleep(0.2)
    delivery.stop()
    late = []
    for out in to.glob("*.json"):
        written_ms = out.stat().st_mtime_ns // 1_000_000
        dues = [json.loads(line)["due"] for line in out.read_text().splitlines()]
        late += [written_ms - due for due in dues if due >= counted_from_ms]
    p50, p99, most = np.percentile(late, [50, 99, 100])
    return {
        "messages": len(late),
        "a second": A_SECOND,
        "trigger": trigger,
        "tick": tick,
        "p50 s": round(p50 / 1000, 2),
        "p99 s": round(p99 / 1000, 2),
        "max s": round(most / 1000, 2),
        "early": sum(one < 0 for one in late),
    }
