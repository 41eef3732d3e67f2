package tsdb_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/histtest"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Sequences of appends, queries, starts, compactions and deletes, with what another engine
// answered. Of its logs, files, chunks and counters nothing is compared, as they are its own.

type sequenceFile struct {
	Vectors    []sequence
	Histograms map[string]json.RawMessage
}

type sequence struct {
	Name    string
	Options struct {
		Window int64 `json:"ooo_window_ms"`
	}
	Series [][]string
	Steps  []sequenceStep
}

type sequenceStep struct {
	Do                     string
	Samples, First, Second []sequenceSample
	Mint, Maxt             int64
	Result                 json.RawMessage
	Series                 int
	MS                     int64
	Calls                  []int64 // of an iterator: Seek, or Next, which is -1
	With, Removed          string
	Names                  []string
	Values                 []string `json:"values_of_i"`
}

type sequenceSample struct {
	S      int
	T, ST  int64
	V      string
	H, FH  *sequenceValue
	Error  string
	Reject bool `json:"reject_out_of_order"`
}

// value is the bits of a float, or the name of a histogram.
func (s *sequenceSample) value() string {
	switch {
	case s.H != nil:
		return s.H.name
	case s.FH != nil:
		return s.FH.name
	default:
		return s.V
	}
}

// sequenceValue is a value: bits of a float, or the name of a histogram, with a hint.
type sequenceValue struct {
	name string
	hint histogram.ResetHint
}

func (v *sequenceValue) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &v.name) == nil {
		return nil
	}
	return json.Unmarshal(text, &[]any{&v.name, &v.hint})
}

// sequenceAnswer is what a query returned: values by the labels of series and the time.
type sequenceAnswer map[string]map[int64]string

func (a *sequenceAnswer) UnmarshalJSON(text []byte) error {
	var all []struct {
		Labels  []string
		Samples [][]json.RawMessage
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	*a = sequenceAnswer{}
	for _, s := range all {
		values := map[int64]string{}
		(*a)[labels.FromStrings(s.Labels...).String()] = values
		for _, row := range s.Samples {
			var at int64
			var v sequenceValue
			if err := errors.Join(json.Unmarshal(row[0], &at), json.Unmarshal(row[1], &v)); err != nil {
				return err
			}
			values[at] = v.name
		}
	}
	return nil
}

// sequenceDifferences are where the database does something else, by reason.
var sequenceDifferences = map[string][]string{
	"no time is too old for a series that has no newer sample: there is no bound of half a block range": {
		"below-the-bound-10min, step 2, sample 0: taken instead of too_old_sample",
		"below-the-bound-10min, step 2, sample 3: taken instead of too_old_sample",
		"below-the-bound-10min, step 2, sample 4: taken instead of too_old_sample",
		"below-the-bound-10min, step 2, sample 6: taken instead of too_old_sample",
		"below-the-bound-10min, step 2, sample 7: taken instead of too_old_sample",
		"blocks-and-an-empty-head-window-off, step 8, sample 2: out_of_order_sample instead of out_of_bounds",
		"bounds-are-taken-when-the-appender-is-made, step 8, sample 1: taken instead of too_old_sample",
		"one-transaction-into-an-empty-head, step 0, sample 3: taken instead of too_old_sample",
		"one-transaction-into-an-empty-head-window-off, step 0, sample 2: out_of_order_sample instead of out_of_bounds",
		"one-transaction-into-an-empty-head-window-off, step 0, sample 3: taken instead of out_of_bounds",
		"one-transaction-into-an-empty-head-window-off, step 0, sample 4: out_of_order_sample instead of out_of_bounds",
		"window-0-after-reopen, step 5, sample 0: out_of_order_sample instead of out_of_bounds",
		"window-10min-histograms, step 1, sample 4: taken instead of too_old_sample",
		"window-10min-histograms, step 1, sample 5: duplicate_sample instead of too_old_sample",
		"window-longer-than-the-bound, step 1, sample 2: taken instead of too_old_sample",
		"window-off, step 1, sample 4: taken instead of out_of_bounds",
		"window-off, step 1, sample 5: out_of_order_sample instead of out_of_bounds",
		"window-off, step 3, sample 1: taken instead of out_of_bounds",
		"window-off-below-the-bound, step 2, sample 0: taken instead of out_of_bounds",
		"window-off-below-the-bound, step 2, sample 1: duplicate_sample instead of out_of_bounds",
		"window-off-below-the-bound, step 2, sample 2: out_of_order_sample instead of out_of_bounds",
		"window-off-below-the-bound, step 2, sample 3: taken instead of out_of_bounds",
		"window-off-below-the-bound, step 2, sample 4: taken instead of out_of_bounds",
		"window-off-below-the-bound, step 2, sample 5: duplicate_sample instead of out_of_bounds",
		"window-off-below-the-bound, step 2, sample 6: taken instead of out_of_bounds",
		"window-off-below-the-bound, step 2, sample 7: taken instead of out_of_bounds",
		"window-off-below-the-bound, step 2, sample 8: out_of_order_sample instead of out_of_bounds",
		"window-off-histograms, step 1, sample 4: taken instead of out_of_bounds",
		"window-off-histograms, step 1, sample 5: duplicate_sample instead of out_of_bounds",
		"window-off-histograms, step 1, sample 8: out_of_order_sample instead of out_of_bounds",
		"window-shorter-than-the-bound, step 1, sample 4: taken instead of too_old_sample",
	},
	"another value where the head has that time is refused, in order or late, in memory or in files": {
		"capacity, step 2, sample 1: duplicate_sample instead of taken",
		"capacity, step 3, sample 0: duplicate_sample instead of taken",
		"capacity, step 4, sample 1: duplicate_sample instead of taken",
		"clean-close-without-chunks-head, step 1, sample 5: duplicate_sample instead of taken",
		"equal-time-who-wins, step 1, sample 0: duplicate_sample instead of taken",
		"equal-time-who-wins, step 7, chunk_query of series 0: 1 10..10 1, 1 11..20 4 instead of 1 10..20 5",
		"kill-and-replay, step 1, sample 5: duplicate_sample instead of taken",
		"kill-without-chunks-head, step 1, sample 5: duplicate_sample instead of taken",
		"same-time-in-order-and-late, step 1, sample 0: duplicate_sample instead of taken",
	},
	"a limit counts from the newest sample that others see, not from what it was when the appender was made, nor from samples of the same transaction": {
		"bounds-are-taken-when-the-appender-is-made, step 4, sample 3: too_old_sample instead of taken",
		"bounds-are-taken-when-the-appender-is-made, step 4, sample 4: too_old_sample instead of taken",
		"one-transaction-into-an-empty-head, step 0, sample 2: taken instead of too_old_sample",
		"one-transaction-into-an-empty-head, step 0, sample 4: taken instead of too_old_sample",
	},
	"all that matches is deleted, what is late too, and what comes later is not; it stays deleted": {
		"delete-late-only-series, step 3: series 1",
		"delete-late-only-series, step 6: series 1",
		"delete-late-only-series, step 8: series 1",
		"delete-misses-late-samples, step 10: series 0",
		"delete-misses-late-samples, step 3: series 0",
		"delete-misses-late-samples, step 6: series 0",
		"delete-misses-late-samples, step 8: series 0",
		"flushed-again-after-restart, step 11: series 0",
		"flushed-again-after-restart, step 8: series 0",
	},
	"a stale marker that is a float and comes late has the kind of the newest sample of its series": {
		"late-kinds-mixed, step 12: series 0",
		"late-kinds-mixed, step 13, chunk_query of series 0: 2 not_reset 15..15 1, 1 16..17 2 instead of 2 not_reset 15..16 2, 1 17..17 1",
		"late-kinds-mixed, step 2: series 0",
		"late-kinds-mixed, step 3, chunk_query of series 0: 2 not_reset 15..15 1, 1 16..17 2 instead of 2 not_reset 15..16 2, 1 17..17 1",
		"late-kinds-mixed, step 8: series 0",
		"late-kinds-mixed, step 9, chunk_query of series 0: 2 not_reset 15..15 1, 1 16..17 2 instead of 2 not_reset 15..16 2, 1 17..17 1",
	},
	"a stale marker at the time of one of the other kind repeats it": {
		"histogram-duplicates, step 1, sample 11: taken instead of duplicate_sample",
	},
	"what was committed before the record of its series is not lost": {
		"window-off-two-appenders-new-series, step 5: series 1",
	},
	"the newest time of an empty head behind blocks is the last instant that they cover": {
		"blocks-and-an-empty-head-1h, step 5, sample 0: taken instead of too_old_sample",
	},
	"the log has late samples, too: nothing is lost with the out-of-order log": {
		"clean-close-without-wbl, step 5: series 0",
		"clean-close-without-wbl, step 6, sample 0: duplicate_sample instead of taken",
		"clean-close-without-wbl, step 7: series 0",
		"clean-close-without-wbl, step 10: series 0",
		"window-0-with-only-chunks-head, step 4: series 0",
		"window-0-with-only-chunks-head, step 9: series 0",
	},
	"labels are those of series that have samples in the range, late ones, too": {
		"labels-of-late-only-series, step 3: labels [__name__ i] [b] instead of [] []",
		"labels-of-late-only-series, step 5: labels [__name__ i] [a] instead of [__name__ i] [a b]",
		"labels-of-late-only-series, step 14: labels [__name__ i] [a] instead of [__name__ i] [a b]",
	},
	"late samples are in chunks of the usual size from the beginning, and encoded again": {
		"capacity, step 7, chunk_query of series 0: 1 8..22 8 instead of 1 8..12 5, 1 20..22 3",
		"capacity, step 12, chunk_query of series 0: 1 8..22 8 instead of 1 8..12 5, 1 20..22 3",
		"capacity, step 16, chunk_query of series 0: 1 8..22 8, 1 23..24 2 instead of 1 8..12 5, 1 20..23 4, 1 24..24 1",
		"default-capacity, step 6, chunk_query of series 0: 1 68..100 33 instead of 1 68..68 1, 1 69..100 32",
		"late-float-histograms-and-resets, step 3, chunk_query of series 0: 3 reset 13..16 4 instead of 3 reset 13..15 3, 3 unknown 16..16 1",
		"late-float-histograms-and-resets, step 4, seek of series 0: 11:f31N 12:f33N 14:f32N instead of 11:f31U 12:f33U 14:f32U",
		"late-float-histograms-and-resets, step 11, chunk_query of series 0: 3 reset 13..16 4 instead of 3 reset 13..15 3, 3 unknown 16..16 1",
		"late-histograms, step 3, chunk_query of series 0: 2 reset 12..13 2 instead of 2 reset 12..12 1, 2 unknown 13..13 1",
		"late-histograms, step 8, chunk_query of series 0: 2 reset 12..13 2 instead of 2 reset 12..12 1, 2 unknown 13..13 1",
		"late-histograms, step 12, chunk_query of series 0: 2 reset 12..13 2 instead of 2 reset 12..12 1, 2 unknown 13..13 1",
		"start-timestamps, step 3, chunk_query of series 0: 4 10..14 5 instead of 4 10..13 4, 4 14..14 1",
		"start-timestamps, step 8, chunk_query of series 0: 4 10..14 5 instead of 4 10..13 4, 4 14..14 1",
		"start-timestamps, step 12, chunk_query of series 0: 4 10..14 5 instead of 4 10..13 4, 4 14..14 1",
	},
}

// sequencePlayer plays one sequence.
type sequencePlayer struct {
	*testing.T
	histograms map[string]json.RawMessage
	seq        *sequence
	fs         *tsdbtest.MemFS
	window     time.Duration
	db         *tsdb.DB

	there   []map[int64][]string // by series: what was taken, each value of a time
	differs []map[int64]bool     // where the other engine decided something else
	found   []string             // differences

	look func(step int, s *sequenceStep) // what else is compared
}

func (p *sequencePlayer) open(whole bool) {
	opts := &tsdb.Options{FS: p.fs, Clock: tsdbtest.NewClock(time.UnixMilli(1_700_000_000_000))}
	opts.Limits.MaxFuture = -1
	opts.Blocks.Range, opts.Blocks.MaxRange, opts.Blocks.Manual = 2*time.Hour, 18*time.Hour, true
	opts.Head.OutOfOrderWindow = p.window
	db, err := tsdb.Open("data", opts)
	require.NoError(p, err)
	rep := db.OpenReport()
	require.True(p, rep.Clean() || !whole, "%+v", rep)
	p.db = db
}

func (p *sequencePlayer) labels(series int) labels.Labels {
	return labels.FromStrings(p.seq.Series[series]...)
}

// sample makes a sample of a vector.
func (p *sequencePlayer) sample(s *sequenceSample) tsdb.Sample {
	out := tsdb.Sample{T: s.T, ST: s.ST}
	switch {
	case s.H != nil:
		out.H = p.integer(s.H.name)
		out.H.Hint = s.H.hint
	case s.FH != nil:
		out.FH = p.float(s.FH.name)
		out.FH.Hint = s.FH.hint
	default:
		bits, err := strconv.ParseUint(s.V, 16, 64)
		require.NoError(p, err)
		out.V = math.Float64frombits(bits)
	}
	return out
}

func (p *sequencePlayer) integer(name string) *histogram.Histogram {
	var h histtest.Int
	require.NoError(p, json.Unmarshal(p.histograms[name], &h))
	return &h.Histogram
}

func (p *sequencePlayer) float(name string) *histogram.FloatHistogram {
	var h histtest.Float
	require.NoError(p, json.Unmarshal(p.histograms[name], &h))
	return &h.FloatHistogram
}

// sequenceErrors are the names of refusals.
var sequenceErrors = map[error]string{
	tsdb.ErrOutOfOrder: "out_of_order_sample", tsdb.ErrDuplicateSample: "duplicate_sample",
	tsdb.ErrOutOfBounds: "out_of_bounds", tsdb.ErrTooOld: "too_old_sample",
}

func (p *sequencePlayer) name(err error) string {
	for sentinel, name := range sequenceErrors {
		if errors.Is(err, sentinel) {
			return name
		}
	}
	require.NoError(p, err)
	return ""
}

// sequenceTx is a transaction that is under way.
type sequenceTx struct {
	app     *tsdb.Appender
	n       int               // samples of the vector
	samples []*sequenceSample // that were accepted
	where   []string
}

// append stages samples; where they stand in the vector is part of what differences say.
func (p *sequencePlayer) append(tx *sequenceTx, step int, samples []sequenceSample) {
	if tx.app == nil {
		tx.app = p.db.Appender()
	}
	for i := range samples {
		s, where := &samples[i], fmt.Sprintf("%s, step %d, sample %d", p.seq.Name, step, tx.n)
		tx.n++
		tx.app.RefuseLate(s.Reject)
		_, err := tx.app.AppendSample(0, p.labels(s.S), p.sample(s))
		if err != nil {
			p.decided(step, where, s, p.name(err))
			continue
		}
		tx.samples, tx.where = append(tx.samples, s), append(tx.where, where)
	}
}

func (p *sequencePlayer) commit(tx *sequenceTx, step int) {
	res, err := tx.app.Commit(ctx)
	require.NoError(p, err)
	refused := map[int]string{}
	for _, r := range res.Rejected {
		refused[r.Index] = p.name(r.Err)
	}
	for i, s := range tx.samples {
		p.decided(step, tx.where[i], s, refused[i])
	}
}

// decided notes what became of a sample, and whether the other engine did something else.
func (p *sequencePlayer) decided(step int, where string, s *sequenceSample, refused string) {
	if refused == "" {
		p.there[s.S][s.T] = append(p.there[s.S][s.T], p.canonical(s.value()))
	}
	if refused == s.Error {
		return
	}
	p.differs[s.S][s.T] = true
	if refused == "" || s.Error != "" || p.shown(step, s) { // or it was left out without an error
		p.found = append(p.found, fmt.Sprintf("%s: %s instead of %s", where, cmp.Or(refused, "taken"), cmp.Or(s.Error, "taken")))
	}
}

// shown reports whether the next query finds a sample in the other engine.
func (p *sequencePlayer) shown(step int, s *sequenceSample) bool {
	for i := step + 1; i < len(p.seq.Steps); i++ {
		if q := &p.seq.Steps[i]; q.Do == "query" && q.Mint <= s.T && s.T <= q.Maxt {
			return p.answer(q)[p.labels(s.S).String()][s.T] == s.value()
		}
	}
	return false
}

func (p *sequencePlayer) answer(q *sequenceStep) (a sequenceAnswer) {
	require.NoError(p, json.Unmarshal(q.Result, &a))
	return a
}

// query compares with what was written, and with the answer of the other engine.
func (p *sequencePlayer) query(step int, q *sequenceStep) {
	what := fmt.Sprintf("%s, step %d", p.seq.Name, step)
	got, theirs := p.read(q.Mint, q.Maxt), p.answer(q)
	for i := range p.seq.Series {
		key := p.labels(i).String()
		var want []int64
		for _, at := range slices.Sorted(maps.Keys(p.there[i])) {
			if q.Mint <= at && at <= q.Maxt {
				want = append(want, at)
			}
		}
		require.Equal(p, want, slices.Sorted(maps.Keys(got[key])), "%s: %s", what, key)
		for at, v := range got[key] {
			written := p.there[i][at]
			require.True(p, slices.Contains(written, v) || isStaleFloat(written) && p.isStale(v), "%s: %s at %d: %s, written %v", what, key, at, v, written)
		}
		all := mapsUnion(got[key], theirs[key])
		maps.DeleteFunc(all, func(at int64, _ string) bool {
			g, w := got[key][at], p.canonical(theirs[key][at])
			return g == w || p.differs[i][at] || g != "" && w != "" && len(p.there[i][at]) > 1
		})
		if len(all) > 0 {
			p.found = append(p.found, fmt.Sprintf("%s: series %d", what, i))
		}
	}
}

func mapsUnion(a, b map[int64]string) map[int64]string {
	all := maps.Clone(a)
	if all == nil {
		all = map[int64]string{}
	}
	maps.Copy(all, b)
	return all
}

const staleFloat = "7ff0000000000002"

func isStaleFloat(values []string) bool { return slices.Contains(values, staleFloat) }

// isStale reports whether a histogram is a stale marker.
func (p *sequencePlayer) isStale(name string) bool {
	return strings.Contains(string(p.histograms[name]), `"sum": "`+staleFloat) || strings.Contains(string(p.histograms[name]), `"sum":"`+staleFloat)
}

// read reads all samples of a range.
func (p *sequencePlayer) read(mint, maxt int64) sequenceAnswer {
	q, err := p.db.Querier(mint, maxt)
	require.NoError(p, err)
	defer func() { require.NoError(p, q.Close()) }()
	all := sequenceAnswer{}
	for s, err := range q.Select(ctx, nil).All() {
		require.NoError(p, err)
		values := map[int64]string{}
		it := s.Iterator(nil)
		last := int64(math.MinInt64)
		for _, got := range anyReaders["one by one"](it) {
			require.Greater(p, got.T, last)
			last = got.T
			values[got.T] = p.nameOf(&got)
		}
		require.NoError(p, it.Err())
		all[s.Labels().String()] = values
	}
	return all
}

// canonical returns the name of all histograms that say the same as the one with this name, when it
// is stored: without what its schema does not have.
func (p *sequencePlayer) canonical(name string) string {
	switch {
	case p.histograms[name] == nil:
		return name
	case name[0] == 'h':
		h := p.integer(name)
		h.Normalize()
		return p.nameOf(&anySample{H: h})
	default:
		h := p.float(name)
		h.Normalize()
		return p.nameOf(&anySample{FH: h})
	}
}

// nameOf finds a value among those of the file.
func (p *sequencePlayer) nameOf(s *anySample) string {
	if s.H == nil && s.FH == nil {
		return fmt.Sprintf("%016x", s.V)
	}
	for _, name := range slices.Sorted(maps.Keys(p.histograms)) {
		if s.H != nil && name[0] == 'h' && s.H.EqualByIndex(p.integer(name)) || s.FH != nil && name[0] == 'f' && s.FH.EqualByIndex(p.float(name)) {
			return name
		}
	}
	require.FailNow(p, "unknown histogram")
	return ""
}

// reopen starts again, after a close or a kill.
func (p *sequencePlayer) reopen(s *sequenceStep) {
	if number, ok := strings.CutPrefix(s.With, "ooo_window_ms: "); ok {
		minutes, isMinutes := strings.CutSuffix(number, " min")
		n, err := strconv.ParseInt(minutes, 10, 64)
		require.NoError(p, err)
		p.window = time.Duration(n) * time.Millisecond
		if isMinutes {
			p.window = time.Duration(n) * time.Minute
		}
	}
	if s.Do == "kill" {
		left := p.fs.KillClone()
		require.NoError(p, p.db.Close())
		p.fs = left
	} else {
		require.NoError(p, p.db.Close())
	}
	removed := sequenceRemoved[cmp.Or(s.Removed, s.With)]
	for _, dir := range removed {
		require.NoError(p, fileutil.RemoveAll(p.fs, filepath.Join("data", dir)))
	}
	p.open(removed == nil)
	if slices.Contains(removed, "wal") {
		p.learn()
	}
}

// sequenceRemoved are directories that are removed while the database is closed.
var sequenceRemoved = map[string][]string{
	"wal": {"wal"}, "wbl": {"wbl"}, "chunks_head": {"chunks_head"},
	"wal, wbl and chunks_head removed": {"wal", "wbl", "chunks_head"},
}

// learn takes what is there for all that there can be: the log is gone.
func (p *sequencePlayer) learn() {
	got := p.read(math.MinInt64, math.MaxInt64)
	for i := range p.seq.Series {
		left := got[p.labels(i).String()]
		maps.DeleteFunc(p.there[i], func(at int64, _ []string) bool { return left[at] == "" })
		require.Len(p, p.there[i], len(left))
	}
}

func (p *sequencePlayer) play() {
	for range p.seq.Series {
		p.there, p.differs = append(p.there, map[int64][]string{}), append(p.differs, map[int64]bool{})
	}
	p.open(true)
	var long sequenceTx
	for i := range p.seq.Steps {
		switch s := &p.seq.Steps[i]; s.Do {
		case "commit":
			var tx sequenceTx
			p.append(&tx, i, s.Samples)
			p.commit(&tx, i)
		case "two_appenders":
			var first, second sequenceTx
			p.append(&first, i, s.First)
			p.append(&second, i, s.Second)
			p.commit(&second, i)
			p.commit(&first, i)
		case "begin":
			long = sequenceTx{app: p.db.Appender()}
		case "append":
			p.append(&long, i, s.Samples)
		case "finish":
			p.commit(&long, i)
		case "query":
			p.query(i, s)
		case "reopen", "kill":
			p.reopen(s)
		case "compact", "compact_out_of_order":
			if !p.appendsAfter(i) {
				require.NoError(p, p.db.Flush(ctx)) // everything becomes blocks, late samples with it
			}
			require.NoError(p, p.db.Compact(ctx))
		case "set_out_of_order_window":
			require.NoError(p, p.db.SetOutOfOrderWindow(time.Duration(s.MS)*time.Millisecond))
		case "delete":
			p.delete(s)
		case "labels":
			p.names(i, s)
		case "log", "head_chunks", "map_head_chunks", "files", "counters", "blocks", "chunk_query", "seek", "promql":
			// They are about the other engine, or look takes them.
		default:
			require.FailNow(p, "unknown step", s.Do)
		}
		if p.look != nil {
			p.look(i, &p.seq.Steps[i])
		}
	}
	require.NoError(p, p.db.Close())
}

// names compares the names of labels, and the values of one.
func (p *sequencePlayer) names(step int, s *sequenceStep) {
	q, err := p.db.Querier(s.Mint, s.Maxt)
	require.NoError(p, err)
	defer func() { require.NoError(p, q.Close()) }()
	names, _, err := q.LabelNames(ctx, nil)
	require.NoError(p, err)
	values, _, err := q.LabelValues(ctx, "i", nil)
	require.NoError(p, err)
	if !slices.Equal(names, s.Names) || !slices.Equal(values, s.Values) {
		p.found = append(p.found, fmt.Sprintf("%s, step %d: labels %v %v instead of %v %v", p.seq.Name, step, names, values, s.Names, s.Values))
	}
}

// appendsAfter reports whether samples are appended behind a step, which a flush may refuse.
func (p *sequencePlayer) appendsAfter(step int) bool {
	return slices.ContainsFunc(p.seq.Steps[step+1:], func(s sequenceStep) bool { return s.Do == "commit" })
}

func (p *sequencePlayer) delete(s *sequenceStep) {
	var ms []*labels.Matcher
	for l := range p.labels(s.Series).All() {
		m, err := labels.NewMatcher(labels.MatchEqual, l.Name, l.Value)
		require.NoError(p, err)
		ms = append(ms, m)
	}
	require.NoError(p, p.db.Delete(ctx, s.Mint, s.Maxt, ms...))
	maps.DeleteFunc(p.there[s.Series], func(at int64, _ []string) bool { return s.Mint <= at && at <= s.Maxt })
}

func TestLateSequences_AreDecidedAsByAnotherEngine(t *testing.T) {
	var found []string
	for name, vectors := range map[string]int{"append_sequences.json": 10, "ooo_sequences.json": 45} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		var file sequenceFile
		require.NoError(t, json.Unmarshal(text, &file))
		require.Len(t, file.Vectors, vectors)
		for i := range file.Vectors {
			seq := &file.Vectors[i]
			t.Run(seq.Name, func(t *testing.T) {
				p := &hintPlayer{sequencePlayer{
					T: t, histograms: file.Histograms, seq: seq, fs: tsdbtest.NewMemFS(),
					window: time.Duration(seq.Options.Window) * time.Millisecond,
				}}
				p.sequencePlayer.look = func(step int, s *sequenceStep) {
					switch {
					case s.Do == "query": // what is known of resets is compared elsewhere
					case s.Do == "chunk_query" && seq.Name == "late-over-a-block": // another value counts
					default:
						p.look(step, s)
					}
				}
				p.play()
				found = append(found, p.found...)
			})
		}
	}
	var known []string
	for _, differences := range sequenceDifferences {
		known = append(known, differences...)
	}
	require.ElementsMatch(t, known, found)
}
