// Package bench compares this library with the reference implementation of its file
// format, the TSDB of Prometheus v0.315.0, and with the storage of VictoriaMetrics
// v1.130.0: the same work, the same data, the same sync behaviour, one after the other on
// the same machine in one run. Ratios count; the absolute figures belong to the machine.
//
// Command compare runs it and prints a table; docs/bench.md says how to read it. The
// benchmarks of this package do the same work under "go test -bench".
//
// What all engines get:
//
//   - A log, if they have one, with snappy compression that is synced when a segment is
//     full, not by commit.
//   - Series with ten labels of 180 to 220 bytes; a quarter each of counters, decimal
//     gauges, constants and noise, from a seeded generator.
//   - A process of its own for each measurement, so that no heap, garbage or page
//     table of one weighs on the other.
//
// The files: plan.go says what is measured and with how much data, figures.go names the
// rows and their goals, compare.go runs it, report.go and page.go tell of it; the work
// itself is in task.go, blocks.go and others by its name, the engines in ours.go,
// reference.go and victoria.go.
//
// What is in favour of the reference: it need not sort what it selects, its full
// chunks stay in memory while appends are measured (ours go to files meanwhile), it
// compacts only where that is measured, and it does not verify the blocks that it writes.
package bench
