package compat

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/stretchr/testify/require"

	reference "github.com/prometheus/prometheus/tsdb"
)

// oddity is something that only the reference, or an operator, does to a directory.
// What it makes is read by both.
type oddity struct {
	name string
	// overlap: the reference warns of blocks that overlap.
	overlap bool
	options func(o *reference.Options)
	play    func(w *world)
}

// oddities are directories that we do not write.
func oddities() []oddity {
	return []oddity{
		{"blocks of samples out of order", true, withWindow, func(w *world) {
			w.append(30, 6*hour)
			w.e.flush()
			w.append(10, hour)
			w.late(200, 0, 4*hour)
			require.NoError(w.t, w.theirs().db.CompactOOOHead(context.Background()))
			w.check("out of order, compacted")
		}},
		{"blocks of samples out of order, merged", false, withWindow, func(w *world) {
			w.append(40, 9*hour)
			w.late(200, hour, 5*hour)
			w.e.compact()
			w.append(10, 6*hour)
			w.late(200, 4*hour, 8*hour)
			w.e.compact()
			w.e.compact()
		}},
		{"blocks that overlap", true, nil, func(w *world) {
			w.append(20, 3*hour)
			w.e.flush()
			w.append(20, 3*hour)
			w.imported(worldStart+hour+7, hour, 30, 0)
			w.imported(worldStart+hour/2+3, 2*hour, 20, 20)
			w.reopen()
		}},
		{"blocks that overlap, merged", false, nil, func(w *world) {
			w.append(20, 3*hour)
			w.e.flush()
			w.imported(worldStart+hour+7, hour, 30, 0)
			w.imported(worldStart+hour/2+3, 2*hour, 20, 20)
			w.reopen()
			w.e.compact()
			w.append(5, hour)
		}},
		{"blocks that fit nowhere, older than all", false, nil, func(w *world) {
			w.imported(worldStart-91*hour-17, 29*hour, 40, 0)
			w.imported(worldStart-50*hour+11, 13*hour, 60, 0)
			w.reopen()
			w.append(20, 5*hour)
			w.e.flush()
		}},
		{"many small chunk segments", false, func(o *reference.Options) {
			o.MaxBlockChunkSegmentSize, o.SamplesPerChunk = 4<<10, 16
		}, func(w *world) {
			w.append(200, 7*hour)
			w.e.flush()
			w.append(5, hour)
			for name := range metasOf(w.t, w.dir) {
				segments, err := os.ReadDir(filepath.Join(w.dir, name, "chunks"))
				require.NoError(w.t, err)
				require.Greater(w.t, len(segments), 2)
			}
		}},
		{"large chunks", false, func(o *reference.Options) { o.SamplesPerChunk = 2000 }, func(w *world) {
			w.g.set = w.g.set[:3]
			w.append(300, hour)
			w.e.flush()
			w.append(30, hour)
		}},
		{"metas with fields and flags of others", false, nil, func(w *world) {
			w.append(40, 7*hour)
			w.e.flush()
			w.append(5, hour)
			w.reopen()
			w.rewriteMetas(func(meta map[string]any) {
				meta["thanos"] = map[string]any{"version": 1, "labels": map[string]any{"replica": "a"}, "files": []any{map[string]any{"rel_path": "index"}}}
				meta["compaction"].(map[string]any)["hints"] = []any{"someone's hint"}
				delete(meta["stats"].(map[string]any), "numFloatSamples") // old blocks have none
			})
		}},
		{"a meta that says that compaction failed", false, nil, func(w *world) {
			w.append(60, 20*hour)
			w.e.flush()
			failed := slices.Min(slices.Collect(maps.Keys(metasOf(w.t, w.dir))))
			w.reopen()
			w.rewriteMetas(func(meta map[string]any) {
				if meta["ulid"] == failed {
					meta["compaction"].(map[string]any)["failed"] = true
				}
			})
		}},
		{"parents and unfinished blocks left over", true, nil, func(w *world) {
			w.append(60, 20*hour)
			w.e.flush()
			inputs := copyDir(w.t, w.dir)
			w.e.compact()
			w.reopen()
			after := metasOf(w.t, w.dir)
			gone := 0
			for name := range metasOf(w.t, inputs) {
				if _, ok := after[name]; !ok { // it was merged, and is there still
					require.NoError(w.t, os.CopyFS(filepath.Join(w.dir, name), os.DirFS(filepath.Join(inputs, name))))
					require.NoError(w.t, os.CopyFS(filepath.Join(w.dir, name+".tmp-for-creation"), os.DirFS(filepath.Join(inputs, name))))
					require.NoError(w.t, os.Mkdir(filepath.Join(w.dir, name[:25]+"0.tmp-for-deletion"), 0o777))
					gone++
				}
			}
			require.NotZero(w.t, gone, "nothing was merged")
		}},
		{"tombstones files that are not there", false, nil, func(w *world) {
			w.append(40, 7*hour)
			w.e.flush()
			w.append(5, hour)
			w.e.close()
			for name := range metasOf(w.t, w.dir) {
				require.NoError(w.t, os.Remove(filepath.Join(w.dir, name, "tombstones")))
			}
			w.e = w.open(w.t, w.dir)
		}},
		{"strangers among the blocks", false, nil, func(w *world) {
			w.append(40, 7*hour)
			w.e.flush()
			w.append(5, hour)
			for _, name := range []string{"thanos/upload", "lost+found", "01ARZ3NDEKTSV4RRFFQ69G5FA", "quarantine", "snapshots/x"} {
				require.NoError(w.t, os.MkdirAll(filepath.Join(w.dir, name), 0o777))
			}
			for _, name := range []string{"thanos.shipper.json", "queries.active"} {
				require.NoError(w.t, os.WriteFile(filepath.Join(w.dir, name), []byte("{}"), 0o666))
			}
			for name := range metasOf(w.t, w.dir) {
				for _, more := range []string{"no-compact-mark.json", "deletion-mark.json"} {
					require.NoError(w.t, os.WriteFile(filepath.Join(w.dir, name, more), []byte("{}"), 0o666))
				}
			}
		}},
	}
}

func withWindow(o *reference.Options) {
	o.OutOfOrderTimeWindow, o.EnableOverlappingCompaction = 40*hour, true
}

func (w *world) theirs() *theirs { return w.e.(*theirs) }

// late commits samples at random times between two, counted from the start, that the
// series does not have yet.
func (w *world) late(n int, from, to int64) {
	w.t.Helper()
	rng := rand.New(rand.NewPCG(uint64(w.g.now), 1))
	var rows []row
	taken := map[row]bool{}
	for range n {
		s := rng.IntN(len(w.g.set))
		at := worldStart + from + rng.Int64N(to-from)
		if !taken[row{s, at, 0}] && !slices.ContainsFunc(w.want[w.g.set[s].key], func(p point) bool { return p.T == at }) {
			taken[row{s, at, 0}] = true
			rows = append(rows, row{s, at, w.g.value(s)})
		}
	}
	w.e.commit(w.g.set, rows)
	w.want.insert(w.g.set, rows)
	w.check("late samples")
}

// insert puts rows where they belong by time. Where there is a sample, they change
// nothing.
func (d data) insert(set []series, rows []row) {
	for _, r := range rows {
		key := set[r.series].key
		i, there := slices.BinarySearchFunc(d[key], r.t, func(p point, t int64) int { return int(max(-1, min(1, p.T-t))) })
		if !there {
			d[key] = slices.Insert(slices.Clone(d[key]), i, point{r.t, math.Float64bits(r.v)})
		}
	}
}

// imported adds a block with samples of all series, evenly spread from mint on; some
// are there already, with the same values. The engine sees it when it opens again.
func (w *world) imported(mint, span int64, perSeries, repeats int) {
	w.t.Helper()
	var rows []row
	for s, of := range w.g.set {
		there := w.want[of.key]
		for i := range perSeries {
			rows = append(rows, row{s, mint + int64(i)*span/int64(perSeries), w.g.value(s)})
		}
		for i := range min(repeats, len(there)) {
			if p := there[i]; mint <= p.T && p.T < mint+span {
				rows = append(rows, row{s, p.T, math.Float64frombits(p.V)})
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return int(max(-1, min(1, a.t-b.t))) })
	rows = slices.DeleteFunc(rows, func(r row) bool {
		i, there := slices.BinarySearchFunc(w.want[w.g.set[r.series].key], r.t, func(p point, t int64) int { return int(max(-1, min(1, p.T-t))) })
		return there && w.want[w.g.set[r.series].key][i].V != math.Float64bits(r.v) // two values at one time: anybody's guess
	})
	bw, err := reference.NewBlockWriter(slog.New(slog.DiscardHandler), w.dir, 2*span)
	require.NoError(w.t, err)
	app := bw.Appender(context.Background())
	for _, r := range rows {
		_, err := app.Append(0, w.g.set[r.series].theirs, r.t, r.v)
		require.NoError(w.t, err)
	}
	require.NoError(w.t, app.Commit())
	_, err = bw.Flush(context.Background())
	require.NoError(w.t, err)
	require.NoError(w.t, bw.Close())
	w.want.insert(w.g.set, rows)
}

// rewriteMetas changes every meta.json while nobody has the directory open.
func (w *world) rewriteMetas(change func(meta map[string]any)) {
	w.t.Helper()
	w.e.close()
	for name := range metasOf(w.t, w.dir) {
		file := filepath.Join(w.dir, name, "meta.json")
		text, err := os.ReadFile(file)
		require.NoError(w.t, err)
		var meta map[string]any
		require.NoError(w.t, json.Unmarshal(text, &meta))
		change(meta)
		text, err = json.MarshalIndent(meta, "", "  ")
		require.NoError(w.t, err)
		require.NoError(w.t, os.WriteFile(file, text, 0o666))
	}
	w.e = w.open(w.t, w.dir)
}
