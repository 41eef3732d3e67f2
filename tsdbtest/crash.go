package tsdbtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Outcome is what becomes of one pending change in a power cut.
type Outcome int

const (
	// Lost: as if the change had not happened. A sector that was never written
	// reads as zeros.
	Lost Outcome = iota
	// Kept: the change is on the disk.
	Kept
	// Garbage: what was written to the sector is random bytes.
	Garbage
	// Zeroed: what was written to the sector is zeros.
	Zeroed
	// Older, and the values above it, are states between Lost and Kept: contents
	// that a sector has had, or sizes that the file has had, since the last Sync.
	Older
)

func (o Outcome) String() string {
	switch o {
	case Lost:
		return "lost"
	case Kept:
		return "kept"
	case Garbage:
		return "garbage"
	case Zeroed:
		return "zeroed"
	default:
		return fmt.Sprintf("older %d", o-Older)
	}
}

// PendingKind says what kind of change is pending.
type PendingKind uint8

// Kinds of pending changes.
const (
	PendingName   PendingKind = iota + 1 // a created, removed, renamed or linked name
	PendingSize                          // the size of a file
	PendingSector                        // up to 512 bytes of a file
)

// Pending is a change that was not synced.
type Pending struct {
	Kind PendingKind
	// Text is the operation of a PendingName, and the path of the file otherwise.
	Text string
	// Offset and Length are the bytes in question of a PendingSector. For a
	// PendingSize, Length is the size if Kept.
	Offset, Length int64
	// Outcomes lists those that differ from each other, Lost first.
	Outcomes []Outcome
}

// Decision is a pending change and what became of it.
type Decision struct {
	Pending Pending
	Outcome Outcome
}

func (d Decision) String() string {
	switch d.Pending.Kind {
	case PendingName:
		return fmt.Sprintf("%s: %s", d.Outcome, d.Pending.Text)
	case PendingSize:
		return fmt.Sprintf("%s: size %d of %s", d.Outcome, d.Pending.Length, d.Pending.Text)
	default:
		return fmt.Sprintf("%s: bytes %d+%d of %s", d.Outcome, d.Pending.Offset, d.Pending.Length, d.Pending.Text)
	}
}

// CrashOptions choose one of the states in which a power cut may leave the disk.
// The zero value is a random one of them.
type CrashOptions struct {
	// Seed of the random choice, and of the content of garbage.
	Seed uint64
	// Ordered: of the pending changes of names, the first n survive, for some n. If
	// false, any subset of them may.
	Ordered bool
	// Choose decides instead of chance. It is called for each change that still
	// matters after the decisions before it: first names in the order in which they
	// were changed (with Ordered until the first that is Lost), then file by file
	// the size, then the sectors below that size. Choosing an outcome that the
	// change cannot have means Kept. Choose must not use the MemFS.
	Choose func(Pending) Outcome
}

// LoseAll is a Choose under which nothing survives that was not synced.
func LoseAll(Pending) Outcome { return Lost }

// KeepAll is a Choose under which everything survives.
func KeepAll(Pending) Outcome { return Kept }

// CrashClone returns a file system as it may be after a power cut at this moment.
// All that it holds is durable, nobody has it locked, and it has no hook; the
// capacity is that of m. m itself goes on unchanged. File contents are shared until
// one side changes them, so a clone costs about as much as its number of files.
func (m *MemFS) CrashClone(opts CrashOptions) *MemFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	if opts.Choose == nil {
		opts.Choose = randomFate(opts.Seed)
	}
	c := &crash{opts: opts, names: map[*node]map[string]*node{}, done: map[*node]*node{}}
	c.chooseNames(m.mu.pending)
	clone := NewMemFS()
	clone.mu.root = c.survivor(m.mu.root, "")
	clone.mu.nextID = m.mu.nextID
	clone.mu.capacity = m.mu.capacity
	clone.mu.used = c.used
	clone.fate = c.fate
	return clone
}

// KillClone returns a file system as it is after the process was killed: all that
// was written is there, locks and handles are gone. What was not synced is not
// durable either, so a CrashClone of the clone may still lose it.
func (m *MemFS) KillClone() *MemFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	clone := NewMemFS()
	copies := copier{}
	clone.mu.root = copies.node(m.mu.root)
	for _, op := range m.mu.pending {
		same := *op
		same.add = copies.entry(op.add)
		same.del = copies.entry(op.del)
		clone.mu.pending = append(clone.mu.pending, &same)
	}
	clone.mu.nextID = m.mu.nextID
	clone.mu.ops = m.mu.ops
	clone.mu.capacity = m.mu.capacity
	clone.fate = m.fate
	for _, n := range copies {
		if n.links > 0 {
			clone.mu.used += n.file.size()
		}
	}
	return clone
}

// PendingCount returns how many separate changes a power cut at this moment could
// take: names, sizes, sectors.
func (m *MemFS) PendingCount() int {
	return len(m.CrashClone(CrashOptions{Choose: KeepAll}).fate)
}

// Fate returns the decisions of the power cut that made this file system, in order.
// A file system that was not made by CrashClone or CrashStates has none.
func (m *MemFS) Fate() []Decision { return slices.Clone(m.fate) }

// FateString is Fate without what was kept, one decision a line: what to print when
// a test fails on a crash state.
func (m *MemFS) FateString() string {
	var b strings.Builder
	kept := 0
	for _, d := range m.fate {
		if d.Outcome == Kept {
			kept++
			continue
		}
		fmt.Fprintln(&b, d)
	}
	fmt.Fprintf(&b, "kept: %d more\n", kept)
	return b.String()
}

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

// copier copies a tree with its pending changes; a node becomes one node.
type copier map[*node]*node

func (cp copier) node(n *node) *node {
	if n == nil {
		return nil
	}
	if same, ok := cp[n]; ok {
		return same
	}
	same := &node{id: n.id, dir: n.dir, links: n.links, modified: n.modified}
	cp[n] = same
	if n.dir {
		same.entries, same.durable = cp.names(n.entries), cp.names(n.durable)
	} else {
		same.file = n.file.clone()
	}
	return same
}

func (cp copier) names(names map[string]*node) map[string]*node {
	same := make(map[string]*node, len(names))
	for name, n := range names {
		same[name] = cp.node(n)
	}
	return same
}

func (cp copier) entry(e entry) entry {
	return entry{cp.node(e.dir), e.name, cp.node(e.node)}
}

func sortedNames(names map[string]*node) []string {
	sorted := make([]string, 0, len(names))
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	return sorted
}
