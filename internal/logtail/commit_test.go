package logtail

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/record"
)

// Whatever a record says, what makes no sense is counted, and nothing of an earlier commit is left.
func FuzzRead(f *testing.F) {
	f.Add(record.AppendSamples(nil, []record.Sample{{Ref: 1, T: 2, V: 3}, {Ref: 7, T: -2, V: 0.5}}))
	f.Add(append(record.AppendLate(nil, 3), record.AppendSamples(nil, []record.Sample{{Ref: 1, T: 2, V: 3}})...))
	f.Add(record.AppendMetadata(record.BeginMetadata(nil), 5, record.Metadata{Unit: "s", Help: "h"}))
	f.Add([]byte{byte(record.TypeHistograms), 1, 2, 3})
	f.Add([]byte{byte(record.TypeExemplars), 1, 2, 3})
	f.Add([]byte{77})
	f.Fuzz(func(t *testing.T, rec []byte) {
		var c Commit
		good := record.AppendSamples(nil, []record.Sample{{Ref: 9, T: 8, V: 7}})
		c.Read([][]byte{rec, good, rec})
		require.Contains(t, c.Samples, Sample{Ref: 9, T: 8, V: 7})
		n, unread := len(c.Samples), c.Unread
		c.Read([][]byte{rec, good, rec})
		require.Equal(t, [2]int{n, unread}, [2]int{len(c.Samples), c.Unread})
		c.Read(nil)
		require.Zero(t, len(c.Samples)+len(c.Exemplars)+len(c.Metadata)+c.Unread)
	})
}
