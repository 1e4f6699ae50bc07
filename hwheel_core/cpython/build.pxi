# How this core was built, for `hwheel --version` and for bug reports.


DEBUG = bool(HW_DEBUG)


def build_text():
    cython = f"{HW_CYTHON >> 24}.{HW_CYTHON >> 16 & 255}.{HW_CYTHON >> 8 & 255}"
    return f"{'debug' if HW_DEBUG else 'release'} build, {HW_COMPILER.decode()} with {HW_FLAGS.decode()}, Cython {cython}"


BUILD = build_text()
del build_text
