package wal

import (
	"bytes"
	"testing"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/invariants"
)

// A batch takes memory for its text once, and none for what nobody wants.
func TestBatch_TakesMemoryForItsTextOnce(t *testing.T) {
	const records = 14
	fresh := func(skipped bool) (*Batch, []byte) {
		b, rec := &Batch{}, appendSamples(nil, 1000, 1_700_000_000_000)
		for range records {
			from := len(b.raw)
			b.raw = append(b.raw, snappy.Encode(nil, rec)...)
			b.all = append(b.all, Record{})
			b.spans = append(b.spans, span{from: from, to: len(b.raw), comp: CompressionSnappy})
		}
		b.units = []unit{{kind: unitRecords, n: records}}
		if skipped {
			b.units = []unit{{kind: unitCommit, n: records, skipped: true}}
		}
		return b, rec
	}
	var d decompressor
	b, rec := fresh(false)
	b.decode(&d)
	require.Len(t, b.Records, records)
	for _, r := range b.Records {
		require.True(t, bytes.Equal(rec, r.Data))
	}
	require.Len(t, b.text, records*len(rec))
	require.LessOrEqual(t, cap(b.text), len(b.text)+len(b.text)/8)

	b, _ = fresh(true)
	b.decode(&d)
	require.Empty(t, b.Records)
	require.Zero(t, cap(b.text))
}

// What somebody keeps of a batch beyond its time is seen where assertions are compiled in.
func TestBatch_Reset_OverwritesWhatWasInIt(t *testing.T) {
	b := &Batch{raw: []byte("stored"), text: []byte("decoded")}
	raw, text := b.raw, b.text
	b.reset(1)
	require.Equal(t, invariants.Enabled, string(raw) != "stored")
	require.Equal(t, invariants.Enabled, string(text) != "decoded")
	require.Equal(t, 1, b.Index)
}
