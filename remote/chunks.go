package remote

import (
	"context"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// chunkAnswer writes an answer of frames, one series a frame, a long series in several:
// queries in order, series as the database has them, which is in the order of their labels
// without the external ones.
type chunkAnswer struct {
	out      *pacedWriter
	external external
	frame    frameEncoder
	own      []labels.Label // of the series, as stored
	labels   []labels.Label // with the external ones
	chunks   *tsdb.ChunkIterator
	xor      *xorTranscoder // nil: chunks are sent as they are stored
}

func (a *chunkAnswer) write(ctx context.Context, queries []*openQuery) error {
	a.out.header = map[string]string{"Content-Type": chunksContentType}
	a.out.broken = brokenFrame
	for i, q := range queries {
		if err := a.writeQuery(ctx, i, q); err != nil {
			return err
		}
	}
	warn(a.out, queries)
	return a.out.finish(a.frame.complete())
}

func (a *chunkAnswer) writeQuery(ctx context.Context, index int, q *openQuery) error {
	set := q.selectChunks(ctx)
	for set.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := a.writeSeries(ctx, index, set.At()); err != nil {
			return err
		}
	}
	q.warnings = set.Warnings()
	return set.Err()
}

// writeSeries writes the frames of one series; none, if it has no samples in the range.
func (a *chunkAnswer) writeSeries(ctx context.Context, index int, s *tsdb.ChunkSeries) error {
	a.own = s.AppendLabels(a.own[:0])
	a.labels = a.external.merge(a.labels[:0], a.own)
	a.frame.begin(a.labels)
	a.chunks = s.Chunks(a.chunks)
	for a.chunks.Next() {
		c := a.chunks.At()
		if a.xor != nil {
			var err error
			if c.Chunk, err = a.xor.transcode(c.Chunk); err != nil {
				return err
			}
		}
		if a.frame.full(len(c.Chunk.Bytes())) {
			if err := a.writeFrame(ctx, index); err != nil {
				return err
			}
			a.frame.next()
		}
		a.frame.add(c.MinT, c.MaxT, c.Chunk.Encoding(), c.Chunk.Bytes())
	}
	if err := a.chunks.Err(); err != nil {
		return err
	}
	if a.frame.chunks == 0 {
		return nil
	}
	return a.writeFrame(ctx, index)
}

func (a *chunkAnswer) writeFrame(ctx context.Context, index int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	a.frame.finish(index)
	if len(a.frame.complete()) < framesPiece {
		return nil
	}
	if err := a.out.sendFrames(a.frame.complete()); err != nil {
		return err
	}
	a.frame.drop()
	return nil
}
