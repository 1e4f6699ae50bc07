"""DelayedFuturePurgatory: wait for futures, but at most so long."""

import contextlib
from collections.abc import Callable, Iterable
from concurrent.futures import Future, InvalidStateError
from typing import Any, Self

from hwheel.purgatory.each import each
from hwheel.purgatory.operation import DelayedOperation
from hwheel.purgatory.purgatory import DelayedOperationPurgatory
from hwheel.timers.base import BaseTimer


class DelayedFuture(DelayedOperation):
    """What DelayedFuturePurgatory.try_complete_else_watch() returns: completed when all of its `futures` are done, or
    by its timeout."""

    __module__ = "hwheel.purgatory"

    __slots__ = ("_fail_pending", "_not_done", "_response_callback", "futures")

    def __init__(
        self,
        timeout_ms: float,
        futures: tuple[Future[Any], ...],
        response_callback: Callable[[], object],
        fail_pending: bool,
    ) -> None:
        super().__init__(timeout_ms)
        self.futures = futures
        self._not_done = [*futures]
        self._response_callback: Callable[[], object] | None = response_callback
        self._fail_pending = fail_pending

    def try_complete(self) -> bool:
        """Completes if all futures are done: with a result, with an exception, or cancelled."""
        not_done = self._not_done
        while not_done and not_done[-1].done():
            not_done.pop()
        return not not_done and self.force_complete()

    def on_complete(self) -> None:
        """Ends the futures that are not done, then calls the response callback, and lets go of it."""
        callback, self._response_callback = self._response_callback, None
        try:
            each(self._end, self._not_done)
        finally:
            self._not_done = []
            if callback is not None:
                callback()

    def _end(self, future: Future[Any]) -> None:
        if self._fail_pending:
            with contextlib.suppress(InvalidStateError):  # done by now
                future.set_exception(TimeoutError(f"not done after {self.delay_ms} ms"))
        else:
            future.cancel()


class DelayedFuturePurgatory:
    """DelayedFuturePurgatory(name="futures", timer=None, *, fail_pending=False, reaper=True)

    Calls back when all of some futures are done, or when the time is over (Kafka's DelayedFuturePurgatory.java). A
    context manager: leaving the block closes it.

    Arguments:
        name, timer, reaper: as DelayedOperationPurgatory's.
        fail_pending: what a timeout does with the futures that are not done. False: it cancels those that have not
            begun; one that an executor is running goes on. True: it fails them all with TimeoutError, as Kafka does.
            That is for futures that are made by hand: an executor's thread does not survive finding its future done by
            another.

    Thread-safety: every method may be called from any thread.

    >>> from concurrent.futures import Future
    >>> from hwheel.purgatory import DelayedFuturePurgatory
    >>> answers = [Future(), Future()]
    >>> with DelayedFuturePurgatory() as purgatory:
    ...     all_answered = purgatory.try_complete_else_watch(30_000, answers, lambda: print("all answered"))
    ...     answers[0].set_result("yes")
    ...     answers[1].set_result("no")
    all answered
    """

    __module__ = "hwheel.purgatory"

    def __init__(
        self,
        name: str = "futures",
        timer: BaseTimer | None = None,
        *,
        fail_pending: bool = False,
        reaper: bool = True,
    ) -> None:
        self.purgatory: DelayedOperationPurgatory[DelayedFuture] = DelayedOperationPurgatory(name, timer, reaper=reaper)
        self._fail_pending = bool(fail_pending)

    def try_complete_else_watch(
        self, timeout_ms: float, futures: Iterable[Future[Any]], response_callback: Callable[[], object]
    ) -> DelayedFuture:
        """Calls response_callback() once: here if all futures are done, else in the thread that finishes the last one,
        or in the timer's when the time is over. It finds out from the futures which it was.

        Arguments:
            timeout_ms: in ms.
            futures: concurrent.futures.Future objects; none at all are done at once.
            response_callback: what it raises goes to the timer's on_error, else to threading.excepthook; if it is
                called here, it is raised here.

        Raises:
            TypeError: an argument is of the wrong type.
            Otherwise as DelayedOperationPurgatory.try_complete_else_watch.
        Runtime complexity: O(futures), also for all the checks that follow together.
        """
        awaited = tuple(futures)
        for future in awaited:
            if not isinstance(future, Future):
                raise TypeError(f"futures must be concurrent.futures.Future objects, not {type(future).__name__}")
        if not callable(response_callback):
            raise TypeError(f"response_callback must be callable, not {type(response_callback).__name__}")
        operation = DelayedFuture(timeout_ms, awaited, response_callback, self._fail_pending)
        # A key of its own, which does not keep the operation alive in a future that is never done.
        key = object()
        try:
            if not self.purgatory.try_complete_else_watch(operation, [key]):
                for future in awaited:
                    future.add_done_callback(lambda _: self.purgatory.check_and_complete(key))
            return operation
        except BaseException:
            self.purgatory._withdraw(operation)  # some of the futures do not know of it
            raise

    def close(self) -> list[DelayedFuture]:
        """As DelayedOperationPurgatory.close(): returns what was neither completed nor expired."""
        return self.purgatory.close()

    @property
    def closed(self) -> bool:
        """True from close() on."""
        return self.purgatory.closed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
