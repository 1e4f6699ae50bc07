"""DelayedFuturePurgatory: wait for futures with a timeout."""

import contextlib
from collections.abc import Callable, Iterable
from concurrent.futures import Future, InvalidStateError
from typing import Any, Self

from hwheel.purgatory.operation import DelayedOperation
from hwheel.purgatory.purgatory import DelayedOperationPurgatory
from hwheel.timers.base import BaseTimer


class DelayedFuture(DelayedOperation):
    """An operation that completes when all of its ``futures`` are done, or on its timeout.

    ``DelayedFuturePurgatory.try_complete_else_watch()`` creates it.
    """

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
        """Complete if all futures are done: with a result, with an exception, or cancelled."""
        not_done = self._not_done
        while not_done and not_done[-1].done():
            not_done.pop()
        return not not_done and self.force_complete()

    def on_complete(self) -> None:
        """Cancel or fail the futures that are not done, then call the response callback and release it."""
        callback, self._response_callback = self._response_callback, None
        first: BaseException | None = None
        for future in self._not_done:
            try:
                self._end(future)
            except BaseException as error:  # one future's callback must not keep the others waiting
                first = first or error
        self._not_done = []
        try:
            if first is not None:
                raise first
        finally:
            del first  # its traceback refers to this frame
            if callback is not None:
                callback()

    def _end(self, future: Future[Any]) -> None:
        if self._fail_pending:
            with contextlib.suppress(InvalidStateError):  # the future has just ended
                future.set_exception(TimeoutError(f"not done after {self.delay_ms} ms"))
        else:
            future.cancel()


class DelayedFuturePurgatory:
    """DelayedFuturePurgatory(name="futures", timer=None, *, fail_pending=False, reaper=True)

    Calls a function when all given futures are done, or on a timeout (Kafka's DelayedFuturePurgatory.java). As a
    context manager it closes itself.

    Args:
        name: As in DelayedOperationPurgatory.
        timer: As in DelayedOperationPurgatory.
        fail_pending: False: a timeout cancels the futures that are not done; a future that an executor
            is running continues. True: it fails them with TimeoutError, as Kafka does. True suits only futures that the
            program completes itself: an executor's thread breaks when another thread has completed its future.
        reaper: As in DelayedOperationPurgatory.

    Thread-safe.

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
        """Call ``response_callback()`` once, when all futures are done or on the timeout.

        The callback runs in this call if all futures are done; otherwise in the thread that finishes the last future or
        in the timer's thread. After a timeout, some futures are cancelled, failed, or not done; see ``fail_pending``.

        Args:
            timeout_ms: The timeout in milliseconds.
            futures: concurrent.futures.Future objects, or none, which counts as all done.
            response_callback: A callable without arguments. An exception goes to the timer's ``on_error`` or to
                ``threading.excepthook``, or is raised here if the callback runs in this call.

        Returns:
            The operation that waits for the futures.

        Raises:
            TypeError: An argument has the wrong type.
            TimerClosed, TimerFull, OverflowError: As in ``DelayedOperationPurgatory.try_complete_else_watch()``.

        O(futures), including all later checks. Thread-safe.

        Example:
            >>> from concurrent.futures import Future
            >>> from hwheel.purgatory import DelayedFuturePurgatory
            >>> answer = Future()
            >>> with DelayedFuturePurgatory() as purgatory:
            ...     operation = purgatory.try_complete_else_watch(30_000, [answer], lambda: print("answered"))
            ...     answer.set_result("yes")
            answered
        """
        awaited = tuple(futures)
        for future in awaited:
            if not isinstance(future, Future):
                raise TypeError(f"futures must be concurrent.futures.Future objects, got {type(future).__name__}")
        if not callable(response_callback):
            raise TypeError(f"response_callback must be callable, got {type(response_callback).__name__}")
        operation = DelayedFuture(timeout_ms, awaited, response_callback, self._fail_pending)
        # The key is a separate object, so that a future that is never done does not keep the operation alive.
        key = object()
        try:
            if not self.purgatory.try_complete_else_watch(operation, [key]):
                for future in awaited:
                    future.add_done_callback(lambda _: self.purgatory.check_and_complete(key))
            return operation
        except BaseException:
            self.purgatory._withdraw(operation)  # some futures may have no callback
            raise

    def close(self) -> list[DelayedFuture]:
        """Close the purgatory, as ``DelayedOperationPurgatory.close()``, and return the waiting operations.

        Example:
            >>> from concurrent.futures import Future
            >>> from hwheel.purgatory import DelayedFuturePurgatory
            >>> purgatory = DelayedFuturePurgatory()
            >>> operation = purgatory.try_complete_else_watch(30_000, [Future()], print)
            >>> purgatory.close() == [operation]
            True
        """
        return self.purgatory.close()

    @property
    def closed(self) -> bool:
        """True once ``close()`` has been called."""
        return self.purgatory.closed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
