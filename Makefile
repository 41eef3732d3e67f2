# The groups of .ci/run under shorter names, and what takes too long for it.
# `make test` is what to run while working; `.ci/run` is what must pass.

BENCH     ?= .
BENCHTIME ?= 1s
COUNT     ?= 6
FUZZTIME  ?= 1m
BENCHSTAT := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

.PHONY: test sweep race lint fuzz mutants bench bench-base bench-diff bench-compare bench-quick bench-sustained bench-recovery bench-promql bench-http thanos collector cross demo ci

test:
	go test ./...

# the tests that try some of many places, with all of these places
sweep:
	.ci/run sweep

race:
	.ci/run race

# vet, staticcheck, gofmt, tidy, dropped errors of Sync, Close and the like
lint:
	.ci/run lint

# every fuzz target of the root module in turn, FUZZTIME each
fuzz:
	@for pkg in $$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...); do \
		for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
			echo "$$pkg $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
		done; \
	done

# every planted fault of internal/mutants in turn, ten seconds each; each must make its test fail
mutants:
	go test ./internal/mutants -plant -v -timeout 60m -run Noticed

# the benchmarks of this library alone; the README quotes bench-compare
bench:
	go test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem .

# a change's effect: `make bench-base` before it, `make bench-diff` after it
bench-base:
	go test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -count $(COUNT) -benchmem . | tee bench-base.out

bench-diff:
	go test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -count $(COUNT) -benchmem . | tee bench-new.out
	go run $(BENCHSTAT) bench-base.out bench-new.out

# this engine beside others, in one run: 40 to 60 minutes, writes docs/bench.md
bench-compare:
	cd prom/bench && CGO_ENABLED=0 go run ./cmd/compare --docs ../../docs

# the same with less data: a few minutes, prints only
bench-quick:
	cd prom/bench && CGO_ENABLED=0 go run ./cmd/compare --quick

# 1.7M series at 380k samples a second with a kill: nine minutes, 5 GB of memory; writes docs/bench.md
bench-sustained:
	cd prom/bench && CGO_ENABLED=0 go run ./cmd/compare sustained --docs ../../docs

# range queries of the PromQL engine over this storage and the reference's: ten minutes; writes docs/bench.md
bench-promql:
	cd prom/bench && CGO_ENABLED=0 go run ./cmd/compare promql --docs ../../docs

# query_range over HTTP, of tsdbserve and of a Prometheus server on one directory: four minutes, prints only
bench-http:
	cd compat && go test -run '^$$' -bench QueryRange -benchtime 5x -timeout 20m .

# opens 1e8 and 1e9 samples after a kill: eight minutes, 20 GB of disk; writes docs/bench.md
bench-recovery:
	cd prom/bench && CGO_ENABLED=0 go run ./cmd/compare recovery --docs ../../docs

# a real Thanos over our server and over blocks that prom/ship uploads: builds Thanos first, three minutes
thanos:
	cd compat/thanos && TSDB_THANOS=1 go test -count=1 -v -timeout 40m .

# a real OpenTelemetry collector and a real Telegraf, sending and receiving: builds both first, four minutes
collector:
	cd compat/collector && go vet ./... && go test -count=1 -v -timeout 20m ./...

cross:
	.ci/run cross

# records this machine's metrics for a moment and shows them
demo:
	go run ./cmd/tsdbutil demo

ci:
	.ci/run
