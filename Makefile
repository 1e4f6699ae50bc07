# Each target makes what it needs, in virtual environments of its own. Needed beforehand: Python 3.11 or later with its
# headers, and a C compiler.

PYTHON ?= python3
SOURCES := $(shell find hwheel_core src -name '*.p*' -o -name '*.h') setup.py pyproject.toml

.PHONY: demo test test-release test-invariants test-invariants-of-threads test-core test-spark test-kafka test-cluster \
        test-debug test-posix test-freethreaded check-windows soak forks search proof fuzz chaos mutants coverage \
        sanitize leaks sanitize-threads sanitize-threads-whole bench bench-spark bench-replay bench-pytest \
        check check-workflows docs docs-links \
        pictures format types dist clean

demo: .venv/built
	.venv/bin/python -P -m hwheel demo

# Four parts, of which `make -j2 test` runs two side by side. At the end it says how long each folder of them took.
test: test-release test-spark test-invariants-of-threads test-invariants
	@cat $(addprefix build/test-times-,release spark invariants invariants-of-threads)

test-release: .venv/built
	mkdir -p build
	HWHEEL_TIMES=build/test-times-release .venv/bin/python -P -m pytest -q --ignore=tests/spark

test-invariants: .venv-debug/built
	mkdir -p build
	HWHEEL_TIMES=build/test-times-invariants .venv-debug/bin/python -P -m pytest -q \
		tests/unit tests/model tests/purgatory tests/c_api

test-invariants-of-threads: .venv-debug/built
	mkdir -p build
	HWHEEL_TIMES=build/test-times-invariants-of-threads .venv-debug/bin/python -P -m pytest -q tests/threads tests/promises

# For who edits the wheel: under a minute. No Spark, no drawing, no command. Boundaries and worked examples but for very long
# chains and very large wheels, a tenth of what the models try, and the threads' tests of order and of exactly once, half a
# second each. On the debug build, so that the invariants are checked after each test.
test-core: .venv-debug/built
	HWHEEL_MODEL_EXAMPLES=0.1 HWHEEL_SOAK_SECONDS=0.5 .venv-debug/bin/python -P -m pytest -q tests/unit tests/model \
		$(patsubst %,--ignore=tests/unit/test_%.py,long_chains large_wheels) \
		$(patsubst %,tests/threads/test_%.py,exactly_once order max_pending clock_set_back errors periodic)

# The tests of hwheel.spark alone. They need Java 17 or later.
test-spark: .venv/built
	mkdir -p build
	HWHEEL_TIMES=build/test-times-spark .venv/bin/python -P -m pytest -q tests/spark

# hwheel deliver between topics of a real broker, which is started here: needs Java 17 or later, and Maven, which brings
# the jars of Kafka and of Spark's connector the first time. An environment of its own, since the connector's version is
# that of pyspark.
test-kafka: .venv-kafka/built
	.venv-kafka/bin/python -P -m pytest -q tests/kafka

# hwheel deliver on a standalone cluster, a master and two workers on 127.0.0.1, of which one is killed, and the driver too; and
# a query over Spark Connect. Needs Java 17 or later. An environment of its own, for what Connect wants.
test-cluster: .venv-cluster/built
	HWHEEL_CLUSTER=1 .venv-cluster/bin/python -P -m pytest -q tests/cluster

# The whole suite on the debug build: invariants and live counts are checked after each test.
test-debug: .venv-debug/built
	.venv-debug/bin/python -P -m pytest -q

# On Linux, with what the core does on macOS and on other POSIX systems: hwheel_core/platform/posix.h.
test-posix: .venv-posix/built
	.venv-posix/bin/python -P -m pytest -q tests/unit tests/threads tests/dropin tests/containers tests/lifetime

# The core's tests on a CPython without a GIL, which PYTHON is: make test-freethreaded PYTHON=python3.14t. Where a package has no
# wheel for it, an older version is taken that has one, or its tests are skipped. Here and under ThreadSanitizer a timer has its
# inboxes (hwheel_core/timer/inbox.pxi) from the start, and not when threads have met.
test-freethreaded: .venv-freethreaded/built
	PYTHON_GIL=0 .venv-freethreaded/bin/python -P -m pytest -q tests/unit tests/model tests/threads tests/purgatory \
		tests/dropin tests/lifetime tests/containers

# The core compiled for Windows by MinGW, and run under Wine with a CPython for Windows, which Maven brings. What is missing of
# these is said, and the rest is done.
check-windows: .venv/built
	.venv/bin/python -P tests/packaging/platforms/check_windows.py

# Timers under load: a million pending, 200,000 operations a second, forks, signals, a clock that jumps, slow and failing
# callbacks. Every task is accounted for at the end, with a histogram of how late they came. The seed is printed.
MINUTES ?= 60
PENDING ?= 1000000
RATE ?= 200000
HWHEEL_SEED ?= random
soak: .venv/built
	.venv/bin/python -P -W ignore::DeprecationWarning tools/soak --seed $(HWHEEL_SEED) load --minutes $(MINUTES) \
		--pending $(PENDING) --rate $(RATE) --picture build/soak.png

# Children forked and programs ended under load, in many ways: none hangs.
FORKS ?= 1000
EXITS ?= 200
forks: .venv/built
	.venv/bin/python -P tools/soak --seed $(HWHEEL_SEED) ends --forks $(FORKS) --exits $(EXITS)

# What searches, for as long as it takes to find what is rare, and something new each time: the seed is printed at the start
# and at the end, and `make search HWHEEL_SEED=<it>` tries the same again.
search: .venv-debug/built
	HWHEEL_SEED=$(HWHEEL_SEED) HWHEEL_MODEL_EXAMPLES=50 HWHEEL_SOAK_SECONDS=60 .venv-debug/bin/python -P -m pytest -q \
		tests/model tests/threads tests/lifetime tests/purgatory tests/promises tests/recorder tests/tune/test_curves.py \
		tests/dropin/test_interruptions.py $(patsubst %,tests/dropin/asyncio/test_%.py,interruptions model clocks)

# Every state that a small wheel, and a small timer with two threads asleep, can come to: see tools/proof/wheel_order.py,
# tools/proof/wake_up.py and tools/proof/inboxes.py. ARGUMENTS=--quick: seconds instead of minutes.
proof: .venv/built
	.venv/bin/python -P tools/proof $(ARGUMENTS)

# Inputs that break a promise, looked for by libFuzzer, which sees what each reaches in the core: see tools/fuzz/__main__.py. Needs
# clang, and an interpreter that Atheris has a wheel for. ARGUMENTS=--keep puts what reaches something new into tools/fuzz/corpus;
# ARGUMENTS="--operations 1e8 plain" tries the half that holds no Python object alone, which wants no Atheris.
SECONDS ?= 60
fuzz: .venv-fuzz/built
	.venv-fuzz/bin/python -P tools/fuzz --seconds $(SECONDS) $(ARGUMENTS)

# `hwheel deliver` killed 20 times with -9, and every message counted: some ten minutes.
chaos: .venv/built
	.venv/bin/python tests/spark/chaos.py $(ARGUMENTS)

# The wheel broken in some 730 ways, each of which a test has to notice: see tools/mutants/__main__.py. ARGUMENTS="--only queue.pxi"
# breaks a part of it, --again what the last run has not killed.
mutants: .venv/built
	.venv/bin/python -P tools/mutants $(ARGUMENTS)

# Which lines tests reach, of Python and of the compiled core: build/coverage/index.html, see tools/coverage/__main__.py. ARGUMENTS=--spark:
# with those of hwheel.spark; --report: once more what was counted last.
coverage: .venv-coverage/built
	.venv-coverage/bin/python -P tools/coverage $(ARGUMENTS)

# AddressSanitizer and UndefinedBehaviorSanitizer under the tests of the core and of what is built on it. Here and in the next ones
# SANITIZED="tests/unit ..." says which tests alone, because all take long.
sanitize: .venv-sanitize/built
	$(SANITIZERS) ASAN_OPTIONS=detect_leaks=0 .venv-sanitize/bin/python -P -m pytest -q $(or $(SANITIZED),tests/unit tests/model \
		tests/threads tests/c_api tests/promises/test_no_memory.py tests/containers tests/purgatory tests/recorder tests/live \
		tests/dropin tests/lifetime $(if $(FORKING_CLANG),,$(addprefix --ignore=,$(FORKED_AMID_THREADS))))

# Clang's own from 18 on, where there are some: their allocator is made ready for a fork. With GCC 12's, a child that was forked while
# other threads allocate may wait for a lock for ever, so that GCC leaves out the tests that fork like that.
FORKING_CLANG = $(shell for clang in clang $$(seq -f clang-%g 30 -1 18); do \
	version=$$($$clang -dumpversion 2>&1) && test $${version%%.*} -ge 18 && test -e $$($$clang $(CLANGS_SANITIZER)) && echo $$clang && break; done)
CLANGS_SANITIZER = -print-file-name=libclang_rt.asan-$(shell uname -m).so
FORKED_AMID_THREADS = $(patsubst %,tests/lifetime/test_%.py,ends fork fork_in_handlers fork_locks fork_while_closing soak) \
	tests/live/test_processes.py
SANITIZERS = PYTHONMALLOC=malloc UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 LD_PRELOAD="$(if \
	$(FORKING_CLANG),$(shell $(FORKING_CLANG) $(CLANGS_SANITIZER)),$(foreach one,a ub,$(shell gcc -print-file-name=lib$(one)san.so)))"

# LeakSanitizer under tests of the core and of what is built on it: memory that nobody has and nobody gave back. Objects that are
# alive for too long are counted by the debug build after each test.
leaks: .venv-sanitize/built
	rm -rf build/leaks && mkdir -p build/leaks
	$(SANITIZERS) LSAN_OPTIONS=exitcode=0 \
	ASAN_OPTIONS=detect_leaks=1:log_path=build/leaks/report:fast_unwind_on_malloc=0:malloc_context_size=12 \
	.venv-sanitize/bin/python -P -m pytest -q \
		$(or $(SANITIZED),tests/unit tests/containers tests/purgatory tests/c_api tests/promises/test_no_memory.py)
	.venv/bin/python -P tests/promises/leaks.py build/leaks

# ThreadSanitizer under threads of C over the plain half of the core, which holds no Python object; BROKEN=batch_take:
# without the locks of that function, and it has to say so.
sanitize-threads: .venv/built
	.venv/bin/python -P tests/threads/plain/run.py --seconds $(or $(SECONDS),60) $(if $(BROKEN),--broken "$(BROKEN)")

# ThreadSanitizer over all of it, on a CPython without a GIL that is built with it, which PYTHON is: CC=clang ./configure
# --disable-gil --with-thread-sanitizer. Everything takes some ten times as long. What it reports is in build/races.*, and there must
# be none. Of tests that fork it looks at the parents: it lets children start threads, but does not follow these. Left out are the
# plain half, which is built without it, and long chains, which one thread takes apart, for longer here than their tests wait.
# The order of locks is not looked at: a fork takes those of all timers, and the look ends the run where a thread has 64.
RACED = $(filter-out tests/threads/test_plain_half.py,$(wildcard tests/threads/test_*.py)) \
	tests/purgatory tests/containers tests/unit tests/model/test_timer_model.py --ignore=tests/unit/test_long_chains.py
sanitize-threads-whole: .venv-threads/built
	mkdir -p build && rm -f build/races.*
	TSAN_OPTIONS="suppressions=$(CURDIR)/tests/threads/races_of_cpython.txt log_path=$(CURDIR)/build/races exitcode=0 \
		die_after_fork=0 allocator_may_return_null=1 detect_deadlocks=0" \
	PYTHON_GIL=0 HWHEEL_MODEL_EXAMPLES=0.1 .venv-threads/bin/python -P -m pytest -q $(or $(SANITIZED),$(RACED))
	! cat build/races.* 2>/dev/null

# Everything measured in one run, see bench/README.md; QUICK=1: a look; KAFKA=1: beside Kafka's own timer, too.
bench: .venv/built
	.venv/bin/python -m pip install -q --group bench
	QUICK=$(QUICK) KAFKA=$(KAFKA) .venv/bin/python bench/report.py

bench-pytest: .venv/built
	.venv/bin/python -m pip install -q --group bench
	.venv/bin/python -P -m pytest bench $(ARGUMENTS)

# hwheel.spark beside a timer a message, see bench/spark/README.md.
bench-spark: .venv/built
	.venv/bin/python bench/spark/run.py $(ARGUMENTS)

# hwheel.spark.replay beside Spark SQL, see the same page.
bench-replay: .venv/built
	.venv/bin/python bench/spark/replay.py $(ARGUMENTS)

# What no test says: lint and format by ruff, types by mypy and pyright, the stubs of the core by stubtest. The rules, and
# why each, are in pyproject.toml.
check: types
	.venv/bin/python -m ruff check
	.venv/bin/python -m ruff format --check
	.venv/bin/validate-pyproject pyproject.toml

# The workflows: their security by zizmor, their grammar by actionlint where that is installed.
check-workflows:
	test -d .venv-workflows || $(PYTHON) -m venv .venv-workflows
	.venv-workflows/bin/python -m pip install -q "zizmor>=1.32"
	.venv-workflows/bin/zizmor --quiet --offline --persona=pedantic .github
	if command -v actionlint; then actionlint; else echo "no actionlint here: go install github.com/rhysd/actionlint/cmd/actionlint@latest"; fi

# The site, from docs/ and the docstrings, into build/docs/html. What is wrong is an error: a link to no page, a name of ours
# that is not there, a page that nothing leads to, a public name that is not in the reference. Needs Spark to be importable,
# for its docstrings, and no network.
SPHINX = .venv/bin/python -P -m sphinx -E -W --keep-going -q -d build/docs/doctrees docs
docs: .venv/built
	.venv/bin/python -m pip install -q --group docs
	$(SPHINX) build/docs/html -b html
	@echo "see build/docs/html/index.html"

# Asks the servers of others whether the links to them still lead somewhere.
docs-links: .venv/built
	.venv/bin/python -m pip install -q --group docs
	$(SPHINX) build/docs/links -b linkcheck

# The drawn wheels of the docs.
pictures: .venv/built
	.venv/bin/python -P docs/pictures/draw.py

# Writes what `check` asks for, as far as a tool can.
format: .venv/built
	.venv/bin/python -m pip install -q --group check
	.venv/bin/python -m ruff check --fix
	.venv/bin/python -m ruff format

types: .venv/built
	.venv/bin/python -m pip install -q --group check
	.venv/bin/python -P -m mypy --strict --python-executable .venv/bin/python -p hwheel
	.venv/bin/basedpyright --pythonpath .venv/bin/python
	.venv/bin/python -P -m pytest -q tests/packaging/test_types.py

# What a release consists of, and whether it is fit to be one: see tools/release/README.md. Some minutes for each Python.
# PYTHONS="python3.12 ..." says for which; TESTS=all runs the whole suite on each wheel, TESTS=none no test.
dist:
	test -d .venv-dist || $(PYTHON) -m venv .venv-dist
	.venv-dist/bin/python -m pip install -q --upgrade "pip>=25.1"
	.venv-dist/bin/python -m pip install -q --group dist
	.venv-dist/bin/python tools/release/dist.py --pythons "$(PYTHONS)" --tests $(or $(TESTS),part)

.venv/built: $(SOURCES)
	$(call build,.venv,)

.venv-debug/built: $(SOURCES)
	$(call build,.venv-debug,HWHEEL_DEBUG=1)

.venv-posix/built: $(SOURCES)
	$(call build,.venv-posix,HWHEEL_PLATFORM=posix)

.venv-freethreaded/built: $(SOURCES)
	$(call build,.venv-freethreaded,HWHEEL_CFLAGS=-DHW_MEETINGS=0,--prefer-binary,test-core)

.venv-kafka/built: $(SOURCES)
	$(call build,.venv-kafka,,--group kafka)

.venv-coverage/built: $(SOURCES)
	$(call build,.venv-coverage,HWHEEL_CFLAGS="--coverage -O0",--group coverage)

.venv-cluster/built: $(SOURCES)
	$(call build,.venv-cluster,,--group cluster)

.venv-fuzz/built: $(SOURCES)
	$(call build,.venv-fuzz,CC=clang LDSHARED="clang -shared" HWHEEL_CFLAGS="-fsanitize=fuzzer-no-link$(comma)undefined",--group fuzz)

.venv-sanitize/built: $(SOURCES)
	$(call build,.venv-sanitize,HWHEEL_DEBUG=1 $(if $(FORKING_CLANG),CC=$(FORKING_CLANG) LDSHARED="$(FORKING_CLANG) -shared") \
		HWHEEL_CFLAGS="-fsanitize=address$(comma)undefined $(if $(FORKING_CLANG),-shared-libasan )-fno-omit-frame-pointer -g -O1")

# Its C is made by a common interpreter, because Cython takes a quarter of an hour under ThreadSanitizer.
.venv-threads/built: $(SOURCES)
	$(call build,.venv-threads,TSAN_OPTIONS=report_bugs=0 HWHEEL_CFLAGS="-fsanitize=thread -g -O1 -DHW_MEETINGS=0",--prefer-binary,test-core,$(TRANSLATE))

TRANSLATE := python3 -m venv .venv-threads/translator && .venv-threads/translator/bin/python -m pip install -q "Cython>=3.1" && \
	cd .venv-threads/source && ../translator/bin/python -P -c \
	"from Cython.Build import cythonize; cythonize('hwheel_core/_core.pyx', emit_linenums=True)"

comma := ,

# An install of a copy, not of the tree: what is tested is what a user gets, and no stale build output gets in.
define build
	test -d $(1) || $(PYTHON) -m venv $(1)
	$(1)/bin/python -m pip install -q --upgrade "pip>=25.1"
	$(1)/bin/python -m pip install -q --group $(or $(4),test) $(3) "setuptools>=77" "Cython>=3.1"
	rm -rf $(1)/source && mkdir $(1)/source
	cp -R pyproject.toml setup.py MANIFEST.in README.md LICENSE hwheel_core src $(1)/source
	$(5)
	$(2) $(1)/bin/python -m pip install -q --no-build-isolation --no-deps --force-reinstall ./$(1)/source
	touch $(1)/built
endef

clean:
	rm -rf .venv .venv-debug .venv-posix .venv-freethreaded .venv-kafka .venv-cluster .venv-sanitize .venv-threads .venv-fuzz .venv-coverage .venv-dist .venv-workflows build dist
