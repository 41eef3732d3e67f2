package compat

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A newest segment that is empty is nothing special for the reference: it serves what is in full
// chunks, if it knows the series. So do we, of directories of either side, and say that the log
// is cut.
func TestCutLog_FullChunksAreServedAsTheReferenceDoes(t *testing.T) {
	set := []series{newSeries("i", "old"), newSeries("i", "born")}
	const step = 15_000
	write := func(e interface{ commit([]series, []row) }, from, to int64) {
		for n := from; n < to; n++ {
			rows := []row{{0, n * step, float64(n)}}
			if from > 0 {
				rows = append(rows, row{1, n * step, 1})
			}
			e.commit(set, rows)
		}
	}
	for name, sessions := range map[string]func(dir string){
		"of the reference": func(dir string) {
			r := openTheirs(t, dir)
			write(r, 0, 50)
			r.close()
			r = openTheirs(t, dir)
			write(r, 50, 600)
			r.db.ForceHeadMMap()
			r.close()
		},
		"ours": func(dir string) {
			o := openOurs(t, dir)
			write(o, 0, 50)
			o.close()
			o = openOurs(t, dir)
			write(o, 50, 600)
			o.writeChunks()
			o.close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			sessions(dir)
			require.NoError(t, os.Truncate(newestFile(t, filepath.Join(dir, "wal")), 0))

			theirs := openTheirs(t, copyDir(t, dir))
			want := theirs.dump()
			require.Greater(t, want.samples(), 400)
			require.Len(t, want, 1, "the other series is known to nobody")
			theirs.close()

			o := openOurs(t, dir)
			requireEqual(t, want, o.dump(), "what full chunks have")
			report := o.db.OpenReport()
			require.False(t, report.Clean())
			require.Positive(t, report.ChunksBeyondLog)
			require.Positive(t, report.ChunksUnknown)
			o.close()
			o = openOurs(t, dir)
			requireEqual(t, want, o.dump(), "and the next time")
			o.close()
			theirs = openTheirs(t, dir)
			requireEqual(t, want, theirs.dump(), "and for the reference")
			theirs.requireUndamaged()
		})
	}
}
