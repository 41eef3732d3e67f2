package tsdb_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blockmerge"
	"github.com/seed347100a3/tsdb/internal/blocktest"
	"github.com/seed347100a3/tsdb/internal/compact"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// blockSeries is one series of a block that a test makes.
type blockSeries = blocktest.Series

// Blocks, what is in them, and how it is written down.
var (
	makeBlock    = blocktest.Make
	openBlock    = blocktest.Open
	numberedULID = blocktest.ID
	bounded      = blocktest.Meta
	remove       = blocktest.Delete
	blockChunks  = blocktest.Chunks
	leftovers    = blocktest.Leftovers

	series = blocktest.Labels
	floats = blocktest.Floats
	ramp   = blocktest.Ramp
	only   = blocktest.Only
)

// compactor merges blocks without a database around it.
type compactor struct{ *compact.Compactor }

func newCompactor(fsys tsdb.FS, dir string, c tsdb.Clock, bytesPerSecond int64) compactor {
	return compactor{compact.New(compact.Config{FS: fsys, Dir: dir, Clock: c, Background: tsdb.NewBackground(c),
		BytesPerSecond: bytesPerSecond, SamplesPerChunk: 120})}
}

// Merge publishes the results as they are.
func (c compactor) Merge(ctx context.Context, inputs []*blockdir.Dir) (compact.Result, error) {
	return c.Compactor.Merge(ctx, blockmerge.Whole(inputs), func(w *blockdir.Writer, _ bool) error { return w.Publish() })
}

// mergeTest is a directory with blocks.
type mergeTest struct {
	testing.TB
	fs     *tsdbtest.MemFS
	clock  *tsdbtest.Clock
	c      compactor
	inputs []*blockdir.Dir
}

func newMergeTest(t testing.TB) *mergeTest {
	m := &mergeTest{TB: t, fs: tsdbtest.NewMemFS(), clock: tsdbtest.NewClock(time.UnixMilli(1_700_000_000_000))}
	require.NoError(t, m.fs.MkdirAll("data"))
	m.c = newCompactor(m.fs, "data", m.clock, 0)
	return m
}

// block adds an input with these half-open bounds.
func (m *mergeTest) block(mint, maxt int64, series ...blockSeries) *blockdir.Dir {
	m.Helper()
	d := makeBlock(m, m.fs, "data", bounded(len(m.inputs)+1, mint, maxt), series...)
	m.inputs = append(m.inputs, d)
	return d
}

// merge merges all inputs, and checks all that holds of every result.
func (m *mergeTest) merge() (*blockdir.Dir, compact.Result) {
	m.Helper()
	r, err := m.c.Merge(context.Background(), m.inputs)
	require.NoError(m, err)
	d := openBlock(m, m.fs, "data", r.Meta.ULID)
	require.Equal(m, d.Meta(), r.Meta)
	require.Zero(m, d.Tombstones().Len())
	report, err := blockdir.Verify(context.Background(), d, nil)
	require.NoError(m, err)
	require.Empty(m, report.Problems)
	require.Empty(m, leftovers(m, m.fs, "data"))
	return d, r
}
