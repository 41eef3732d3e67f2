package wal

import (
	"encoding/hex"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// plainCRC is a CRC-32C bit by bit, plainUvarint a varint: the vectors are checked by
// code that shares nothing with what writes them.
func plainCRC(b []byte) uint32 {
	c := ^uint32(0)
	for _, x := range b {
		c ^= uint32(x)
		for range 8 {
			if c&1 != 0 {
				c = c>>1 ^ 0x82F63B78
			} else {
				c >>= 1
			}
		}
	}
	return ^c
}

func plainUvarint(v uint64) (b []byte) {
	for ; v > 127; v /= 128 {
		b = append(b, byte(v%128)+128)
	}
	return append(b, byte(v))
}

func plainRecord(typ byte, lead []byte, fields []uint64, covered []byte) []byte {
	b := append([]byte{typ}, lead...)
	for _, f := range fields {
		b = append(b, plainUvarint(f)...)
	}
	c := plainCRC(append(covered[:len(covered):len(covered)], b...))
	return append(b, byte(c>>24), byte(c>>16), byte(c>>8), byte(c))
}

func plainBodies(recs [][]byte) (b []byte) {
	for _, r := range recs {
		b = append(append(b, plainUvarint(uint64(len(r)))...), r...)
	}
	return b
}

type privateVectors struct {
	Headers []struct {
		Type    byte
		Segment uint64
		NextSeq uint64 `json:"next_seq"`
		NextRef uint64 `json:"next_ref"`
		Synced  uint64
		Hex     string
	}
	Frames []struct {
		Seq, Lag uint64
		Records  []string
		Hex      string
	}
	Trailers []struct {
		Records []string
		Hex     string
	}
	Segment struct {
		Commits [][]string
		Hex     string
	}
}

func unhex(t testing.TB, text ...string) (recs [][]byte) {
	t.Helper()
	for _, s := range text {
		b, err := hex.DecodeString(s)
		require.NoError(t, err)
		recs = append(recs, b)
	}
	return recs
}

func sumOf(recs [][]byte) (sum uint32) {
	for _, r := range recs {
		sum = commitSum(sum, r)
	}
	return sum
}

func TestPrivate_RecordsMatchTheirVectors(t *testing.T) {
	var v privateVectors
	readVectors(t, "private.json", &v)
	require.NotEmpty(t, v.Headers)
	for _, x := range v.Headers {
		want := unhex(t, x.Hex)[0]
		require.Equal(t, want, plainRecord(x.Type, []byte{1}, []uint64{x.Segment, x.NextSeq, x.NextRef, x.Synced}, nil))
		h := header{segment: x.Segment, nextSeq: x.NextSeq, nextRef: x.NextRef, synced: x.Synced}
		if x.Type == typeHeader {
			require.Equal(t, want, appendHeader(nil, h))
		}
		got, newer, ok := parseHeader(want)
		require.True(t, ok)
		require.False(t, newer)
		require.Equal(t, h, got)
	}
	require.NotEmpty(t, v.Frames)
	for _, x := range v.Frames {
		want, recs := unhex(t, x.Hex)[0], unhex(t, x.Records...)
		fields := []uint64{x.Seq, uint64(len(recs)), x.Lag}
		require.Equal(t, want, plainRecord(typeFrame, nil, fields, plainBodies(recs)))
		f := frame{seq: x.Seq, records: uint64(len(recs)), lag: x.Lag}
		require.Equal(t, want, appendFrame(nil, f, sumOf(recs)))
		got, ok := parseFrame(want)
		require.True(t, ok)
		f.crc = got.crc
		require.Equal(t, f, got)
	}
	for _, seq := range []uint64{1, 127, 128, 300, maxSeq} {
		recs := [][]byte{noise(uint32(seq), 200)}
		want := plainRecord(typeShortFrame, nil, []uint64{seq}, plainBodies(recs))
		require.Equal(t, want, appendShortFrame(nil, seq, sumOf(recs)))
		got, ok := parseFrame(want)
		require.True(t, ok)
		require.Equal(t, frame{seq: seq, records: 1, lag: seq, crc: got.crc}, got)
		require.Zero(t, got.synced())
	}
	require.NotEmpty(t, v.Trailers)
	for _, x := range v.Trailers {
		want, recs := unhex(t, x.Hex)[0], unhex(t, x.Records...)
		tr := trailer{records: uint64(len(recs)), crc: plainCRC(plainBodies(recs))}
		require.Equal(t, want, appendTrailer(nil, tr))
		require.Equal(t, tr.crc, sumOf(recs))
		got, ok := parseTrailer(want)
		require.True(t, ok)
		require.Equal(t, tr, got)
	}
}

func TestPrivate_LogWritesTheSegmentOfTheVector(t *testing.T) {
	var v privateVectors
	readVectors(t, "private.json", &v)
	fsys := tsdbtest.NewMemFS()
	l := openLog(t, fsys, Options{Sync: SyncNever(), NextRef: func() uint64 { return 2 }}, Position{})
	for i, recs := range v.Segment.Commits {
		write(t, l, unhex(t, recs...)...)
		if i == 0 {
			require.NoError(t, l.Sync())
		}
	}
	got, err := fsys.ReadFile(segmentPath(0))
	require.NoError(t, err)
	require.Equal(t, v.Segment.Hex, hex.EncodeToString(got))
}

func TestPrivate_CutOrWrongRecordsAreNotTaken(t *testing.T) {
	h := appendHeader(nil, header{segment: 3, nextSeq: 300, nextRef: 9, synced: 299})
	f := appendFrame(nil, frame{seq: 300, records: 2, lag: 1}, 0)
	short := appendShortFrame(nil, 300, 0)
	tr := appendTrailer(nil, trailer{records: 300, crc: 1})
	for n := range len(h) {
		_, _, ok := parseHeader(h[:n])
		require.False(t, ok)
	}
	for n := range len(f) {
		_, ok := parseFrame(f[:n])
		require.False(t, ok)
	}
	for n := range len(short) {
		_, ok := parseFrame(short[:n])
		require.False(t, ok)
	}
	for n := range len(tr) {
		_, ok := parseTrailer(tr[:n])
		require.False(t, ok)
	}
	for bit := range 8 * len(h) {
		bad := append([]byte(nil), h...)
		bad[bit/8] ^= 1 << (bit % 8)
		_, newer, ok := parseHeader(bad)
		require.False(t, ok)
		require.Equal(t, bit/8 == 1 && bad[1] > privateVersion, newer)
	}
	for _, bad := range []frame{{seq: 0}, {seq: 5, lag: 6}, {seq: maxSeq + 1}} {
		_, ok := parseFrame(appendFrame(nil, bad, 0))
		require.False(t, ok, "%+v", bad)
	}
	for _, bad := range []uint64{0, maxSeq + 1} {
		_, ok := parseFrame(appendShortFrame(nil, bad, 0))
		require.False(t, ok, "%d", bad)
	}
	_, _, ok := parseHeader(appendHeader(nil, header{nextSeq: maxSeq + 1}))
	require.False(t, ok)
	for _, f := range [][]byte{f, short} {
		_, ok = parseFrame(append(f, 0))
		require.False(t, ok, "trailing bytes")
	}
}

// The watermark stands in a full frame as soon as it has moved, and then again and again; frames
// between those are short, and none of it is lost by a write that fails.
func TestPrivate_FramesRepeatTheWatermarkNowAndThen(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	fsys := faultfs.New(disk)
	l := openLog(t, fsys, Options{Sync: SyncNever()}, Position{})
	short := func(n int) (list []bool) {
		for range n {
			list = append(list, true)
		}
		return list
	}
	want := short(maxShort)
	for range maxShort {
		write(t, l, []byte("\x02one"))
	}
	write(t, l, []byte("\x02again"))
	write(t, l, []byte("\x02one"), []byte("\x02two"))
	want = append(want, false, false)
	require.NoError(t, l.Sync())
	write(t, l, []byte("\x02moved"))
	write(t, l, []byte("\x02after that"))
	want = append(want, false, true)
	require.NoError(t, l.Sync())
	fsys.Inject(faultfs.Fault{Kinds: []tsdbtest.OpKind{tsdbtest.OpWrite}, Half: true, Err: syscall.EIO})
	_, err := commit(l, []byte("\x02refused"))
	require.ErrorIs(t, err, ErrNotCommitted)
	write(t, l, []byte("\x02the first that says it"))
	want = append(want, false)

	seg, err := disk.ReadFile(segmentPath(0))
	require.NoError(t, err)
	var got []bool
	for _, it := range readItems(t, seg) {
		if len(it.rec) > 0 && isFrame(it.rec) {
			got = append(got, it.rec[0] == typeShortFrame)
		}
	}
	require.Equal(t, want, got)
	r := replay(t, disk, 1)
	require.Equal(t, uint64(len(want)-1), r.Watermark)
	require.Equal(t, len(want), r.Commits)
	require.Empty(t, r.Damages)
}
