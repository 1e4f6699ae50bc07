"""cached(): a decorator that caches the results of a function or of a coroutine function."""

import functools
import inspect
import types
from collections.abc import Callable, MutableMapping
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

from hwheel.cachetools import keys
from hwheel.cachetools.flights import TaskFlights, ThreadFlights
from hwheel_core import CachedCall

_P = ParamSpec("_P")
_R = TypeVar("_R", covariant=True)


class CacheInfo(NamedTuple):
    """The result of ``cache_info()``."""

    hits: int
    misses: int
    maxsize: float | None
    currsize: float


CacheInfo.__module__ = "hwheel.cachetools"


class Cached(Protocol[_P, _R]):
    """The type of a function that ``@cached`` decorates, for type hints."""

    cache_key: Callable[..., Any]

    def __call__(self, /, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    def __get__(self, instance: Any, owner: type | None = None, /) -> Any: ...
    @property
    def cache(self) -> Any: ...
    @property
    def cache_lock(self) -> Any: ...
    @property
    def cache_condition(self) -> Any: ...
    def cache_clear(self) -> None: ...
    def cache_info(self) -> CacheInfo: ...


def info_of(call: CachedCall) -> CacheInfo:
    """Return the counts of a call and the size of its cache."""
    cache = call.cache
    try:
        return CacheInfo(*call._counts(), cache.maxsize, cache.currsize)
    except AttributeError:
        return CacheInfo(*call._counts(), None, len(cache))


class _CachedFunction(CachedCall):
    """A function that ``@cached`` decorates."""

    def __init__(self, function: Callable[..., Any], settings: tuple[Any, ...], single_flight: bool) -> None:
        functools.update_wrapper(self, function)
        vars(self).pop("cache_info", None)  # copied if `function` is itself a cached coroutine function
        self.cache_key = settings[1]
        flights = ThreadFlights() if single_flight else None
        self._set_up(function, None, settings, settings[1] is keys.hashkey, flights)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce__(self) -> str:
        return self.__qualname__  # type: ignore[attr-defined, no-any-return]  # update_wrapper() has set it

    def __repr__(self) -> str:
        return f"<cached {self.__wrapped__!r}>"  # type: ignore[attr-defined]


class _CachedFunctionWithInfo(_CachedFunction):
    def cache_info(self) -> CacheInfo:
        """Return the counts of hits and misses, and the size of the cache."""
        return locked_info(self)


def locked_info(call: CachedCall) -> CacheInfo:
    """Return info_of(call). If the call has a lock, hold it to read the cache."""
    if call.cache_lock is None:
        return info_of(call)
    with call.cache_lock:
        return info_of(call)


def cached_coroutine_function(function: Callable[..., Any], call: Any) -> Any:
    """Return a coroutine function that looks into the cache of `call` first, with the attributes of `call`."""
    flights = TaskFlights(call)

    @functools.wraps(function)
    async def look_or_call(*args: Any, **kwargs: Any) -> Any:
        return await flights(args, kwargs)

    for name in ("cache", "cache_key", "cache_lock", "cache_condition", "cache_clear", "cache_info"):
        if hasattr(call, name):
            setattr(look_or_call, name, getattr(call, name))
        else:
            vars(look_or_call).pop(name, None)
    return look_or_call


def check_options(function: Any, condition: Any, single_flight: bool) -> bool:
    """Return True if the function is a coroutine function. Raise TypeError for options that exclude each other."""
    is_coroutine = inspect.iscoroutinefunction(function)
    if condition is not None and (is_coroutine or single_flight):
        raise TypeError("condition= cannot be combined with single flight, which coroutine functions always have")
    return is_coroutine


def cached(
    cache: MutableMapping[Any, Any],
    key: Callable[..., Any] = keys.hashkey,
    lock: Any = None,
    condition: Any = None,
    info: bool = False,
    *,
    single_flight: bool = False,
) -> Callable[[Callable[_P, _R]], Cached[_P, _R]]:
    """Cache the results of a function or of a coroutine function, as ``cachetools.cached()`` does.

    The result has the attributes ``cache``, ``cache_key``, ``cache_lock``, ``cache_condition``,
    ``cache_clear()``, and with ``info=True`` also ``cache_info()``.

    Concurrent calls of a coroutine function with one key run it once, as a task. An exception reaches
    all of them and is not cached. A cancelled caller does not cancel the others; the task is cancelled
    with the last one. A recursive call that would wait for itself runs the function instead.

    Args:
        cache: A mutable mapping. A ``TTLCache`` or ``TLRUCache`` of this module needs no lock.
        key: Called with the arguments; returns the key.
        lock: A context manager for each access to the cache, which must not wait in an event loop. Its
            ``__exit__()`` receives no exception.
        condition: A ``threading.Condition``: calls with one key run one after the other. If one raises
            an exception, the next one runs.
        info: Count hits and misses.
        single_flight: For functions that threads call: concurrent calls with one key run the function
            once, and an exception reaches all of them. Coroutine functions always behave like this.

    Raises:
        TypeError: ``cache`` is None, or a condition is combined with single flight.

    Example:
        >>> from hwheel.cachetools import TTLCache, cached
        >>> @cached(TTLCache(maxsize=1000, ttl=60), info=True)
        ... def square(number):
        ...     return number * number
        >>> square(3), square(3), square.cache_info().hits
        (9, 9, 1)
    """
    if cache is None:  # pyright: ignore[reportUnnecessaryComparison]
        raise TypeError("cache must not be None")

    def decorate(function: Callable[_P, _R]) -> Any:
        is_coroutine = check_options(function, condition, single_flight)
        settings = cache, key, condition if lock is None else lock, condition
        make = _CachedFunctionWithInfo if info else _CachedFunction
        call = make(function, settings, single_flight and not is_coroutine)
        return cached_coroutine_function(function, call) if is_coroutine else call

    return decorate
