package remote

import (
	"net/http"
	"testing"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
)

// BenchmarkWrite stores requests of known series, 1,000 of them with a sample each, without a
// network.
func BenchmarkWrite(b *testing.B) {
	for _, v := range writeEncoders {
		b.Run(v.name, func(b *testing.B) {
			const series, messages = 1000, 600
			db, err := tsdb.Open(b.TempDir(), &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}})
			require.NoError(b, err)
			defer func() { require.NoError(b, db.Close()) }()
			h := NewWriteHandler(db, nil)
			start := int64(writeNewest)
			var bodies [][]byte
			next := func() {
				bodies = bodies[:0]
				for _, message := range stream(v.encode, series, messages, start) {
					bodies = append(bodies, snappy.Encode(nil, message))
				}
				start += messages * 1000
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if i%messages == 0 {
					b.StopTimer()
					next()
					b.StartTimer()
				}
				w := sendBody(h, v.contentType, bodies[i%messages])
				if w.Code != http.StatusNoContent {
					b.Fatal(w.Body)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*series), "ns/sample")
		})
	}
}
