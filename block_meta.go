package tsdb

import (
	"math"

	"github.com/oklog/ulid/v2"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blockset"
)

// BlockMeta is what a block says of itself. It has ULID, its name; MinTime and MaxTime (half-open,
// in milliseconds); Stats (NumSamples, NumFloatSamples, NumHistogramSamples, NumSeries, NumChunks,
// NumTombstones, each a uint64); Compaction, where it comes from (Level, Sources, Parents, Hints,
// Deletable, Failed); Version; and Extra, fields that this version does not know. Its slices belong
// to the database and must not be changed.
type BlockMeta = blockdir.Meta

// MissingBlock is a block that there should be and that is not read.
type MissingBlock struct {
	ULID ulid.ULID
	// Path is where it is, or was if it has vanished, relative to the data directory.
	Path string
	// MinTime and MaxTime are in milliseconds, half-open, as those of BlockMeta. math.MinInt64 and
	// math.MaxInt64 mean that nobody knows: it may have had samples of any time.
	MinTime, MaxTime int64
	// Vanished: it is nowhere. Others are in quarantine, or in a place where they are not read.
	Vanished bool
}

// missingBlocks returns what is missing, as others get it.
func missingBlocks(v *blockset.View) []MissingBlock {
	var out []MissingBlock
	for _, m := range v.Missing {
		b := MissingBlock{ULID: m.ID, Path: m.Name, MinTime: m.Mint, MaxTime: m.Maxt, Vanished: m.Vanished}
		if m.Maxt < math.MaxInt64 {
			b.MaxTime++
		}
		out = append(out, b)
	}
	return out
}
