# The commands of daily work. Each runs in an environment that nox builds first: see noxfile.py, which also has the rarer
# ones. Needed beforehand: Python 3.11 or later with its headers, and a C compiler.

PYTHON ?= python3
NOX_BIN := .nox/nox-$(notdir $(PYTHON))/bin
NOX := $(NOX_BIN)/nox -s
IN_RELEASE := $(NOX) release --
IN_DEBUG := $(NOX) debug --
HWHEEL_SEED ?= random

.PHONY: demo test test-release test-processes test-spark test-kafka test-slow test-invariants test-threads test-core test-debug test-freethreaded \
        sanitize search soak forks chaos proof schedules fuzz bench bench-spark bench-replay check format docs dist clean release debug

demo: release
	$(IN_RELEASE) -m hwheel demo

# Five parts, the longest first. Many tests only wait, so `make -j4 test` runs four of them at a time on two cores.
test: test-spark test-release test-processes test-threads test-invariants

PROCESSES := tests/lifetime tests/threads tests/promises

test-release: release
	$(IN_RELEASE) -m pytest -q $(patsubst %,--ignore=%,$(PROCESSES) tests/spark tests/kafka)

# Threads, forks, and exits on the release build.
test-processes: release
	$(IN_RELEASE) -m pytest -q $(PROCESSES)

test-spark: release
	$(IN_RELEASE) -m pytest -q -m "not slow" tests/spark

# The schedules have a build of their own, which test-processes runs.
test-threads: debug
	$(IN_DEBUG) -m pytest -q --ignore=tests/threads/test_schedules.py tests/threads tests/promises

test-invariants: debug
	$(IN_DEBUG) -m pytest -q tests/unit tests/model tests/purgatory tests/c_api

# hwheel deliver with a Kafka broker that the tests start: needs Java 17 or later, and Maven for Kafka's jars.
test-kafka: release
	$(IN_RELEASE) -m pytest -q -m "not slow" tests/kafka

# The tests of hwheel deliver that take a minute each.
test-slow: release
	$(IN_RELEASE) -m pytest -q -m slow tests/spark
	$(IN_RELEASE) -m pytest -q -m slow tests/kafka

# A quick check for core developers (under a minute), on the debug build.
test-core: debug
	HWHEEL_MODEL_EXAMPLES=0.1 HWHEEL_SOAK_SECONDS=0.5 $(IN_DEBUG) -m pytest -q tests/unit tests/model \
		$(patsubst %,--ignore=tests/unit/test_%.py,long_chains large_wheels) \
		$(patsubst %,tests/threads/test_%.py,exactly_once deadlines counters clock_set_back callbacks periodic)

test-debug: debug
	$(IN_DEBUG) -m pytest -q

# make test-freethreaded PYTHON=python3.14t
test-freethreaded: $(NOX_BIN)/nox
	$(NOX) freethreaded

# make sanitize TESTS=tests/unit
sanitize: $(NOX_BIN)/nox
	$(NOX) sanitize $(if $(TESTS),-- -m pytest -q $(TESTS))

# Random tests for minutes, with a new seed each time; HWHEEL_SEED=N repeats a run.
search: debug
	HWHEEL_SEED=$(HWHEEL_SEED) HWHEEL_MODEL_EXAMPLES=50 HWHEEL_SOAK_SECONDS=60 $(IN_DEBUG) -m pytest -q \
		tests/model tests/threads tests/lifetime tests/purgatory tests/promises tests/recorder tests/tune tests/dropin

# Timers under load, with an account of every task: make soak MINUTES=60 PENDING=1000000 RATE=200000
soak: release
	$(IN_RELEASE) tools/soak --seed $(HWHEEL_SEED) --minutes $(or $(MINUTES),60) --pending $(or $(PENDING),1000000) \
		--rate $(or $(RATE),200000)

# Forks under load, and exits of the children: make forks FORKS=1000
forks: release
	$(IN_RELEASE) tools/soak --seed $(HWHEEL_SEED) --minutes 0 --pending 5000 --rate 20000 --forks $(or $(FORKS),1000)

# Kills, restored copies, renamed inputs, and changed settings of hwheel deliver, with an account of every message:
# make chaos MINUTES=60 HWHEEL_SEED=1
chaos: release
	$(IN_RELEASE) tests/spark/chaos.py --seed $(HWHEEL_SEED) --minutes $(or $(MINUTES),15)

proof: release
	$(IN_RELEASE) tools/proof $(ARGUMENTS)

# Every schedule of the core's threads within bounds, and random ones: make schedules ARGUMENTS="search --random 1000000"
schedules: release
	$(IN_RELEASE) tools/schedules $(or $(ARGUMENTS),search)

# make fuzz SECONDS=600 ARGUMENTS=plain
fuzz: $(NOX_BIN)/nox
	$(NOX) fuzz -- tools/fuzz --seconds $(or $(SECONDS),60) $(ARGUMENTS)

# About half an hour; QUICK=1: less precise, in minutes.
bench: release
	$(IN_RELEASE) -m pip install -q --group bench
	QUICK=$(QUICK) $(IN_RELEASE) bench/report.py

bench-spark: release
	$(IN_RELEASE) bench/spark/run.py $(ARGUMENTS)

bench-replay: release
	$(IN_RELEASE) bench/spark/replay.py $(ARGUMENTS)

check: release
	$(IN_RELEASE) -m pip install -q --group check
	$(IN_RELEASE) -m ruff check
	$(IN_RELEASE) -m ruff format --check
	$(IN_RELEASE) -m validate_pyproject pyproject.toml
	$(IN_RELEASE) -m mypy --strict -p hwheel
	$(IN_RELEASE) -m basedpyright
	$(IN_RELEASE) -m pytest -q tests/packaging/test_types.py

format: release
	$(IN_RELEASE) -m pip install -q --group check
	$(IN_RELEASE) -m ruff check --fix
	$(IN_RELEASE) -m ruff format

# The site in build/docs/html. BUILDER=linkcheck: checks external links.
docs: $(NOX_BIN)/nox
	BUILDER=$(BUILDER) $(NOX) docs

dist: $(NOX_BIN)/nox
	$(NOX) dist

clean:
	rm -rf .nox build dist

release debug: $(NOX_BIN)/nox
	$(NOX) $@ --install-only

$(NOX_BIN)/nox:
	$(PYTHON) -m venv $(@D)/..
	$(@D)/python -m pip install -q "nox>=2025.2" "Cython>=3.1"
