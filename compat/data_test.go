package compat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	theirlabels "github.com/prometheus/prometheus/model/labels"

	"github.com/seed347100a3/tsdb/labels"
)

// point is a sample. Values are compared by bits: payloads of NaN and the sign of zero
// count.
type point struct {
	T int64
	V uint64
}

func (p point) String() string {
	return fmt.Sprintf("%d:%g(%016x)", p.T, math.Float64frombits(p.V), p.V)
}

// data is all that a database has, by the key of the series. A series without samples
// is not in it.
type data map[string][]point

// requireEqual compares whole contents and shows the first place where they differ.
func requireEqual(t testing.TB, want, got data, msg string) {
	t.Helper()
	for key, w := range want {
		g := got[key]
		if slices.Equal(w, g) {
			continue
		}
		for i := range max(len(w), len(g)) {
			if i >= len(w) || i >= len(g) || w[i] != g[i] {
				require.FailNow(t, msg, "series %s: %d samples wanted, %d there; from number %d on:\nwanted %v\nthere  %v",
					key, len(w), len(g), i, head(w[i:]), head(g[i:]))
			}
		}
	}
	for key, g := range got {
		if len(want[key]) == 0 {
			require.FailNow(t, msg, "series %s should not be there, it has %d samples: %v", key, len(g), head(g))
		}
	}
}

func head(ps []point) []point { return ps[:min(len(ps), 5)] }

// samples counts.
func (d data) samples() int {
	n := 0
	for _, ps := range d {
		n += len(ps)
	}
	return n
}

// add puts rows into d as an engine that accepts all of them would.
func (d data) add(set []series, rows []row) {
	for _, r := range rows {
		key := set[r.series].key
		d[key] = append(d[key], point{r.t, math.Float64bits(r.v)})
	}
}

// from leaves out what is older than mint.
func (d data) from(mint int64) data {
	newer := data{}
	for key, ps := range d {
		i := slices.IndexFunc(ps, func(p point) bool { return p.T >= mint })
		if i >= 0 {
			newer[key] = ps[i:]
		}
	}
	return newer
}

// series is one label set in the types of both sides.
type series struct {
	key    string
	ours   labels.Labels
	theirs theirlabels.Labels
}

func newSeries(pairs ...string) series {
	s := series{ours: labels.FromStrings(pairs...), theirs: theirlabels.FromStrings(pairs...)}
	s.key = keyOfOurs(s.ours)
	return s
}

func keyOfOurs(ls labels.Labels) string {
	var b strings.Builder
	for l := range ls.All() {
		writePair(&b, l.Name, l.Value)
	}
	return b.String()
}

func keyOfTheirs(ls theirlabels.Labels) string {
	var b strings.Builder
	ls.Range(func(l theirlabels.Label) { writePair(&b, l.Name, l.Value) })
	return b.String()
}

func writePair(b *strings.Builder, name, value string) {
	b.WriteString(strconv.Quote(name))
	b.WriteByte('=')
	b.WriteString(strconv.Quote(value))
	b.WriteByte(' ')
}

// row is one sample on its way to an engine.
type row struct {
	series int // index in the set
	t      int64
	v      float64
}

// plan says what a generator makes. It travels to child processes as JSON.
type plan struct {
	Seed   uint64
	Series int
	Writer int   // its series are disjoint from those of other writers
	Start  int64 // ms
	Jumps  bool  // now and then an hour passes, so that chunks end at block ranges
}

// generator makes the commits of one writer, always the same ones for a plan. Per
// series times ascend, so both engines accept every row.
type generator struct {
	rng    *rand.Rand
	jumps  bool
	set    []series
	now    int64
	next   int // series of the next row
	counts []float64
}

func newGenerator(p plan) *generator {
	g := &generator{
		rng:   rand.New(rand.NewPCG(p.Seed, uint64(p.Writer))),
		jumps: p.Jumps, now: p.Start, counts: make([]float64, p.Series),
	}
	for i := range p.Series {
		g.set = append(g.set, makeSeries(p.Writer, i))
	}
	return g
}

// makeSeries gives each series a shape of its own: UTF-8 in names and values, bytes
// that need quotes, long values, many labels.
func makeSeries(writer, i int) series {
	pairs := []string{"__name__", "metric_" + strconv.Itoa(i%23), "writer", strconv.Itoa(writer), "n", strconv.Itoa(i), "mod", strconv.Itoa(i % 10)}
	switch i % 11 {
	case 1:
		pairs = append(pairs, "温度.°C", "naïve “quotes” \\ \n\t \u2028 😀")
	case 2:
		pairs = append(pairs, "path", "/"+strings.Repeat("very/long/", 1+i%300))
	case 3:
		for k := range 20 {
			pairs = append(pairs, "label_"+strconv.Itoa(k), strconv.Itoa(i*k))
		}
	case 4:
		pairs[1] = "" // no metric name
	case 5:
		pairs = append(pairs, "odd name with spaces", "\u0000\u0001\u007f", "A", "Ω")
	}
	return newSeries(pairs...)
}

// commit makes the rows of the next commit: mostly a sample for each of the next
// series, sometimes a few for the same one.
func (g *generator) commit() []row {
	n := 1 + g.rng.IntN(40)
	if g.rng.IntN(8) == 0 {
		n = 200 + g.rng.IntN(800)
	}
	if g.jumps && g.rng.IntN(40) == 0 {
		g.now += int64(g.rng.IntN(3_600_000))
	}
	rows := make([]row, 0, n)
	for len(rows) < n {
		s := g.next
		g.next = (g.next + 1) % len(g.set)
		if g.next == 0 {
			g.now += 5_000 + int64(g.rng.IntN(20_000))
		}
		if g.rng.IntN(10) == 0 {
			continue
		}
		rows = append(rows, row{s, g.now, g.value(s)})
		for g.rng.IntN(30) == 0 {
			g.now += 1 + int64(g.rng.IntN(3))
			rows = append(rows, row{s, g.now, g.value(s)})
		}
	}
	return rows
}

// staleMarker is the NaN that says that a series ended.
const staleMarker = 0x7ff0000000000002

var oddValues = []uint64{
	staleMarker, 0x7ff8000000000001, 0xfff8dead0000beef, 0x7ff0000000000001, // NaNs, quiet and signalling
	0x7ff0000000000000, 0xfff0000000000000, 0x8000000000000000, 0, 1, 0x7fefffffffffffff,
}

func (g *generator) value(s int) float64 {
	if g.rng.IntN(50) == 0 {
		return math.Float64frombits(oddValues[g.rng.IntN(len(oddValues))])
	}
	switch s % 5 {
	case 0: // counter
		g.counts[s] += float64(g.rng.IntN(100))
		return g.counts[s]
	case 1: // decimal gauge
		return float64(g.rng.IntN(10_000)) / 100
	case 2: // constant
		return float64(s)
	case 3: // noise
		return g.rng.NormFloat64()
	default: // any bits at all
		return math.Float64frombits(g.rng.Uint64())
	}
}

// seed prints the seed of a test and returns it.
func seed(t testing.TB, base uint64) uint64 {
	t.Helper()
	if s := os.Getenv("COMPAT_SEED"); s != "" {
		moved, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		base += moved * 1_000_003
	}
	t.Logf("seed %d", base)
	return base
}

// scaled is n, or less with -short.
func scaled(n int) int {
	if testing.Short() {
		return max(1, n/5)
	}
	return n
}
