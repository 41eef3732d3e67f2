package late

import "errors"

// ErrDuplicate: the series has another value at this time.
var ErrDuplicate = errors.New("duplicate sample: the series has another value at this time")
