package blocklist

import (
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

var (
	first  = ulid.MustParseStrict("01HF7YAT000000000000000001")
	second = ulid.MustParseStrict("01HF7YAT000000000000000002")
	merged = ulid.MustParseStrict("01HF7YAT000000000000000003")
)

// example is the list of docs/format/blocks-list.md, and exampleHex its bytes: version 1, for ever.
var example = []Block{
	{ULID: first, MinTime: 1700000000000, MaxTime: 1700007200000},
	{ULID: merged, MinTime: -5, MaxTime: 20, Sources: []ulid.ULID{first, second}},
}

const exampleHex = "74624c73 01 02" +
	"018bcfe5680000000000000000000001 80a0abfef962 80bab703 00" +
	"018bcfe5680000000000000000000003 09 19 02 018bcfe5680000000000000000000001 018bcfe5680000000000000000000002" +
	"a05064ae"

func TestEncode_IsThatOfTheDocument(t *testing.T) {
	want, err := hex.DecodeString(strings.ReplaceAll(exampleHex, " ", ""))
	require.NoError(t, err)
	require.Equal(t, hex.EncodeToString(want), hex.EncodeToString(Encode(example)))
	got, err := Decode(want)
	require.NoError(t, err)
	require.Equal(t, example, got)
}

// With an empty block it is version 2, as the document says.
func TestEncode_OfAnEmptyBlock(t *testing.T) {
	for i := range example {
		list := slices.Clone(example)
		list[i].Empty = true
		b := Encode(list)
		require.Equal(t, byte(versionEmpty), b[4])
		got, err := Decode(b)
		require.NoError(t, err)
		require.Equal(t, list, got)
	}
	list := slices.Clone(example)
	list[1].Empty = true
	want := "74624c73 02 02" +
		"018bcfe5680000000000000000000001 80a0abfef962 80bab703 00" +
		"018bcfe5680000000000000000000003 09 19 05 018bcfe5680000000000000000000001 018bcfe5680000000000000000000002"
	require.Equal(t, strings.ReplaceAll(want, " ", ""), hex.EncodeToString(Encode(list)[:len(Encode(list))-4]))
}

func TestDecode_TakesEveryTimeThereIs(t *testing.T) {
	list := []Block{
		{ULID: first, MinTime: math.MinInt64, MaxTime: math.MaxInt64},
		{ULID: second, MinTime: math.MinInt64, MaxTime: math.MinInt64},
		{ULID: merged, MinTime: math.MaxInt64, MaxTime: math.MaxInt64},
	}
	got, err := Decode(Encode(list))
	require.NoError(t, err)
	require.Equal(t, list, got)
	got, err = Decode(Encode(nil))
	require.NoError(t, err)
	require.Empty(t, got)
}

// A list with any byte changed, cut anywhere or longer is no list.
func TestDecode_NoticesEveryChange(t *testing.T) {
	good := Encode(example)
	for i := range good {
		for bit := range 8 {
			bad := slices.Clone(good)
			bad[i] ^= 1 << bit
			_, err := Decode(bad)
			require.ErrorIs(t, err, encbuf.ErrCorrupt, "byte %d", i)
		}
		_, err := Decode(good[:i])
		require.ErrorIs(t, err, encbuf.ErrCorrupt, "%d bytes", i)
	}
	_, err := Decode(append(slices.Clone(good), 0))
	require.ErrorIs(t, err, encbuf.ErrCorrupt)
}

// resum gives bytes the checksum that belongs to them.
func resum(b []byte) []byte {
	return encbuf.AppendBE32(slices.Clone(b[:len(b)-crcBytes]), encbuf.Checksum(b[:len(b)-crcBytes]))
}

func TestDecode_BelievesNoCountAndNoLength(t *testing.T) {
	header := append(encbuf.AppendBE32(nil, magic), version)
	for name, body := range map[string][]byte{
		"more blocks than bytes":    encbuf.AppendUvarint(nil, 1<<40),
		"more sources than bytes":   encbuf.AppendUvarint(append(append([]byte{1}, first[:]...), 0, 1), 1<<50),
		"an end behind all times":   append(encbuf.AppendUvarint(append(append([]byte{1}, first[:]...), 2), math.MaxUint64), 0),
		"something behind the last": {0, 7},
	} {
		_, err := Decode(resum(append(append(slices.Clone(header), body...), 0, 0, 0, 0)))
		require.ErrorIs(t, err, encbuf.ErrCorrupt, name)
	}
	_, err := Decode(resum(append(append(encbuf.AppendBE32(nil, magic), versionEmpty+1), 0, 0, 0, 0, 0)))
	require.ErrorContains(t, err, "unknown version")
}

func FuzzDecode(f *testing.F) {
	f.Add(Encode(example))
	f.Add(Encode(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < crcBytes {
			return
		}
		list, err := Decode(resum(b))
		if err != nil {
			require.ErrorIs(t, err, encbuf.ErrCorrupt)
			return
		}
		again, err := Decode(Encode(list))
		require.NoError(t, err)
		require.Equal(t, list, again)
	})
}

func TestRead_DamagedListIsNone(t *testing.T) {
	fs := tsdbtest.NewMemFS()
	require.NoError(t, fs.MkdirAll("data"))
	list, state, err := Read(fs, "data")
	require.NoError(t, err)
	require.Equal(t, None, state)
	require.Empty(t, list)

	require.NoError(t, Write(fs, "data", example))
	list, state, err = Read(fs, "data")
	require.NoError(t, err)
	require.Equal(t, Good, state)
	require.Equal(t, example, list)

	require.NoError(t, fs.WriteFile("data/blocks.tsdb", []byte("not one")))
	list, state, err = Read(fs, "data")
	require.NoError(t, err)
	require.Equal(t, Damaged, state)
	require.Empty(t, list)

	require.NoError(t, fs.WriteFile("data/tmp-blocks.tsdb", []byte("left over")))
	require.NoError(t, Remove(fs, "data"))
	require.NoError(t, Remove(fs, "data"), "and again")
	require.Equal(t, []string{"data/"}, fs.Files())
	require.NoError(t, fs.MkdirAll("data/blocks.tsdb"))
	_, state, err = Read(fs, "data")
	require.NoError(t, err)
	require.Equal(t, Damaged, state)
}

// Whatever a power failure keeps, the old list is there or the new one, or none after Remove.
func TestWrite_PowerCutAnywhereLeavesOldOrNew(t *testing.T) {
	before := tsdbtest.NewMemFS()
	require.NoError(t, before.MkdirAll("data"))
	require.NoError(t, before.SyncDir("."))
	require.NoError(t, Write(before, "data", example[:1]))
	for what, change := range map[string]func(fs *tsdbtest.MemFS) error{
		"write":  func(fs *tsdbtest.MemFS) error { return Write(fs, "data", example) },
		"remove": func(fs *tsdbtest.MemFS) error { return Remove(fs, "data") },
	} {
		fs := before.KillClone()
		fs.SetHook(func(tsdbtest.Op) error {
			for state := range fs.CrashStates(50) {
				list, found, err := Read(state, "data")
				require.NoError(t, err)
				require.NotEqual(t, Damaged, found, what)
				if found == Good {
					require.True(t, len(list) == 1 || what == "write" && len(list) == 2)
				} else {
					require.Equal(t, "remove", what)
				}
			}
			return nil
		})
		require.NoError(t, change(fs))
		fs.SetHook(nil)
		for state := range fs.CrashStates(50) {
			list, found, err := Read(state, "data")
			require.NoError(t, err)
			require.Equal(t, what == "write", found == Good)
			require.Len(t, list, map[string]int{"write": 2, "remove": 0}[what])
		}
	}
}
