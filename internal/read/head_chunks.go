package read

import (
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/samplemerge"
)

// chunksIn returns a place for the chunks of a series, which is reuse if it is one.
func (r *headReader) chunksIn(reuse chunkSource) *headChunks {
	src, ok := reuse.(*headChunks)
	if !ok {
		src = &headChunks{}
	}
	if src.r != r {
		src.r = r
		src.files.Reset(r.Chunks)
		if src.excerpts != nil {
			src.excerpts.Forget()
		}
	}
	return src
}

// headChunks gives the chunks of a head series: full ones from their file, the open
// one and those that no file has yet from the copy in the excerpt.
type headChunks struct {
	r        *headReader
	files    chunks.HeadCursor // of r's pin
	own      memseries.Excerpt
	excerpts *memseries.Excerpts // of this series and the next ones; nil: of no other was ever taken
	excerpt  *memseries.Excerpt  // own or one of excerpts
	refs     []chunks.Ref        // of excerpts, for Ahead
	order    headOrder           // of series that are not transient
	in       samplemerge.Bounds
	at       int
}

// begin goes to the first chunk of an excerpt of a series.
func (hc *headChunks) begin(s *memseries.Series, excerpt *memseries.Excerpt) {
	r := hc.r
	hc.at, hc.excerpt = 0, excerpt
	hc.in.From, hc.in.To = r.visible()
	hc.in.Deleted = r.Deleted.Of(s.Ref())
	if len(excerpt.Chunks) > 0 {
		hc.in.To = min(hc.in.To, excerpt.Maxt)
	}
}

// Next implements chunkSource.
func (hc *headChunks) Next(from int64, out *samplemerge.Chunk) (bool, error) {
	for hc.at < len(hc.excerpt.Chunks) && (hc.excerpt.Chunks[hc.at].MaxT < from || len(hc.in.Deleted) > 0 && hc.in.Hides(hc.excerpt.Chunks[hc.at].MinT, hc.excerpt.Chunks[hc.at].MaxT)) {
		hc.at++
	}
	if hc.at == len(hc.excerpt.Chunks) {
		return false, nil
	}
	c := hc.excerpt.Chunks[hc.at]
	hc.at++
	*out = samplemerge.Chunk{Encoding: c.Encoding, MinT: c.MinT, MaxT: c.MaxT, Bounds: hc.in}
	if c.Ref == 0 {
		out.Data = hc.excerpt.Data(c)
		return true, nil
	}
	var err error
	if out.Encoding, out.Data, err = hc.files.Read(c.Ref); err != nil {
		return hc.mended(c.Ref, err, from, out)
	}
	return true, nil
}

// mended gives what took the place of a chunk that cannot be read. If nothing is left of it the
// next one is given; a reader that began before that was known gets the error.
func (hc *headChunks) mended(ref chunks.Ref, err error, from int64, out *samplemerge.Chunk) (bool, error) {
	c, ok := hc.r.Mender.Mended(ref, hc.r.Losses)
	if !ok {
		hc.r.Mender.NoteDamage(ref, err)
		return false, err
	}
	if c.Data == nil {
		return hc.Next(from, out)
	}
	out.Encoding, out.Data, out.MinT, out.MaxT = c.Encoding, c.Data, c.MinT, c.MaxT
	return true, nil
}

// Place implements chunkSource. A chunk that no file has has no place.
func (hc *headChunks) Place(err error) error {
	if ref := hc.excerpt.Chunks[hc.at-1].Ref; ref != 0 {
		return hc.files.Place(ref, err)
	}
	return err
}
