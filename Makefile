# The one list of commands; `make` alone shows it. What they do is in pgrx-config/, examples/ and bench/.

.DEFAULT_GOAL := help
.PHONY: help demo demo-stop build test lint bench bench-double-tap picture docs clean-servers

# PG is the PostgreSQL major, or all. PG_CONFIG takes an installed server of its major.
ifdef PG_CONFIG
export PG_CONFIG
endif
ifndef PG
# Handed over by hand: $(shell) sees no exported variables before GNU make 4.4.
PG := $(shell PG_CONFIG='$(PG_CONFIG)' pgrx-config/servers major)
endif
MAJORS = $(if $(filter all,$(PG)),$(shell pgrx-config/servers majors),$(PG))

help: ## shows this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo '  PG=15, 16, 17 or 18 (the default) chooses the PostgreSQL major; build, test and lint take PG=all too.'
	@echo '  PG_CONFIG=/path/to/pg_config takes an installed server instead of one that is got.'

demo: ## what happens if a consumer dies between commit and ack, on real messages; leaves a server to play with
	@pgrx-config/build $(PG)
	@examples/demo/demo $(PG)

demo-stop: ## stops the server that the demo left up
	@examples/demo/demo stop

build: ## builds the extension, optimised, and installs it into the server
	@set -e; for major in $(MAJORS); do pgrx-config/build $$major; done

test: ## all tests on one major; PG=all: on every major, and the lints
	@pgrx-config/test $(PG)

lint: ## formatting, clippy and rustdoc, with warnings as errors
	@pgrx-config/lint $(MAJORS)

bench: ## measures claims against what people write by hand, in 15 minutes; QUICK=1 takes three
	@pgrx-config/build $(PG)
	@bench/run $(PG) $(if $(QUICK),quick,full)

bench-double-tap: ## measures a double tap against the handler's own two passes, in five minutes
	@pgrx-config/build $(PG)
	@bench/double-tap $(PG)

picture: ## draws docs/monitoring.svg from a simulated week, in some minutes
	@pgrx-config/build $(PG)
	@monitoring/picture $(PG)

docs: ## builds the documentation of the source and says where it is
	@pgrx-config/lint docs $(PG)

clean-servers: demo-stop ## removes the servers and packages that were got; the next command gets them again
	@pgrx-config/servers clean
