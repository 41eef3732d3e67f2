package tsdb_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// disorderWorld is some blocks of random disorder, and what they have: of each series, of each
// time, the values that there are. There is more than one where chunks that overlap do not agree.
type disorderWorld struct {
	rnd    *rand.Rand
	blocks []*oddBlock
	want   map[string]map[int64][]uint64
	odd    []bool // by block: something is not in order
}

const disorderRange = 2 * hour

// newDisorderWorld makes blocks of two hours, one behind the other. Several, some of them in order,
// have one value for each series and time; a single block may have several.
func newDisorderWorld(seed uint64) *disorderWorld {
	w := &disorderWorld{rnd: rand.New(rand.NewPCG(seed, 16)), want: map[string]map[int64][]uint64{}}
	n := 1 + w.rnd.IntN(5)
	base := testNow.UnixMilli()/disorderRange*disorderRange - 100*disorderRange
	for i := range int64(n) {
		b := &oddBlock{id: ulid.MustNew(uint64(testNow.UnixMilli()+i), nil), mint: base + i*disorderRange, maxt: base + (i+1)*disorderRange}
		b.id[15] = byte(i)
		w.odd = append(w.odd, w.rnd.IntN(3) > 0)
		w.fill(b, w.odd[i], n == 1)
		w.blocks = append(w.blocks, b)
	}
	return w
}

func (w *disorderWorld) chance(percent int) bool { return w.rnd.IntN(100) < percent }

// fill makes the series of one block.
func (w *disorderWorld) fill(b *oddBlock, odd, alone bool) {
	b.listTwice = odd && w.chance(50)
	if odd && w.chance(30) {
		b.series = append(b.series, oddSeries{labels: [][2]string{{"__name__", "none"}, {"job", "none"}, {"nothing", "at all"}}})
	}
	for i := range 2 + w.rnd.IntN(8) {
		ls := [][2]string{{"__name__", fmt.Sprintf("m%d", i%3)}, {"i", fmt.Sprint(i)}, {"job", []string{"a", "b"}[i%2]}}
		name := labels.FromStrings("__name__", ls[0][1], "i", ls[1][1], "job", ls[2][1]).String()
		for range 1 + w.rnd.IntN(2) {
			s := oddSeries{labels: slices.Clone(ls), chunks: w.chunks(b, name, odd, odd && alone)}
			if odd {
				w.disorder(&s)
			}
			b.series = append(b.series, s)
			if !odd || w.chance(70) {
				break // else the label set is there twice
			}
		}
	}
	slices.SortFunc(b.series, func(x, y oddSeries) int {
		return strings.Compare(fmt.Sprint(x.labels), fmt.Sprint(y.labels))
	})
	if odd && w.chance(60) {
		w.rnd.Shuffle(len(b.series), func(i, k int) { b.series[i], b.series[k] = b.series[k], b.series[i] })
	}
}

// chunks makes the chunks of one entry, in order as yet, and notes their samples.
func (w *disorderWorld) chunks(b *oddBlock, name string, odd, differ bool) (chunks []*oddChunk) {
	from, to := b.mint, b.maxt
	if odd && w.chance(40) {
		to += int64(w.rnd.IntN(int(3 * hour)))
	}
	if odd && w.chance(20) {
		from -= int64(w.rnd.IntN(int(hour)))
	}
	step := minute * int64(1+w.rnd.IntN(20))
	for ts := from - from%step + step; ts < to; {
		c := &oddChunk{}
		for n := 1 + w.rnd.IntN(30); n > 0 && ts < to; n-- {
			c.add(ts, float64(ts%1000_003))
			ts += step
		}
		chunks = append(chunks, c)
		if odd && w.chance(30) { // another one that overlaps it
			other := &oddChunk{}
			shift := step / int64(1+w.rnd.IntN(2)) // the same times, or others
			for i, p := range c.samples[w.rnd.IntN(len(c.samples)):] {
				at := p.T + shift*int64(i%2)
				if n := len(other.samples); n > 0 && at <= other.samples[n-1].T {
					continue
				}
				v := float64(at % 1000_003)
				if differ && w.chance(30) {
					v += 0.5
				}
				other.add(at, v)
			}
			chunks = append(chunks, other)
		}
	}
	for _, c := range chunks {
		for _, p := range c.samples {
			if w.want[name] == nil {
				w.want[name] = map[int64][]uint64{}
			}
			w.want[name][p.T] = append(w.want[name][p.T], p.V)
		}
	}
	return chunks
}

func (c *oddChunk) add(t int64, v float64) {
	c.samples = append(c.samples, point{t, math.Float64bits(v)})
}

// disorder breaks the order inside an entry.
func (w *disorderWorld) disorder(s *oddSeries) {
	if w.chance(30) {
		w.rnd.Shuffle(len(s.labels), func(i, k int) { s.labels[i], s.labels[k] = s.labels[k], s.labels[i] })
	}
	if w.chance(20) {
		at := w.rnd.IntN(len(s.labels))
		s.labels = slices.Insert(s.labels, at, s.labels[w.rnd.IntN(len(s.labels))])
	}
	if w.chance(20) {
		s.labels = append(s.labels, [2]string{"empty", ""})
	}
	if w.chance(30) && len(s.chunks) > 0 {
		s.chunks = append(s.chunks, s.chunks[w.rnd.IntN(len(s.chunks))]) // the same chunk twice
	}
	if w.chance(20) && len(s.chunks) > 0 {
		copied := *s.chunks[w.rnd.IntN(len(s.chunks))]
		s.chunks = append(s.chunks, &copied) // a copy of one
	}
	if w.chance(30) {
		w.rnd.Shuffle(len(s.chunks), func(i, k int) { s.chunks[i], s.chunks[k] = s.chunks[k], s.chunks[i] })
	}
}

// disk returns a data directory with the blocks.
func (w *disorderWorld) disk(t *testing.T) *tsdbtest.MemFS {
	fs := tsdbtest.NewMemFS()
	for _, b := range w.blocks {
		require.NoError(t, b.write(fs, fixtureDir))
	}
	return fs
}

// delete takes samples out of what is wanted.
func (w *disorderWorld) delete(mint, maxt int64) {
	for name, ps := range w.want {
		maps.DeleteFunc(ps, func(ts int64, _ []uint64) bool { return ts >= mint && ts <= maxt })
		if len(ps) == 0 {
			delete(w.want, name)
		}
	}
}

// snapshots is a DB or a Reader.
type snapshots interface {
	Querier(mint, maxt int64) (*tsdb.Querier, error)
}

// requireAll holds what a range has against what is wanted: all series, in order and once, all
// samples in order and once, and nothing else; the same by chunks, and by lists of labels.
func (w *disorderWorld) requireAll(t *testing.T, db snapshots, mint, maxt int64) map[string][]point {
	t.Helper()
	q, err := db.Querier(mint, maxt)
	require.NoError(t, err)
	defer q.Close()
	want := map[string][]int64{}
	jobs, names := map[string]bool{}, map[string]bool{}
	for name, ps := range w.want {
		for ts := range ps {
			if ts >= mint && ts <= maxt {
				want[name] = append(want[name], ts)
			}
		}
		if len(want[name]) > 0 {
			ls := series(t, name)
			jobs[ls.Get("job")] = true
			for _, n := range []string{"__name__", "i", "job"} {
				names[n] = names[n] || ls.Get(n) != ""
			}
		}
		slices.Sort(want[name])
	}
	got := map[string][]point{}
	set := q.Select(ctx, nil)
	var last labels.Labels
	for set.Next() {
		ls := set.At().Labels()
		require.Less(t, labels.Compare(last, ls), 0, "%s behind %s", ls, last)
		require.Equal(t, ls, labels.New(set.At().AppendLabels(nil)...))
		last = ls
		var times []int64
		it := set.At().Iterator(nil)
		for it.Next() != chunkenc.ValNone {
			ts, v := it.At()
			times = append(times, ts)
			got[ls.String()] = append(got[ls.String()], point{ts, math.Float64bits(v)})
			require.Contains(t, w.want[ls.String()][ts], math.Float64bits(v), "%s at %d", ls, ts)
		}
		require.NoError(t, it.Err())
		require.Equal(t, want[ls.String()], times, "%s", ls)
		delete(want, ls.String())
	}
	require.NoError(t, set.Err())
	for name, times := range want {
		require.Empty(t, times, "%s is not there", name)
	}
	w.requireChunks(t, q, got)
	maps.DeleteFunc(names, func(_ string, has bool) bool { return !has })
	for _, of := range []struct {
		want map[string]bool
		ask  func() ([]string, tsdb.Warnings, error)
	}{
		{jobs, func() ([]string, tsdb.Warnings, error) { return q.LabelValues(ctx, "job", nil) }},
		{jobs, func() ([]string, tsdb.Warnings, error) {
			return q.LabelValues(ctx, "job", nil, labels.NotEqual("i", "none"))
		}},
		{names, func() ([]string, tsdb.Warnings, error) { return q.LabelNames(ctx, nil) }},
	} {
		list, _, err := of.ask()
		require.NoError(t, err)
		require.Equal(t, slices.Sorted(maps.Keys(of.want)), append([]string(nil), list...))
	}
	return got
}

// requireChunks: the chunks have the samples that iterators have, and do not overlap.
func (w *disorderWorld) requireChunks(t *testing.T, q *tsdb.Querier, want map[string][]point) {
	t.Helper()
	got := map[string][]point{}
	set := q.SelectChunks(ctx, &tsdb.SelectHints{Transient: true})
	for set.Next() {
		name := set.At().Labels().String()
		for it := set.At().Chunks(nil); it.Next(); {
			c := it.At()
			if n := len(got[name]); n > 0 {
				require.Greater(t, c.MinT, got[name][n-1].T)
			}
			samples := c.Chunk.Iterator(nil)
			for samples.Next() != chunkenc.ValNone {
				ts, v := samples.At()
				got[name] = append(got[name], point{ts, math.Float64bits(v)})
			}
			require.NoError(t, samples.Err())
			require.Equal(t, c.MaxT, got[name][len(got[name])-1].T)
		}
	}
	require.NoError(t, set.Err())
	require.Equal(t, want, got)
}

// requireEverywhere asks for everything, and for random ranges: those behind the ends of blocks,
// too.
func (w *disorderWorld) requireEverywhere(t *testing.T, db snapshots) map[string][]point {
	t.Helper()
	for range 5 {
		b := w.blocks[w.rnd.IntN(len(w.blocks))]
		mint := b.mint + int64(w.rnd.IntN(int(5*hour))) - hour
		w.requireAll(t, db, mint, mint+int64(w.rnd.IntN(int(3*hour))))
	}
	return w.requireAll(t, db, math.MinInt64, math.MaxInt64)
}

// verify holds what Verify says against which blocks are odd.
func (w *disorderWorld) requireNamed(t *testing.T, fs *tsdbtest.MemFS) {
	t.Helper()
	found := findings(verify(t, fs), tsdb.SeverityWarning)
	named := map[string]bool{}
	for _, f := range found {
		require.Equal(t, tsdb.SeverityWarning, f.Severity, "%+v", f)
		named[strings.Split(f.File, "/")[0]] = true
	}
	for i, b := range w.blocks {
		if !w.odd[i] {
			require.False(t, named[b.id.String()], "%+v", found)
		}
	}
}

// openWorld opens what is on a disk, and requires that nothing is missing.
func openWorld(t *testing.T, fs tsdb.FS) *tsdb.DB {
	t.Helper()
	o := &tsdb.Options{FS: fs, Clock: tsdbtest.NewClock(testNow)}
	manual(o)
	db, err := tsdb.Open(fixtureDir, o)
	require.NoError(t, err)
	report := db.OpenReport()
	require.True(t, report.Clean(), "%+v", report)
	return db
}

// Whatever is not in order in blocks of other writers: queries are right, Verify names the blocks,
// and Compact and Repair, in any order, keep every sample and leave blocks in which everything is
// in order.
func TestForeignBlocks_AnyDisorderIsReadRightRepairedAndMerged(t *testing.T) {
	t.Parallel()
	n := 100
	if !sweep.Whole() {
		n = fewer(40, 12)
	}
	for _, seed := range sweep.Seeds(t, n) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newDisorderWorld(seed)
			fs := w.disk(t)
			w.requireNamed(t, fs)
			o := &tsdb.Options{FS: fs, Clock: tsdbtest.NewClock(testNow)}
			r, err := tsdb.OpenReadOnly(fixtureDir, o)
			require.NoError(t, err)
			first := w.requireEverywhere(t, r)
			require.NoError(t, r.Refresh(ctx))
			require.Equal(t, first, w.requireEverywhere(t, r))
			require.NoError(t, r.Close())

			db := openWorld(t, fs)
			require.Equal(t, first, w.requireEverywhere(t, db))
			deleted := w.chance(50)
			if deleted {
				b := w.blocks[w.rnd.IntN(len(w.blocks))]
				mint := b.mint + int64(w.rnd.IntN(int(2*hour)))
				maxt := mint + int64(w.rnd.IntN(int(2*hour)))
				require.NoError(t, db.Delete(ctx, mint, maxt))
				w.delete(mint, maxt)
				first = w.requireEverywhere(t, db)
			}
			stable := func(got map[string][]point) {
				if len(w.blocks) == 1 { // several have one value at each time, which is asked for anyway
					require.Equal(t, first, got)
				}
			}
			steps := []string{"compact", "clean", "repair"}
			w.rnd.Shuffle(len(steps), func(i, k int) { steps[i], steps[k] = steps[k], steps[i] })
			for _, step := range append(steps, "repair", "compact", "clean") {
				switch step {
				case "compact":
					require.NoError(t, db.Compact(ctx))
				case "clean":
					require.NoError(t, db.CleanTombstones(ctx))
				case "repair":
					require.NoError(t, db.Close())
					report := repair(t, fs, nil)
					require.True(t, report.Clean(), "%+v", report.Blocks)
					require.Empty(t, findings(verify(t, fs), tsdb.SeverityWarning))
					db = openWorld(t, fs)
					require.Empty(t, db.OpenReport().Damages)
				}
				stable(w.requireEverywhere(t, db))
			}
			require.NoError(t, db.Close())
			db = openWorld(t, fs)
			stable(w.requireEverywhere(t, db))
			require.NoError(t, db.Close())
		})
	}
}
