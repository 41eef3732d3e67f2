package tsdb_test

import (
	"fmt"
	"os"
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

// testGC and testMemory are GOGC and GOMEMLIMIT of the tests. Most make one small database after
// the other, a few megabytes that are garbage at once: by default the collector takes as long as
// they do.
const (
	testGC     = 800
	testMemory = 1 << 30
)

// fewer says how many times to do something: less often with -short, which the race detector goes
// with, as it makes everything ten times as slow.
func fewer(usual, short int) int {
	if testing.Short() {
		return short
	}
	return usual
}

// childEnv says which function of children this process is to run instead of tests.
const childEnv = "TSDB_TEST_CHILD"

// children are what tests need other processes for: this binary, started again.
var children = map[string]func() error{}

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		if err := children[name](); err != nil {
			fmt.Fprintf(os.Stderr, "child %s: %v\n", name, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(testGC)
		debug.SetMemoryLimit(testMemory)
	}
	goleak.VerifyTestMain(m)
}
