package compat

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	theirexemplar "github.com/prometheus/prometheus/model/exemplar"
	theirlabels "github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	reference "github.com/prometheus/prometheus/tsdb"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/labels"
)

// exemplarWorld is a database of each side that gets the same exemplars.
type exemplarWorld struct {
	t      *testing.T
	r      *rand.Rand
	set    []series
	ours   *ours
	theirs *theirs
	now    int64
	made   map[string]bool // series and times that there were: see TestDifference_ExemplarsOfOneTime
}

const exemplarRing = 50

func withTheirExemplars(o *reference.Options) {
	o.EnableExemplarStorage, o.MaxExemplars = true, exemplarRing
	o.OutOfOrderTimeWindow = century
}

func withOurExemplars(o *tsdb.Options) { o.Head.MaxExemplars, o.Blocks.Manual = exemplarRing, true }

func newExemplarWorld(t *testing.T, base uint64) *exemplarWorld {
	w := &exemplarWorld{t: t, r: rand.New(rand.NewPCG(seed(t, base), 0)), now: worldStart, made: map[string]bool{}}
	w.ours = openOurs(t, t.TempDir(), withOurExemplars)
	w.theirs = openTheirs(t, t.TempDir(), withTheirExemplars)
	for i := range 7 {
		w.set = append(w.set, newSeries("__name__", "m", "n", fmt.Sprint(i)))
	}
	return w
}

// pending is one exemplar on its way.
type pending struct {
	of int
	e  exemplar.Exemplar
}

// draw makes exemplars of times around now, each of another time of its series.
func (w *exemplarWorld) draw() (list []pending) {
	for range w.r.IntN(12) {
		p := pending{of: w.r.IntN(len(w.set)), e: exemplar.Exemplar{T: w.now - w.r.Int64N(hour), HasT: true, Value: float64(w.r.IntN(9))}}
		if key := fmt.Sprint(p.of, p.e.T); !w.made[key] {
			w.made[key] = true
			p.e.Labels = labels.FromStrings("trace_id", fmt.Sprint(w.r.Uint32()))
			list = append(list, p)
		}
	}
	return list
}

// step commits a sample of each series, and exemplars, on both sides.
func (w *exemplarWorld) step() {
	w.t.Helper()
	w.now += w.r.Int64N(10*minute) + 1
	list := w.draw()
	ours, theirs := w.ours.db.Appender(), w.theirs.db.Appender(context.Background())
	var refs []storage.SeriesRef
	for _, s := range w.set {
		_, err := ours.Append(0, s.ours, w.now, 1)
		require.NoError(w.t, err)
		ref, err := theirs.Append(0, s.theirs, w.now, 1)
		require.NoError(w.t, err)
		refs = append(refs, ref)
	}
	for _, p := range list {
		_, err := ours.AppendExemplar(0, w.set[p.of].ours, p.e)
		require.NoError(w.t, err)
		_, err = theirs.AppendExemplar(refs[p.of], w.set[p.of].theirs, theirExemplar(p.e))
		require.NoError(w.t, err)
	}
	_, err := ours.Commit(context.Background())
	require.NoError(w.t, err)
	require.NoError(w.t, theirs.Commit())
}

func theirExemplar(e exemplar.Exemplar) theirexemplar.Exemplar {
	b := theirlabels.NewScratchBuilder(e.Labels.Len())
	for l := range e.Labels.All() {
		b.Add(l.Name, l.Value)
	}
	return theirexemplar.Exemplar{Labels: b.Labels(), Value: e.Value, Ts: e.T, HasTs: e.HasT}
}

func line(series, trace string, t int64, v float64) string {
	return fmt.Sprintf("%s: %s %d %v", series, trace, t, v)
}

func (o *ours) exemplars() (lines []string) {
	o.t.Helper()
	q, err := o.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(o.t, err)
	found, err := q.Exemplars(context.Background())
	require.NoError(o.t, err)
	require.NoError(o.t, q.Close())
	for _, s := range found {
		for _, e := range s.Exemplars {
			lines = append(lines, line(keyOfOurs(s.Labels), keyOfOurs(e.Labels), e.T, e.Value))
		}
	}
	return lines
}

func (r *theirs) exemplars() (lines []string) {
	r.t.Helper()
	q, err := r.db.ExemplarQuerier(context.Background())
	require.NoError(r.t, err)
	found, err := q.Select(math.MinInt64, math.MaxInt64, []*theirlabels.Matcher{})
	require.NoError(r.t, err)
	for _, s := range found {
		for _, e := range s.Exemplars {
			lines = append(lines, line(keyOfTheirs(s.SeriesLabels), keyOfTheirs(e.Labels), e.Ts, e.Value))
		}
	}
	return lines
}

// check requires that both sides have the same, and find it in what a kill of the other would
// leave.
func (w *exemplarWorld) check() {
	w.t.Helper()
	want := w.theirs.exemplars()
	require.Equal(w.t, want, w.ours.exemplars())

	theirs := openTheirs(w.t, copyDir(w.t, w.ours.db.Dir()), withTheirExemplars)
	require.Equal(w.t, w.behindBlocks(want), theirs.exemplars(), "they read ours")
	theirs.requireUndamaged()
	theirs.close()
	ours := openOurs(w.t, copyDir(w.t, w.theirs.db.Dir()), withOurExemplars)
	require.Equal(w.t, want, ours.exemplars(), "we read theirs")
	ours.requireClean()
	ours.close()
	again := openOurs(w.t, copyDir(w.t, w.ours.db.Dir()), withOurExemplars)
	require.Equal(w.t, want, again.exemplars())
	again.close()
}

// behindBlocks leaves out what is older than the end of our blocks: when the reference starts it
// does not read such exemplars. Here they come back.
func (w *exemplarWorld) behindBlocks(all []string) (left []string) {
	end := int64(math.MinInt64)
	for _, b := range w.ours.db.Blocks() {
		end = max(end, b.MaxTime)
	}
	for _, line := range all {
		fields := strings.Fields(line)
		t, err := strconv.ParseInt(fields[len(fields)-2], 10, 64)
		require.NoError(w.t, err)
		if t >= end {
			left = append(left, line)
		}
	}
	return left
}

// Both sides keep the same exemplars, and each reads those of the other after a kill.
func TestExemplars_OfBothSides_AreReadByTheOther(t *testing.T) {
	t.Parallel()
	w := newExemplarWorld(t, 7100)
	for range 3 {
		for range 8 {
			w.step()
		}
		w.check()
	}
	require.Len(t, w.ours.exemplars(), exemplarRing, "some had to go")

	// A checkpoint of ours keeps them all, for both.
	require.NoError(t, w.ours.db.Flush(context.Background()))
	w.check()
	for range 5 {
		w.step()
	}
	w.check()
	require.Less(t, len(w.behindBlocks(w.ours.exemplars())), exemplarRing)
}

// Of a time that a series has an exemplar of already, the reference takes another one only if its
// value, or the hash of its labels, is greater, and a late one never. Here all are kept.
func TestDifference_ExemplarsOfOneTime_AreAllKept(t *testing.T) {
	t.Parallel()
	w := newExemplarWorld(t, 7200)
	ours, theirs := w.ours.db.Appender(), w.theirs.db.Appender(context.Background())
	ours.AllowExemplarsWithoutLabels(true)
	ref, err := theirs.Append(0, w.set[0].theirs, worldStart, 1)
	require.NoError(t, err)
	for _, v := range []float64{2, 1, 3} {
		e := exemplar.Exemplar{T: worldStart, HasT: true, Value: v}
		_, err := ours.AppendExemplar(0, w.set[0].ours, e)
		require.NoError(t, err)
		_, err = theirs.AppendExemplar(ref, w.set[0].theirs, theirExemplar(e))
		require.NoError(t, err)
	}
	_, err = ours.Commit(context.Background())
	require.NoError(t, err)
	require.NoError(t, theirs.Commit())
	require.Len(t, w.ours.exemplars(), 3)
	require.Len(t, w.theirs.exemplars(), 2)
}
