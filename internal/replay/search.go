package replay

import (
	"bytes"
	"context"
	"sort"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/logreach"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/wal"
)

// Remade is a chunk that is made anew of what the log has of it.
type Remade struct {
	MinT, MaxT int64 // of its samples
	Enc        chunkenc.Encoding
	Data       []byte // nil: no sample is left
	Samples    int
}

// Search makes full chunks anew that cannot be read from their files: the log has their samples
// until a block does. Those of one series are in the order of time. all is the series of the head.
// It returns one for each, and whether the log lacks nothing. Nobody truncates the log meanwhile.
func Search(ctx context.Context, fsys fileutil.FS, walDir string, all *memseries.Directory, wanted []memseries.Located) (made []Remade, whole bool, err error) {
	search := &logSearch{all: all, wanted: map[uint64][]*wantedChunk{}, alias: map[uint64]uint64{}}
	found := make([]wantedChunk, len(wanted))
	for i, l := range wanted {
		found[i].Located = l
		ref := l.Series.Ref()
		search.wanted[ref] = append(search.wanted[ref], &found[i])
	}
	rep, err := wal.Replay(ctx, wal.ReplayOptions{FS: fsys, Dir: walDir, Decoders: 1, Apply: search.apply})
	if err != nil {
		return nil, false, errors.WithMessage(err, "read the log again")
	}
	for i := range found {
		c, err := found[i].encode()
		if err != nil {
			return nil, false, err
		}
		made = append(made, c)
	}
	return made, logreach.IsWhole(rep), nil
}

// wantedChunk is a chunk that cannot be read, and what the log has of it.
type wantedChunk struct {
	memseries.Located
	found []foundSample
}

type foundSample struct {
	record.Sample
	st     int64  // start timestamp
	body   []byte // of a histogram; nil: it is a float
	floats bool   // of a histogram
}

// logSearch looks for samples of some series in the log.
type logSearch struct {
	all    *memseries.Directory
	wanted map[uint64][]*wantedChunk // by ref of the series
	alias  map[uint64]uint64         // other refs that the log has for them
	dec    record.SampleDecoder
	buf    [256]record.Sample
	starts [256]int64
}

func (l *logSearch) apply(b *wal.Batch) error {
	for _, rec := range b.Records {
		switch record.TypeOf(rec.Data) {
		case record.TypeSeries:
			l.series(rec.Data)
		case record.TypeSamples, record.TypeSamplesV2:
			l.samples(rec.Data)
		default:
			if record.TypeOf(rec.Data).HoldsHistograms() {
				l.histograms(rec.Data)
			}
		}
	}
	return nil
}

// series learns refs that stand for a wanted series. A damaged record ends early: replay counts
// it, as it did when the database was opened.
func (l *logSearch) series(rec []byte) {
	var dec record.SeriesDecoder
	for dec.Reset(rec); dec.Next(); {
		ref := dec.Ref()
		ls, err := dec.Labels()
		if err != nil || l.all.ByRef(ref) != nil {
			continue
		}
		if s := l.all.ByLabels(ls, ls.Hash()); s != nil && l.wanted[s.Ref()] != nil {
			l.alias[ref] = s.Ref()
		}
	}
}

func (l *logSearch) samples(rec []byte) {
	l.dec.Reset(rec)
	for n := len(l.buf); n == len(l.buf); {
		var err error
		if n, err = l.dec.DecodeStarts(l.buf[:], l.starts[:]); err != nil {
			return
		}
		for i, s := range l.buf[:n] {
			if ref, ok := l.alias[s.Ref]; ok {
				s.Ref = ref
			}
			if of := l.wanted[s.Ref]; of != nil {
				takeSample(of, foundSample{Sample: s, st: l.starts[i]})
			}
		}
	}
}

func (l *logSearch) histograms(rec []byte) {
	var dec record.HistogramDecoder
	for dec.Reset(rec); dec.Next(); {
		ref := dec.Ref()
		if of, ok := l.alias[ref]; ok {
			ref = of
		}
		if of := l.wanted[ref]; of != nil && dec.Check() == nil { // others were not taken
			s := foundSample{Sample: record.Sample{Ref: ref, T: dec.T()}, st: dec.ST(), body: bytes.Clone(dec.Entry()), floats: dec.Floats()}
			takeSample(of, s)
		}
	}
}

// takeSample gives a sample to the chunk that it was in. The log has them in the order in which
// they came, and one that is not newer than the one before it was not taken.
func takeSample(of []*wantedChunk, s foundSample) {
	i := sort.Search(len(of), func(i int) bool { return of[i].MaxT >= s.T })
	if i == len(of) || s.T < of[i].MinT {
		return
	}
	d := of[i]
	if n := len(d.found); n == 0 || d.found[n-1].T < s.T {
		d.found = append(d.found, s)
	}
}

// encode makes a chunk of what was found.
func (w *wantedChunk) encode() (Remade, error) {
	if len(w.found) == 0 {
		return Remade{}, nil
	}
	var enc chunkenc.Encoder
	for i := range w.found {
		if err := w.found[i].encode(&enc); err != nil {
			return Remade{}, errors.WithMessagef(err, "make a chunk of series %d anew", w.Series.Ref())
		}
	}
	first, last := w.found[0].T, w.found[len(w.found)-1].T
	return Remade{MinT: first, MaxT: last, Enc: enc.Encoding(), Data: enc.AppendTo(nil), Samples: len(w.found)}, nil
}

func (s *foundSample) encode(enc *chunkenc.Encoder) error {
	switch {
	case s.body == nil:
		return enc.Append(s.T, s.V, s.st)
	case s.floats:
		var h histogram.FloatHistogram
		if err := record.ReadFloatHistogram(s.body, &h); err != nil {
			return err
		}
		return enc.AppendFloatHistogram(s.T, &h, s.st)
	default:
		var h histogram.Histogram
		if err := record.ReadHistogram(s.body, &h); err != nil {
			return err
		}
		return enc.AppendHistogram(s.T, &h, s.st)
	}
}
