package ship_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
)

// mergedBlocks makes three blocks of level 2, and one behind them.
func (w *world) mergedBlocks() {
	w.Helper()
	o := w.options()
	o.Blocks.MaxRange = 3 * blockRange
	db, err := tsdb.Open("data", o)
	require.NoError(w, err)
	w.db = db
	start, whole := w.clock.Now().UnixMilli(), (9 * blockRange).Milliseconds()
	w.clock.Set(time.UnixMilli(start - start%whole + whole))
	w.blocks(10)
	require.NoError(w, db.Compact(ctx))
	require.Len(w, db.Blocks(), 4)
	require.Equal(w, 2, db.Blocks()[2].Compaction.Level)
	require.NoError(w, db.Close())
}

// mergeOn lets merges go one level up.
func mergeOn(w *world) *tsdb.Options {
	o := w.options()
	o.Blocks.MaxRange = 9 * blockRange
	return o
}

// What is merged of merged blocks that are uploaded has nothing new, be the list of what is
// uploaded lost, or one that others wrote: it names the blocks alone.
func TestSync_MergedOnAfterTheUpload(t *testing.T) {
	for _, how := range []string{"", "after the loss of the list", "by the list of another"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			w.mergedBlocks()
			s := w.shipper(compacted)
			if how != "" {
				w.sync(s, 4)
				var names []string
				for _, m := range w.db.Blocks() {
					names = append(names, m.ULID.String())
				}
				text := `{"version":1,"uploaded":["` + strings.Join(names, `","`) + `"]}`
				require.NoError(t, w.fs.Remove("data/thanos.shipper.json"))
				if strings.HasPrefix(how, "by") {
					require.NoError(t, w.fs.WriteFile("data/thanos.shipper.json", []byte(text)))
				}
				s = w.shipper(compacted)
			}
			db := w.open(s.Prepare(mergeOn(w)))
			w.sync(s, map[bool]int{true: 4, false: 0}[how == ""])
			require.NoError(t, db.Compact(ctx))
			require.Len(t, db.Blocks(), 2)
			require.Equal(t, 3, db.Blocks()[0].Compaction.Level)
			require.False(t, s.Keep(db.Blocks()[0]))
			w.sync(s, 0)
			w.sync(w.shipper(compacted), 0)
			require.Empty(t, reasons(s))
			w.bucket.once(t)
		})
	}
}

// A merged block may be much younger than what it was made of, and than what Thanos made of that.
func TestSync_StateIsLostAndTheSourcesAreOld(t *testing.T) {
	w := newWorld(t)
	w.open(lateOptions(w))
	w.late()
	w.sync(w.shipper(), 2)
	w.clock.Advance(72 * time.Hour)
	require.NoError(t, w.db.Compact(ctx))
	require.Equal(t, 2, w.db.Blocks()[0].Compaction.Level)
	require.NoError(t, w.fs.Remove("data/thanos.shipper.json"))
	w.sync(w.shipper(compacted), 0)
	w.bucket.once(t)
}
