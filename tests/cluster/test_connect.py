"""hold_until_due over Spark Connect: the client has no Java, and the server runs on the cluster."""

import importlib.util
import json
import subprocess
import sys
import time

import pytest

import over_connect
from standalone import environment

missing = [name for name in ("grpc", "grpc_status", "zstandard") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def test_query_of_a_client_is_restarted(cluster, tmp_path):
    remote = cluster.start_connect()
    now_ms = int(time.time() * 1000)
    late_ms = now_ms + 30_000
    sent = [{"id": f"a{i}", "key": f"k{i % 3}", "due": now_ms + i, "payload": "first"} for i in range(50)]
    sent += [{"id": f"b{i}", "key": f"k{i % 3}", "due": late_ms + i, "payload": "later"} for i in range(50)]
    cancels = [{**message, "cancel": True} for message in sent[-10:]]
    (tmp_path / "in").mkdir()
    lines = [json.dumps(message) for message in [*sent, *sent[20:70], *cancels]]
    (tmp_path / "in" / "all.json").write_text("\n".join(lines))
    done = subprocess.run(
        [sys.executable, "-P", over_connect.__file__, remote, tmp_path, "90"],
        capture_output=True,
        text=True,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    rows = [*over_connect.written(tmp_path / "out")]
    assert sorted(row["id"] for row, _ in rows) == sorted(message["id"] for message in sent[:-10])
    assert all(row["due"] <= written_ms for row, written_ms in rows), "never early"
