package metadata

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/record"
)

func encoded(help string) string {
	return string(record.AppendMetadataValue(nil, record.Metadata{Help: help}))
}

func TestTable_KeepsEqualValuesOnce(t *testing.T) {
	var table Table
	require.Empty(t, table.Of(1))
	table.Remove(1)
	long := encoded(strings.Repeat("x", 1000))
	for ref := range uint64(1000) {
		table.Set(ref, long)
		table.Set(ref, long)
	}
	n, bytes := table.Size()
	require.Equal(t, 1000, n)
	require.Less(t, bytes, int64(40_000))
	require.Equal(t, long, table.Of(7))

	table.Set(7, encoded("other"))
	require.Equal(t, encoded("other"), table.Of(7))
	require.Len(t, table.mu.values, 2)
	table.Set(7, long)
	require.Len(t, table.mu.values, 1, "what no series has goes")
	for ref := range uint64(1000) {
		table.Remove(ref)
	}
	n, bytes = table.Size()
	require.Zero(t, n)
	require.Zero(t, bytes)
}

func TestTable_RecordsHaveAllOfIt(t *testing.T) {
	var table Table
	require.NoError(t, table.Records(func([]byte) error { return errors.New("an empty one has none") }))
	want := map[uint64]string{}
	for i := range uint64(3000) {
		ref := i * 7919 % 3001
		want[ref] = encoded(fmt.Sprint("help ", ref%100, strings.Repeat(".", 100)))
		table.Set(ref, want[ref])
	}
	got, records, last := map[uint64]string{}, 0, int64(-1)
	require.NoError(t, table.Records(func(rec []byte) error {
		records++
		require.Less(t, len(rec), recordBytes+200)
		var dec record.MetadataDecoder
		for dec.Reset(rec); dec.Next(); {
			require.Greater(t, int64(dec.Ref()), last)
			last = int64(dec.Ref())
			got[dec.Ref()] = string(dec.Value())
		}
		return dec.Err()
	}))
	require.Equal(t, want, got)
	require.Greater(t, records, 3)

	failure := errors.New("no room")
	require.ErrorIs(t, table.Records(func([]byte) error { return failure }), failure)
}
