package tsdb

import (
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/seed347100a3/tsdb/internal/blockdir"
)

// BlockMeta is what a block says of itself: its name, its times (half-open, in
// milliseconds), counts, and where it comes from. Its slices belong to the database and
// must not be changed.
type BlockMeta = blockdir.Meta

// newOwnULID names a block of the head, or of such blocks, that ends at maxt. Its time is not
// before that, or it would look like one of the future that somebody else has made.
func newOwnULID(now time.Time, maxt int64) ulid.ULID {
	if end := time.UnixMilli(maxt); end.After(now) {
		now = end
	}
	return blockdir.NewULID(now)
}
