package remote

import (
	"context"
	"encoding/binary"
	"math"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/labels"
)

// madeAnswer is series that are made as they are sent: n of them with 120 samples each,
// or one that has all. What makes them leaves next to no garbage.
type madeAnswer struct {
	n      int
	one    bool
	name   [2]labels.Label
	digits []byte
}

const madeSamples = 120

func (m *madeAnswer) labels(i int) []labels.Label {
	if m.one {
		i = 0
	}
	m.digits = strconv.AppendInt(m.digits[:0], int64(100_000_000+i), 10)
	m.name = [2]labels.Label{{Name: "__name__", Value: "requests_total"}, {Name: "series", Value: string(m.digits)}}
	return m.name[:]
}

func (m *madeAnswer) time(i, k int) int64 {
	if !m.one {
		i = 0
	}
	return 1_700_000_000_000 + int64(i*madeSamples+k)*1000
}

func (m *madeAnswer) streamed(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", chunksContentType)
	out := newPacedWriter(w, time.Minute)
	var enc chunkenc.Encoder
	var data []byte
	e := frameEncoder{limit: 1}
	for i := range m.n {
		enc.Reset()
		for k := range madeSamples {
			if err := enc.Append(m.time(i, k), float64(k), 0); err != nil {
				return err
			}
		}
		data = enc.AppendTo(data[:0])
		e.begin(m.labels(i))
		e.add(m.time(i, 0), m.time(i, madeSamples-1), chunkenc.EncXOR, data)
		e.finish(0)
		if _, err := out.Write(e.complete()); err != nil {
			return err
		}
		e.drop()
	}
	return out.finish(nil)
}

// samples appends the samples of a series, or of a part of the one, which have the same
// size each.
func (m *madeAnswer) samples(b []byte, i int) []byte {
	for k := range madeSamples {
		b = append(b, bytesTag(2), 16, fixed64Tag(1), 1, 2, 3, 4, 5, byte(k), 0xf0, 0x3f, varintTag(2))
		b = binary.AppendUvarint(b, uint64(m.time(i, k)))
	}
	return b
}

func (m *madeAnswer) sampled(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", samplesContentType)
	out := newPacedWriter(w, time.Minute)
	names := appendLabels(nil, m.labels(0))
	parts := len(m.samples(nil, 0)) // bytes
	series := uint64(len(names) + parts)
	if m.one {
		series = uint64(len(names) + m.n*parts)
	}
	head := sizedTag(series)
	result := uint64(m.n) * (uint64(len(head)) + series)
	if m.one {
		result = uint64(len(head)) + series
	}
	e, err := newBlockEncoder(out, uint64(len(sizedTag(result)))+result)
	if err != nil {
		return err
	}
	b := sizedTag(result)
	for i := range m.n {
		if i == 0 || !m.one {
			b = appendLabels(append(b, head...), m.labels(i))
		}
		b = m.samples(b, i)
		if err := e.write(b); err != nil {
			return err
		}
		b = b[:0]
	}
	if err := e.flush(); err != nil {
		return err
	}
	return out.finish(nil)
}

// ServeHTTP implements http.Handler.
func (m *madeAnswer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := readHandler{opts: (*ReadOptions)(nil).withDefaults()}
	req, err := h.receive(w, r)
	if err == nil && req.accepted[0] == typeChunks {
		err = m.streamed(w)
	} else if err == nil {
		err = m.sampled(w)
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

// sizedTag is the tag and the length of field 1.
func sizedTag(size uint64) (b []byte) {
	b = append(b, bytesTag(1))
	for ; size >= 0x80; size >>= 7 {
		b = append(b, byte(size)|0x80)
	}
	return append(b, byte(size))
}

// settledBytes is liveBytes when the server has filled the connection and waits: while it
// does not, it makes garbage.
func settledBytes() int64 {
	live := liveBytes()
	for range 3 {
		live = min(live, liveBytes())
	}
	return live
}

// clientPeak is what lives, at most, while an answer is read.
func clientPeak(t testing.TB, mode Mode, n int, one bool) (peak int64) {
	t.Helper()
	c := clientOf(t, &madeAnswer{n: n, one: one}, &ReadClientOptions{Mode: mode, MaxBufferBytes: 1})
	idle := settledBytes()
	set := c.Select(context.Background(), math.MinInt64, math.MaxInt64, nil, everyMatcher())
	samples, looks := 0, 0
	var it chunkenc.Iterator
	b := chunkenc.NewBatch(0)
	for s, err := range set.All() {
		require.NoError(t, err)
		it = s.Iterator(it)
		for it.NextBatch(b) != chunkenc.ValNone {
			samples += b.Len()
			if samples*4 > (looks+1)*n*madeSamples { // three times on the way
				looks++
				peak = max(peak, settledBytes()-idle)
			}
		}
		require.NoError(t, it.Err())
	}
	require.Equal(t, n*madeSamples, samples)
	return peak
}

func TestSelect_NeedsTheSameMemoryForAnyAnswer(t *testing.T) {
	few, many := 1000, 20_000 // 2.4 million samples, 43 MB of them as messages
	if !sweep.Whole() {
		many = 5000
	}
	for name, mode := range map[string]Mode{"streamed": ModeStreamed, "samples": ModeSamples} {
		for _, one := range []bool{false, true} {
			small, large := clientPeak(t, mode, few, one), clientPeak(t, mode, many, one)
			t.Logf("%s, one series: %v: %d bytes for a small answer, %d for a large one", name, one, small, large)
			require.Less(t, large, int64(4*mib))
			require.Less(t, large-small, int64(mib))
		}
	}
}

func BenchmarkSelect(b *testing.B) {
	for name, mode := range map[string]Mode{"streamed": ModeStreamed, "samples": ModeSamples} {
		b.Run(name, func(b *testing.B) {
			const n = 5000
			c := clientOf(b, &madeAnswer{n: n}, &ReadClientOptions{Mode: mode})
			b.ReportAllocs()
			for b.Loop() {
				samples := 0
				var it chunkenc.Iterator
				batch := chunkenc.NewBatch(0)
				for s, err := range c.Select(context.Background(), math.MinInt64, math.MaxInt64, nil, everyMatcher()).All() {
					require.NoError(b, err)
					it = s.Iterator(it)
					for it.NextBatch(batch) != chunkenc.ValNone {
						samples += batch.Len()
					}
				}
				require.Equal(b, n*madeSamples, samples)
			}
			b.ReportMetric(float64(n*madeSamples*b.N)/b.Elapsed().Seconds(), "samples/s")
		})
	}
}
