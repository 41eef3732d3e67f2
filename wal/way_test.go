package wal

import (
	"bytes"
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/foreground"
	"github.com/seed347100a3/tsdb/internal/waytest"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Records of series compress well: what is few bytes of the log may be long in memory, and commits
// and queries wait for it.
func TestCheckpoint_LetsOthersRun(t *testing.T) {
	l := openLog(t, tsdbtest.NewMemFS(), Options{Compression: &Snappy}, Position{})
	defer func() { require.NoError(t, l.Close()) }()
	rec := bytes.Repeat([]byte("\x01the same "), 2*wayBytes/10)
	const commits = 100
	for range commits {
		write(t, l, rec)
	}
	_, err := l.Rotate()
	require.NoError(t, err)
	foreground.Begin()
	defer foreground.End()
	turns := waytest.Count(func() {
		_, err = l.Checkpoint(context.Background(), CheckpointOptions{TmpDir: testTmp, QuarantineDir: testQuarantine,
			Keep: func(rec Record, _ []byte) ([]byte, bool) { return rec.Data, true }})
	}, runtime.Gosched)
	require.NoError(t, err)
	// Those of the decoder, and those of what keeps and writes, of which some coincide.
	require.GreaterOrEqual(t, turns, commits+commits/5)
}
