"""The compiled core of hwheel. Private: use the `hwheel` package."""

from hwheel_core.main_interpreter import refuse_subinterpreter

try:
    refuse_subinterpreter()  # before anything of the core is loaded
    from hwheel_core._core import (
        BUILD,
        C_API,
        DEBUG,
        DEFAULT_WHEEL_SIZE,
        BaseTimer,
        BlockingDelayQueueCore,
        ContainerCore,
        DelayKey,
        DelayQueueCore,
        ExpiringDictCore,
        HandedOut,
        LoopHandle,
        LoopTimers,
        OperationCore,
        PurgatoryCore,
        RLock,
        TermsTask,
        TimerBatch,
        TimerGroup,
        TimerTask,
        TimingWheel,
        call_for_result,
        ceil_milliseconds,
        check_timeout,
        context_run,
        debug_check,
        debug_hint,
        debug_live,
        debug_step,
        debug_tally,
        group,
        lateness_of,
        loop_call_at,
        loop_call_later,
        order_by,
        place,
        replay,
        set_loop_call_class,
        set_loop_clock,
        set_loop_handle_class,
        survivors,
    )
except ModuleNotFoundError as error:
    if error.name != "hwheel_core._core":
        raise
    raise ImportError(
        "this hwheel_core is the source code, which is not compiled. If hwheel is installed, start Python in another "
        "folder or with `python -P`, so that Python does not find the checkout first; otherwise run `pip install .`"
    ) from error

from hwheel_core.errors import HwheelError, ShutDown, TimerClosed, TimerFull, TimerMissed
from hwheel_core.snapshot import Bucket, Level, WheelSnapshot
from hwheel_core.stats import Lateness, TimerStats

__all__ = [
    "BUILD",
    "C_API",
    "DEBUG",
    "DEFAULT_WHEEL_SIZE",
    "BaseTimer",
    "BlockingDelayQueueCore",
    "Bucket",
    "ContainerCore",
    "DelayKey",
    "DelayQueueCore",
    "ExpiringDictCore",
    "HandedOut",
    "HwheelError",
    "Lateness",
    "Level",
    "LoopHandle",
    "LoopTimers",
    "OperationCore",
    "PurgatoryCore",
    "RLock",
    "ShutDown",
    "TermsTask",
    "TimerBatch",
    "TimerClosed",
    "TimerFull",
    "TimerGroup",
    "TimerMissed",
    "TimerStats",
    "TimerTask",
    "TimingWheel",
    "WheelSnapshot",
    "call_for_result",
    "ceil_milliseconds",
    "check_timeout",
    "context_run",
    "debug_check",
    "debug_hint",
    "debug_live",
    "debug_step",
    "debug_tally",
    "group",
    "lateness_of",
    "order_by",
    "place",
    "replay",
    "survivors",
    "loop_call_at",
    "loop_call_later",
    "set_loop_call_class",
    "set_loop_clock",
    "set_loop_handle_class",
]
