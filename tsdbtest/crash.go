package tsdbtest

import (
	"fmt"
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
