package blockset

import "github.com/seed347100a3/tsdb/internal/datadir"

// unsupported is a block of a newer version.
type unsupported struct{ why error }

func (u *unsupported) Error() string   { return u.why.Error() }
func (u *unsupported) Unwrap() []error { return []error{datadir.ErrUnsupported, u.why} }
