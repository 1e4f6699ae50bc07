"""Key functions for ``cached()`` and ``cachedmethod()``."""

from typing import Any

__all__ = ["hashkey", "methodkey", "typedkey", "typedmethodkey"]


class _Keywords:
    """The separator of positional and keyword arguments in a key. A class, because pickling keeps its identity."""


def hashkey(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Return a cache key for hashable arguments. Equal arguments give equal keys, even if their types differ.

    Example:
        >>> from hwheel.cachetools.keys import hashkey
        >>> hashkey(1, 2), hashkey(1, b=2) == hashkey(1.0, b=2)
        ((1, 2), True)
    """
    return (*args, _Keywords, *sorted(kwargs.items())) if kwargs else args


def methodkey(self: Any, /, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Return ``hashkey()`` of all arguments but the first.

    Example:
        >>> from hwheel.cachetools.keys import methodkey
        >>> methodkey("an object", 1)
        (1,)
    """
    return hashkey(*args, **kwargs)


def typedkey(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Return a cache key that is different for arguments of different types.

    Example:
        >>> from hwheel.cachetools.keys import typedkey
        >>> typedkey(1) == typedkey(1.0)
        False
    """
    types = (type(value) for _, value in sorted(kwargs.items()))
    return (*hashkey(*args, **kwargs), *types, *map(type, args))


def typedmethodkey(self: Any, /, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Return ``typedkey()`` of all arguments but the first.

    Example:
        >>> from hwheel.cachetools.keys import typedmethodkey
        >>> typedmethodkey("an object", 1) == typedmethodkey("another", 1.0)
        False
    """
    return typedkey(*args, **kwargs)
