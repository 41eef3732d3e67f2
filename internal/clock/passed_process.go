package clock

import (
	"math/rand/v2"
	"strconv"
	"time"
)

var (
	processBegun = time.Now()
	// processID names the start of this process.
	processID = strconv.FormatUint(rand.Uint64(), 36)
)

// processPassed counts from the start of the process.
func processPassed() Passed { return Passed{Since: processID, Time: time.Since(processBegun)} }
