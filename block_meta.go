package tsdb

import "github.com/seed347100a3/tsdb/internal/blockdir"

// BlockMeta is what a block says of itself: its name, its times (half-open, in
// milliseconds), counts, and where it comes from. Its slices belong to the database and
// must not be changed.
type BlockMeta = blockdir.Meta
