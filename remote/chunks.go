package remote

import (
	"context"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
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
	plain    *transcoder // nil: chunks are sent as they are stored
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
		if err := a.writeSeries(ctx, index, q, set.At()); err != nil {
			return err
		}
	}
	q.warnings = set.Warnings()
	return set.Err()
}

// writeSeries writes the frames of one series; none, if it has no samples in the range.
func (a *chunkAnswer) writeSeries(ctx context.Context, index int, q *openQuery, s *tsdb.ChunkSeries) error {
	a.own = s.AppendLabels(a.own[:0])
	a.labels = a.external.merge(a.labels[:0], a.own)
	group, skip, err := q.namesakes.group(ctx, q, a.own, a.labels)
	if err != nil || skip {
		return err
	}
	a.frame.begin(a.labels)
	if len(group) > 0 {
		err = a.addUnion(ctx, index, group)
	} else {
		err = a.addChunks(ctx, index, s)
	}
	if err != nil || a.frame.chunks == 0 {
		return err
	}
	return a.writeFrame(ctx, index)
}

// addChunks adds the chunks of a series.
func (a *chunkAnswer) addChunks(ctx context.Context, index int, s *tsdb.ChunkSeries) error {
	a.chunks = s.Chunks(a.chunks)
	for a.chunks.Next() {
		if err := a.add(ctx, index, a.chunks.At()); err != nil {
			return err
		}
	}
	return a.chunks.Err()
}

// addUnion adds the samples of several series as those of one, in chunks of its own.
func (a *chunkAnswer) addUnion(ctx context.Context, index int, group []*tsdb.Series) error {
	it := unionOf(group)
	var made unionChunk
	for kind := it.Next(); kind != chunkenc.ValNone; {
		c := tsdb.ChunkMeta{MinT: it.AtT()}
		var err error
		if kind, c.MaxT, err = made.take(it, kind); err != nil {
			return err
		}
		if c.Chunk, err = chunkenc.FromData(made.enc.Encoding(), made.data); err != nil {
			return err
		}
		if err := a.add(ctx, index, c); err != nil {
			return err
		}
	}
	return it.Err()
}

// add adds a chunk of the series, to another frame if this one is complete.
func (a *chunkAnswer) add(ctx context.Context, index int, c tsdb.ChunkMeta) error {
	if a.plain == nil {
		return a.send(ctx, index, c)
	}
	return a.plain.transcode(c, func(c tsdb.ChunkMeta) error { return a.send(ctx, index, c) })
}

// send adds a chunk that needs no change.
func (a *chunkAnswer) send(ctx context.Context, index int, c tsdb.ChunkMeta) error {
	if a.frame.full(len(c.Chunk.Bytes())) {
		if err := a.writeFrame(ctx, index); err != nil {
			return err
		}
		a.frame.next()
	}
	a.frame.add(c.MinT, c.MaxT, c.Chunk.Encoding(), c.Chunk.Bytes())
	return nil
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
