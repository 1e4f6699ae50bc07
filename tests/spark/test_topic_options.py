"""What `hwheel deliver` makes of topics and their options, before any broker is asked."""

import re
from types import SimpleNamespace

import pytest

from hwheel.cli.common import CommandError, spark_errors
from hwheel.cli.deliver import arguments as deliver_arguments
from hwheel.cli.deliver.places import Places
from hwheel.cli.main import main, make_parser
from hwheel.spark.deliver.delivery import STARTS, Delivery
from hwheel.spark.deliver.failures import WORKER_KILLED, WORKER_LATE
from hwheel.spark.deliver.settings import CheckpointOptionsError, WheelOptions, kept_options
from hwheel.spark.deliver.sink import dead_records
from hwheel.spark.deliver.source import as_text
from hwheel.spark.deliver.topic import KafkaOptions, Topic
from hwheel.spark.session import connector


@pytest.mark.parametrize(
    "url",
    [
        "kafka://127.0.0.1:9092/t",
        "kafka://a.b:1,c-d:65535/Some.topic_1-x",
        "kafka://[::1]:9092/t",
    ],
)
def test_a_topic_and_its_url(url):
    assert str(Topic.of(url)) == url


@pytest.mark.parametrize(
    "url",
    [
        "kafka://",
        "kafka:/b:1/t",
        "kafka://b/t",
        "kafka://b:1",
        "kafka://b:1/",
        "kafka://b:1/t/u",
        "kafka://b:1,/t",
        "kafka://b:x/t",
        "kafka://b:1/ä",
        "kafka://b:1/..",
        f"kafka://b:1/{'t' * 250}",
        "kafka://u@b:1 /t",
        "kafka://b:1/t\n",
    ],
)
def test_what_is_no_topic(url):
    with pytest.raises(ValueError, match="^a topic is kafka://HOST:PORT,HOST:PORT/TOPIC, not "):
        Topic.of(url)


def places(*arguments):
    return Places.of(make_parser().parse_args(["deliver", *arguments]))


def test_the_dead_letters_lie_beside_what_is_delivered():
    found = places("--from", "in", "--to", "kafka://b:1/t", "--checkpoint", "cp")
    assert found.dead_letters == "kafka://b:1/t-dead-letters"
    assert found.kind_of_source() == "files"
    assert places("--from", "kafka://b:1/t", "--to", "out/", "--checkpoint", "cp").dead_letters == "out-dead-letters"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--from", "kafka://b/t", "--to", "out"], "--from: a topic is kafka://HOST:PORT"),
        (["--from", "in", "--to", "kafka://b"], "--to: a topic is kafka://HOST:PORT"),
        (
            ["--from", "in", "--to", "out", "--dead-letters", "kafka:dead"],
            "--dead-letters: a topic is kafka://HOST:PORT",
        ),
        (["--from", "kafka://b:1/t", "--to", "kafka://b:1/t"], "must be four places"),
        (["--from", "kafka://a:1,b:1/t", "--to", "kafka://b:1,a:1/t"], "must be four places"),
        (["--from", "in", "--to", ""], "--to: must be a directory or a topic, not nothing"),
        (["--from", ".", "--to", "../here"], "must be four places"),
        (["--from", "in", "--to", "link"], "must be four places"),
        (["--from", "in", "--to", "file:in/"], "must be four places"),
        (["--from", "hdfs://n/in", "--to", "hdfs://n/x/../in"], "must be four places"),
        (["--from", "../here", "--to", "in/out"], "--to: in/out lies in the directory of --from"),
        (["--from", "in", "--to", "out", "--tick", "banana"], "--tick must be a number and a unit"),
        (["--from", "../here", "--to", "_x=1/out"], "--to: _x=1/out lies in the directory of --from"),
        (["--from", "in", "--to", "out", "--tick", "0s"], "--tick must be at least 1ms, not '0s'"),
        (["--from", "in", "--to", "out", "--trigger", "999999999999 weeks"], "--trigger must be shorter than"),
        (["--from", "in", "--to", "out", "--dead-letters-every", "10000000000000000ms"], "every must be shorter than"),
        (["--from", "in", "--to", "out", "--dedup", "5"], "--dedup must be a number and a unit"),
        (["--from", "in", "--to", "out", "--trigger", "soon"], "--trigger must be a number and a unit"),
        (["--from", "in", "--to", "out", "--dead-letters-every", "x"], "--dead-letters-every must be a number"),
        (["--from", "in", "--to", "out", "--dead-letters", "in/"], "must be four places"),
        (["--from", "in", "--to", "out", "--checkpoint", "kafka://b:1/t"], "--checkpoint: must be a directory"),
        (["--from", "kafka://b:1/t", "--to", "out", "--kafka-format", "headers"], "--to: .* use --format parquet"),
        (["--from", "in", "--to", "out", "--clean-source", "archive"], "--archive DIR go together"),
        (["--from", "in", "--to", "out", "--clean-source", "delete", "--archive", "a"], "--archive DIR go together"),
        (["--from", "kafka://b:1/t", "--to", "out", "--clean-source", "delete"], "--clean-source is for files"),
        (["--from", "in", "--to", "out", "--forget-files", "1 day"], "--forget-files needs --clean-source"),
        (
            ["--from", "in", "--to", "out", "--clean-source", "archive", "--archive", "out/"],
            "--archive must be five places",
        ),
        (
            ["--from", "in", "--to", "out", "--clean-source", "archive", "--archive", "in/old"],
            "--archive: in/old lies in the directory of --from",
        ),
        (
            ["--from", "in", "--to", "out", "--clean-source", "delete", "--forget-files", "x"],
            "--forget-files must be a number",
        ),
        (["--from", "in", "--to", "out", "--to-topics", "a"], "--to-topics is for records"),
        (["--from", "in", "--to", "kafka://b:1/t", "--to-topics", "a,/"], "must be names of topics"),
        (["--from", "in", "--to", "kafka://b:1/t", "--to-topics", "a", "--format", "parquet"], "has no field"),
        (["--from", "in", "--to", "kafka://b:1/t", "--carry-headers"], "--carry-headers is for records"),
        (["--from", "in", "--to", "out", "--kafka-conf", "x"], "--kafka-conf must be NAME=VALUE"),
        (["--from", "in", "--to", "out", "--kafka-conf-file", "nowhere"], "--kafka-conf-file: nowhere cannot be read"),
    ],
)
def test_places_that_cannot_be(arguments, says, capsys, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here" / "link").symlink_to("in")
    assert main(["deliver", "--checkpoint", "../cp", *arguments]) == 2
    told = capsys.readouterr()
    assert told.out == "" and told.err.count("\n") <= 2
    assert re.search(says, told.err), told.err


@pytest.mark.parametrize(
    ("source", "to", "says"),
    [
        ("{here}/a[1]", "out", r"--from: Spark takes file:.*/a\[1\] for a pattern.*\n.*without any of"),
        ("{here}/file", "out", "--from: .*/file is a file, and must be a directory"),
        ("{here}/a1", "{here}/file", "--to: .*/file is a file, and must be a directory"),
        ("{here}/a1", "x:y", "'x:y' cannot be a directory: .*\n.*without a colon"),
        ("{here}/a1", "foo://h/x", "'foo://h/x' cannot be a directory: No FileSystem for scheme .*\n.*or a URL"),
        ("{here}/a2", "out", "--from: there is no directory .*/a2"),
    ],
)
def test_directories_that_cannot_be(spark, source, to, says, tmp_path):
    for name in ("a[1]", "a1"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").write_text("")
    before = sorted(tmp_path.iterdir())
    source, to = (place.format(here=tmp_path) for place in (source, to))
    found = places("--checkpoint", f"{tmp_path}/cp", "--dead-letters", f"{tmp_path}/dead", "--from", source, "--to", to)
    with pytest.raises(CommandError, match=says), spark_errors():
        found.check(spark, KafkaOptions())
    assert sorted(tmp_path.iterdir()) == before


def test_settings_of_clients(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text(
        "# of the cluster\n\nsecurity.protocol=SASL_SSL\nacks = 1\n  ! no\n"
        'sasl.jaas.config=org.Login required \\\n  username="u" password="p=1";\n'
    )
    options = make_parser().parse_args(
        [
            "deliver",
            "--from",
            "a",
            "--to",
            "b",
            "--checkpoint",
            "c",
            "--kafka-conf-file",
            str(file),
            "--kafka-conf",
            "acks=all",
            "--kafka-format",
            "headers",
            "--starting-offsets",
            "latest",
            "--offsets-a-batch",
            "7",
            "--skip-lost-offsets",
        ]
    )
    kafka = deliver_arguments.kafka_of(options)
    jaas = kafka.conf.pop("sasl.jaas.config")
    assert jaas.split() == ["org.Login", "required", 'username="u"', 'password="p=1";']
    assert kafka == KafkaOptions("headers", {"security.protocol": "SASL_SSL", "acks": "all"}, "latest", 7, True)
    file.write_text("password\n")
    with pytest.raises(CommandError, match="client.properties must have lines NAME=VALUE$") as caught:
        deliver_arguments.kafka_of(options)
    assert "password" not in str(caught.value).replace(str(file), "")


def test_where_the_connector_comes_from():
    packages, ours = connector.PACKAGES, connector.package()
    assert connector.with_connector({"a": "b"}) == {"a": "b", packages: ours}
    assert connector.with_connector({packages: "x:y:1"}) == {packages: f"x:y:1,{ours}"}
    for given in ({packages: ""}, {packages: ours}, {connector.JARS: "a.jar"}):
        assert connector.with_connector(given) == given
    here = places("--from", "in", "--to", "out", "--checkpoint", "cp")
    assert here.settings({"a": "b"}) == {"a": "b"}
    there = places("--from", "in", "--to", "out", "--checkpoint", "cp", "--dead-letters", "kafka://b:1/t")
    assert packages in there.settings({})


def test_a_session_without_the_connector(spark):
    with pytest.raises(connector.KafkaError, match=f"--packages {connector.package()}.*spark.jars="):
        connector.check_connector(spark)


def test_dead_letters_have_the_headers_of_kafka_connect(spark):
    record = "struct<key: binary, value: binary, headers: array<struct<key: string, value: binary>>>"
    rows = [
        ("t", 3, 2**40, (b"k", b"\xff", [("trace", b"\xfe")]), "id is null"),
        ("t", 0, 0, (None, None, None), "due is null"),
    ]
    frame = spark.createDataFrame(rows, f"topic string, partition int, offset bigint, record {record}, reason string")
    first, second = dead_records(frame).collect()
    assert (bytes(first.key), bytes(first.value)) == (b"k", b"\xff") and second.key is second.value is None
    assert [(name, bytes(value)) for name, value in first.headers] == [
        ("trace", b"\xfe"),
        ("reason", b"id is null"),
        ("__connect.errors.topic", b"t"),
        ("__connect.errors.partition", b"3"),
        ("__connect.errors.offset", b"1099511627776"),
        ("__connect.errors.exception.message", b"id is null"),
    ]
    assert [name for name, _ in second.headers][:2] == ["reason", "__connect.errors.topic"]


def test_keys_of_bytes_that_differ_are_different_keys(spark):
    keys = {b"k\xc3\xa4": "k\u00e4", b"\x00\x00\x85": r"\x000085", b"\x00\x00\x86": r"\x000086", b"": "", None: None}
    frame = spark.createDataFrame([(key,) for key in keys], "record_key binary")
    found = frame.select("record_key", as_text("record_key").alias("key")).collect()
    assert {None if row.record_key is None else bytes(row.record_key): row.key for row in found} == keys


def test_a_checkpoint_stays_with_its_source(spark, tmp_path):
    from hwheel.spark.deliver.directory import Directory

    directory, defaults = Directory(spark, str(tmp_path / "cp")), WheelOptions("1 second", 16, 2, 2, "10 minutes")
    kept_options(directory, {"source": "files"}, defaults)
    assert kept_options(directory, {"source": "files"}, defaults).source == "files"
    with pytest.raises(
        CheckpointOptionsError, match="^the checkpoint was made for files, not for a topic with JSON, as --from$"
    ):
        kept_options(directory, {"source": "a topic with JSON"}, defaults)


@pytest.mark.parametrize("says", [WORKER_LATE, WORKER_KILLED])
def test_a_worker_that_starts_too_late_or_is_killed_is_given_another_try(says):
    def query(error):
        return SimpleNamespace(isActive=error is None, exception=lambda: error)

    late, made = RuntimeError(f"...{says}..."), []
    sinks = [SimpleNamespace(failure=None, like_seconds=0, batches=0) for _ in range(2)]
    start = {"messages": lambda: made.append("messages") or query(late), "dead": lambda: made.append("dead")}
    delivery = Delivery(query(None), query(RuntimeError("that")), *sinks, start)
    assert delivery.tend().what == "that"
    assert made == [] and delivery.error().startswith("that\nstart it again to go on")
    delivery.dead, delivery.messages = query(None), query(late)
    delivery.tend()
    assert made == ["messages"]
    for _ in range(2 * STARTS):
        delivery.tend()
    assert made == ["messages"] * STARTS and says in delivery.failure().details, "but not for ever"
