package read

import "errors"

// Warnings.
var (
	// ErrTruncated: a result was cut at its limit.
	ErrTruncated = errors.New("result cut at the limit")
	// ErrMissing: data is missing from a result, as a part of it is damaged or gone.
	ErrMissing = errors.New("data is missing: a part of it is damaged or gone")
)

// missing is damage that a result leaves out.
type missing struct{ why error }

func (m *missing) Error() string   { return m.why.Error() }
func (m *missing) Unwrap() []error { return []error{ErrMissing, m.why} }
