package tsdb

import (
	"math"
	"runtime"
	"slices"
	"unicode/utf8"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/exemplars"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/labels"
)

// SeriesRef is the number of a series while the database is open: what Append returns and takes to
// find the series without its labels. 0 is no series. A ref stays valid for as long as the series
// exists, and it is never given to another one. It is not to be kept beyond Close.
type SeriesRef = chunks.SeriesRef

// Appender collects samples and commits them together. It is used by one goroutine;
// a DB has any number of them. It holds no lock between calls, so an abandoned one
// blocks nobody. It ends with Commit or Rollback; after that it stays what it is, and is
// never anybody else's. Some are allocated together: to keep an ended one keeps the memory of
// a few others, and new series of those that were abandoned.
type Appender struct {
	h      *head
	staged *staging // nil after the end

	minT, maxT int64 // what is accepted, as of the last look at the clock
	cleanup    runtime.Cleanup
	tracked    bool // cleanup is set
	unlabeled  bool // exemplars may be without labels
}

// Reject says why one sample is not in the database although others of its Appender are.
type Reject struct {
	// Index of the sample: in the slices given to AppendBatch, or, in a CommitResult,
	// among the samples that were accepted, of any kind, counted from 0.
	Index int
	Ref   SeriesRef // of its series: as given to AppendBatch, or as Append returned it
	Err   error
}

// appendersLen is how many Appenders are allocated together. A program may keep an
// Appender after Commit, so none is used twice; this makes an eighth of an allocation for a
// commit (BenchmarkAppendCommit). What one of them pins stays pinned until all of them are
// unreachable, so they are few.
const appendersLen = 8

// appenders are Appenders of which the first are given out.
type appenders struct {
	given int
	all   [appendersLen]Appender
}

func (c *commits) appender(h *head) *Appender {
	as := c.appenders.Get().(*appenders)
	a := &as.all[as.given]
	if as.given++; as.given < appendersLen {
		c.appenders.Put(as)
	}
	a.h, a.staged = h, c.stagings.Get().(*staging)
	a.minT = h.bounds.minValid.Load()
	a.maxT = math.MinInt64 // the first sample looks at the clock
	return a
}

// Append stages one sample and returns the ref of its series, to be used the next
// time. With a ref of 0, or one that is not known any more, the series is found or
// created by its labels, which are copied.
//
// The error is the sample's own: it is not staged, and the others of this Appender are not touched.
// ErrOutOfOrder, ErrDuplicateSample, ErrOutOfBounds, ErrNotFound (a ref that is not known, and no
// labels), ErrInvalidLabels, ErrLimit, ErrClosed. Samples are checked again by Commit: other
// commits may have come in between. So is the order of samples of one series in this Appender,
// unless they were appended one right after the other; then it is checked here.
func (a *Appender) Append(ref SeriesRef, ls labels.Labels, t int64, v float64) (SeriesRef, error) {
	if a.staged == nil {
		return 0, ErrClosed
	}
	s := a.h.series.ByRef(uint64(ref))
	if s == nil || s.PendingT() < a.h.bounds.minValid.Load() {
		var err error
		if s, err = a.find(s, ls); err != nil {
			return 0, err
		}
	}
	return SeriesRef(s.Ref()), a.stageFloat(s, t, v)
}

// Sample is one sample of a series: a float, or a native histogram.
type Sample struct {
	T int64 // milliseconds since 1970
	// ST is the start timestamp, in milliseconds since 1970: since when what is counted has been
	// counted. 0 is none. Floats that have one take more room (docs/format/chunks.md).
	ST int64
	// V is the value of a float. H and FH are that of a histogram with integer or float counts: at
	// most one of them is set, and then V means nothing. They are copied during the call.
	V  float64
	H  *histogram.Histogram
	FH *histogram.FloatHistogram
}

// StaleMarker returns the value that says that its series ended: a NaN of certain bits, which are
// kept. Queries of Prometheus do not look for older samples behind it. A series that has another
// sample later has begun again.
func StaleMarker() float64 { return math.Float64frombits(histogram.StaleNaN) }

// IsStale reports whether a value is StaleMarker; any other NaN is not. Stale histograms are those
// whose Sum is.
func IsStale(v float64) bool { return math.Float64bits(v) == histogram.StaleNaN }

// AppendSample is Append for a sample of any kind, with all that it may have. Two samples of one
// time and one value are the same, whatever their start timestamps: the first one stays. Histograms
// have the same value if they say the same: hints do not count, nor does the form of spans.
//
// Of a histogram what its schema does not have is left out, and the rest must be valid: the errors
// of package histogram say what is not. A stale marker of a series of histograms may be a float; it
// becomes a histogram, while the head knows that the series is one. ErrHistogramsOff:
// Limits.NoHistograms is set. ErrInvalidArgument: there are two.
func (a *Appender) AppendSample(ref SeriesRef, ls labels.Labels, s Sample) (SeriesRef, error) {
	if s.ST == 0 && s.H == nil && s.FH == nil || a.staged == nil {
		return a.Append(ref, ls, s.T, s.V)
	}
	if (s.H != nil || s.FH != nil) && a.h.opts.Limits.NoHistograms {
		return 0, ErrHistogramsOff
	}
	of := a.h.series.ByRef(uint64(ref))
	if of == nil || of.PendingT() < a.h.bounds.minValid.Load() {
		var err error
		if of, err = a.find(of, ls); err != nil {
			return 0, err
		}
	}
	enc, sum, wide, err := s.addTo(&a.staged.wide)
	if err != nil {
		return SeriesRef(of.Ref()), err
	}
	if err = a.stage(memseries.Sample{Series: of, T: s.T, Sum: sum, Wide: wide, Encoding: enc}); err != nil {
		a.staged.wide.Cut()
	}
	return SeriesRef(of.Ref()), err
}

// Grow makes room for n more samples. Who is about to append very many spares the copies that are
// made as the room for them grows by and by; nothing else depends on it.
func (a *Appender) Grow(n int) {
	if a.staged != nil && n > 0 {
		a.staged.samples = slices.Grow(a.staged.samples, n)
	}
}

// AppendBatch stages one sample for each of refs, all at time t: one scrape. What
// cannot be staged is appended to rejected, with its index; a ref that is not known
// gives ErrNotFound (append that sample again with its labels).
//
// The error is about the whole batch, of which nothing is staged: slices of unequal
// length, or ErrClosed.
func (a *Appender) AppendBatch(t int64, refs []SeriesRef, vs []float64, rejected []Reject) ([]Reject, error) {
	if a.staged == nil {
		return rejected, ErrClosed
	}
	if len(refs) != len(vs) {
		return rejected, errors.Errorf("append batch of %d refs and %d values: want as many values as refs", len(refs), len(vs))
	}
	minValid := a.h.bounds.minValid.Load()
	for i, ref := range refs {
		s := a.h.series.ByRef(uint64(ref))
		var err error
		if s == nil || s.PendingT() < minValid {
			s, err = a.find(s, labels.Labels{})
		}
		if err == nil {
			err = a.stageFloat(s, t, vs[i])
		}
		if err != nil {
			rejected = append(rejected, Reject{Index: i, Ref: ref, Err: err})
		}
	}
	return rejected, nil
}

// AppendExemplar stages one exemplar and returns the ref of its series, which is found or created
// as by Append. The labels of both are copied. Exemplars are kept in memory and in the log, as
// many as HeadOptions.MaxExemplars says; a new one takes the place of the one that was inserted
// first. Any time is taken, and a series may have several of one time. One that the series has
// already, labels, value and time, is left out without an error. HasT is not looked at.
//
// The error is the exemplar's own: it is not staged, and nothing else of this Appender is touched.
// exemplar.ErrNoLabels (see AllowExemplarsWithoutLabels), exemplar.ErrLabelLength,
// ErrExemplarsOff, ErrInvalidLabels, ErrNotFound, ErrLimit, ErrClosed. Commit logs exemplars and
// makes them visible together with samples; they are there also if the samples turn out to be late.
func (a *Appender) AppendExemplar(ref SeriesRef, ls labels.Labels, e exemplar.Exemplar) (SeriesRef, error) {
	if a.staged == nil {
		return 0, ErrClosed
	}
	ring := a.h.commits.exemplars
	if ring.Most() == 0 {
		return 0, ErrExemplarsOff
	}
	if err := e.Validate(); err != nil && !(err == exemplar.ErrNoLabels && a.unlabeled) {
		a.h.commits.exemplarsRejected.Add(1)
		return 0, err
	}
	// Pinned, whatever its samples are: else it might be removed before Commit.
	s, err := a.find(a.h.series.ByRef(uint64(ref)), ls)
	if err != nil {
		if !errors.Is(err, ErrNotFound) { // which asks for labels
			a.h.commits.exemplarsRejected.Add(1)
		}
		return 0, err
	}
	own, repeat := ring.Look(s.Ref(), &e)
	if repeat {
		return SeriesRef(s.Ref()), nil
	}
	sx := &a.staged.exemplars
	if n := len(sx.of); own.IsEmpty() && n > 0 && sx.of[n-1] == s {
		own = sx.list[n-1].Series
	} else if own.IsEmpty() {
		own = a.h.series.Labels(s)
	}
	e.Labels = exemplars.Clone(e.Labels)
	sx.of, sx.list = append(sx.of, s), append(sx.list, exemplars.Entry{Series: own, Ref: s.Ref(), Exemplar: e})
	a.staged.shards |= memseries.Bit(s)
	return SeriesRef(s.Ref()), nil
}

// AllowExemplarsWithoutLabels says whether AppendExemplar takes such from now on; a new Appender
// does not. Who passes on what others sent calls it: OpenMetrics allows them.
func (a *Appender) AllowExemplarsWithoutLabels(allow bool) { a.unlabeled = allow }

// SetMetadata stages metadata of a series, and returns the ref of the series, as Append does. The
// commit logs it behind the record of its series, and a restart brings it back. Of several for one
// series in one Appender the last one counts. Nothing is done if all of m is empty, or the series
// has it already: the same may be said with each sample. What the series has is looked up here, not
// by Commit.
//
// Metadata is kept in memory and in the log for as long as the head has the series: a series
// without samples goes when the head is made into blocks, or needs room. Blocks have none.
//
// Errors: ErrInvalidMetadata, ErrLimit (Limits.MetadataBytes), ErrNotFound, ErrInvalidLabels,
// ErrClosed.
func (a *Appender) SetMetadata(ref SeriesRef, ls labels.Labels, m Metadata) (SeriesRef, error) {
	if a.staged == nil {
		return 0, ErrClosed
	}
	if m == (Metadata{}) {
		return ref, nil
	}
	if err := checkMetadata(&m, &a.h.opts.Limits); err != nil {
		return 0, err
	}
	var few [512]byte
	value := record.AppendMetadataValue(few[:0], m)
	s := a.h.series.ByRef(uint64(ref))
	if s == nil || !a.isKnown(s, value) {
		var err error
		if s, err = a.find(s, ls); err != nil {
			return 0, err
		}
		if !a.isKnown(s, value) {
			a.staged.metadata.add(s, string(value))
			a.staged.shards |= memseries.Bit(s)
		}
	}
	return SeriesRef(s.Ref()), nil
}

// checkMetadata checks metadata, and makes a kind without a name unknown.
func checkMetadata(m *Metadata, lim *Limits) error {
	if m.Type > MetricStateset {
		m.Type = MetricUnknown
	}
	if !utf8.ValidString(m.Unit) || !utf8.ValidString(m.Help) {
		return errors.WithMessagef(ErrInvalidMetadata, "unit %.40q, help %.40q", m.Unit, m.Help)
	}
	if n := len(m.Unit) + len(m.Help); over(n, lim.MetadataBytes) {
		return errors.WithMessagef(ErrLimit, "unit and help have %d bytes, Limits.MetadataBytes is %d", n, lim.MetadataBytes)
	}
	return nil
}

// isKnown reports whether a series has a value, and no other one is staged for it here.
func (a *Appender) isKnown(s *memseries.Series, value []byte) bool {
	if _, staged := a.staged.metadata.at[s.Ref()]; staged {
		return false
	}
	return a.h.commits.metadata.Of(s.Ref()) == string(value)
}

// stageFloat is stage for a float. Most are newer than all others of their series.
func (a *Appender) stageFloat(s *memseries.Series, t int64, v float64) error {
	sg, n := a.staged, len(a.staged.samples)
	if t <= s.PendingT() || t > a.maxT || t < a.minT || n == cap(sg.samples) || n > 0 && sg.samples[n-1].Series == s {
		return a.stage(memseries.Sample{Series: s, T: t, Sum: math.Float64bits(v), Encoding: chunkenc.EncXOR})
	}
	sg.samples = sg.samples[:n+1]
	sg.samples[n].SetFloat(s, t, v) // as by add
	sg.shards |= memseries.Bit(s)
	return nil
}

// stage checks a sample against its series and the bounds, and keeps it.
func (a *Appender) stage(st memseries.Sample) error {
	if newest := st.Series.PendingT(); st.T <= newest {
		if err := a.late(&st, newest); err != nil {
			return err
		}
	}
	if (st.T > a.maxT || st.T < a.minT) && st.Late == memseries.InOrder {
		if err := a.outside(&st); err != nil {
			return err
		}
	}
	sg := a.staged
	if n := len(sg.samples); n > 0 && sg.samples[n-1].Series == st.Series && st.T <= sg.samples[n-1].T && st.Late == memseries.InOrder {
		err := lateBy(&st, sg.samples[n-1].T, sg.samples[n-1].Sum)
		if err == ErrOutOfOrder || err != nil && a.h.opts.Head.LastWriteWins {
			err = a.stageLate(&st, err)
		} else if err != nil {
			err = sg.refused.note(&st, err)
		}
		if err != nil {
			return err
		}
	}
	sg.add(&st)
	return nil
}

// late answers for a sample that is not newer than its series. One at exactly the
// newest time may be a repeat; Commit decides, as the newest may still be on its way.
func (a *Appender) late(st *memseries.Sample, newest int64) error {
	if st.T < a.minT {
		return a.stageLate(st, &BoundsError{T: st.T, From: a.minT, To: a.h.bounds.acceptsTo()})
	}
	if st.T < newest {
		return a.stageLate(st, ErrOutOfOrder)
	}
	bit := memseries.Bit(st.Series)
	a.h.series.Shards.Lock(bit)
	why := lateBy(st, st.Series.PendingT(), st.Series.PendingSum()) // a commit may have come between
	a.h.series.Shards.Unlock(bit)
	if why == nil {
		// With a window another one is taken if the newest is deleted, and the same one if a late
		// one took its place.
		if a.h.late.window.Load() == 0 || (a.staged.late.refuse || !a.h.opts.Head.LastWriteWins) && !a.h.late.within.IsDeleted(st.Series, st.T) {
			return nil
		}
		why = ErrDuplicateSample
	}
	return a.stageLate(st, why)
}

// lateBy compares by sums, which are the bits of floats: a stale marker is a NaN, and NaN never
// equals itself.
func lateBy(st *memseries.Sample, newest int64, sum uint64) error {
	switch {
	case st.T < newest:
		return ErrOutOfOrder
	case st.Sum != sum:
		return ErrDuplicateSample
	default:
		return nil
	}
}

// outside looks at the clock when a sample is newer than the last look allowed.
func (a *Appender) outside(st *memseries.Sample) error {
	a.minT = a.h.bounds.minValid.Load()
	a.maxT = a.h.bounds.acceptsTo()
	switch {
	case st.T > a.maxT:
		return a.outOfBounds(st)
	case st.T < a.minT:
		return a.stageLate(st, &BoundsError{T: st.T, From: a.minT, To: a.h.bounds.acceptsTo()})
	default:
		return nil
	}
}

func (a *Appender) outOfBounds(st *memseries.Sample) error {
	return a.staged.refused.note(st, &BoundsError{T: st.T, From: a.minT, To: a.h.bounds.acceptsTo()})
}

// find returns a series that has no sample which counts, or none that its ref leads to,
// and pins it for as long as what is staged lives: only such series are removed. Once is enough for
// the samples of a new series that come one after the other.
func (a *Appender) find(s *memseries.Series, ls labels.Labels) (*memseries.Series, error) {
	if n := len(a.staged.pinned); s != nil && n > 0 && a.staged.pinned[n-1] == s {
		return s, nil
	}
	if s != nil {
		s.Pin()
		if s.Dead() {
			s.Unpin()
			s = nil
		}
	}
	if s == nil {
		var err error
		if s, err = a.seriesOf(ls); err != nil {
			return nil, err
		}
	}
	a.staged.pinned = append(a.staged.pinned, s)
	if !a.tracked {
		a.tracked = true
		a.cleanup = runtime.AddCleanup(a, (*staging).abandon, a.staged)
	}
	return s, nil
}

// seriesOf finds or creates the series of a label set and pins it.
func (a *Appender) seriesOf(ls labels.Labels) (*memseries.Series, error) {
	h := a.h
	if ls.Len() == 0 {
		return nil, ErrNotFound
	}
	if s := h.series.FindPinned(ls); s != nil {
		return s, nil
	}
	if err := checkLabels(ls, &h.opts.Limits); err != nil {
		h.commits.seriesRefused.Add(1)
		return nil, err
	}
	s, created, err := h.series.GetOrCreate(ls)
	if err != nil {
		h.commits.seriesRefused.Add(1)
		return nil, errors.WithMessagef(ErrLimit, "create series %s: %v", ls, err)
	}
	if created {
		h.commits.seriesCreated.Add(1)
	}
	return s, nil
}

// checkLabels checks a label set that is about to become a series.
func checkLabels(ls labels.Labels, lim *Limits) error {
	if err := ls.Validate(); err != nil {
		return err
	}
	if over(ls.Len(), lim.LabelsPerSeries) || ls.Len() > maxLabelsPerSeries {
		return aboveLimit("series has %d labels", ls.Len(), "LabelsPerSeries", lim.LabelsPerSeries)
	}
	sum := 0
	for l := range ls.All() {
		sum += len(l.Name) + len(l.Value)
		if over(len(l.Name), lim.LabelNameBytes) {
			return errors.WithMessagef(ErrLimit, "label name %.40q... has %d bytes, Limits.LabelNameBytes is %d", l.Name, len(l.Name), lim.LabelNameBytes)
		}
		if over(len(l.Value), lim.LabelValueBytes) {
			return errors.WithMessagef(ErrLimit, "value of label %q has %d bytes, Limits.LabelValueBytes is %d", l.Name, len(l.Value), lim.LabelValueBytes)
		}
	}
	if over(sum, lim.LabelSetBytes) {
		return aboveLimit("labels have %d bytes", sum, "LabelSetBytes", lim.LabelSetBytes)
	}
	if lim.NewSeries != nil {
		if err := lim.NewSeries(ls); err != nil {
			return &refusal{ErrLimit, errors.WithMessage(err, "refused by Limits.NewSeries")}
		}
	}
	return nil
}

// over compares with a limit that may be off.
func over(n, limit int) bool { return limit >= 0 && n > limit }

// aboveLimit says that a number of something is more than an option allows.
func aboveLimit(what string, n int, option string, limit int) error {
	return errors.WithMessagef(ErrLimit, what+", Limits.%s is %d", n, option, limit)
}

// Rollback drops what was staged. After Commit, or a second time, it does nothing.
func (a *Appender) Rollback() error {
	if a.staged == nil {
		return nil
	}
	a.end().release()
	return nil
}

// end takes what is staged from the Appender: nothing can be staged any more.
func (a *Appender) end() *staging {
	sg := a.staged
	a.staged = nil
	if a.tracked {
		a.cleanup.Stop()
		runtime.KeepAlive(a) // until here, or the cleanup might run as well
	}
	return sg
}
