package read

import "github.com/seed347100a3/tsdb/internal/samplemerge"

// chainedChunks gives the chunks of a series place by place, where each place ends before
// the next one begins: all but those of blocks that overlap (BenchmarkSelectBlocks). Only
// one place is open at a time.
type chainedChunks struct {
	left []sourceSeries // places that are not open yet
	own  []sourceSeries // the memory of left
	src  chunkSource    // of the place that is open
	kept [2]chunkSource // to be used again, of blocks and of others
}

func (c *chainedChunks) reset(s *mergedSeries) {
	c.own = append(append(c.own[:0], s.first), s.more...)
	c.left, c.src = c.own, nil
}

// Next implements chunkSource.
func (c *chainedChunks) Next(from int64, out *samplemerge.Chunk) (bool, error) {
	for {
		if c.src != nil {
			if ok, err := c.src.Next(from, out); ok || err != nil {
				return ok, err
			}
		}
		if len(c.left) == 0 {
			return false, nil
		}
		c.openNext()
	}
}

// openNext opens the next place with the memory of one of its kind.
func (c *chainedChunks) openNext() {
	kind := 0
	if _, ok := c.left[0].(*blockSeries); !ok {
		kind = 1
	}
	c.kept[kind] = c.left[0].open(c.kept[kind])
	c.src, c.left = c.kept[kind], c.left[1:]
}

// Place implements chunkSource.
func (c *chainedChunks) Place(err error) error { return c.src.Place(err) }
