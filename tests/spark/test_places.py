"""The arguments of `hwheel deliver`: places that are directories or topics, and settings of Kafka clients."""

import re
from contextlib import suppress

import pytest

from hwheel.cli.common import CommandError, spark_errors
from hwheel.cli.deliver import arguments as deliver_arguments
from hwheel.cli.deliver.places import check_exist, places_of, session_conf, source_kind
from hwheel.cli.main import main, make_parser
from hwheel.spark.deliver.sink import dead_records
from hwheel.spark.deliver.source import as_text
from hwheel.spark.deliver.topic import KafkaOptions, Topic
from hwheel.spark.session import connector


@pytest.mark.parametrize("url", ["kafka://127.0.0.1:9092/t", "kafka://a.b:1,c-d:65535/Some.t_1-x", "kafka://[::1]:1/t"])
def test_topic_url(url):
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
def test_malformed_topic_url(url):
    with pytest.raises(ValueError, match="^a topic is kafka://HOST:PORT,HOST:PORT/TOPIC, not "):
        Topic.of(url)


def options_of(*arguments):
    return make_parser().parse_args(["deliver", "--checkpoint", "cp", *arguments])


def places(*arguments):
    return places_of(options_of(*arguments))


def test_default_place_of_dead_letters():
    to_topic = places("--from", "in", "--to", "kafka://b:1/t")
    assert to_topic.dead_letters == "kafka://b:1/t-dead-letters"
    assert source_kind(to_topic, KafkaOptions()) == "files"
    assert places("--from", "kafka://b:1/t", "--to", "out/").dead_letters == "out-dead-letters"


FOUR_PLACES = "must be 4 different places"
INSIDE = "is inside the directory of --from"
UNIT = "must be a number and a unit"


@pytest.mark.parametrize(
    ("source", "to", "more", "message"),
    [
        ("kafka://b/t", "out", "", "--from: a topic is kafka://HOST:PORT"),
        ("in", "kafka://b", "", "--to: a topic is kafka://HOST:PORT"),
        ("in", "out", "--dead-letters kafka:dead", "--dead-letters: a topic is kafka://HOST:PORT"),
        ("kafka://b:1/t", "kafka://b:1/t", "", FOUR_PLACES),
        ("kafka://a:1,b:1/t", "kafka://b:1,a:1/t", "", FOUR_PLACES),
        (".", "../here", "", FOUR_PLACES),
        ("in", "link", "", FOUR_PLACES),
        ("in", "file:in/", "", FOUR_PLACES),
        ("in", "in/", "", FOUR_PLACES),
        ("hdfs://n/in", "hdfs://n/x/../in", "", FOUR_PLACES),
        ("in", "out", "--dead-letters in/", FOUR_PLACES),
        ("in", "", "", "--to: must be a directory or a topic, not empty"),
        ("../here", "in/out", "", f"--to: in/out {INSIDE}"),
        ("../here", "_x=1/out", "", f"--to: _x=1/out {INSIDE}"),
        ("in", "out", "--checkpoint kafka://b:1/t", "--checkpoint: must be a directory"),
        ("in", "out", "--tick banana", f"--tick {UNIT}"),
        ("in", "out", "--tick 0s", "--tick must be at least 1ms, not '0s'"),
        ("in", "out", "--trigger soon", f"--trigger {UNIT}"),
        ("in", "out", "--trigger 999999999999weeks", "--trigger must be at most"),
        ("in", "out", "--dead-letters-every x", "--dead-letters-every must be a number"),
        ("in", "out", "--dead-letters-every 10000000000000000ms", "every must be at most"),
        ("in", "out", "--dedup 5", f"--dedup {UNIT}"),
        ("in", "out", "--shards 0", "--shards: must be from 1"),
        ("in", "out", "--conf x", "--conf must be NAME=VALUE"),
        ("in", "out", "--clean-source archive", "--archive DIR go together"),
        ("in", "out", "--clean-source delete --archive a", "--archive DIR go together"),
        ("in", "out", "--clean-source archive --archive out/", "--archive must be 5 different places"),
        ("in", "out", "--clean-source archive --archive in/old", f"--archive: in/old {INSIDE}"),
        ("kafka://b:1/t", "out", "--clean-source delete", "--clean-source is for files"),
        ("in", "out", "--forget-files 1day", "--forget-files needs --clean-source"),
        ("in", "out", "--clean-source delete --forget-files x", "--forget-files must be a number"),
        ("kafka://b:1/t", "out", "--kafka-format headers", "--to: .* use --format parquet"),
        ("in", "out", "--to-topics a", "--to-topics is for records"),
        ("in", "kafka://b:1/t", "--to-topics a,/", "must be names of topics"),
        ("in", "kafka://b:1/t", "--to-topics a --format parquet", "has no field"),
        ("in", "kafka://b:1/t", "--carry-headers", "--carry-headers is for records"),
        ("in", "out", "--kafka-conf x", "--kafka-conf must be NAME=VALUE"),
        ("in", "out", "--kafka-conf-file nowhere", "--kafka-conf-file: nowhere cannot be read"),
    ],
)
def test_invalid_arguments_are_refused(source, to, more, message, capsys, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here" / "link").symlink_to("in")
    with suppress(SystemExit):  # argparse exits by itself
        assert main(["deliver", "--checkpoint", "../cp", "--from", source, "--to", to, *more.split()]) == 2
    written = capsys.readouterr()
    assert written.out == "" and written.err.count("\n") <= 2
    assert re.search(message, written.err), written.err


@pytest.mark.parametrize(
    ("source", "to", "message"),
    [
        ("{here}/a[1]", "out", r"--from: Spark takes file:.*/a\[1\] for a pattern.*\n.*none of"),
        ("{here}/file", "out", "--from: .*/file is a file, but must be a directory"),
        ("{here}/a1", "{here}/file", "--to: .*/file is a file, but must be a directory"),
        ("{here}/a1", "x:y", "'x:y' cannot be a directory: .*\n.*without a colon"),
        ("{here}/a1", "foo://h/x", "'foo://h/x' cannot be a directory: No FileSystem for scheme .*\n.*or a URL"),
        ("{here}/a2", "out", "--from: the directory .*/a2 does not exist"),
    ],
)
def test_unusable_directories_are_refused_before_anything_is_created(spark, source, to, message, tmp_path):
    for name in ("a[1]", "a1"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").write_text("")
    before = sorted(tmp_path.iterdir())
    source, to = (place.format(here=tmp_path) for place in (source, to))
    found = places("--checkpoint", f"{tmp_path}/cp", "--dead-letters", f"{tmp_path}/dead", "--from", source, "--to", to)
    with pytest.raises(CommandError, match=message), spark_errors():
        check_exist(found, spark, KafkaOptions())
    assert sorted(tmp_path.iterdir()) == before


def test_settings_of_kafka_clients(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text(
        "# of the cluster\n\nsecurity.protocol=SASL_SSL\nacks = 1\n  ! no\n"
        'sasl.jaas.config=org.Login required \\\n  username="u" password="p=1";\n'
    )
    options = options_of(
        *["--from", "a", "--to", "b", "--kafka-conf-file", str(file)],
        *"--kafka-conf acks=all --kafka-format headers --starting-offsets latest".split(),
        *"--offsets-a-batch 7 --skip-lost-offsets".split(),
    )
    kafka = deliver_arguments.kafka_of(options)
    jaas = kafka.conf.pop("sasl.jaas.config")
    assert jaas.split() == ["org.Login", "required", 'username="u"', 'password="p=1";']
    assert kafka == KafkaOptions("headers", {"security.protocol": "SASL_SSL", "acks": "all"}, "latest", 7, True)
    file.write_text("password\n")
    with pytest.raises(CommandError, match="client.properties must have lines NAME=VALUE$") as caught:
        deliver_arguments.kafka_of(options)
    assert "password" not in str(caught.value).replace(str(file), "")


def test_kafka_connector_is_added_to_the_packages_if_needed():
    packages, ours = connector.PACKAGES, connector.package()
    assert connector.with_connector({"a": "b"}) == {"a": "b", packages: ours}
    assert connector.with_connector({packages: "x:y:1"}) == {packages: f"x:y:1,{ours}"}
    for given in ({packages: ""}, {packages: ours}, {connector.JARS: "a.jar"}):
        assert connector.with_connector(given) == given
    assert session_conf(places("--from", "in", "--to", "out"), {"a": "b"}) == {"a": "b"}
    with_topic = places("--from", "in", "--to", "out", "--dead-letters", "kafka://b:1/t")
    assert packages in session_conf(with_topic, {})


def test_session_without_the_connector_is_refused(spark):
    with pytest.raises(connector.KafkaError, match=f"--packages {connector.package()}.*spark.jars="):
        connector.check_connector(spark)


def test_dead_letters_have_the_headers_of_kafka_connect(spark):
    record = "struct<key: binary, value: binary, headers: array<struct<key: string, value: binary>>>"
    rows = [
        ("t", 3, 2**40, (b"k", b"\xff", [("trace", b"\xfe")]), "id is null", "no-id"),
        ("t", 0, 0, (None, None, None), "due is null", "no-due"),
    ]
    frame = spark.createDataFrame(
        rows, f"topic string, partition int, offset bigint, record {record}, reason string, code string"
    )
    first, second = dead_records(frame).collect()
    assert (bytes(first.key), bytes(first.value)) == (b"k", b"\xff") and second.key is second.value is None
    assert [(name, bytes(value)) for name, value in first.headers] == [
        ("trace", b"\xfe"),
        ("code", b"no-id"),
        ("reason", b"id is null"),
        ("__connect.errors.topic", b"t"),
        ("__connect.errors.partition", b"3"),
        ("__connect.errors.offset", b"1099511627776"),
        ("__connect.errors.exception.message", b"id is null"),
    ]
    assert [name for name, _ in second.headers][:3] == ["code", "reason", "__connect.errors.topic"]


def test_binary_record_keys_that_differ_remain_different(spark):
    keys = {b"k\xc3\xa4": "k\u00e4", b"\x00\x00\x85": r"\x000085", b"\x00\x00\x86": r"\x000086", b"": "", None: None}
    frame = spark.createDataFrame([(key,) for key in keys], "record_key binary")
    found = frame.select("record_key", as_text("record_key").alias("key")).collect()
    assert {None if row.record_key is None else bytes(row.record_key): row.key for row in found} == keys
