package compat

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/stretchr/testify/require"

	theirexemplar "github.com/prometheus/prometheus/model/exemplar"
	theirhist "github.com/prometheus/prometheus/model/histogram"
	theirmeta "github.com/prometheus/prometheus/model/metadata"
	"github.com/prometheus/prometheus/storage"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/histogram"
)

// theirAppender is one of both appenders of the reference.
type theirAppender interface {
	storage.AppenderTransaction
	// add stages a sample and what is beside it. An exemplar has an error of its own.
	add(s series, ref storage.SeriesRef, sample tsdb.Sample, with beside) (_ storage.SeriesRef, err, ofExemplar error)
}

// beside is what may come with a sample.
type beside struct {
	exemplar *exemplar.Exemplar
	metadata theirmeta.Metadata // none if it is empty
}

func theirValue(s tsdb.Sample) (h *theirhist.Histogram, fh *theirhist.FloatHistogram) {
	if s.H != nil {
		h = theirHistogram(s.H)
	} else if s.FH != nil {
		fh = theirFloatHistogram(s.FH)
	}
	return h, fh
}

type firstAppender struct{ storage.Appender }

func (a firstAppender) add(s series, ref storage.SeriesRef, sample tsdb.Sample, with beside) (_ storage.SeriesRef, err, ofExemplar error) {
	if h, fh := theirValue(sample); h != nil || fh != nil {
		ref, err = a.AppendHistogram(ref, s.theirs, sample.T, h, fh)
	} else {
		ref, err = a.Append(ref, s.theirs, sample.T, sample.V)
	}
	if err != nil {
		return ref, err, nil
	}
	if with.exemplar != nil {
		_, ofExemplar = a.AppendExemplar(ref, s.theirs, theirExemplar(*with.exemplar))
	}
	if !with.metadata.IsEmpty() {
		_, err = a.UpdateMetadata(ref, s.theirs, with.metadata)
	}
	return ref, err, ofExemplar
}

type secondAppender struct{ storage.AppenderV2 }

func (a secondAppender) add(s series, ref storage.SeriesRef, sample tsdb.Sample, with beside) (_ storage.SeriesRef, err, ofExemplar error) {
	opts := storage.AppendV2Options{Metadata: with.metadata}
	if with.exemplar != nil {
		opts.Exemplars = []theirexemplar.Exemplar{theirExemplar(*with.exemplar)}
	}
	h, fh := theirValue(sample)
	ref, err = a.Append(ref, s.theirs, sample.ST, sample.T, sample.V, h, fh, opts)
	partial, err := (*storage.AppendPartialError)(nil).Handle(err)
	if partial != nil {
		ofExemplar = errors.Join(partial.ExemplarErrors...)
	}
	return ref, err, ofExemplar
}

// kindCommit is a commit of both engines.
type kindCommit struct {
	*kindDuel
	us     *tsdb.Appender
	them   theirAppender
	staged int

	newest      []int64 // of each series, before this commit
	rows        []int   // of each series, that were staged
	aside       []bool  // series has rows that are late or repeated
	ended       []bool  // series has a stale marker
	inOrderRows []anyRow
	exemplars   []pending
	metadata    metas
}

func newKindCommit(d *kindDuel) *kindCommit {
	n := len(d.g.set)
	c := &kindCommit{kindDuel: d, us: d.ours.db.Appender(), newest: slices.Clone(d.g.newest), rows: make([]int, n), aside: make([]bool, n), ended: make([]bool, n), metadata: metas{}}
	if d.second {
		c.them = secondAppender{d.theirs.db.AppenderV2(d.t.Context())}
	} else {
		c.them = firstAppender{d.theirs.db.Appender(d.t.Context())}
	}
	return c
}

// addSome stages a row of a series, maybe with others around it.
func (c *kindCommit) addSome(i int) {
	c.t.Helper()
	if c.rng.IntN(10) == 0 {
		c.repeat(i)
	}
	if c.rng.IntN(6) == 0 {
		c.late(i)
	}
	row, ok := c.inOrder(i)
	if ok && !c.ended[i] && c.rng.IntN(12) == 0 {
		if c.rng.IntN(2) == 0 {
			row = c.g.aside(i, row.T) // contradicts
		}
		c.stageAside(row)
	}
}

// inOrder stages a row that is newer than all others, which both accept.
func (c *kindCommit) inOrder(i int) (row anyRow, ok bool) {
	c.t.Helper()
	if c.ended[i] {
		return row, false // TestDifference_StaleMarkerBeforeAHistogramOfOneCommit
	}
	c.g.now += c.rng.Int64N(4000) + 1
	newest := c.g.newest[i]
	row = c.g.row(i)
	for i == kept && row.isMarker() {
		row = c.g.row(i)
	}
	if c.ended[i] = row.isMarker(); c.ended[i] && c.aside[i] {
		// What kind it is the reference decides by what was staged before, late or not.
		c.ended[i], c.g.newest[i] = false, newest
		return row, false
	}
	with := beside{}
	if !row.isStale() { // beside which the second appender of the reference takes nothing
		with = c.drawBeside(i)
	}
	require.NoError(c.t, c.stage(row, with), "in order, %d of series %d", row.T, i)
	c.inOrderRows = append(c.inOrderRows, row)
	return row, true
}

// repeat stages a row of the time of the newest sample of a series, with the same or another value.
// What is older than half a block range the reference judges by the whole head, or takes as late.
func (c *kindCommit) repeat(i int) {
	c.t.Helper()
	at := c.newest[i]
	if at == 0 || at < c.g.now-50*minute {
		return
	}
	if c.rng.IntN(2) == 0 {
		// The same value with another start timestamp both take for a repeat, but the reference has
		// it as late, too, if its commit has a newer sample before it. Then it may read either.
		other := c.g.aside(i, at)
		if pointOf(other.Sample).Value != pointOf(c.committed[i].Sample).Value {
			c.stageAside(other)
		}
		return
	}
	// For the reference a histogram is the same only if its spans are, as its chunk has them. All
	// samples of a chunk have the same ones, which are not always what was appended.
	row := c.committed[i]
	if s, ok := c.theirs.sampleAt(c.g.set[i], at); ok && slices.Equal(spansOf(row.Sample), spansOf(s)) {
		c.stageAside(row)
	}
}

// spansOf are all spans of a histogram.
func spansOf(s tsdb.Sample) []histogram.Span {
	switch {
	case s.H != nil:
		return slices.Concat(s.H.PositiveSpans, []histogram.Span{{}}, s.H.NegativeSpans)
	case s.FH != nil:
		return slices.Concat(s.FH.PositiveSpans, []histogram.Span{{}}, s.FH.NegativeSpans)
	default:
		return nil
	}
}

// late stages a late row.
func (c *kindCommit) late(i int) {
	c.t.Helper()
	at := c.g.now - c.rng.Int64N(20_000)
	switch {
	case c.window == 0 && c.rng.IntN(8) == 0:
		if end := c.behindAllBlocks(); end > math.MinInt64 {
			at = end - 1 - c.rng.Int64N(hour)
		}
	case c.window > 0 && c.newest[i] == 0:
		// When the reference starts it takes a late sample for one in order, if none in order is
		// before it in the log. Then it may lose others: docs/design/late-samples.md.
		return
	case c.window > 0 && c.rng.IntN(8) == 0:
		at = c.g.now - c.window - hour - c.rng.Int64N(hour) // too old
	case c.window > 0:
		// Of several values of one time either may be read in the reference.
		if at = c.g.now - c.rng.Int64N(9*hour); at > c.newest[i] || c.times[i][at] {
			return
		}
	}
	c.stageAside(c.g.aside(i, at))
}

// behindAllBlocks is a time before which neither takes anything.
func (d *kindDuel) behindAllBlocks() int64 {
	ends := [2]int64{math.MinInt64, math.MinInt64}
	for _, b := range d.ours.db.Blocks() {
		ends[0] = max(ends[0], b.MaxTime)
	}
	for _, b := range d.theirs.db.Blocks() {
		ends[1] = max(ends[1], b.Meta().MaxTime)
	}
	return min(ends[0], ends[1])
}

// stageAside stages a row that is not the newest one. It is no stale marker: the reference may log
// another kind of that than it has in memory, and takes two kinds for different ones.
func (c *kindCommit) stageAside(row anyRow) {
	c.t.Helper()
	if row.isStale() || c.ended[row.series] {
		return
	}
	c.aside[row.series] = true
	_ = c.stage(row, beside{})
}

// stage stages one row in both, by ref or by labels, and requires that they agree about it.
func (c *kindCommit) stage(row anyRow, with beside) error {
	c.t.Helper()
	i, s := row.series, c.g.set[row.series]
	ourRef, theirRef := c.ours.refs[s.key], c.theirs.refs[s.key]
	if c.rng.IntN(3) == 0 {
		ourRef, theirRef = 0, 0
	}
	ourRef, ourErr := c.us.AppendSample(ourRef, s.ours, row.Sample)
	theirRef, theirErr, ofExemplar := c.them.add(s, theirRef, row.Sample, with)
	switch {
	case theirErr == nil && ourErr == nil:
		c.staged++
		c.rows[i]++
		c.times[i][row.T] = true
		c.addBeside(i, with, ofExemplar)
	case theirErr == nil:
		// Two in a row of one series are compared by us at once, by the reference
		// in Commit, where it leaves out the second one.
		require.Positive(c.t, c.rows[i], "%s at %d: %v", s.key, row.T, ourErr)
	default:
		require.ErrorIs(c.t, ourErr, ourError(c.t, theirErr), "%s: %+v, the newest was at %d: %v", s.key, pointOf(row.Sample), c.newest[i], theirErr)
	}
	c.keepRefs(s, ourRef, theirRef)
	return ourErr
}

// drawBeside draws what comes with a row in order.
func (c *kindCommit) drawBeside(i int) (with beside) {
	if c.rng.IntN(8) == 0 {
		with.exemplar = c.kindDuel.exemplars.draw(c.kindDuel, i)
	}
	if key := c.g.set[i].key; c.metadata[key].IsEmpty() && c.rng.IntN(12) == 0 {
		// Once in a commit: the reference compares with what was committed only.
		with.metadata = c.kindDuel.metadata.next(c.kindDuel, key)
	}
	return with
}

// addBeside does for ours what the appender of the reference has done with the sample.
func (c *kindCommit) addBeside(i int, with beside, theirErr error) {
	c.t.Helper()
	s := c.g.set[i]
	if e := with.exemplar; e != nil {
		_, err := c.us.AppendExemplar(c.ours.refs[s.key], s.ours, *e)
		if theirErr != nil {
			require.ErrorIs(c.t, theirErr, storage.ErrExemplarLabelLength)
			require.ErrorIs(c.t, err, exemplar.ErrLabelLength)
		} else {
			require.NoError(c.t, err)
			if p := (pending{i, *e}); c.kindDuel.exemplars.find(p) < 0 {
				c.exemplars = append(c.exemplars, p)
			}
		}
	}
	if !with.metadata.IsEmpty() {
		m := metas{s.key: with.metadata}
		_, err := c.us.SetMetadata(c.ours.refs[s.key], s.ours, m.of(s))
		require.NoError(c.t, err)
		c.metadata[s.key] = with.metadata
	}
}

func (c *kindCommit) commit() {
	c.t.Helper()
	res, err := c.us.Commit(context.Background())
	require.NoError(c.t, err)
	require.NoError(c.t, c.them.Commit())
	require.LessOrEqual(c.t, res.Samples+len(res.Rejected), c.staged) // an equal repeat is neither
	for _, r := range res.Rejected {
		late := errors.Is(r.Err, tsdb.ErrOutOfOrder) || errors.Is(r.Err, tsdb.ErrDuplicateSample)
		require.True(c.t, late, "%v", r.Err)
	}
	for _, row := range c.inOrderRows {
		c.committed[row.series] = row
	}
	c.kindDuel.metadata.add(c.metadata)
	for _, p := range c.exemplars {
		c.kindDuel.exemplars.add(p, c.g.set[p.of])
	}
}

func (c *kindCommit) rollback() {
	c.t.Helper()
	require.NoError(c.t, c.us.Rollback())
	require.NoError(c.t, c.them.Rollback())
	c.g.newest = c.newest
}
