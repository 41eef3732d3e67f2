package compat

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	theirlabels "github.com/prometheus/prometheus/model/labels"
)

// blockEngine is a database of either side that makes and changes blocks, but only
// when it is told to.
type blockEngine interface {
	engine
	delete(mint, maxt int64, ms ...matcher) // a closed range
	flush()                                 // the whole head becomes blocks
	compact()                               // whatever is due
	cleanTombstones()
}

// opener opens a directory with one of the engines.
type opener func(t testing.TB, dir string) blockEngine

// world is a directory that an engine works on, with what must be in it.
type world struct {
	t    testing.TB
	open opener
	dir  string
	e    blockEngine
	g    *generator
	want data
}

// worldStart is a multiple of every block range that the tests use.
const worldStart = int64(1_699_920_000_000)

// worldEnd is behind the samples of all tests: none of them is of the future.
const worldEnd = worldStart + 365*24*hour

const (
	minute = int64(time.Minute / time.Millisecond)
	hour   = 60 * minute
)

func newWorld(t testing.TB, open opener, p plan) *world {
	t.Helper()
	if p.Start == 0 {
		p.Start = worldStart
	}
	w := &world{t: t, open: open, dir: t.TempDir(), g: newGenerator(p), want: data{}}
	w.e = open(t, w.dir)
	return w
}

// append commits so many times, spread over a span of milliseconds.
func (w *world) append(commits int, span int64) {
	w.t.Helper()
	for range commits {
		rows := w.g.commit()
		w.e.commit(w.g.set, rows)
		w.want.add(w.g.set, rows)
		w.g.now += span / int64(commits)
	}
}

// delete deletes a closed range in both the database and what must be there.
func (w *world) delete(mint, maxt int64, ms ...matcher) {
	w.t.Helper()
	w.e.delete(mint, maxt, ms...)
	w.want.delete(w.t, w.g.set, mint, maxt, ms)
}

// check compares what is there.
func (w *world) check(msg string) {
	w.t.Helper()
	requireEqual(w.t, w.want, w.e.dump(), msg)
}

// reopen closes the database and opens it again.
func (w *world) reopen() {
	w.t.Helper()
	w.e.close()
	w.e = w.open(w.t, w.dir)
	w.check("opened again")
}

// crash goes on with what a crash at this moment leaves.
func (w *world) crash() {
	w.t.Helper()
	left := copyDir(w.t, w.dir)
	w.e.close()
	w.dir = left
	w.e = w.open(w.t, w.dir)
	w.check("opened after a crash")
}

// delete takes the samples of a closed range out of the series that match.
func (d data) delete(t testing.TB, set []series, mint, maxt int64, ms []matcher) {
	matchers := theirMatchers(t, ms)
	for _, s := range set {
		if !slices.ContainsFunc(matchers, func(m *theirlabels.Matcher) bool { return !m.Matches(s.theirs.Get(m.Name)) }) {
			d[s.key] = slices.DeleteFunc(slices.Clone(d[s.key]), func(p point) bool { return mint <= p.T && p.T <= maxt })
		}
	}
}

// scene is something that happens to a directory.
type scene struct {
	name string
	play func(w *world)
}

// scenes are what both engines go through.
func scenes() []scene {
	return []scene{
		{"flushed", func(w *world) {
			w.append(40, 7*hour)
			w.e.flush()
			w.append(10, hour)
		}},
		{"flushed, nothing in the head", func(w *world) {
			w.append(20, 3*hour)
			w.e.flush()
		}},
		{"flushed again and again", func(w *world) {
			for range 4 {
				w.append(8, 50*minute)
				w.e.flush()
			}
			w.append(3, minute)
		}},
		{"compacted", func(w *world) {
			for range 4 {
				w.append(15, 5*hour)
				w.e.compact()
			}
			w.append(3, minute)
		}},
		{"compacted, opened again in between", func(w *world) {
			for range 4 {
				w.append(15, 5*hour)
				w.e.compact()
				w.reopen()
			}
			w.e.flush()
			w.e.compact()
		}},
		{"deleted in blocks and in the head", func(w *world) {
			w.append(40, 5*hour)
			w.e.flush()
			w.append(10, 90*minute)
			w.delete(worldStart+hour, worldStart+3*hour, matcher{"=", "mod", "3"})
			w.delete(worldStart, worldStart+6*hour, matcher{"=~", "n", "1.|2"})
			w.delete(worldStart+5*hour, worldStart+20*hour, matcher{"!=", "__name__", "metric_1"}, matcher{"=", "mod", "1"})
			w.append(5, hour)
		}},
		{"deleted, then flushed and compacted", func(w *world) {
			w.append(40, 9*hour)
			w.delete(worldStart+hour, worldStart+8*hour, matcher{"=~", "mod", "[0-4]"})
			w.e.flush()
			w.delete(worldStart+2*hour, worldStart+3*hour, matcher{"=~", "mod", "[3-8]"})
			w.append(30, 12*hour)
			w.e.compact()
			w.append(5, hour)
		}},
		{"deleted and cleaned", func(w *world) {
			w.append(40, 9*hour)
			w.e.flush()
			w.delete(worldStart+hour, worldStart+8*hour, matcher{"=~", "mod", "[0-4]"})
			w.append(5, hour)
			w.e.cleanTombstones()
		}},
		{"a whole block deleted", func(w *world) {
			w.append(40, 9*hour)
			w.e.flush()
			w.delete(worldStart+2*hour, worldStart+4*hour-1, everything)
			w.append(5, hour)
			w.e.cleanTombstones()
			w.e.compact()
		}},
		{"series deleted and created again", func(w *world) {
			gone := []matcher{{"=~", "n", "[0-9]|3."}}
			w.append(20, 3*hour)
			w.delete(worldStart, worldStart+4*hour, gone...)
			w.append(20, 3*hour)
			w.e.flush()
			w.reopen()
			w.append(5, hour)
			w.delete(worldStart, worldStart+30*hour, gone...)
			w.reopen()
			w.append(5, hour)
		}},
		{"everything deleted", func(w *world) {
			w.append(20, 5*hour)
			w.e.flush()
			w.append(5, hour)
			w.delete(worldStart, worldStart+30*hour, everything)
			w.reopen()
			w.append(1, minute)
		}},
		{"series that come and go", func(w *world) {
			for k := range 5 {
				for i := range w.g.set {
					w.g.set[i] = makeSeries(k, i)
				}
				w.append(10, 3*hour)
				w.e.compact()
			}
			w.append(3, minute)
		}},
		{"crashes between all that", func(w *world) {
			for k := range 4 {
				w.append(15, 4*hour)
				w.crash()
				w.delete(worldStart+int64(k)*3*hour, worldStart+int64(k)*5*hour, matcher{"=~", "mod", "[2-5]"})
				w.crash()
				if k%2 == 0 {
					w.e.flush()
				} else {
					w.e.compact()
				}
				w.crash()
			}
		}},
	}
}

// left is a directory that somebody closed, or left by a crash.
type left struct {
	dir  string
	want data
	excuses
}

// reader is somebody who reads a directory and requires that all is there.
type reader struct {
	name string
	read func(t testing.TB, l left)
	rare int // costly, so with -short only for every so manyth directory
}

// readers are all who read.
var readers = []reader{
	{name: "ours", read: requireOursReadsBlocks},
	{name: "ours, read-only", read: requireOursReadsOnly},
	{name: "ours, verify", read: requireVerified},
	{name: "reference", read: requireReferenceReadsBlocks},
	{name: "promtool", read: requirePromtoolReads, rare: 2},
	{name: "prometheus", read: requireServerReads, rare: 4},
}

// requireAllRead shows a directory to every reader; n is its number.
func requireAllRead(t *testing.T, n int, l left) {
	for _, r := range readers {
		if r.rare == 0 || !testing.Short() || n%r.rare == 0 {
			t.Run(r.name, func(t *testing.T) { r.read(t, l) })
		}
	}
}

// eachScene plays every scene with an engine, closes the directory, or leaves it as a
// crash would, and shows it to every reader. With -short it does one or the other.
func eachScene(t *testing.T, open opener, base uint64) {
	for i, s := range scenes() {
		for k, end := range []string{"closed", "left by a crash"} {
			if testing.Short() && i%2 != k {
				continue
			}
			t.Run(s.name+", "+end, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, open, plan{Seed: seed(t, base+uint64(i)), Series: 60})
				s.play(w)
				w.check("in the end")
				dir := w.dir
				if k == 1 {
					dir = copyDir(t, dir)
				}
				w.e.close()
				require.NotEmpty(t, w.want)
				requireAllRead(t, i, left{dir: dir, want: w.want})
			})
		}
	}
}
