package blockdir

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// metaTexts returns every meta file of the vectors.
func metaTexts(tb testing.TB) []string {
	tb.Helper()
	b, err := os.ReadFile("testdata/meta.json")
	require.NoError(tb, err)
	var v struct {
		Full   string `json:"meta_full"`
		Merges []struct {
			Inputs []string
			Result string
		}
	}
	require.NoError(tb, json.Unmarshal(b, &v))
	all := []string{v.Full}
	for _, m := range v.Merges {
		all = append(append(all, m.Inputs...), m.Result)
	}
	require.Greater(tb, len(all), 10)
	return all
}

func TestMeta_EqualsTheVectorsBothWays(t *testing.T) {
	for _, text := range metaTexts(t) {
		m, err := DecodeMeta([]byte(text))
		require.NoError(t, err, text)
		b, err := EncodeMeta(m)
		require.NoError(t, err)
		require.Equal(t, text, string(b))
		require.Equal(t, Extra{}, m.Extra)
	}
}

func TestMeta_EveryFieldIsRead(t *testing.T) {
	m, err := DecodeMeta([]byte(metaTexts(t)[0]))
	require.NoError(t, err)
	id := func(s string) ulid.ULID { return ulid.MustParseStrict("01HF000000000000000000000" + s) }
	require.Equal(t, Meta{
		ULID: id("7"), MinTime: -50, MaxTime: 7200000, Version: 1,
		Stats: Stats{10, 7, 3, 2, 4, 1},
		Compaction: Compaction{
			Level: 3, Sources: []ulid.ULID{id("7")}, Deletable: true,
			Parents: []Parent{{id("1"), 0, 100}}, Failed: true,
			Hints: []string{HintFromOutOfOrder, HintFromSelectedSeries, HintFromStaleSeries},
		},
	}, m)
	require.True(t, m.HasHint(HintFromOutOfOrder))
	require.False(t, m.HasHint("x"))
}

func TestMeta_UnknownFieldsAreKept(t *testing.T) {
	const text = `{"ulid":"01HF0000000000000000000001","minTime":1,"maxTime":2,"version":1,"thanos":{"labels":{"a":"b"},"n":1e3},
		"MINTIME":7,"stats":{"numSamples":3,"numPigeons":4},"compaction":{"level":1,"hints":null,"Level":9}}`
	m, err := DecodeMeta([]byte(text))
	require.NoError(t, err)
	require.EqualValues(t, 1, m.MinTime)
	require.Equal(t, 1, m.Compaction.Level)
	b, err := EncodeMeta(m)
	require.NoError(t, err)
	require.JSONEq(t, strings.Replace(text, `"hints":null,`, "", 1), string(b))
	again, err := DecodeMeta(b)
	require.NoError(t, err)
	require.Equal(t, m.Stats, again.Stats)
	require.Len(t, again.Extra.Meta, 2)

	m.Stats = Stats{}
	m.Extra.Stats = map[string]json.RawMessage{"only": json.RawMessage("1")}
	b, err = EncodeMeta(m)
	require.NoError(t, err)
	require.Contains(t, string(b), "\"stats\": {\n\t\t\"only\": 1\n\t}")
}

func TestDecodeMeta_RefusesWhatIsNoMeta(t *testing.T) {
	const good = `{"ulid":"01HF0000000000000000000001","minTime":1,"maxTime":2,"stats":{},"compaction":{"level":1},"version":1}`
	_, err := DecodeMeta([]byte(good))
	require.NoError(t, err)
	for name, text := range map[string]string{
		"nothing":             "",
		"zeros":               "\x00\x00\x00",
		"null":                "null",
		"array":               "[]",
		"cut":                 good[:len(good)-1],
		"more":                good + "}",
		"no ulid":             strings.Replace(good, `"ulid"`, `"udil"`, 1),
		"ulid null":           strings.Replace(good, `"01HF0000000000000000000001"`, `null`, 1),
		"ulid lower case":     strings.Replace(good, "01HF", "01hf", 1),
		"ulid too long":       strings.Replace(good, "01HF", "001HF", 1),
		"ulid beyond 48 bits": strings.Replace(good, "01HF", "8ZZZ", 1),
		"no minTime":          strings.Replace(good, "minTime", "mintime", 1),
		"no maxTime":          strings.Replace(good, "maxTime", "MaxTime", 1),
		"times swapped":       strings.Replace(good, `"minTime":1`, `"minTime":3`, 1),
		"time too large":      strings.Replace(good, `"maxTime":2`, `"maxTime":9223372036854775808`, 1),
		"time a fraction":     strings.Replace(good, `"maxTime":2`, `"maxTime":2.5`, 1),
		"negative count":      strings.Replace(good, `"stats":{}`, `"stats":{"numSamples":-1}`, 1),
		"stats a list":        strings.Replace(good, `"stats":{}`, `"stats":[]`, 1),
		"source no ulid":      strings.Replace(good, `"level":1`, `"sources":["x"]`, 1),
		"parent null":         strings.Replace(good, `"level":1`, `"parents":[null]`, 1),
		"parent without time": strings.Replace(good, `"level":1`, `"parents":[{"ulid":"01HF0000000000000000000001","minTime":1}]`, 1),
	} {
		_, err := DecodeMeta([]byte(text))
		var at *encbuf.CorruptError
		if !errors.As(err, &at) {
			require.ErrorIs(t, err, ErrUnsupportedVersion, name)
			t.Errorf("%s has no version problem", name)
			continue
		}
		require.LessOrEqual(t, at.Offset, int64(len(text)), name)
		require.Less(t, len(at.Error()), 200, name)
	}
	for _, v := range []string{"3", "17"} {
		_, err := DecodeMeta([]byte(strings.Replace(good, `"version":1`, `"version":`+v, 1)))
		require.ErrorIs(t, err, ErrUnsupportedVersion)
		require.ErrorContains(t, err, "version "+v)
	}
	for _, text := range []string{
		"{}", strings.Replace(good, `"version":1`, `"version":0`, 1), strings.Replace(good, `"version":1`, `"version":-1`, 1), strings.Replace(good, `"version"`, `"Version"`, 1),
	} {
		_, err := DecodeMeta([]byte(text))
		require.ErrorIs(t, err, encbuf.ErrCorrupt, "nobody ever wrote that: %s", text)
		require.ErrorContains(t, err, "no version")
	}
}

// metaDir writes text as a meta file, with the sidecar of sidecarOf if it is not empty.
func metaDir(tb testing.TB, text, sidecarOf string) *tsdbtest.MemFS {
	tb.Helper()
	m := tsdbtest.NewMemFS()
	require.NoError(tb, m.WriteFile("b/meta.json", []byte(text)))
	if sidecarOf != "" {
		meta, err := DecodeMeta([]byte(sidecarOf))
		require.NoError(tb, err)
		require.NoError(tb, RenewSidecar(m, "b", meta, false))
	}
	return m
}

func TestSidecar_TellsDamageFromWhatOthersMayChange(t *testing.T) {
	full := metaTexts(t)[0]
	without := func(lines ...string) string {
		text := full
		for _, l := range lines {
			require.Contains(t, text, l)
			text = strings.Replace(text, l, "", 1)
		}
		return text
	}
	with := func(old, new string) string {
		require.Contains(t, full, old)
		return strings.Replace(full, old, new, 1)
	}
	hints := full[strings.Index(full, ",\n\t\t\"hints\""):strings.Index(full, "\n\t},\n\t\"version\"")]
	split := "\n\t\t\"numFloatSamples\": 7,\n\t\t\"numHistogramSamples\": 3,"
	for _, c := range []struct {
		name, text     string
		damaged, stale bool
	}{
		{"as written", full, false, false},
		{"numTombstones", with(`"numTombstones": 1`, `"numTombstones": 7`), false, false},
		{"deletable", without("\n\t\t\"deletable\": true,"), false, false},
		{"failed", without("\n\t\t\"failed\": true,"), false, false},
		{"spaces and order", with("{\n\t\"ulid\": \"01HF0000000000000000000007\",\n\t\"minTime\": -50,", "{ \"minTime\": -50, \"ulid\": \"01HF0000000000000000000007\","), false, false},
		{"unknown fields", with(`"minTime": -50`, `"x": 1, "minTime": -50`), false, false},
		{"fields that an old writer drops", without(split, hints), false, true},
		{"one of them", without(hints), true, false},
		{"hint", with("from-out-of-order", "from-out-of-ordeR"), true, false},
		{"ulid", with("07\",\n\t\"minTime", "06\",\n\t\"minTime"), true, false},
		{"minTime", with("-50", "-51"), true, false},
		{"maxTime", with("7200000", "7200001"), true, false},
		{"numSamples", with(`"numSamples": 10`, `"numSamples": 11`), true, false},
		{"numFloatSamples", with(`"numFloatSamples": 7`, `"numFloatSamples": 6`), true, false},
		{"numSeries", with(`"numSeries": 2`, `"numSeries": 3`), true, false},
		{"numChunks", without("\n\t\t\"numChunks\": 4,"), true, false},
		{"level", with(`"level": 3`, `"level": 2`), true, false},
		{"source", with("07\"\n\t\t]", "06\"\n\t\t]"), true, false},
		{"parent", with("01\",", "02\","), true, false},
		{"parent's time", with(`"minTime": 0`, `"minTime": 1`), true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, side, err := readMeta(metaDir(t, c.text, full), "b")
			if !c.damaged {
				require.NoError(t, err)
				require.Equal(t, c.stale, side.stale)
				return
			}
			requireCorruptFile(t, err, "b/meta.json")
		})
	}
}

// requireCorruptFile: err is damage of the file, or directory, named.
func requireCorruptFile(tb testing.TB, err error, file string) {
	tb.Helper()
	var at *encbuf.CorruptError
	require.ErrorAs(tb, err, &at)
	require.ErrorIs(tb, err, encbuf.ErrCorrupt)
	require.Equal(tb, filepath.FromSlash(file), at.File, "%v", err)
}

func TestSidecar_MissingOrDamagedIsAcceptedAndRenewed(t *testing.T) {
	full := metaTexts(t)[0]
	meta, err := DecodeMeta([]byte(full))
	require.NoError(t, err)
	good := encodeSidecar(&meta, false)
	bad := [][]byte{nil, {}, good[:len(good)-1], append([]byte{0}, good...), make([]byte, 100_000)}
	for i := range len(good) * 8 {
		b := append([]byte{}, good...)
		b[i/8] ^= 1 << (i % 8)
		bad = append(bad, b)
	}
	for _, b := range bad {
		m := metaDir(t, full, "")
		if b != nil {
			require.NoError(t, m.WriteFile("b/meta.json.crc", b))
		}
		_, side, err := readMeta(m, "b")
		require.NoError(t, err)
		require.Equal(t, sidecarState{stale: true}, side)
		for _, inOrder := range []bool{true, false} {
			require.NoError(t, RenewSidecar(m, "b", meta, inOrder))
			_, side, err = readMeta(m, "b")
			require.NoError(t, err)
			require.Equal(t, sidecarState{inOrder: inOrder}, side)
		}
	}
	m := metaDir(t, full, "")
	require.NoError(t, m.MkdirAll("b/meta.json.crc"))
	_, side, err := readMeta(m, "b")
	require.NoError(t, err)
	require.True(t, side.stale, "a directory in its place")
}

// Whoever writes the meta file anew does not look at series, so the sidecar says of their order
// what it said before.
func TestWriteMeta_WhatIsKnownOfTheOrderStays(t *testing.T) {
	full := metaTexts(t)[0]
	meta, err := DecodeMeta([]byte(full))
	require.NoError(t, err)
	for _, inOrder := range []bool{true, false} {
		m := metaDir(t, full, "")
		require.NoError(t, RenewSidecar(m, "b", meta, inOrder))
		next := meta
		next.Compaction.Hints = []string{HintFromOutOfOrder}
		require.NoError(t, WriteMeta(m, "b", next))
		_, side, err := readMeta(m, "b")
		require.NoError(t, err)
		require.Equal(t, sidecarState{inOrder: inOrder}, side)

		// An old program drops the hints; the order is as it was.
		text, err := EncodeMeta(Meta{ULID: meta.ULID, MinTime: meta.MinTime, MaxTime: meta.MaxTime, Version: 1, Compaction: Compaction{
			Level: meta.Compaction.Level, Sources: meta.Compaction.Sources, Parents: meta.Compaction.Parents},
			Stats: Stats{NumSamples: meta.Stats.NumSamples, NumSeries: meta.Stats.NumSeries, NumChunks: meta.Stats.NumChunks}})
		require.NoError(t, err)
		require.NoError(t, m.WriteFile("b/meta.json", text))
		_, side, err = readMeta(m, "b")
		require.NoError(t, err)
		require.Equal(t, sidecarState{stale: true, inOrder: inOrder}, side)
	}
}

func TestWriteMeta_CrashAnywhere_LeavesTheOldOrTheNewOne(t *testing.T) {
	full := metaTexts(t)[0]
	for _, old := range []string{full, strings.Replace(full, "7200000", "7200007", 1)} { // same sidecar, another one
		m := metaDir(t, old, old)
		require.NoError(t, m.SyncDir("b"))
		meta, err := DecodeMeta([]byte(full))
		require.NoError(t, err)
		meta.Stats.NumTombstones = 99
		want, err := EncodeMeta(meta)
		require.NoError(t, err)
		states := 0
		check := func() {
			for left := range m.CrashStates(50) {
				states++
				_, err := ReadMeta(left, "b")
				require.NoError(t, err, left.FateString())
				b, err := left.ReadFile("b/meta.json")
				require.NoError(t, err)
				require.Contains(t, []string{old, string(want)}, string(b))
			}
		}
		m.SetHook(func(op tsdbtest.Op) error {
			if op.Kind.Mutates() {
				check()
			}
			return nil
		})
		require.NoError(t, WriteMeta(m, "b", meta))
		m.SetHook(nil)
		check()
		require.Greater(t, states, 10)
		b, err := m.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll}).ReadFile("b/meta.json")
		require.NoError(t, err)
		require.Equal(t, string(want), string(b))
	}
}

func TestSidecar_ExampleOfTheFormatPage(t *testing.T) {
	meta, err := DecodeMeta([]byte(metaTexts(t)[0]))
	require.NoError(t, err)
	require.Equal(t, sidecarExample, hex.EncodeToString(encodeSidecar(&meta, false)))
}

// sidecarExample is the sidecar of the first meta file of the vectors.
const sidecarExample = "6d637263" + "01" + "23ea3861" + "b0c30673" + "f8695bbe"

func FuzzDecodeMeta(f *testing.F) {
	for _, text := range metaTexts(f) {
		f.Add([]byte(text))
	}
	f.Add([]byte(`{"ulid":"01HF0000000000000000000001","minTime":1,"maxTime":2,"version":1,"x":{"<":[1,{}]},"stats":{"y":1},"compaction":{"z":null}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeMeta(b)
		if err != nil {
			var at *encbuf.CorruptError
			if errors.As(err, &at) {
				require.LessOrEqual(t, at.Offset, int64(len(b)))
			} else {
				require.ErrorIs(t, err, ErrUnsupportedVersion)
			}
			return
		}
		text, err := EncodeMeta(m)
		require.NoError(t, err)
		again, err := DecodeMeta(text)
		require.NoError(t, err)
		text2, err := EncodeMeta(again)
		require.NoError(t, err)
		require.Equal(t, string(text), string(text2))
		require.Equal(t, encodeSidecar(&m, false), encodeSidecar(&again, false))
	})
}

// FuzzSidecar: any sidecar beside a good meta file is equal to the right one, or says
// nothing, or damage.
func FuzzSidecar(f *testing.F) {
	full := metaTexts(f)[0]
	meta, err := DecodeMeta([]byte(full))
	require.NoError(f, err)
	good := encodeSidecar(&meta, false)
	f.Add(good)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, fix := range []bool{false, true} {
			if fix && len(b) == sidecarBytes {
				b = encbuf.AppendBE32(append([]byte{}, b[:sidecarBytes-4]...), encbuf.Checksum(b[:sidecarBytes-4]))
			}
			m := metaDir(t, full, "")
			require.NoError(t, m.WriteFile("b/meta.json.crc", b))
			_, side, err := readMeta(m, "b")
			if err != nil {
				require.ErrorIs(t, err, encbuf.ErrCorrupt)
			} else if !side.stale {
				require.Equal(t, encodeSidecar(&meta, side.inOrder), b)
			}
		}
	})
}

func TestNewULID_ClocksOutsideOfItsRange(t *testing.T) {
	for _, ms := range []int64{-1 << 40, -1, 0, 1, 1 << 50} {
		a, b := NewULID(time.UnixMilli(ms)), NewULID(time.UnixMilli(ms))
		require.NotEqual(t, a, b)
		_, ok := ParseName(a.String())
		require.True(t, ok)
	}
}
