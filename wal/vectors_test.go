package wal

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// vectorRecord is a record that a rule generates.
type vectorRecord struct {
	CRC32C string
	Gen    string
	Len    int
	Seed   uint32
	SHA256 string
}

type segmentVector struct {
	Closed      bool
	Compression string
	Name        string
	Records     []vectorRecord
	SegmentSize int64 `json:"segment_size"`
	Segments    []struct {
		Data        string
		File        string
		FirstRecord int `json:"first_record"`
		NumRecords  int `json:"num_records"`
		Size        int
	}
}

func (r vectorRecord) bytes(t testing.TB) []byte {
	t.Helper()
	var b []byte
	if r.Gen == "lcg" {
		b = lcg(r.Seed, r.Len)
	} else {
		x := r.Seed
		for len(b) < r.Len {
			x = x*1664525 + 1013904223
			b = append(b, []string{"alpha-", "beta--", "gamma-", "delta-"}[x>>30]...)
		}
		b = b[:r.Len]
	}
	sum := sha256.Sum256(b)
	require.Equal(t, r.SHA256, hex.EncodeToString(sum[:]))
	require.Equal(t, r.CRC32C, checksumHex(b))
	return b
}

func readVectors(t testing.TB, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, into))
}

// vectorFile decodes a file: trailing zeros are stripped in vectors.
func vectorFile(t testing.TB, data string, size int) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(data)
	require.NoError(t, err)
	return append(b, make([]byte, size-len(b))...)
}

func segmentVectors(t testing.TB) []segmentVector {
	t.Helper()
	var file struct{ Vectors []segmentVector }
	readVectors(t, "wal_segments.json", &file)
	require.NotEmpty(t, file.Vectors)
	return file.Vectors
}

func TestReader_ReadsSegmentsOfTheReference(t *testing.T) {
	for _, v := range segmentVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			for _, seg := range v.Segments {
				data := vectorFile(t, seg.Data, seg.Size)
				r := NewReader(bytes.NewReader(data), int64(len(data)), seg.File, 0)
				for i := range seg.NumRecords {
					require.True(t, r.Next(), "record %d: %v", i, r.Err())
					require.True(t, bytes.Equal(v.Records[seg.FirstRecord+i].bytes(t), r.Record()), "record %d", i)
				}
				require.False(t, r.Next())
				require.NoError(t, r.Err())
				require.NoError(t, r.Close())
			}
		})
	}
}

func TestAppendRecord_WritesTheBytesOfTheReference(t *testing.T) {
	for _, v := range segmentVectors(t) {
		if v.Compression != "none" {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			for _, seg := range v.Segments {
				var got []byte
				for _, rec := range v.Records[seg.FirstRecord : seg.FirstRecord+seg.NumRecords] {
					data := rec.bytes(t)
					end := recordEnd(int64(len(got)), len(data))
					got = appendRecord(got, int64(len(got)), CompressionNone, data)
					require.EqualValues(t, len(got), end)
				}
				want := vectorFile(t, seg.Data, seg.Size)
				require.LessOrEqual(t, len(got), len(want))
				require.True(t, bytes.Equal(want[:len(got)], got))
				require.True(t, encbuf.AllZero(want[len(got):]), "only padding follows")
			}
		})
	}
}

func TestAppendRecord_RecordEndAgreesAtEveryPageOffset(t *testing.T) {
	sizes := []int{0, 1, 6, 7, 8, maxFragmentData - 1, maxFragmentData, maxFragmentData + 1, 2 * maxFragmentData, 2*maxFragmentData + 1}
	data := make([]byte, sizes[len(sizes)-1])
	for off := int64(0); off < PageSize; off++ {
		if off > 100 && off < PageSize-100 {
			continue
		}
		for _, n := range sizes {
			got := appendRecord(nil, off, CompressionNone, data[:n])
			require.Equal(t, off+int64(len(got)), recordEnd(off, n), "%d bytes at %d", n, off)
		}
	}
}

type corruptionVector struct {
	Name               string
	PatchBytes         [][2]int `json:"patch_bytes"`
	ReaderError        any      `json:"reader_error"`
	RecordsBeforeError int      `json:"records_before_error"`
	Size               int
}

// corruptionVectors returns the intact records and the damaged segments by name.
func corruptionVectors(t testing.TB) (records [][]byte, vectors []corruptionVector, segments [][]byte) {
	t.Helper()
	var file struct {
		BaseSegment string `json:"base_segment"`
		BaseSize    int    `json:"base_size"`
		Records     []vectorRecord
		Vectors     []corruptionVector
	}
	readVectors(t, "wal_corruption.json", &file)
	for _, r := range file.Records {
		records = append(records, r.bytes(t))
	}
	base := vectorFile(t, file.BaseSegment, file.BaseSize)
	for _, v := range file.Vectors {
		seg := bytes.Clone(base)
		if v.Name == "all-zero-page" || v.Name == "empty-file" {
			seg = make([]byte, v.Size)
		}
		for _, p := range v.PatchBytes {
			seg[p[0]] = byte(p[1])
		}
		segments = append(segments, seg[:v.Size])
	}
	return records, file.Vectors, segments
}

func TestReader_StopsAtDamageWhereTheReferenceDoes(t *testing.T) {
	records, vectors, segments := corruptionVectors(t)
	require.NotEmpty(t, vectors)
	for i, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			seg := segments[i]
			r := NewReader(bytes.NewReader(seg), int64(len(seg)), v.Name, 0)
			n := 0
			for ; r.Next(); n++ {
				require.True(t, bytes.Equal(records[n], r.Record()), "record %d", n)
			}
			require.Equal(t, v.RecordsBeforeError, n)
			if v.ReaderError == nil {
				require.NoError(t, r.Err())
				return
			}
			var corrupt *encbuf.CorruptError
			require.ErrorAs(t, r.Err(), &corrupt)
			require.Equal(t, v.Name, corrupt.File)
			require.LessOrEqual(t, corrupt.Offset, int64(len(seg)))
		})
	}
}

func TestReader_SkipGoesOnBehindDamage(t *testing.T) {
	records, vectors, segments := corruptionVectors(t)
	for i, v := range vectors {
		if v.ReaderError == nil || v.Size < 65536 {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			seg := segments[i]
			r := NewReader(bytes.NewReader(seg), int64(len(seg)), v.Name, 0)
			var got [][]byte
			for {
				for r.Next() {
					got = append(got, bytes.Clone(r.Record()))
				}
				if !r.Skip() {
					break
				}
			}
			require.NoError(t, r.Err())
			want := [][]byte{records[0], records[2], records[3]}
			switch v.Name {
			case "nonzero-in-padding":
				want = records
			case "length-too-big": // several bits of a length: the rest of the page is lost
				want = [][]byte{records[0], records[3]}
			}
			require.Equal(t, len(want), len(got))
			for i := range want {
				require.True(t, bytes.Equal(want[i], got[i]), "record %d", i)
			}
		})
	}
}
