package compat

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prometheus/prometheus/storage"
	theirenc "github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
)

// duel runs the same operations in both engines.
type duel struct {
	t      *testing.T
	rng    *rand.Rand
	set    []series
	dirs   [2]string
	ours   *ours
	theirs *theirs
	now    int64 // about the newest time appended
	stride int64 // between samples, at most
	ghosts bool  // appenders are rolled back, which leaves series in the reference
	blocks bool  // there are blocks
	log    []string

	deleted bool // all samples of some series may be deleted
}

const duelSteps = 120

// The same random operations in both engines, samples in order and late, equal and
// contradicting repeats, commits, rollbacks and restarts, give the same errors of
// Append and the same answers to every query.
func TestDifferential_SameOperations_SameAnswers(t *testing.T) {
	for i := range scaled(150) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			d := &duel{t: t, rng: rand.New(rand.NewPCG(seed(t, uint64(2000+i)), 0)), dirs: [2]string{t.TempDir(), t.TempDir()}}
			d.stride = 2000
			d.now = []int64{0, -5_000_000, 1_700_000_000_000}[i%3]
			for k := range 4 + d.rng.IntN(20) {
				d.set = append(d.set, makeSeries(i%2, k))
			}
			d.open()
			d.ghosts = i%2 == 1
			for range scaled(duelSteps) {
				switch n := d.rng.IntN(40); {
				case n == 0:
					d.restart()
				case n < 20:
					d.append()
				default:
					d.query()
				}
			}
			d.restart()
			for range 20 {
				d.query()
			}
		})
	}
}

func (d *duel) open() {
	ours, theirs := randomOptions(d.rng), randomReferenceOptions(d.rng)
	if d.blocks {
		ours, theirs = d.blockOptions()
	}
	d.ours = openOurs(d.t, d.dirs[0], ours)
	d.ours.requireClean()
	d.theirs = openTheirs(d.t, d.dirs[1], theirs)
	d.theirs.log.rechunked = d.blocks
}

// restart closes both and opens them again, at times each the directory of the other.
func (d *duel) restart() {
	d.ours.close()
	d.theirs.close()
	if d.rng.IntN(2) == 0 {
		d.dirs[0], d.dirs[1] = d.dirs[1], d.dirs[0]
	}
	d.open()
	want := d.theirs.dump()
	requireEqual(d.t, want, d.ours.dump(), "opened again")
	if !d.ghosts {
		d.theirs.requireUndamaged()
	}
}

// append stages the same samples in an appender of each and commits them, or not.
func (d *duel) append() {
	us, them := d.ours.db.Appender(), d.theirs.db.Appender(d.t.Context())
	staged := 0
	for range d.rng.IntN(60) {
		s := d.set[d.rng.IntN(len(d.set))]
		d.now += d.rng.Int64N(d.stride)
		at := d.now
		if d.rng.IntN(5) == 0 {
			at -= int64(d.rng.IntN(20_000)) // late, or not, as it happens
		}
		v := float64(d.rng.IntN(3))
		if d.rng.IntN(20) == 0 {
			v = math.Float64frombits(oddValues[d.rng.IntN(len(oddValues))])
		}
		for range 1 + d.rng.IntN(5)/4 { // a repeat now and then
			d.stage(us, them, s, at, v, &staged)
			v += float64(d.rng.IntN(2)) // which may contradict
		}
	}
	if d.ghosts && d.rng.IntN(8) == 0 {
		// What was created for this appender stays in the reference, without samples,
		// until it starts again. Then it gets another ref, and whoever maps the two to
		// each other writes head chunks of one series under both. The reference calls
		// its own files corrupt then, though it loses nothing: requireUndamaged is of no
		// use any more.
		require.NoError(d.t, us.Rollback())
		require.NoError(d.t, them.Rollback())
		return
	}
	res, err := us.Commit(context.Background())
	require.NoError(d.t, err)
	require.NoError(d.t, them.Commit())
	require.LessOrEqual(d.t, res.Samples+len(res.Rejected), staged) // an equal repeat is neither
}

// stage appends one sample to both, by ref or by labels.
func (d *duel) stage(us *tsdb.Appender, them storage.Appender, s series, at int64, v float64, staged *int) {
	ourRef, theirRef := d.ours.refs[s.key], d.theirs.refs[s.key]
	if d.rng.IntN(3) == 0 {
		ourRef, theirRef = 0, 0
	}
	ourRef, ourErr := us.Append(ourRef, s.ours, at, v)
	theirRef, theirErr := them.Append(theirRef, s.theirs, at, v)
	switch {
	case theirErr == nil && ourErr == nil:
		*staged++
	case theirErr == nil:
		// Two in a row of one series are compared by us at once, by the reference
		// in Commit, where it leaves out the second one.
		require.True(d.t, *staged > 0, "%v", ourErr)
	default:
		require.ErrorIs(d.t, ourErr, ourError(d.t, theirErr), "%s at %d", s.key, at)
	}
	d.keepRefs(s, ourRef, theirRef)
}

// keepRefs notes the refs that both gave for a series. At times ours is forgotten.
func (d *duel) keepRefs(s series, ourRef tsdb.SeriesRef, theirRef storage.SeriesRef) {
	if ourRef != 0 {
		d.ours.refs[s.key] = ourRef
	}
	if theirRef != 0 {
		d.theirs.refs[s.key] = theirRef
	}
	if d.rng.IntN(10) == 0 {
		delete(d.ours.refs, s.key)
	}
}

// ourError is the sentinel that stands for an error of the reference.
func ourError(t testing.TB, theirs error) error {
	for _, pair := range [][2]error{
		{storage.ErrOutOfOrderSample, tsdb.ErrOutOfOrder},
		{storage.ErrDuplicateSampleForTimestamp, tsdb.ErrDuplicateSample},
		{storage.ErrOutOfBounds, tsdb.ErrOutOfBounds},
		{storage.ErrTooOldSample, tsdb.ErrTooOld},
	} {
		if errors.Is(theirs, pair[0]) {
			return pair[1]
		}
	}
	require.FailNow(t, "unexpected error of the reference", theirs)
	return nil
}

// query asks both the same and compares.
func (d *duel) query() {
	mint, maxt := int64(math.MinInt64), int64(math.MaxInt64)
	if d.rng.IntN(3) > 0 {
		mint = d.now - int64(d.rng.IntN(2_000_000))
		maxt = mint + int64(d.rng.IntN(1_000_000))
	}
	ms := d.matchers()
	requireEqual(d.t, d.theirs.query(mint, maxt, ms...), d.ours.query(mint, maxt, ms...), fmt.Sprintf("[%d, %d] %v", mint, maxt, ms))
	if d.rng.IntN(5) == 0 {
		d.seek(mint, maxt, ms)
	}
	if d.rng.IntN(5) == 0 {
		d.labels(ms)
	}
}

// matchers are one to three, of all kinds, on labels that some, all or no series have;
// many of them match the empty value.
func (d *duel) matchers() []matcher {
	names := []string{"__name__", "n", "mod", "writer", "path", "温度.°C", "label_3", "A", "nobody has it", "odd name with spaces"}
	texts := []string{"", "metric_1", "metric_5", "3", "0", "/very/long/", "Ω", "9", "naïve “quotes” \\ \n\t \u2028 😀"}
	exprs := []string{
		"", ".*", ".+", "metric_.*", "metric_(1|2|3)", "metric_1|", "|3|4", "[0-5]", "(?i)METRIC_1.", ".*_1.*", "1.*|2.*", "^0$", "a*", "()", "[^3]*",
		"(1|2)(3|4)?", ".*ng/.*", "\\d{1,2}", "metric_[[:digit:]]", "Ω", "(?:metric_)?(?:1|12)?", "x{0}", "naïve.*", "[^\n]*", ".{3,}", "3|", "metric_\\d+",
	}
	var ms []matcher
	for range 1 + d.rng.IntN(3) {
		m := matcher{op: []string{"=", "!=", "=~", "!~"}[d.rng.IntN(4)], name: names[d.rng.IntN(len(names))]}
		if m.op == "=" || m.op == "!=" {
			m.value = texts[d.rng.IntN(len(texts))]
		} else {
			m.value = exprs[d.rng.IntN(len(exprs))]
		}
		ms = append(ms, m)
	}
	return ms
}

// seek moves iterators of both forward by the same mixture of Seek and Next.
func (d *duel) seek(mint, maxt int64, ms []matcher) {
	us, err := d.ours.db.Querier(mint, maxt)
	require.NoError(d.t, err)
	defer func() { require.NoError(d.t, us.Close()) }()
	them, err := d.theirs.db.Querier(mint, maxt)
	require.NoError(d.t, err)
	defer func() { require.NoError(d.t, them.Close()) }()
	byKey := map[string]storage.Series{}
	for set := them.Select(d.t.Context(), true, nil, theirMatchers(d.t, ms)...); set.Next(); {
		byKey[keyOfTheirs(set.At().Labels())] = set.At()
	}
	var a chunkenc.Iterator
	var b theirenc.Iterator
	for set := us.Select(d.t.Context(), nil, ourMatchers(d.t, ms)...); set.Next(); {
		s := byKey[keyOfOurs(set.At().Labels())]
		if s == nil {
			// The reference leaves series without samples out, ours may have none here.
			require.Equal(d.t, chunkenc.ValNone, set.At().Iterator(nil).Next())
			continue
		}
		a, b = set.At().Iterator(a), s.Iterator(b)
		at := mint
		if at == math.MinInt64 {
			at = d.now - 3_000_000
		}
		for {
			var ourKind chunkenc.ValueType
			var theirKind theirenc.ValueType
			what := "Next"
			if d.rng.IntN(2) == 0 {
				at += int64(d.rng.IntN(400_000))
				what = fmt.Sprintf("Seek(%d)", at)
				ourKind, theirKind = a.Seek(at), b.Seek(at)
			} else {
				ourKind, theirKind = a.Next(), b.Next()
			}
			what += fmt.Sprintf(" in [%d, %d] of %s", mint, maxt, set.At().Labels())
			require.Equal(d.t, theirKind != theirenc.ValNone, ourKind != chunkenc.ValNone, what)
			if ourKind == chunkenc.ValNone {
				break
			}
			want, got := pointOf(theirSample(b, theirKind)).gauge(), pointOf(ourSample(a, ourKind)).gauge()
			require.Equal(d.t, want, got, what)
			at = max(at, got.T)
		}
		require.NoError(d.t, a.Err())
		require.NoError(d.t, b.Err())
	}
}

// labels compares label names and values. The reference also knows series that were
// created and rolled back, and those of which all samples are deleted.
func (d *duel) labels(ms []matcher) {
	us, err := d.ours.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(d.t, err)
	defer func() { require.NoError(d.t, us.Close()) }()
	them, err := d.theirs.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(d.t, err)
	defer func() { require.NoError(d.t, them.Close()) }()
	compare := func(theirs, ours []string, msg string) {
		require.True(d.t, slices.IsSorted(ours), msg)
		if d.ghosts || d.deleted {
			require.Subset(d.t, theirs, ours, msg)
		} else if len(theirs)+len(ours) > 0 {
			require.Equal(d.t, theirs, ours, msg)
		}
	}
	ourNames, _, err := us.LabelNames(d.t.Context(), nil, ourMatchers(d.t, ms)...)
	require.NoError(d.t, err)
	theirNames, _, err := them.LabelNames(d.t.Context(), nil, theirMatchers(d.t, ms)...)
	require.NoError(d.t, err)
	compare(theirNames, ourNames, fmt.Sprintf("names %v", ms))
	for _, name := range []string{"__name__", "n", "path", "nobody has it"} {
		ourValues, _, err := us.LabelValues(d.t.Context(), name, nil, ourMatchers(d.t, ms)...)
		require.NoError(d.t, err)
		theirValues, _, err := them.LabelValues(d.t.Context(), name, nil, theirMatchers(d.t, ms)...)
		require.NoError(d.t, err)
		compare(theirValues, ourValues, fmt.Sprintf("values of %s %v", name, ms))
	}
}
