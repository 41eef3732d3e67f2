package backup

import "errors"

// errChanged: a file had other bytes when it was read again.
var errChanged = errors.New("file changed while it was read")
