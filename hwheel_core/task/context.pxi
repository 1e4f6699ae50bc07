# The contextvars.Context that a callback runs in: an empty one, unless the call brought its own. So what a callback sets is
# not seen by the next one, as it would be if both ran in the context of their thread.
#
# A context costs more than the rest of a run. So one is entered for all that is run in a row, and changed for another only
# after a callback that has left something in it.


cdef object context_empty = PyContext_New()     # never entered


cdef object context_enter():
    """An empty context, entered. A copy, because up to CPython 3.12 PyContext_New crashes when there is no memory."""
    context = PyContext_Copy(context_empty)
    PyContext_Enter(context)
    return context


cdef bint context_leave(object context) except False:
    try:
        PyContext_Exit(context)
    except RuntimeError:
        pass        # the callback has switched contexts by itself, as greenlets do
    return True


cdef inline object context_after(object context):
    """The context for the next callback, entered, when one has run in this."""
    if PyObject_Size(context) == 0:
        return context
    context_leave(context)
    return context_enter()


cpdef object context_run(object context, object callback):
    """What runs a callback in a context that was brought: its `run`, which takes the callback as its first argument."""
    callback_argument(callback)
    if not PyContext_CheckExact(context):
        raise TypeError(f"context must be a contextvars.Context, not {context!r}")
    return context.run
