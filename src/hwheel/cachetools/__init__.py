"""Caches and decorators with the interface of ``cachetools``: compiled, on timers, thread-safe, and for coroutines."""

from hwheel.cachetools import keys as keys
from hwheel.cachetools.caches import TLRUCache, TTLCache
from hwheel.cachetools.functions import CacheInfo, cached
from hwheel.cachetools.methods import cachedmethod

__all__ = ["CacheInfo", "TLRUCache", "TTLCache", "cached", "cachedmethod"]
