"""Says so where Python's side of what the tests here need is missing; then they are not collected."""

import importlib.util

import pytest

NEEDED = {"pyspark": "pip install 'hwheel[spark]'", "confluent_kafka": "make test-kafka installs it"}


@pytest.mark.parametrize("name", NEEDED)
def test_it_is_there(name):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"no {name}, the tests with a Kafka broker are left out ({NEEDED[name]})")
