package read

import (
	"context"
	"slices"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/samplemerge"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
	"github.com/seed347100a3/tsdb/labels"
)

// What tests of package read_test need; nothing else reaches inside.

// FakeSource is a place with series, as blocks will be: labels to samples.
type FakeSource []FakeSeries

// FakeSeries is a series of it. Samples are chunked by two.
type FakeSeries struct {
	Labels labels.Labels
	T      []int64
	V      []float64
	Split  bool // between outline and open: chunks had four samples before
}

// Over returns a Query over places whose series are sorted by labels.
func Over(mint, maxt int64, places ...FakeSource) *Query {
	q := &Query{}
	q.Open(mint, maxt, nil, &LabelMemory{})
	for i, p := range places {
		q.sources = append(q.sources, &fakeReader{FakeSource: p, bounds: samplemerge.Bounds{From: mint, To: maxt}, place: i, id: NewPlaceID()})
	}
	return q
}

type fakeReader struct {
	FakeSource
	bounds  samplemerge.Bounds
	place   int
	id      PlaceID
	numbers []labels.Label // by key
}

func (r *fakeReader) narrow(mint, maxt int64, _ bool) source {
	n := *r
	n.bounds.From, n.bounds.To = max(mint, r.bounds.From), min(maxt, r.bounds.To)
	return &n
}

func (r *fakeReader) selectSeries(_ context.Context, ms []*labels.Matcher, _ bool, _ *[]error) (seriesCursor, error) {
	out := seriesList{at: r.id}
	for i, s := range r.FakeSource {
		ok := true
		for _, m := range ms {
			ok = ok && m.Matches(s.Labels.Get(m.Name()))
		}
		if ok {
			out.left = append(out.left, fakeOpen{s, uint64(i), r.bounds, r})
		}
	}
	return &out, nil
}

func (r *fakeReader) anySeries(ctx context.Context, ms []*labels.Matcher, passed *[]error) (seriesCursor, error) {
	return r.selectSeries(ctx, ms, true, passed)
}

func (r *fakeReader) reach() (mint, maxt int64) { return r.bounds.From, r.bounds.To }

// seriesList is a cursor over series that are at hand.
type seriesList struct {
	left []sourceSeries
	at   PlaceID
}

func (l *seriesList) next(context.Context) (sourceSeries, error) {
	if len(l.left) == 0 {
		return nil, nil
	}
	s := l.left[0]
	l.left = l.left[1:]
	return s, nil
}

func (l *seriesList) most() int        { return len(l.left) }
func (l *seriesList) allPresent() bool { return false }
func (l *seriesList) place() PlaceID   { return l.at }

func (r *fakeReader) labelNames(context.Context, []*labels.Matcher, *[]error) ([]string, error) {
	var names []string
	for _, s := range r.FakeSource {
		for l := range s.Labels.All() {
			names = mergeStrings(names, []string{l.Name})
		}
	}
	return names, nil
}

func (r *fakeReader) labelValues(_ context.Context, name string, _ []*labels.Matcher, _ *[]error) ([]string, error) {
	var values []string
	for _, s := range r.FakeSource {
		if s.Labels.Has(name) {
			values = mergeStrings(values, []string{s.Labels.Get(name)})
		}
	}
	return values, nil
}

type fakeOpen struct {
	s FakeSeries
	n uint64
	b samplemerge.Bounds
	r *fakeReader
}

func (s fakeOpen) number() uint64 { return s.n }

// labelKeys are numbers that differ from place to place; every third place has none.
func (s fakeOpen) labelKeys(dst []uint64) []uint64 {
	if s.r.place%3 == 2 {
		return dst
	}
	for l := range s.s.Labels.All() {
		i := slices.Index(s.r.numbers, l)
		if i < 0 {
			i = len(s.r.numbers)
			s.r.numbers = append(s.r.numbers, l)
		}
		dst = append(dst, uint64(i))
	}
	return dst
}

func (s fakeOpen) labelText(dst []byte, key uint64) ([]byte, int, error) {
	l := s.r.numbers[key]
	return append(append(dst, l.Name...), l.Value...), len(l.Name), nil
}

// present is known of some of the samples only, so that there is something to look at.
func (s fakeOpen) present() bool { return s.b.Shows(s.s.T[0]) }

func (s fakeOpen) span() (mint, maxt int64) {
	return max(s.b.From, s.s.T[0]), min(s.b.To, s.s.T[len(s.s.T)-1])
}

func (s fakeOpen) labels() labels.Labels { return s.s.Labels }

func (s fakeOpen) appendLabels(dst []labels.Label) []labels.Label { return s.s.Labels.AppendTo(dst) }

func (s fakeOpen) outline(room *outlineRoom, _ bool) ([]index.ChunkMeta, samplemerge.Bounds, bool) {
	size := 2
	if s.s.Split {
		size = 4
	}
	for i := 0; i < len(s.s.T); i += size {
		room.chunks = append(room.chunks, index.ChunkMeta{MinT: s.s.T[i], MaxT: s.s.T[min(i+size, len(s.s.T))-1]})
	}
	return room.chunks, s.b, false
}

func (s fakeOpen) open(chunkSource) chunkSource { return &fakeChunks{s: s.s, in: s.b} }

type fakeChunks struct {
	s   FakeSeries
	in  samplemerge.Bounds
	enc xorchunk.Encoder
	buf []byte
}

func (c *fakeChunks) Place(err error) error { return err }

func (c *fakeChunks) Next(mint int64, out *samplemerge.Chunk) (bool, error) {
	for len(c.s.T) > 0 && c.s.T[min(2, len(c.s.T))-1] < mint {
		c.s.T, c.s.V = c.s.T[min(2, len(c.s.T)):], c.s.V[min(2, len(c.s.V)):]
	}
	n := min(2, len(c.s.T))
	if n == 0 {
		return false, nil
	}
	c.enc.Reset()
	for i := range n {
		if err := c.enc.Append(c.s.T[i], c.s.V[i]); err != nil {
			return false, err
		}
	}
	c.buf = c.enc.AppendTo(c.buf[:0])
	*out = samplemerge.Chunk{Encoding: chunkenc.EncXOR, Data: c.buf, MinT: c.s.T[0], MaxT: c.s.T[n-1], Bounds: c.in}
	c.s.T, c.s.V = c.s.T[n:], c.s.V[n:]
	return true, nil
}

// KeptTexts is the table of the texts of labels that were asked for, of a head of so many series.
type KeptTexts struct {
	*textTable
	all labelTexts
}

// NewKeptTexts returns an empty one.
func NewKeptTexts(series int) *KeptTexts {
	k := &KeptTexts{}
	k.textTable = k.all.of(series)
	return k
}

func (k *KeptTexts) Keep(ref uint64, text labels.Labels)   { k.keep(ref, text) }
func (k *KeptTexts) Find(ref uint64) (labels.Labels, bool) { return k.find(ref) }
func (k *KeptTexts) Places() int                           { return len(k.sets) * labelWays }
func (k *KeptTexts) Bytes() int64                          { return k.bytes.Load() }

// Mix lets the tags of a series' places say that they are of another one.
func (k *KeptTexts) Mix(ref, other uint64) {
	for i := range k.set(ref).tags {
		k.set(other).tags[i].Store(other << tagSizeBits)
		k.set(other).texts[i].Store(k.set(ref).texts[i].Load())
	}
}

// TextBytes is the sum over the texts that are there, with what each entry takes beside it.
func (k *KeptTexts) TextBytes() (sum int64) {
	for i := range k.sets {
		for j := range k.sets[i].texts {
			if e := k.sets[i].texts[j].Load(); e != nil {
				sum += int64(e.text.SizeBytes()) + keptTextBytes
			}
		}
	}
	return sum
}
