# What a newcomer and CI call. `make` alone lists the targets. Each installs what it needs first (scripts/setup).

CARGO ?= cargo

# Test binaries run a host that can be killed at named points; the demo and the benchmarks run one that cannot.
TEST_FEATURES := weir/fault-points

# Host and tests share one profile, so that wasmtime is built once for linking and once for checking. `--bin NAME` instead of
# `-p PACKAGE` for the same reason: features are then those of the whole workspace, whatever is built. The demo leaves Kafka
# out, which needs more of a machine than the demo does; wasmtime is the same with it and without.
# Most tests wait for processes, brokers and timeouts more than they work.
export RUST_TEST_THREADS ?= $(shell expr 2 '*' $$(nproc))

.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help demo test soak bench bench-kafka kafka lint licences guests foreign-guests kafka-jars setup setup-lean setup-lint

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup-lean ## run a job over the flights of 2013, kill it twice, show that nothing is lost or doubled
	@scripts/build-guests flights-clean flights-daily
	$(CARGO) build --release --bin weir --no-default-features
	@examples/flights/demo

test: setup guests foreign-guests kafka-jars lint ## everything CI checks: lints, documentation, unit and integration tests, a sample of the soak
	$(CARGO) build --release --bin weir --features $(TEST_FEATURES)
	$(CARGO) test --release --workspace --features $(TEST_FEATURES)

soak: setup guests kafka-jars ## kill the host 300 times, and brokers, and compare with uninterrupted runs (many minutes; ONLY=files or kafka)
	$(CARGO) build --release --bin weir --features $(TEST_FEATURES)
	$(CARGO) run --release --bin soak --features $(TEST_FEATURES) -- $(ONLY)

bench: setup guests foreign-guests ## measure records, languages, timers, start and barriers beside baselines; JSON lines (ONLY=NAME for one)
	$(CARGO) run --release --bin bench -- $(ONLY)

bench-kafka: setup guests kafka-jars ## measure a job from Kafka to Kafka beside a plain loop, on a broker of its own; a JSON line (5 minutes)
	$(CARGO) run --release --bin bench -- kafka

kafka: ## start an Apache Kafka broker to try things with, until Ctrl-C, on 127.0.0.1:9092 (or KAFKA_PORT)
	@exec scripts/kafka start

lint: setup-lint ## format, clippy and documentation, warnings as errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets --features $(TEST_FEATURES) -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --release --workspace --no-deps --features $(TEST_FEATURES)

licences: setup-lean ## check licences and origins of all dependencies by deny.toml; builds cargo-deny if missing (5 minutes)
	@command -v cargo-deny >/dev/null || $(CARGO) install --locked cargo-deny
	$(CARGO) deny check licenses bans sources

guests: setup-lean ## build all Wasm operators of examples and tests to target/guests
	@scripts/build-guests

foreign-guests: ## build the operators that are written in Python and JavaScript to target/guests; installs their tools to a cache
	@scripts/build-foreign-guests

kafka-jars: ## fetch the Kafka broker that tests run, to a cache
	@scripts/kafka-jars >/dev/null

setup:
	@scripts/setup kafka

setup-lean:
	@scripts/setup

setup-lint:
	@scripts/setup lint
