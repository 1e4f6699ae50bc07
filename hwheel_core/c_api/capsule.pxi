# The table of hwheel.h in a capsule, which hwheel_import() finds by the name of this module and of this variable.


cdef hwheel_api c_api


cdef object c_api_capsule():
    cdef hwheel_entry sample
    # What C sees of an entry and what the wheel does must be the same, or the callback would be among the wheel's fields.
    if <char*>&sample.callback - <char*>&sample != sizeof(Entry):
        raise SystemError("hwheel.h and the core do not agree about an entry")
    c_api.version = HWHEEL_API_VERSION
    c_api.size = sizeof(hwheel_api)
    c_api.create = open_wheel_create
    c_api.destroy = open_wheel_destroy
    c_api.reserve = open_wheel_reserve
    c_api.add = open_wheel_add
    c_api.move = open_wheel_move
    c_api.cancel = open_wheel_cancel
    c_api.advance = open_wheel_advance
    c_api.next = open_wheel_next
    c_api.count = open_wheel_count
    c_api.now = open_wheel_now
    c_api.clear = open_wheel_clear
    c_api.check = open_wheel_check
    return PyCapsule_New(&c_api, HWHEEL_CAPSULE, NULL)


C_API = c_api_capsule()
