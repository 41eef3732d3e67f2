package tsdbtest

import "slices"

// sectorSize is the unit in which a disk loses or keeps bytes.
const sectorSize = 512

// maxOlder is how many contents from before a cut or an overwrite are remembered
// between two syncs, as what a power cut may bring back.
const maxOlder = 4

// content is what a file holds now, and what is needed to say what a power cut may
// leave of it.
//
// Invariants: the bytes of data below its length never change in place, so slices
// of it are snapshots (mappings, clones, durable and older rely on that). Outside
// of [dirtyFrom, ...) and stuck, data and durable are equal.
type content struct {
	data      []byte
	durable   []byte   // as of the last Sync that worked
	dirtyFrom int64    // data[dirtyFrom:] was written since
	stuck     []span   // sectors of failed syncs: marked clean, never written again
	sizes     []int64  // the sizes since then, oldest first
	older     [][]byte // contents since then that a cut or an overwrite replaced
}

// span is a half-open range of bytes.
type span struct{ from, to int64 }

func (c *content) size() int64 { return int64(len(c.data)) }

// write puts p at off. An append, the usual case, extends data in place.
func (c *content) write(off int64, p []byte) {
	size := c.size()
	switch {
	case off == size:
		c.data = append(c.data, p...)
	case off > size:
		c.data = append(append(c.data, make([]byte, off-size)...), p...)
	default:
		c.remember()
		data := make([]byte, max(size, off+int64(len(p))))
		copy(data, c.data)
		copy(data[off:], p)
		c.data = data
	}
	c.touch(min(off, size))
	c.sizes = append(c.sizes, c.size())
}

func (c *content) truncate(size int64) {
	if size >= c.size() {
		c.write(c.size(), make([]byte, size-c.size()))
		return
	}
	c.remember()
	c.data = slices.Clip(c.data[:size])
	c.touch(size)
	c.sizes = append(c.sizes, size)
}

// remember keeps the present content, if it has anything that is not durable.
func (c *content) remember() {
	if c.dirtyFrom >= c.size() {
		return
	}
	if len(c.older) == maxOlder {
		c.older = slices.Clone(c.older[1:])
	}
	c.older = append(c.older, c.data)
}

// touch notes that everything from off on is dirty. A sector of a failed sync that
// is written again is dirty like any other.
func (c *content) touch(off int64) {
	sector := off - off%sectorSize
	var stuck []span
	for _, s := range c.stuck {
		if s.to > sector {
			if s.from >= sector {
				off = min(off, s.from)
			} else {
				off = min(off, sector)
			}
			s.to = sector
		}
		if s.from < s.to {
			stuck = append(stuck, s)
		}
	}
	c.stuck = stuck
	c.dirtyFrom = min(c.dirtyFrom, off)
}

// sync makes the content durable, except for the sectors of failed syncs.
func (c *content) sync() {
	durable := slices.Clip(c.data)
	if len(c.stuck) > 0 {
		durable = slices.Clone(c.data)
		for _, s := range c.stuck {
			clear(durable[s.from:s.to])
			if s.from < int64(len(c.durable)) {
				copy(durable[s.from:s.to], c.durable[s.from:])
			}
		}
	}
	c.durable, c.dirtyFrom, c.sizes, c.older = durable, c.size(), nil, nil
}

// failSync marks the dirty pages clean although they were not written.
func (c *content) failSync() {
	if c.dirtyFrom < c.size() {
		c.stuck = append(slices.Clip(c.stuck), span{c.dirtyFrom, c.size()})
		c.dirtyFrom = c.size()
	}
}

// clone shares the bytes; neither side will change them.
func (c *content) clone() content {
	return content{
		data:      slices.Clip(c.data),
		durable:   c.durable,
		dirtyFrom: c.dirtyFrom,
		stuck:     slices.Clip(c.stuck),
		sizes:     slices.Clip(c.sizes),
		older:     slices.Clip(c.older),
	}
}

// durableContent is a file that holds data and has nothing to lose. Nobody else may
// append to data in place.
func durableContent(data []byte) content {
	return content{data: data, durable: data, dirtyFrom: int64(len(data))}
}
