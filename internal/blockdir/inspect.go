package blockdir

import (
	"fmt"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// inspector reads chunks and everything in them. It keeps its buffers.
type inspector struct {
	segments *chunks.Segments
	buf      []byte
	it       chunkenc.Iterator
}

// inspected is a chunk as it was read; data is valid until the next one.
type inspected struct {
	enc     chunkenc.Encoding
	data    []byte
	samples uint64 // those before damage, if there is any
}

// inspect reads a chunk of the series and decodes every sample; if this version
// cannot, their count is what the chunk's header says. The error is damage with file and
// offset: a checksum, or samples that are not in order or not those that the index
// speaks of.
func (p *inspector) inspect(series uint64, c index.ChunkMeta) (inspected, error) {
	enc, data, err := p.segments.Read(c.Ref, p.buf)
	p.buf = data
	if err != nil {
		return inspected{}, err
	}
	got := inspected{enc: enc, data: data}
	chunk, err := chunkenc.FromData(enc, data)
	if errors.Is(err, chunkenc.ErrUnknownEncoding) {
		got.samples = uint64(enc.NumSamples(data))
		return got, nil
	}
	var mint, maxt int64
	if err == nil {
		p.it = chunk.Iterator(p.it)
		got.samples, mint, maxt, err = checkTimes(p.it)
	}
	var reason string
	switch {
	case err != nil:
		reason = err.Error()
	case got.samples == 0:
		reason = "it has no samples"
	case mint != c.MinT || maxt != c.MaxT:
		reason = fmt.Sprintf("it has samples from %d to %d, the index says %d to %d", mint, maxt, c.MinT, c.MaxT)
	default:
		return got, nil
	}
	reason = fmt.Sprintf("chunk of series %d: %s", series, reason)
	return got, encbuf.Corrupt(0, reason).At(p.segments.Path(c.Ref), int64(c.Ref.Offset()))
}

// checkTimes reads all samples.
func checkTimes(it chunkenc.Iterator) (n uint64, mint, maxt int64, err error) {
	for it.Next() != chunkenc.ValNone {
		t := it.AtT()
		if n == 0 {
			mint = t
		} else if t <= maxt {
			return n, mint, maxt, errors.Errorf("sample %d at %d is not behind the one at %d", n, t, maxt)
		}
		maxt = t
		n++
	}
	return n, mint, maxt, it.Err()
}
