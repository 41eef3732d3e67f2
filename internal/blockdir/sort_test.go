package blockdir_test

import (
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/blockdir"
)

// A merge of old blocks of late samples is younger by its name than blocks that count after it.
func TestSortByAge_GoesByTheNewestSource(t *testing.T) {
	id := func(ms uint64) ulid.ULID { return ulid.MustNew(ms, nil) }
	lateBlock := func(name uint64, sources ...uint64) blockdir.Meta {
		m := blockdir.Meta{ULID: id(name), Compaction: blockdir.Compaction{Hints: []string{blockdir.HintFromOutOfOrder}}}
		for _, s := range sources {
			m.Compaction.Sources = append(m.Compaction.Sources, id(s))
		}
		return m
	}
	metas := []blockdir.Meta{lateBlock(9, 1, 3), {ULID: id(2)}, lateBlock(5, 5), {ULID: id(1)}, lateBlock(4, 4)}
	blockdir.SortByAge(len(metas), func(i int) *blockdir.Meta { return &metas[i] },
		func(i, k int) { metas[i], metas[k] = metas[k], metas[i] })
	var names []uint64
	for i := range metas {
		names = append(names, metas[i].ULID.Time())
	}
	require.Equal(t, []uint64{2, 1, 9, 4, 5}, names)
}
