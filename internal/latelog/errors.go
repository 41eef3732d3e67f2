package latelog

import "errors"

// errNoLog: there is nothing to write to.
var errNoLog = errors.New("there is no out-of-order log")
