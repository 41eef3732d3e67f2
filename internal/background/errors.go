package background

import "errors"

var (
	// errStarved is why the context of work ends that does not get on.
	errStarved = errors.New("others take the processors")
	// errNoThread is what systems return that do not know a priority of a single thread, or not one
	// that this package knows of.
	errNoThread = errors.New("no thread of a low priority")
)
