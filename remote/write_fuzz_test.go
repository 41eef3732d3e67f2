package remote

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
)

// fuzzWrite sends any message: no panic, a status that fits, and numbers that do.
func fuzzWrite(f *testing.F, v writeVersion) {
	encoder := writeEncoders[v]
	every := everyField(encoder.encode)
	f.Add(every)
	f.Add(encoder.encode(one("a", at(writeNewest, 1)), one("a", at(writeNewest, 2)), one("a", at(writeNewest-1, 2))))
	f.Add(encoder.encode(sentSeries{pairs: []string{"a", "\xff", "a", ""}, samples: []tsdb.Sample{at(writeNewest, 1)}}))
	f.Add(encodeSymbols("", "a", "b"))
	bad := one("h", at(writeNewest, 1))
	spans := some(1)
	spans.PositiveSpans[0].Length = 9
	bad.histograms = []tsdb.Sample{{T: writeNewest + 1, H: spans}, {T: writeNewest + 2, H: some(1)}}
	f.Add(encoder.encode(bad))
	f.Add(every[:len(every)-3])
	db, clock := openForWrites(f, tsdb.Options{})
	h := NewWriteHandler(db, &WriteOptions{Clock: clock})
	f.Fuzz(func(t *testing.T, message []byte) {
		before := db.Stats()
		w := send(h, encoder.contentType, message)
		after := db.Stats()
		require.Contains(t, []int{http.StatusNoContent, http.StatusBadRequest}, w.Code)
		require.Equal(t, w.Code == http.StatusNoContent, w.Body.Len() == 0)
		require.Less(t, w.Body.Len(), maxRefusals*(maxReasonText+2*maxSeriesText))
		if v == writeV1 {
			return
		}
		written := 0
		for _, name := range writtenHeaders[:itemExemplar] {
			n, err := strconv.Atoi(w.Header().Get(name))
			require.NoError(t, err)
			require.GreaterOrEqual(t, n, 0)
			written += n
		}
		require.GreaterOrEqual(t, written, int(after.SamplesAppended-before.SamplesAppended))
		if strings.Contains(w.Body.String(), errMalformed.Error()) {
			require.Equal(t, before.SamplesAppended, after.SamplesAppended)
		}
	})
}

func FuzzWriteV1(f *testing.F) { fuzzWrite(f, writeV1) }

func FuzzWriteV2(f *testing.F) { fuzzWrite(f, writeV2) }
