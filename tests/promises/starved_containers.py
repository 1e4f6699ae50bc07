"""Scenes of starving.py: ExpiringDict and DelayQueue."""

from collections import deque

import hwheel_core
from containers import take_due
from hwheel import DelayQueue, ExpiringDict
from starving import FAR, named, scene


class Dict:
    """An ExpiringDict, and what expired of it."""

    def __init__(self, world, **options):
        self.expired = deque()
        self.dict = ExpiringDict(1, on_expire=self.expired.append, timer=world.timer, **options)
        for key in range(4):
            self.dict.set(key, str(key), ttl=1 + key)

    def faults(self, world, keys):
        if sorted(self.dict) != sorted(keys):
            yield f"keys {sorted(self.dict)}, wanted {sorted(keys)}"
        if hwheel_core.DEBUG:
            hwheel_core.debug_check(self.dict)
        world.timer.advance(FAR)
        found = sorted(key for those in self.expired for key, _ in those)
        if found != sorted(keys) or len(self.dict):
            yield f"expired {found}, wanted {sorted(keys)}; {len(self.dict)} are left"


def uses_dict(name, use, after=(), **options):
    """after: the keys that are there when it was done; else they are those that were."""

    def play(world):
        held = Dict(world, **options)

        def faults(error):
            yield from held.faults(world, [0, 1, 2, 3] if error else after)

        return use(held.dict), faults

    named(name, play)


ALL = [0, 1, 2, 3]
uses_dict("dict_set", lambda d: lambda: d.set(9, "x"), [*ALL, 9])
uses_dict("dict_set_far", lambda d: lambda: d.set(9, "x", ttl=FAR // 2), [*ALL, 9])
uses_dict("dict_set_item", lambda d: lambda: d.__setitem__(9, "x"), [*ALL, 9])
uses_dict("dict_set_again", lambda d: lambda: d.set(2, "x", ttl=9), ALL)
uses_dict("dict_set_beyond_maxsize", lambda d: lambda: d.set(9, "x", ttl=9), [1, 2, 3, 9], maxsize=4)
uses_dict("dict_setdefault", lambda d: lambda: d.setdefault(9, "x"), [*ALL, 9])
uses_dict("dict_get", lambda d: lambda: d[2], ALL)
uses_dict("dict_get_refreshed", lambda d: lambda: d[2], ALL, refresh=True)
uses_dict("dict_touch", lambda d: lambda: d.touch(2, 50), ALL)
uses_dict("dict_pop", lambda d: lambda: d.pop(2), [0, 1, 3])
uses_dict("dict_popitem", lambda d: d.popitem, [0, 1, 2])
uses_dict("dict_delete", lambda d: lambda: d.__delitem__(2), [0, 1, 3])
uses_dict("dict_list", lambda d: lambda: list(d), ALL)
uses_dict("dict_items", lambda d: lambda: list(d.items()), ALL)
uses_dict("dict_expires_in", lambda d: lambda: d.expires_in(2), ALL)


@scene
def dict_fill(world):
    """Many entries: the table grows."""
    held = Dict(world)

    def fill():
        for key in range(4, 60):
            held.dict[key] = None

    def faults(error):
        keys = sorted(held.dict)
        if keys != [*range(len(keys))]:
            yield f"keys {keys}"
        yield from held.faults(world, keys)

    return fill, faults


@scene
def dict_clear(world):
    held = Dict(world)

    def faults(error):
        if len(held.dict) not in ((0,) if error is None else (0, 4)):
            yield f"{len(held.dict)} are left after {error!r}"
        held.dict.clear()
        yield from held.faults(world, [])

    return held.dict.clear, faults


@scene
def dict_expire(world):
    held = Dict(world)

    def faults(error):
        world.timer.advance(FAR)
        keys = [key for those in held.expired for key, _ in those]
        if sorted(keys) != ALL or len(held.dict):
            yield f"expired: {keys}; {len(held.dict)} are left, after {error!r}"

    return lambda: world.timer.advance(10), faults


class Queue:
    def __init__(self, world):
        self.queue = DelayQueue(timer=world.timer)
        self.keys = [self.queue.put(number, 1 + number) for number in range(4)]

    def faults(self, world, items):
        if hwheel_core.DEBUG:
            hwheel_core.debug_check(self.queue)
        world.timer.advance(FAR)
        found = take_due(self.queue)
        if sorted(found) != sorted(items) or len(self.queue):
            yield f"came {found}, wanted {items}; {len(self.queue)} are left"


def uses_queue(name, use, after, late=0):
    def play(world):
        held = Queue(world)
        world.timer.advance(late)

        def faults(error):
            yield from held.faults(world, ALL if error else after)

        return use(held), faults

    named(name, play)


uses_queue("queue_put", lambda held: lambda: held.queue.put(9, 2), [*ALL, 9])
uses_queue("queue_put_far", lambda held: lambda: held.queue.put(9, FAR // 2), [*ALL, 9])
uses_queue("queue_put_due", lambda held: lambda: held.queue.put(9, -1), [*ALL, 9])
uses_queue("queue_reset", lambda held: lambda: held.queue.reset(held.keys[2], FAR // 2), ALL)
uses_queue("queue_remove", lambda held: lambda: held.queue.remove(held.keys[2]), [0, 1, 3])
uses_queue("queue_peek", lambda held: held.queue.peek, ALL)
uses_queue("queue_peek_due", lambda held: held.queue.peek, ALL, late=2)
uses_queue("queue_get", lambda held: held.queue.get_nowait, [1, 2, 3], late=1.5)
uses_queue("queue_get_with_timeout", lambda held: lambda: held.queue.get(timeout=5), [1, 2, 3], late=1.5)


@scene
def queue_drain(world):
    held = Queue(world)
    world.timer.advance(2.5)
    found = [[]]

    def act():
        found[0] = held.queue.drain()

    def faults(error):
        world.timer.advance(FAR)
        items = [*found[0], *take_due(held.queue)]
        if sorted(items) != ALL or len(held.queue):
            yield f"came {items}, {len(held.queue)} are left, after {error!r}"

    return act, faults
