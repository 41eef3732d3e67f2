package zstd_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/tsdbtest"
	"github.com/seed347100a3/tsdb/wal"
	"github.com/seed347100a3/tsdb/wal/zstd"
)

const dir = "data/wal"

// records are bodies of many lengths that repeat themselves, and one that does not.
func records() (all [][]byte) {
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 60 {
		record := []byte{1}
		for range 1 + i*i/4 {
			record = fmt.Appendf(record, "series %d of %d ", i, r.IntN(1000))
		}
		all = append(all, record)
	}
	noise := make([]byte, 5000)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	return append(all, append([]byte{1}, noise...))
}

// write commits records to a log of one segment, and returns the segment.
func write(t *testing.T, all [][]byte) []byte {
	t.Helper()
	disk := tsdbtest.NewMemFS()
	l, err := wal.Open(wal.Options{FS: disk, Dir: dir, Compression: zstd.Codec}, wal.Position{})
	require.NoError(t, err)
	for _, record := range all {
		var c wal.Commit
		c.Reset()
		c.End(append(c.Begin(), record...))
		require.NoError(t, l.Enqueue(&c))
		require.NoError(t, l.Write(&c))
	}
	require.NoError(t, l.Close())
	list, err := wal.List(disk, dir)
	require.NoError(t, err)
	require.Len(t, list.Segments, 1)
	segment, err := disk.ReadFile(list.Segments[0].Path)
	require.NoError(t, err)
	return segment
}

// reader reads a segment.
func reader(segment []byte) *wal.Reader {
	return wal.NewReader(bytes.NewReader(segment), int64(len(segment)), "00000000", 0)
}

func TestCodec_WhatIsWrittenIsRead(t *testing.T) {
	require.Equal(t, "zstd", zstd.Codec.String())
	want, size := records(), 0
	for _, record := range want {
		size += len(record)
	}
	segment := write(t, want)
	require.Less(t, len(segment), size/2)
	compressed := 0
	r := reader(segment)
	for r.Next() {
		if len(want) == 0 || !bytes.Equal(want[0], r.Record()) {
			continue // a record of the log's own
		}
		want = want[1:]
		if r.Compression() == wal.CompressionZstd {
			compressed++
		}
	}
	require.NoError(t, r.Err())
	require.Empty(t, want)
	require.Greater(t, compressed, 50, "short records, and noise, are stored as they are")
}

// place is where a record is that is compressed, in one frame.
type place struct{ off, end int64 }

// headerSize is what a frame has in front of its bytes: type, length, checksum.
const headerSize = 7

func compressedFrames(t *testing.T, segment []byte) (all []place) {
	t.Helper()
	r := reader(segment)
	for r.Next() {
		at := place{r.Offset(), r.End()}
		length := int64(binary.BigEndian.Uint16(segment[at.off+1:]))
		if r.Compression() == wal.CompressionZstd && at.end-at.off == headerSize+length {
			all = append(all, at)
		}
	}
	require.NoError(t, r.Err())
	require.NotEmpty(t, all)
	return all
}

// readTo reads a segment up to what is wrong with it.
func readTo(segment []byte) (offset int64, err error) {
	r := reader(segment)
	for r.Next() {
	}
	return r.Offset(), r.Err()
}

func TestReader_ADamagedFrameIsAnError(t *testing.T) {
	segment := write(t, records())
	for _, at := range compressedFrames(t, segment) {
		for off := at.off + headerSize; off < at.end; off += 1 + (at.end-at.off)/20 {
			bad := bytes.Clone(segment)
			bad[off] ^= 4
			where, err := readTo(bad)
			require.ErrorIs(t, err, encbuf.ErrCorrupt)
			require.Equal(t, at.off, where)
		}
	}
}

// A checksum that is right is of bytes that were written wrong: what cannot be decompressed is an
// error, and nothing takes more than there is.
func TestReader_BytesThatAreNoZstdAreAnError(t *testing.T) {
	segment := write(t, records())
	frames := compressedFrames(t, segment)
	changed := func(at place, change func(body []byte)) []byte {
		bad := bytes.Clone(segment)
		body := bad[at.off+headerSize : at.end]
		change(body)
		sum := crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))
		binary.BigEndian.PutUint32(bad[at.off+3:], sum)
		return bad
	}
	for name, change := range map[string]func(body []byte){
		"magic":   func(body []byte) { body[0] ^= 1 },
		"zeros":   func(body []byte) { clear(body) },
		"no end":  func(body []byte) { copy(body[4:], bytes.Repeat([]byte{0xff}, len(body))) },
		"skipped": func(body []byte) { binary.LittleEndian.PutUint32(body, 0x184d2a50) },
	} {
		for _, at := range frames {
			where, err := readTo(changed(at, change))
			require.ErrorIs(t, err, encbuf.ErrCorrupt, name)
			require.ErrorContains(t, err, "decompressed", name)
			require.Equal(t, at.off, where, name)
		}
	}
	_, err := readTo(changed(frames[0], func([]byte) {}))
	require.NoError(t, err, "nothing was changed")
}
