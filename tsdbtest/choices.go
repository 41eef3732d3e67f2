package tsdbtest

import (
	"bytes"
	"slices"
)

// maxSizeChoices bounds the sizes that a file may have after a power cut.
const maxSizeChoices = 16

// sizeChoices returns the sizes in the order of outcomes: durable, present, then
// those in between: after each write, halfway through each write. If there is no
// choice it returns one size.
func (c *content) sizeChoices() []int64 {
	lost, kept := int64(len(c.durable)), c.size()
	choices := []int64{lost, kept}
	last := lost
	for i, size := range c.sizes {
		if len(c.sizes)-i > maxSizeChoices/2 && i%(len(c.sizes)*2/maxSizeChoices+1) != 0 {
			continue // too many: an even selection and the newest
		}
		for _, s := range []int64{last + (size-last)/2, size} {
			if !slices.Contains(choices, s) && len(choices) < maxSizeChoices {
				choices = append(choices, s)
			}
		}
		last = size
	}
	if lost == kept && len(choices) == 2 {
		return choices[:1]
	}
	return choices
}

// eachPending calls visit for each run of pending bytes in a sector below size.
func (c *content) eachPending(size int64, visit func(span)) {
	for _, s := range append(slices.Clip(c.stuck), span{c.dirtyFrom, size}) {
		for from := s.from; from < min(s.to, size); {
			to := min(from-from%sectorSize+sectorSize, s.to, size)
			visit(span{from, to})
			from = to
		}
	}
}

// sectorChoices returns the outcomes with different bytes, Lost first; none if only
// garbage differs, as then nothing was written there.
func (c *content) sectorChoices(s span) []Outcome {
	var seen [int(Older) + maxOlder][sectorSize]byte
	n := s.to - s.from
	var choices []Outcome
	distinct := 0
	for o := range Older + Outcome(len(c.older)) {
		if o == Garbage {
			choices = append(choices, o)
			continue
		}
		b := seen[o][:n]
		c.version(b, s.from, o)
		if slices.ContainsFunc(choices, func(p Outcome) bool { return p != Garbage && bytes.Equal(seen[p][:n], b) }) {
			continue
		}
		choices = append(choices, o)
		if o != Zeroed {
			distinct++
		}
	}
	if distinct < 2 {
		return nil
	}
	return choices
}

// version fills dst with the bytes at off in one of the contents.
func (c *content) version(dst []byte, off int64, o Outcome) {
	var src []byte
	switch {
	case o == Lost:
		src = c.durable
	case o == Kept:
		src = c.data
	case o >= Older:
		src = c.older[o-Older]
	}
	n := 0
	if off < int64(len(src)) {
		n = copy(dst, src[off:])
	}
	clear(dst[n:])
}
