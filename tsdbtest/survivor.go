package tsdbtest

import (
	"math/rand/v2"
	"slices"
)

// crash builds what is left after a power cut.
type crash struct {
	opts  CrashOptions
	names map[*node]map[string]*node // directories with surviving pending changes
	done  map[*node]*node            // old node to new; nil while a directory is being built
	used  int64
	fate  []Decision
}

func (c *crash) decide(p Pending) Outcome {
	o := c.opts.Choose(p)
	if !allows(p, o) {
		o = Kept
	}
	c.fate = append(c.fate, Decision{p, o})
	return o
}

// allows is about what can be, not only about what p.Outcomes lists: those leave
// out outcomes with equal bytes.
func allows(p Pending, o Outcome) bool {
	switch p.Kind {
	case PendingSector:
		return o >= Lost && o < Older || slices.Contains(p.Outcomes, o)
	case PendingSize:
		return o == Lost || slices.Contains(p.Outcomes, o)
	default:
		return o == Lost
	}
}

var lostOrKept = []Outcome{Lost, Kept}

func (c *crash) chooseNames(pending []*nameOp) {
	for _, op := range pending {
		if c.decide(Pending{Kind: PendingName, Text: op.text, Outcomes: lostOrKept}) == Lost {
			if c.opts.Ordered {
				return
			}
			continue
		}
		if op.del.dir != nil {
			op.del.unapply(c.namesOf(op.del.dir))
		}
		if op.add.dir != nil {
			op.add.apply(c.namesOf(op.add.dir))
		}
	}
}

// namesOf returns the entries of dir, to be changed.
func (c *crash) namesOf(dir *node) map[string]*node {
	names, ok := c.names[dir]
	if !ok {
		names = make(map[string]*node, len(dir.durable)+1)
		for name, n := range dir.durable {
			names[name] = n
		}
		c.names[dir] = names
	}
	return names
}

// survivor returns what is left of n, once for each n.
func (c *crash) survivor(n *node, path string) *node {
	if done, ok := c.done[n]; ok {
		return done
	}
	c.done[n] = nil
	left := &node{id: n.id, dir: n.dir, modified: n.modified}
	if n.dir {
		c.fillDir(left, n, path)
	} else {
		left.file = c.fileContent(n, path)
		c.used += left.file.size()
	}
	c.done[n] = left
	return left
}

// fillDir visits in order of names, so that decisions come in a fixed order.
func (c *crash) fillDir(left, n *node, path string) {
	names, ok := c.names[n]
	if !ok {
		names = n.durable
	}
	left.entries = make(map[string]*node, len(names))
	left.durable = make(map[string]*node, len(names))
	for _, name := range sortedNames(names) {
		child := c.survivor(names[name], path+"/"+name)
		if child == nil {
			continue // a directory inside itself: renames survived in an odd subset
		}
		child.links++
		left.entries[name] = child
		left.durable[name] = child
	}
}

func (c *crash) fileContent(n *node, path string) content {
	f := &n.file
	size := c.chooseSize(f, path)
	if len(f.stuck) == 0 && f.dirtyFrom >= size {
		return durableContent(resize(f.durable, size))
	}
	data := make([]byte, size)
	copy(data, f.durable)
	f.eachPending(size, func(s span) {
		c.chooseSector(f, path, s, data, uint64(n.id))
	})
	return durableContent(data)
}

func (c *crash) chooseSize(f *content, path string) int64 {
	sizes := f.sizeChoices()
	if len(sizes) == 1 {
		return sizes[0]
	}
	p := Pending{Kind: PendingSize, Text: path, Length: f.size(), Outcomes: make([]Outcome, 0, len(sizes))}
	for i := range sizes {
		if i != int(Kept) || sizes[Kept] != sizes[Lost] {
			p.Outcomes = append(p.Outcomes, sizeOutcome(i))
		}
	}
	return sizes[sizeIndex(c.decide(p))]
}

// A file has the sizes Lost, Kept, and Older upwards; they stand without a gap in
// sizeChoices.
func sizeOutcome(i int) Outcome {
	if i > int(Kept) {
		return Older + Outcome(i) - Kept - 1
	}
	return Outcome(i)
}

func sizeIndex(o Outcome) int {
	if o >= Older {
		return int(o - Older + Kept + 1)
	}
	return int(o)
}

func (c *crash) chooseSector(f *content, path string, s span, data []byte, id uint64) {
	p := Pending{Kind: PendingSector, Text: path, Offset: s.from, Length: s.to - s.from}
	if p.Outcomes = f.sectorChoices(s); len(p.Outcomes) == 0 {
		return
	}
	o := c.decide(p)
	dst := data[s.from:s.to]
	switch o {
	case Lost: // as copied from durable
	case Garbage:
		fillGarbage(dst, c.opts.Seed, id<<32^uint64(s.from))
	default:
		f.version(dst, s.from, o)
	}
}

func resize(data []byte, size int64) []byte {
	if size <= int64(len(data)) {
		return data[:size:size]
	}
	return append(slices.Clip(data), make([]byte, size-int64(len(data)))...)
}

func fillGarbage(dst []byte, seed, stream uint64) {
	rng := rand.New(rand.NewPCG(seed, stream))
	for i := range dst {
		dst[i] = byte(rng.Uint32())
	}
}
