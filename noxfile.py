"""The environments of this project, one for each build of the core.

    nox -s debug -- -m pytest -x tests/unit     run Python in an environment
    nox -s posix                                run the command that the environment is for

An environment holds an installed copy of the sources, not the checkout, like the one of a user. It is built
again when a source or a build variable changes.
"""

import hashlib
import os
import platform
import shutil
import subprocess
from pathlib import Path

import nox

nox.needs_version = ">=2025.2"
nox.options.default_venv_backend = "venv"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = True
nox.options.sessions = ["release"]

ROOT = Path(__file__).parent
BUILD = ROOT / "build"
PACKAGE = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "hwheel_core", "src")
CORE = ("tests/unit", "tests/threads", "tests/containers")
FACES = ("tests/purgatory", "tests/dropin", "tests/lifetime")
ALLOCATION_FAILURES = "tests/promises/test_allocation_failures.py"
MEMORY = ("tests/unit", "tests/containers", "tests/purgatory", "tests/c_api", ALLOCATION_FAILURES)


def prepare(session, *groups, **variables):
    """Install dependency groups and the package, built with these environment variables, if anything changed."""
    digest = hashlib.sha256(f"{groups}{variables}".encode())
    for file in sorted(file for name in PACKAGE for file in [ROOT / name, *(ROOT / name).rglob("*")] if file.is_file()):
        if file.suffix not in (".pyc", ".so", ".c"):
            digest.update(f"{file}".encode() + file.read_bytes())
    place = Path(session.virtualenv.location)
    stamp, copy = place / "installed", place / "source"
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return
    session.install("--upgrade", "pip>=25.1")
    chosen = [word for group in groups for word in ("--group", group)]
    session.install("--prefer-binary", *chosen, "setuptools>=77", "Cython>=3.1")
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    session.run_install("cp", "-R", *(str(ROOT / name) for name in PACKAGE), str(copy), external=True)
    for built in [*copy.rglob("_core.c"), *copy.rglob("*.so")]:  # `make dist` leaves these in the checkout
        built.unlink()
    if session.name == "tsan":  # Cython takes a quarter of an hour under ThreadSanitizer
        with session.chdir(copy):
            session.run_install("cython", "-3", "--line-directives", "hwheel_core/_core.pyx", external=True)
    session.install("--no-build-isolation", "--no-deps", "--force-reinstall", str(copy), env=variables)
    if "test" in groups:  # cachetools' own tests, for tests/caches; a wheel has none
        sdist = ("cachetools==8.0.1", "--no-deps", "--no-binary=:all:", "--no-build-isolation")
        session.run_install("python", "-m", "pip", "download", "-q", *sdist, "--dest", str(place / "sdists"))
    write = "import sys; open(sys.argv[1], 'w').write(sys.argv[2])"
    session.run_install("python", "-c", write, str(stamp), digest.hexdigest(), log=False)


def python(session, *default, env=None):
    """Run Python with the arguments of the command line, or with these."""
    session.run("python", "-P", *(session.posargs or default), env=env)


def pytest(session, *tests, env=None, without=()):
    python(session, "-m", "pytest", "-q", *tests, *(f"--ignore={path}" for path in without), env=env)


@nox.session
def release(session):
    """The build that users install; by default, all tests."""
    prepare(session, "test")
    pytest(session)


@nox.session
def debug(session):
    """The build that checks invariants and live objects after each test; by default, all tests."""
    prepare(session, "test", HWHEEL_DEBUG="1")
    pytest(session)


@nox.session
def posix(session):
    """The core as macOS builds it, on Linux."""
    prepare(session, "test", HWHEEL_PLATFORM="posix")
    pytest(session, *CORE, "tests/dropin", "tests/lifetime")


@nox.session
def freethreaded(session):
    """CPython without a GIL: make test-freethreaded PYTHON=python3.14t."""
    prepare(session, "test-core", HWHEEL_CFLAGS="-DHW_MEETINGS=0")  # inboxes are in use from the first add
    pytest(session, *CORE, *FACES, "tests/model", env={"PYTHON_GIL": "0"})


@nox.session
def cluster(session):
    """hwheel deliver on a standalone Spark cluster; needs Java 17."""
    prepare(session, "test", "cluster")
    pytest(session, "tests/cluster", env={"HWHEEL_CLUSTER": "1"})


@nox.session
def fuzz(session):
    """The targets of tools/fuzz under libFuzzer; needs clang and a wheel of Atheris."""
    flags = "-fsanitize=fuzzer-no-link,undefined"
    prepare(session, "test", "fuzz", CC="clang", LDSHARED="clang -shared", HWHEEL_CFLAGS=flags)
    python(session, "tools/fuzz")


@nox.session
def coverage(session):
    """Line coverage of Python and of the compiled core, in build/coverage."""
    prepare(session, "test", "coverage", HWHEEL_CFLAGS="--coverage -O0")
    for counts in Path(session.virtualenv.location).rglob("*.gcda"):
        counts.unlink()
    # Forks during the start of a thread inherit a locked coverage.py, and these tests set trace functions themselves.
    without = ("spark", "packaging", "bench", "cluster", "kafka", "lifetime", "promises/test_forks_and_interrupts.py")
    command = ("-m", "coverage", "run", "-m", "pytest", "-q", *(f"--ignore=tests/{path}" for path in without))
    python(session, *command, env={"HWHEEL_MODEL_EXAMPLES": "0.2", "HWHEEL_SOAK_SECONDS": "0.3"})
    session.run("coverage", "combine", "-q")
    session.run("coverage", "html", "-q", "-d", str(BUILD / "coverage"))
    # gcovr takes __pyx_ functions for internal ones, and finds no sources for the headers of CPython.
    options = ["--include-internal-functions", "--filter", r"hwheel_core/.*px", "--print-summary"]
    options += [f"--gcov-ignore-errors={error}" for error in ("no_working_dir_found", "source_not_found")]
    report = str(BUILD / "coverage" / "core.html")
    with session.chdir(Path(session.virtualenv.location) / "source"):
        session.run("gcovr", "--root", ".", *options, "--html-details", report, ".")


@nox.session
def docs(session):
    """The site in build/docs/html. docs/conf.py has stand-ins for PySpark and other large packages."""
    prepare(session, "docs")
    builder = os.environ.get("BUILDER") or "html"
    options = ["-E", "-W", "--keep-going", "-q", "-d", "build/docs/doctrees", "-b", builder]
    python(session, "-m", "sphinx", *options, "docs", f"build/docs/{builder}")


# --- sanitizers ---------------------------------------------------------------------------------------------------


def runtime(compiler, name):
    command = [compiler, f"-print-file-name={name}"]
    return Path(subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip())


def sanitizer():
    """Return the variables for a build with AddressSanitizer, the libraries to preload, and tests to leave out.

    Clang's allocator from version 18 on survives a fork while other threads allocate. With GCC 12 such a child can wait
    for a lock forever, so those tests are left out.
    """
    flags = "-fsanitize=address,undefined -fno-omit-frame-pointer -g -O1"
    for clang in filter(shutil.which, ["clang", *(f"clang-{version}" for version in range(30, 17, -1))]):
        version = subprocess.run([clang, "-dumpversion"], capture_output=True, text=True, check=False).stdout
        library = runtime(clang, f"libclang_rt.asan-{platform.machine()}.so")
        if int(version.partition(".")[0]) >= 18 and library.exists():
            variables = {"CC": clang, "LDSHARED": f"{clang} -shared", "HWHEEL_CFLAGS": f"{flags} -shared-libasan"}
            return variables, f"{library}", ()
    names = ("ends", "fork", "fork_locks", "fork_while_closing", "soak")
    forking = ("tests/live/test_processes.py", *(f"tests/lifetime/test_{name}.py" for name in names))
    return {"HWHEEL_CFLAGS": flags}, f"{runtime('gcc', 'libasan.so')} {runtime('gcc', 'libubsan.so')}", forking


def pytest_sanitized(session, *tests, asan_options):
    variables, libraries, without = sanitizer()
    prepare(session, "test", HWHEEL_DEBUG="1", **variables)
    environment = {"PYTHONMALLOC": "malloc", "LD_PRELOAD": libraries, "ASAN_OPTIONS": asan_options}
    environment["UBSAN_OPTIONS"] = "halt_on_error=1:print_stacktrace=1"
    pytest(session, *tests, env=environment, without=without)


@nox.session
def sanitize(session):
    """AddressSanitizer and UndefinedBehaviorSanitizer."""
    more = ("tests/c_api", ALLOCATION_FAILURES, "tests/model", "tests/recorder", "tests/live")
    pytest_sanitized(session, *CORE, *FACES, *more, asan_options="detect_leaks=0")


@nox.session
def leaks(session):
    """LeakSanitizer: memory of the core that nothing points to any more."""
    reports = BUILD / "leaks"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir(parents=True)
    options = f"detect_leaks=1:exitcode=0:log_path={reports}/report:fast_unwind_on_malloc=0:malloc_context_size=12"
    pytest_sanitized(session, *MEMORY, asan_options=options)
    session.run("python", "tests/promises/leaks.py", str(reports))


@nox.session
def tsan(session):
    """ThreadSanitizer, with --force-python a CPython built --disable-gil --with-thread-sanitizer."""
    reports = BUILD / "races"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir(parents=True)
    flags = "-fsanitize=thread -g -O1 -DHW_MEETINGS=0"
    prepare(session, "test-core", TSAN_OPTIONS="report_bugs=0", HWHEEL_CFLAGS=flags)
    # A fork takes the locks of all timers, more than the deadlock detector can follow.
    options = f"suppressions={ROOT}/tests/threads/races_of_cpython.txt log_path={reports}/report exitcode=0 "
    options += "die_after_fork=0 allocator_may_return_null=1 detect_deadlocks=0"
    environment = {"PYTHON_GIL": "0", "HWHEEL_MODEL_EXAMPLES": "0.1", "TSAN_OPTIONS": options}
    without = ("tests/threads/test_schedules.py", "tests/unit/test_long_chains.py")
    pytest(session, *CORE, "tests/purgatory", "tests/model/test_timer_model.py", env=environment, without=without)
    if found := [file.read_text() for file in sorted(reports.iterdir())]:
        session.error("\n".join(found))


# --- tools that need no build of the core -------------------------------------------------------------------------


@nox.session
def dist(session):
    """The sdist and a wheel in dist/, and checks of their contents and metadata."""
    session.install("--upgrade", "pip>=25.1")
    session.install("--group", "dist")
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    session.run("python", "-m", "build", env={"SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", "1700000000")})
    files = [str(file) for file in sorted((ROOT / "dist").iterdir())]
    session.run("twine", "check", "--strict", *files)
    session.run("check-wheel-contents", *(file for file in files if file.endswith(".whl")))
    if (ROOT / ".git").exists():
        session.run("check-sdist")


@nox.session
def workflows(session):
    """zizmor over the GitHub workflows."""
    session.install("zizmor>=1.32")
    session.run("zizmor", "--quiet", "--offline", "--persona=pedantic", ".github")
