"""cachetools' own tests of TTLCache, TLRUCache, the decorators, and the keys, run with hwheel's in their place."""

import unittest

import pytest

import cachetools_sdist
import hwheel.cachetools

MODULES = cachetools_sdist.test_modules(
    "test_ttl", "test_tlru", "test_cached", "test_cachedmethod", "test_keys", "test_threading"
)
LOADER = unittest.defaultTestLoader
CASES = [
    pytest.param(test, id=test.id().removeprefix("tests_of_cachetools."))
    for module in MODULES
    for group in LOADER.loadTestsFromModule(module)
    for test in group
]


def test_the_suite_of_cachetools_is_complete_and_uses_our_classes():
    assert len(CASES) >= 240
    ttl, tlru = MODULES[:2]
    assert ttl.TTLCache is hwheel.cachetools.TTLCache and tlru.TLRUCache is hwheel.cachetools.TLRUCache
    assert MODULES[2].cachetools.cached is hwheel.cachetools.cached


@pytest.mark.parametrize("test", CASES)
def test_of_cachetools_passes_with_our_classes(test):
    result = unittest.TestResult()
    test.run(result)
    assert result.testsRun == 1 and not result.skipped
    assert [traceback for _, traceback in result.errors + result.failures] == []
