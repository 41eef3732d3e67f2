package headsnap

import (
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/labels"
)

// maxGrowth is how many bytes a decoder may take for each byte of its input, at most;
// slack is what the runtime and an error need.
const (
	maxGrowth = 64
	slack     = 256 << 10
)

// requireDamage checks that an error is damage with a place inside the input.
func requireDamage(t testing.TB, err error, input []byte) {
	t.Helper()
	var damage *encbuf.CorruptError
	require.ErrorAs(t, err, &damage)
	require.NotEmpty(t, damage.Reason)
	require.GreaterOrEqual(t, damage.Offset, int64(0))
	require.LessOrEqual(t, damage.Offset, int64(len(input)))
}

// checkAnyRecord decodes hostile bytes with every decoder. What is accepted is the same when it is
// written again.
func checkAnyRecord(t testing.TB, rec []byte) {
	t.Helper()
	if s, err := DecodeSeries(rec); err != nil {
		requireDamage(t, err, rec)
	} else {
		again, err := DecodeSeries(encodeSeries(s))
		require.NoError(t, err)
		require.Zero(t, labels.Compare(s.Labels, again.Labels))
		s.Labels, again.Labels = labels.Labels{}, labels.Labels{}
		require.Equal(t, s, again)
	}
	list, err := decodeMapped(rec)
	if err != nil {
		requireDamage(t, err, rec)
	} else {
		again, err := decodeMapped(encodeMapped(list))
		require.NoError(t, err)
		require.Equal(t, list, again)
	}
	for _, s := range list {
		for i, c := range s.Chunks {
			require.LessOrEqual(t, c.MinT, c.MaxT)
			require.True(t, i == 0 || s.Chunks[i-1].MaxT < c.MinT && s.Chunks[i-1].Ref != c.Ref, "%+v", s)
		}
	}
	if set, err := DecodeTombstones(rec); err != nil {
		requireDamage(t, err, rec)
	} else {
		again, err := DecodeTombstones(appendTombstones(nil, set))
		require.NoError(t, err)
		require.Equal(t, set.Refs(), again.Refs())
		for _, ref := range set.Refs() {
			require.Equal(t, set.Of(ref), again.Of(ref))
		}
	}
	if gone, err := DecodeGone(rec); err != nil {
		requireDamage(t, err, rec)
	} else {
		again, err := DecodeGone(encodeGone(gone))
		require.NoError(t, err)
		require.Equal(t, gone, again)
	}
	if err := readRecord(rec); err != nil {
		requireDamage(t, err, rec)
	}
}

// measured runs f and checks that it took memory in proportion to n bytes of input.
func measured(t testing.TB, n int, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	require.LessOrEqual(t, after.TotalAlloc-before.TotalAlloc, uint64(maxGrowth*n+slack))
}

// readRecord reads a record, or a series of a group.
func readRecord(rec []byte) error {
	if len(rec) > 0 && rec[0] == typeSeries {
		_, err := DecodeSeries(rec)
		return err
	}
	_, err := checkRecord(rec, func(chunks.Mapped) {})
	return err
}

// FuzzRecord: any bytes as a record.
func FuzzRecord(f *testing.F) {
	g := loadGolden(f)
	var r reference
	readJSON(f, "testdata/chunk_snapshot.json", &r)
	for _, rec := range g.records() {
		f.Add(rec)
	}
	for _, rec := range r.Records {
		f.Add([]byte(rec))
	}
	f.Fuzz(func(t *testing.T, rec []byte) {
		checkAnyRecord(t, rec)
		measured(t, len(rec), func() { _ = readRecord(rec) })
	})
}

// FuzzSidecar: any bytes as a sidecar, and any that have the right checksum.
func FuzzSidecar(f *testing.F) {
	g := loadGolden(f)
	f.Add([]byte(g.Sidecar.Hex))
	f.Add([]byte(g.Sidecar.Hex[:len(g.Sidecar.Hex)-4]))
	f.Fuzz(func(t *testing.T, b []byte) {
		checkSidecar(t, b)
		measured(t, len(b), func() { checkSidecar(t, encbuf.AppendBE32(b, encbuf.Checksum(b))) })
	})
}

func checkSidecar(t testing.TB, b []byte) {
	t.Helper()
	m, err := decodeSidecar(b)
	if err != nil {
		requireDamage(t, err, b)
		return
	}
	require.Positive(t, m.Start.Segment)
	require.Positive(t, m.Start.NextSeq)
	again, err := decodeSidecar(encodeSidecar(&m))
	require.NoError(t, err)
	require.Equal(t, m, again)
}

// Each bit and each length of the goldens: what is left either reads, or is damage with a place.
func TestRecords_EveryFlippedBitAndCutIsReadOrRefused(t *testing.T) {
	g := loadGolden(t)
	for _, rec := range g.records() {
		for bit := range 8 * len(rec) {
			flipped := append([]byte(nil), rec...)
			flipped[bit/8] ^= 1 << (bit % 8)
			checkAnyRecord(t, flipped)
		}
		refused := 0
		for n := range rec {
			checkAnyRecord(t, rec[:n])
			if readRecord(rec[:n]) != nil {
				refused++
			}
		}
		require.Greater(t, refused, len(rec)/3)
	}
	for _, s := range g.Series { // nothing but a whole one is a series
		for n := range s.Hex {
			_, err := DecodeSeries(s.Hex[:n])
			requireDamage(t, err, s.Hex)
		}
		_, err := DecodeSeries(append(s.Hex[:len(s.Hex):len(s.Hex)], 0))
		requireDamage(t, err, append(s.Hex[:len(s.Hex):len(s.Hex)], 0))
	}
}

func TestSidecar_EveryFlippedBitAndCutIsRefused(t *testing.T) {
	b := []byte(loadGolden(t).Sidecar.Hex)
	for bit := range 8 * len(b) {
		flipped := append([]byte(nil), b...)
		flipped[bit/8] ^= 1 << (bit % 8)
		_, err := decodeSidecar(flipped)
		requireDamage(t, err, flipped)
	}
	body := b[:len(b)-4]
	for n := range body { // cut, and with the right checksum
		cut := encbuf.AppendBE32(append([]byte(nil), body[:n]...), encbuf.Checksum(body[:n]))
		_, err := decodeSidecar(cut)
		requireDamage(t, err, cut)
		_, err = decodeSidecar(b[:n])
		requireDamage(t, err, b)
	}
	longer := append(append([]byte(nil), body...), 0)
	_, err := decodeSidecar(encbuf.AppendBE32(longer, encbuf.Checksum(longer)))
	require.ErrorContains(t, err, "behind the end")
	g := loadGolden(t)
	for _, m := range []Meta{{}, g.meta()} {
		m.Start.Segment = 0
		_, err = decodeSidecar(encodeSidecar(&m))
		require.ErrorContains(t, err, "impossible place")
	}
}

// Counts that the input cannot hold, and numbers out of their range, take no memory.
func TestRecords_HostileNumbersAreDamage(t *testing.T) {
	const huge = math.MaxUint64
	series := encbuf.AppendUvarint(encbuf.AppendBE64([]byte{typeSeries}, 1), huge)
	mapped := encbuf.AppendUvarint(encbuf.AppendUvarint([]byte{typeMapped}, 1), huge)
	stones := encbuf.AppendUvarint([]byte{typeTombstones}, huge)
	chunk := beginSeries(nil, 1, 0)
	chunk = encbuf.AppendBE64(append(encbuf.AppendBE64(chunk, 0), 1), 0)
	chunk = encbuf.AppendUvarint(append(encbuf.AppendBE64(chunk, 0), 1), huge)
	for _, rec := range [][]byte{series, mapped, stones, chunk} {
		measured(t, len(rec), func() { requireDamage(t, readRecord(rec), rec) })
	}
	for name, of := range map[string][]chunks.Mapped{
		"ends before it begins":    {{Ref: 9, MinT: 5, MaxT: 4, Num: 1}},
		"overlap":                  {{Ref: 9, MinT: 1, MaxT: 5, Num: 1}, {Ref: 10, MinT: 5, MaxT: 6, Num: 1}},
		"overlap of all that is 0": {{Ref: 9, Num: 1}, {Ref: 10, MinT: -5, MaxT: 6, Num: 1}},
		"file order":               {{Ref: 9, MinT: 1, MaxT: 5, Num: 1}, {Ref: 9, MinT: 6, MaxT: 6, Num: 1}},
		"no place":                 {{MinT: 1, MaxT: 5, Num: 1}},
	} {
		rec := encodeMapped([]mappedSeries{{Ref: 1, Chunks: of}})
		_, err := decodeMapped(rec)
		require.ErrorContains(t, err, "full chunk", name)
		requireDamage(t, err, rec)
	}
	two := encodeMapped([]mappedSeries{{Ref: 1, Chunks: []chunks.Mapped{{Ref: 9, Num: 1}, {Ref: 10, MinT: 1, MaxT: 1, Num: 1}}}, {Ref: 2}})
	var d MappedDecoder
	d.Reset(two)
	require.True(t, d.Next())
	require.Equal(t, 2, d.Left())
	require.True(t, d.Next(), "chunks that nobody asks for are passed over")
	require.EqualValues(t, 2, d.Ref())
	require.Zero(t, d.Left())
	require.False(t, d.Next())
	require.NoError(t, d.Err())
}
