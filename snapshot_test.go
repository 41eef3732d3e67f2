package tsdb_test

import (
	"io/fs"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

func TestSnapshot_HasWhatWasCommittedAndOpensClean(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Head.SamplesPerChunk = 16
	})
	base := testNow.UnixMilli() / (2 * hour) * (2 * hour)
	f.scrapes(4, base-5*hour, base-time.Hour.Milliseconds())
	require.NoError(t, f.db.Compact(ctx))
	require.NotEmpty(t, f.db.Blocks())
	f.scrapes(4, base-hour, base)
	require.NoError(t, f.db.Delete(ctx, base-5*hour, base-30*minute, labels.Equal("i", "3")))
	require.NoError(t, tsdb.WriteHeadChunks(f.db))
	f.scrapes(4, base, base+minute)
	want := f.all()
	require.NoError(t, f.db.Snapshot(ctx, "copy/of/it"))
	require.ErrorIs(t, f.db.Snapshot(ctx, "copy/of/it"), fs.ErrExist)
	f.scrapes(5, base+minute, base+20*minute)
	require.NoError(t, f.db.Delete(ctx, math.MinInt64, math.MaxInt64, labels.Equal("i", "0")))
	after := f.all()

	copied, err := tsdb.Open("copy/of/it", f.opts)
	require.NoError(t, err)
	report := copied.OpenReport()
	require.True(t, report.Clean(), "%+v", report)
	require.Empty(t, report.Damages)
	require.Equal(t, want, dump(t, copied, math.MinInt64, math.MaxInt64))
	require.NoError(t, copied.Flush(ctx))
	require.Equal(t, want, dump(t, copied, math.MinInt64, math.MaxInt64))
	require.NoError(t, copied.Close())

	require.Equal(t, after, f.all(), "the copy shares nothing that changes")
	f.reopen()
	require.Equal(t, after, f.all())
}
