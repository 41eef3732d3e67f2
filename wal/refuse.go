package wal

// NotCommitted says that a commit did not get as far as the log, because of cause:
// errors.Is finds ErrNotCommitted, the cause, and ErrDiskFull if it is that.
func NotCommitted(cause error) error { return notCommitted(cause) }

// NotWritable says that there is no log to write to yet, because of cause:
// errors.Is finds ErrReadOnly, the cause, and ErrDiskFull if it is that.
func NotWritable(cause error) error {
	return &failure{means: []error{ErrReadOnly}, cause: diskFull(cause)}
}
