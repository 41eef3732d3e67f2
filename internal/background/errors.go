package background

import "errors"

var (
	// errStarved is why the context of work ends that does not get on.
	errStarved = errors.New("others take the processors")
	// errNoResult is of a goroutine that ended in the middle of the work (runtime.Goexit), as those
	// of tests do.
	errNoResult = errors.New("work in the background ended its goroutine")
)
