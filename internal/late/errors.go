package late

import "errors"

// ErrDuplicate: the series has another late sample at that time.
var ErrDuplicate = errors.New("another late sample has that time")
