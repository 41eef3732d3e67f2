package compat

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
)

// A snapshot that we make while the database is open is a directory like any other.
func TestSnapshot_OfOurs_ReadByAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t, openOurBlocks, plan{Seed: seed(t, 4000), Series: 60})
	w.append(40, 9*hour)
	w.e.compact()
	w.delete(worldStart+hour, worldStart+8*hour, matcher{"=~", "mod", "[2-4]"})
	dir := filepath.Join(t.TempDir(), "snapshot")
	require.NoError(t, w.e.(*ours).db.Snapshot(t.Context(), dir))
	want := maps.Clone(w.want)
	w.append(20, 3*hour)
	w.e.flush()
	w.e.close()
	requireAllRead(t, 0, left{dir: dir, want: want})
	requireAllRead(t, 1, left{dir: w.dir, want: w.want})
}

// A snapshot of the reference, with and without its head in a block, opens here.
func TestSnapshot_OfTheReference_ReadByAll(t *testing.T) {
	t.Parallel()
	for _, withHead := range []bool{true, false} {
		t.Run(fmt.Sprint(withHead), func(t *testing.T) {
			w := newWorld(t, openTheirBlocks, plan{Seed: seed(t, 4010), Series: 60})
			w.append(40, 9*hour)
			w.e.flush()
			want := maps.Clone(w.want)
			w.append(20, hour)
			if withHead {
				want = w.want
			}
			dir := t.TempDir()
			require.NoError(t, w.theirs().db.Snapshot(dir, withHead))
			require.NoError(t, os.Mkdir(filepath.Join(dir, "wal"), 0o777)) // or its own read-only readers refuse it
			requireAllRead(t, 0, left{dir: dir, want: want})
		})
	}
}

// Our backfill writes blocks that all read; moved into a database with a newer head they
// belong to it.
func TestBackfill_OfOurs_ReadByAll(t *testing.T) {
	t.Parallel()
	for _, longest := range []time.Duration{2 * time.Hour, 18 * time.Hour} {
		t.Run(longest.String(), func(t *testing.T) {
			w := newWorld(t, openTheirBlocks, plan{Seed: seed(t, 4020), Series: 60, Start: worldStart + 100*hour})
			w.append(10, hour)
			w.e.close()
			rng := rand.New(rand.NewPCG(4020, 0))
			bw, err := tsdb.NewBlockWriter(w.dir, &tsdb.BlockWriterOptions{MaxRange: longest, MemoryBytes: 1 << 20})
			require.NoError(t, err)
			old, span := data{}, int64(scaled(90))*hour
			for _, i := range rng.Perm(len(w.g.set)) {
				s := w.g.set[i]
				for at := worldStart + rng.Int64N(10*hour); at < worldStart+span; at += 1 + rng.Int64N(30*minute) {
					v := w.g.value(i)
					require.NoError(t, bw.Append(s.ours, at, v))
					old[s.key] = append(old[s.key], point{at, math.Float64bits(v)})
				}
			}
			metas, err := bw.Flush(t.Context())
			require.NoError(t, err)
			require.NotEmpty(t, metas)
			require.NoError(t, bw.Close())
			for key, ps := range w.want {
				old[key] = append(old[key], ps...)
			}
			requireAllRead(t, 0, left{dir: w.dir, want: old})
		})
	}
}

// What promtool makes of a text is read by all.
func TestBackfill_OfPromtool_ReadByAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t, openOurBlocks, plan{Seed: seed(t, 4030), Series: 5})
	w.e.close()
	var text strings.Builder
	text.WriteString("# TYPE m gauge\n")
	want := data{}
	set := []series{newSeries("__name__", "m", "n", "1"), newSeries("__name__", "m", "n", "2")}
	for i := range 500 {
		r := row{i % 2, worldStart + int64(i)*3*minute, float64(i) / 8}
		fmt.Fprintf(&text, "m{n=\"%d\"} %g %d.0\n", r.series+1, r.v, r.t/1000)
		want.add(set, []row{r})
	}
	text.WriteString("# EOF\n")
	file := filepath.Join(t.TempDir(), "m.om")
	require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o666))
	out, err := exec.Command(promtoolProgram.build(t), "tsdb", "create-blocks-from", "openmetrics", file, w.dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotEmpty(t, metasOf(t, w.dir))
	requireAllRead(t, 0, left{dir: w.dir, want: want})
}

// Readers that write nothing work beside a live writer of the other side, and see what
// it has done so far.
func TestReadOnly_BesideALiveWriterOfTheOther_SeesEverything(t *testing.T) {
	t.Parallel()
	t.Run("ours beside the reference", func(t *testing.T) {
		w := newWorld(t, openTheirBlocks, plan{Seed: seed(t, 4040), Series: 60})
		r, err := tsdb.OpenReadOnly(w.dir, ourOptions(ourBlockOptions))
		require.NoError(t, err)
		defer func() { require.NoError(t, r.Close()) }()
		look := func() {
			t.Helper()
			require.NoError(t, r.Refresh(t.Context()))
			q, err := r.Querier(math.MinInt64, math.MaxInt64)
			require.NoError(t, err)
			requireEqual(t, w.want, dumpOurs(t, q), "ours, read-only")
		}
		for k := range 3 {
			w.append(20, 4*hour)
			look()
			w.delete(w.g.now-3*hour, w.g.now-hour, matcher{"=", "mod", "3"})
			look()
			w.e.compact()
			look()
			if k == 1 {
				w.e.cleanTombstones()
				look()
			}
		}
	})
	t.Run("the reference beside ours", func(t *testing.T) {
		w := newWorld(t, openOurBlocks, plan{Seed: seed(t, 4041), Series: 60})
		for range 3 {
			for _, do := range []func(){
				func() { w.append(20, 4*hour) },
				func() { w.delete(w.g.now-3*hour, w.g.now-hour, matcher{"=", "mod", "3"}) },
				w.e.compact,
				w.e.cleanTombstones,
			} {
				do()
				requireEqual(t, w.want, dumpReadOnly(t, w.dir, excuses{}), "reference, read-only")
			}
		}
	})
}
