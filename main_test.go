package tsdb_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// exhaustive asks for each fault at each place, and for many states of each crash. It takes
// ten minutes on two processors; without it some are tried, others under each setup.
var exhaustive = flag.Bool("exhaustive", false, "try every fault and many more states of crashes: ten minutes on two processors")

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
	goleak.VerifyTestMain(m)
}
