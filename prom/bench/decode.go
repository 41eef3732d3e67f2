package bench

import (
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

// decode measures reading chunks of 120 samples, without a database around them. Both
// engines encode them to the same bytes.
func decode(t task) (measures, error) {
	const series, perChunk = 400, 120
	v, vs := newValues(series, seed), make([]float64, series)
	encoders := make([]xorchunk.Encoder, series)
	for k := range perChunk {
		v.scrape(vs)
		for i := range encoders {
			if err := encoders[i].Append(startMillis+int64(k)*stepMillis, vs[i]); err != nil {
				return nil, err
			}
		}
	}
	chunks := make([][]byte, series)
	for i := range chunks {
		chunks[i] = encoders[i].AppendTo(nil)
	}
	n := 0
	before := now()
	for n == 0 || time.Since(before.at) < t.Time {
		got, err := decoders[t.Engine](chunks)
		if err != nil {
			return nil, err
		}
		if got != series*perChunk {
			return nil, errors.Errorf("%d of %d samples were decoded", got, series*perChunk)
		}
		n += got
	}
	return measures{"decode/cpu": float64(n) / now().since(before).cpu.Seconds()}, nil
}
