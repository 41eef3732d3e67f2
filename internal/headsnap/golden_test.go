package headsnap

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/wal"
)

// hexBytes are bytes that stand in a golden as hex.
type hexBytes []byte

func (h *hexBytes) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	data, err := hex.DecodeString(text)
	*h = data
	return err
}

// golden is testdata/v1.json: version 1 of the format, for ever.
type golden struct {
	Series []struct {
		Ref        uint64
		Labels     [][2]string
		MinT, MaxT int64
		Chunk      hexBytes
		Last       float64
		Hex        hexBytes
	}
	Group  hexBytes // all of them
	Mapped struct {
		Series []struct {
			Ref    uint64
			Chunks [][4]int64 // ref, mint, maxt, samples
		}
		Hex hexBytes
	}
	Tombstones struct {
		Stones [][3]int64
		Hex    hexBytes
	}
	Gone struct {
		List [][2]uint64
		Hex  hexBytes
	}
	Sidecar struct {
		Segment   int
		NextSeq   uint64 `json:"next_seq"`
		NextRef   uint64 `json:"next_ref"`
		LastFrame uint32 `json:"last_frame"`
		Synced    uint64
		HeadStart int64 `json:"head_start"`
		Series    uint64
		Records   uint64
		Sum       uint32
		Bytes     int64
		Files     [][3]int64
		Hex       hexBytes
	}
}

func readJSON(t testing.TB, name string, v any) {
	t.Helper()
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, v))
}

func loadGolden(t testing.TB) (g golden) {
	readJSON(t, "testdata/v1.json", &g)
	return g
}

// records are the records of a golden, of all types.
func (g *golden) records() (recs [][]byte) {
	for _, s := range g.Series {
		recs = append(recs, s.Hex)
	}
	return append(recs, g.Group, g.Mapped.Hex, g.Tombstones.Hex, g.Gone.Hex, record.AppendMetadata(record.BeginMetadata(nil), 7, record.Metadata{Unit: "s", Help: "Seconds."}))
}

func (g *golden) mapped() (list []mappedSeries) {
	for _, s := range g.Mapped.Series {
		of := mappedSeries{Ref: s.Ref}
		for _, c := range s.Chunks {
			of.Chunks = append(of.Chunks, chunks.Mapped{Ref: chunks.Ref(c[0]), MinT: c[1], MaxT: c[2], Num: uint16(c[3])})
		}
		list = append(list, of)
	}
	return list
}

func (g *golden) meta() Meta {
	s := g.Sidecar
	m := Meta{
		Start: wal.Start{Segment: s.Segment, NextSeq: s.NextSeq, NextRef: s.NextRef, LastFrame: s.LastFrame, Synced: s.Synced}, HeadStart: s.HeadStart,
		Series: s.Series, Sum: wal.SnapshotSum{Records: s.Records, Checksum: s.Sum, Bytes: s.Bytes},
	}
	for _, f := range s.Files {
		m.Files = append(m.Files, chunks.HeadExtent{File: uint32(f[0]), Size: f[1], Tail: uint32(f[2])})
	}
	return m
}

func encodeSeries(s Series) []byte {
	b := beginSeries(nil, s.Ref, s.Labels.Len())
	for l := range s.Labels.All() {
		b = encbuf.AppendString(encbuf.AppendString(b, l.Name), l.Value)
	}
	return endSeries(b, &s.Chunk)
}

// mappedSeries are the full chunks of one series.
type mappedSeries struct {
	Ref    uint64
	Chunks []chunks.Mapped
}

func encodeMapped(list []mappedSeries) []byte {
	b := []byte{typeMapped}
	for _, s := range list {
		b = appendMapped(b, s.Ref, s.Chunks)
	}
	return b
}

func decodeMapped(rec []byte) (list []mappedSeries, err error) {
	var d MappedDecoder
	for d.Reset(rec); d.Next(); {
		s := mappedSeries{Ref: d.Ref(), Chunks: make([]chunks.Mapped, 0, d.Left())}
		for c, ok := d.Chunk(); ok; c, ok = d.Chunk() {
			s.Chunks = append(s.Chunks, c)
		}
		list = append(list, s)
	}
	return list, d.Err()
}

func encodeGone(list []Gone) []byte {
	b := []byte{typeGone}
	for _, g := range list {
		b = appendGone(b, g)
	}
	return b
}

func TestRecords_EqualTheGoldenBothWays(t *testing.T) {
	g := loadGolden(t)
	for _, v := range g.Series {
		var b labels.Builder
		for _, l := range v.Labels {
			b.Set(l[0], l[1])
		}
		want := Series{Ref: v.Ref, Labels: b.Labels()}
		if v.Chunk != nil {
			want.Chunk = Chunk{Encoding: chunkenc.EncXOR, Data: v.Chunk, MinT: v.MinT, MaxT: v.MaxT, LastSum: math.Float64bits(v.Last)}
		}
		require.Equal(t, []byte(v.Hex), encodeSeries(want))
		got, err := DecodeSeries(v.Hex)
		require.NoError(t, err)
		require.Equal(t, want.Labels.String(), got.Labels.String())
		got.Labels, want.Labels = labels.Labels{}, labels.Labels{}
		require.Equal(t, want, got)
	}
	group, each := []byte{typeGroup}, [][]byte(nil)
	for _, v := range g.Series {
		group = appendToGroup(group, v.Hex)
	}
	require.Equal(t, []byte(g.Group), group)
	require.Equal(t, KindGroup, KindOf(g.Group))
	require.NoError(t, EachSeries(g.Group, func(rec []byte) error {
		each = append(each, rec)
		return nil
	}))
	require.Len(t, each, len(g.Series))
	for i, rec := range each {
		require.Equal(t, []byte(g.Series[i].Hex), rec)
	}

	require.Equal(t, []byte(g.Mapped.Hex), encodeMapped(g.mapped()))
	list, err := decodeMapped(g.Mapped.Hex)
	require.NoError(t, err)
	require.Equal(t, g.mapped(), list)
	require.Equal(t, KindMapped, KindOf(g.Mapped.Hex))

	var stones tombstones.Set
	for _, s := range g.Tombstones.Stones {
		stones.Add(uint64(s[0]), tombstones.Interval{Mint: s[1], Maxt: s[2]})
	}
	require.Equal(t, []byte(g.Tombstones.Hex), appendTombstones(nil, &stones))
	set, err := DecodeTombstones(g.Tombstones.Hex)
	require.NoError(t, err)
	require.Equal(t, appendTombstones(nil, &stones), appendTombstones(nil, set))
	require.Equal(t, KindTombstones, KindOf(g.Tombstones.Hex))

	var gone []Gone
	for _, p := range g.Gone.List {
		gone = append(gone, Gone{Ref: p[0], Segment: int(p[1])})
	}
	require.Equal(t, []byte(g.Gone.Hex), encodeGone(gone))
	got, err := DecodeGone(g.Gone.Hex)
	require.NoError(t, err)
	require.Equal(t, gone, got)
	require.Equal(t, KindGone, KindOf(g.Gone.Hex))
}

func TestSidecar_EqualsTheGoldenBothWays(t *testing.T) {
	g := loadGolden(t)
	m := g.meta()
	require.Equal(t, []byte(g.Sidecar.Hex), encodeSidecar(&m))
	got, err := decodeSidecar(g.Sidecar.Hex)
	require.NoError(t, err)
	require.Equal(t, m, got)
}

// reference is testdata/chunk_snapshot.json.
type reference struct {
	Records  []hexBytes
	Expected struct {
		Labels  [][2]string
		Samples [][2]any
	}
}

// Records of floats and deleted intervals are those of the reference; the rest is refused, and
// says why.
func TestRecords_OfTheReferenceAreReadOrRefusedByName(t *testing.T) {
	var r reference
	readJSON(t, "testdata/chunk_snapshot.json", &r)
	require.Len(t, r.Records, 5)

	s, err := DecodeSeries(r.Records[0])
	require.NoError(t, err)
	require.EqualValues(t, 1, s.Ref)
	require.Equal(t, r.Expected.Labels[0], [2]string{"__name__", s.Labels.Get("__name__")})
	require.Equal(t, r.Expected.Labels[1], [2]string{"job", s.Labels.Get("job")})
	require.Equal(t, 2, s.Labels.Len())
	chunk, err := chunkenc.FromData(s.Chunk.Encoding, s.Chunk.Data)
	require.NoError(t, err)
	var ts []int64
	var last float64
	for it := chunk.Iterator(nil); it.Next() == chunkenc.ValFloat; {
		var at int64
		at, last = it.At()
		ts = append(ts, at)
	}
	require.EqualValues(t, chunk.NumSamples(), len(ts))
	require.Equal(t, []int64{s.Chunk.MinT, s.Chunk.MaxT}, []int64{ts[0], ts[len(ts)-1]})
	require.Equal(t, math.Float64bits(last), s.Chunk.LastSum)
	require.Equal(t, []byte(r.Records[0]), encodeSeries(s), "and it is what we write")

	for _, rec := range r.Records[1:3] {
		_, err := DecodeSeries(rec)
		var damage *encbuf.CorruptError
		require.ErrorAs(t, err, &damage)
		require.Positive(t, damage.Offset)
	}
	stones, err := DecodeTombstones(r.Records[3])
	require.NoError(t, err)
	require.Equal(t, []byte(r.Records[3]), appendTombstones(nil, stones))
	require.Equal(t, 1, stones.Len())
	require.Equal(t, KindUnknown, KindOf(r.Records[4]))
	require.Equal(t, KindUnknown, KindOf(nil))
}
