"""cachedmethod(): a decorator that caches the results of a method, in a cache of the instance."""

import asyncio
import functools
import inspect
import types
from collections.abc import Callable, MutableMapping
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from hwheel.cachetools import keys
from hwheel.cachetools.flights import TaskFlights, ThreadFlights
from hwheel.cachetools.functions import Cached, CacheInfo, check_options, locked_info
from hwheel_core import CachedCall

_P = ParamSpec("_P")
_R = TypeVar("_R", covariant=True)
_OVERRIDDEN = "__cachetools_cachedmethods"  # the attribute, named as in cachetools, for the calls that super() reaches


class CachedMethod(Protocol[_P, _R]):
    """The type of a method that ``@cachedmethod`` decorates, for type hints."""

    def __get__(self, instance: Any, owner: type | None = None, /) -> Cached[_P, _R]: ...


class _BoundCall(CachedCall):
    """A cached method of one instance."""

    def __init__(self, instance: Any, method: "_CachedMethod") -> None:
        functools.update_wrapper(self, method.function)
        self._instance, self._method = instance, method
        cache, key, lock, condition = method.settings
        self.cache_key = functools.partial(key, instance)
        function = types.MethodType(method.function, instance)
        settings = cache, self.cache_key, condition if lock is None else lock, condition
        flights = ThreadFlights() if method.single_flight else None
        self._set_up(function, instance, settings, key is keys.methodkey, flights)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._method.__get__, (self._instance,)

    def __repr__(self) -> str:
        wrapped = self.__wrapped__  # type: ignore[attr-defined]  # update_wrapper() has set it
        return f"<cachedmethod {wrapped!r} of {object.__repr__(self._instance)}>"


class _BoundCallWithInfo(_BoundCall):
    def cache_info(self) -> CacheInfo:
        """Return the counts of hits and misses, and the size of the cache."""
        return locked_info(self)


class _AsyncCall:
    """A cached coroutine method of one instance."""

    def __init__(self, call: _BoundCall) -> None:
        functools.update_wrapper(self, call.__wrapped__)  # type: ignore[attr-defined]
        self._call = call
        self._flights = TaskFlights(call)
        if hasattr(inspect, "markcoroutinefunction"):
            inspect.markcoroutinefunction(self)  # pyright: ignore[reportAttributeAccessIssue]
        else:
            self._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]  # Python 3.11

    async def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return await self._flights(args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name != "cache" and not name.startswith("cache_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._call, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._call.__reduce__()

    def __repr__(self) -> str:
        return repr(self._call)


class _CachedMethod:
    """The class attribute that ``@cachedmethod`` puts in place of a method. Each instance has its own call."""

    def __init__(
        self, function: Callable[..., Any], settings: tuple[Any, ...], info: bool, single_flight: bool
    ) -> None:
        functools.update_wrapper(self, function)
        self.function, self.settings, self._info = function, settings, info
        self._is_async = inspect.iscoroutinefunction(function)
        self.single_flight = single_flight and not self._is_async
        self._owner: type | None = None
        self._name: str | None = None
        self._unbound = _Unbound(self, function)

    def __set_name__(self, owner: type, name: str) -> None:
        if self._name is None:
            self._owner, self._name = owner, name
        elif name != self._name:
            raise TypeError(f"a cached method cannot have two names, got {self._name!r} and {name!r}")

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if self._name is None:
            if isinstance(instance, type):  # from classmethod, before Python 3.13
                self()
            raise TypeError("a cached method needs a name: assign it in the body of its class")
        if instance is None:
            return self._unbound
        found = next((vars(cls)[self._name] for cls in type(instance).__mro__ if self._name in vars(cls)), None)
        calls = _attributes(instance, self._name)
        key: Any = self._name
        if found is not self:
            # super() must neither find nor replace the call of the method that overrides this one.
            calls, key = _kept(instance, self._name, calls, _OVERRIDDEN, {}), self
        call = calls.get(key)
        return _kept(instance, self._name, calls, key, self._call_of(instance)) if call is None else call

    def _call_of(self, instance: Any) -> Any:
        call = (_BoundCallWithInfo if self._info else _BoundCall)(instance, self)
        return _AsyncCall(call) if self._is_async else call

    def __reduce__(self) -> tuple[Any, ...]:
        return _named, (self._owner, self._name)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            "@cachedmethod must be the outermost decorator, and does not support a class method, a static method, "
            "or a property"
        )


def _named(owner: type, name: str) -> Any:
    return vars(owner)[name]


def _attributes(instance: Any, name: str) -> Any:
    try:
        return instance.__dict__
    except AttributeError:
        raise TypeError(f"No '__dict__' attribute on a {type(instance).__name__!r}, which {name!r} needs") from None


def _kept(instance: Any, name: str, calls: Any, key: Any, value: Any) -> Any:
    """Return calls.setdefault(key, value). Explain the error if `calls` is read-only."""
    try:
        return calls.setdefault(key, value)
    except TypeError:
        raise TypeError(
            f"the '__dict__' of a {type(instance).__name__!r} does not support item assignment, which {name!r} needs"
        ) from None


class _Unbound:
    """A cached method as an attribute of the class. Not a function: mock.create_autospec() treats those differently."""

    def __init__(self, method: _CachedMethod, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._method = method

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else self._method.__get__(instance)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if args:
            return self._method.__get__(args[0])(*args[1:], **kwargs)
        parameter = next(iter(inspect.signature(self).parameters.values()), None)
        if parameter is None or parameter.kind is not parameter.POSITIONAL_OR_KEYWORD or parameter.name not in kwargs:
            raise TypeError("a cached method that is called through its class needs an instance as its first argument")
        return self._method.__get__(kwargs.pop(parameter.name))(**kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._method.__get__, (None,)

    def __repr__(self) -> str:
        return f"<cachedmethod {self.__wrapped__!r}>"  # type: ignore[attr-defined]  # update_wrapper() has set it


def cachedmethod(
    cache: Callable[[Any], MutableMapping[Any, Any]],
    key: Callable[..., Any] = keys.methodkey,
    lock: Callable[[Any], Any] | None = None,
    condition: Callable[[Any], Any] | None = None,
    info: bool = False,
    *,
    single_flight: bool = False,
) -> Callable[[Callable[Concatenate[Any, _P], _R]], CachedMethod[_P, _R]]:
    """Cache the results of a method or of a coroutine method, as ``cachetools.cachedmethod()`` does.

    Args:
        cache: Called with the instance; returns its cache.
        key: Called with the instance and the arguments; returns the key.
        lock: Called with the instance; returns a lock as for ``cached()``.
        condition: Called with the instance; returns a condition as for ``cached()``.
        info: Count hits and misses, for each instance.
        single_flight: As for ``cached()``; each instance has flights of its own.

    Raises:
        TypeError: ``cache`` is not callable, or a condition is combined with single flight. At the first access: the
            instance has no ``__dict__``.

    Example:
        >>> from hwheel.cachetools import TTLCache, cachedmethod
        >>> class Squares:
        ...     def __init__(self):
        ...         self.cache = TTLCache(maxsize=1000, ttl=60)
        ...     @cachedmethod(lambda self: self.cache, info=True)
        ...     def square(self, number):
        ...         return number * number
        >>> squares = Squares()
        >>> squares.square(3), squares.square(3), squares.square.cache_info().hits
        (9, 9, 1)
    """
    if not callable(cache):
        raise TypeError(f"cache must be callable, got {cache!r}")

    def decorate(function: Callable[Concatenate[Any, _P], _R]) -> Any:
        check_options(function, condition, single_flight)
        return _CachedMethod(function, (cache, key, lock, condition), info, single_flight)

    return decorate
