package marks

import "errors"

// ErrInUse: another Store of this process has the file, and is not closed.
var ErrInUse = errors.New("the file of marks is in use")
