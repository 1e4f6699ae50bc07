"""OperationLock: the lock of an operation, as its users see it."""

from types import TracebackType

from hwheel_core import OperationCore


class OperationLock:
    """The face of threading.RLock. Giving it up makes up for the checks that found it taken.

    It is made anew each time that it is asked for: one that the operation kept would be a reference cycle.
    """

    __slots__ = ("_operation",)

    def __init__(self, operation: OperationCore) -> None:
        self._operation = operation

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As threading.RLock.acquire."""
        return self._operation._acquire(blocking, timeout)

    def release(self) -> None:
        """As threading.RLock.release; then a check, if one was missed."""
        self._operation._release()

    def _is_owned(self) -> bool:
        return self._operation._is_owned()

    def __enter__(self) -> bool:
        return self._operation._acquire(True, -1)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._operation._release()
