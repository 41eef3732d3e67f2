// Package faultfs is a file system that fails on purpose. It wraps another one,
// counts its operations, fails chosen ones, and remembers which it hit. It knows
// nothing of file formats or of what the operations are for.
//
// A sweep over all failure points counts the operations of a workload once and then
// runs it again for each of them:
//
//	for _, fault := range faultfs.Standard() {
//		for fault.Nth = 1; ; fault.Nth++ {
//			fsys := faultfs.New(tsdbtest.NewMemFS())
//			fsys.Inject(fault)
//			err := workload(fsys)
//			if len(fsys.Hits()) == 0 {
//				break // there is no such operation any more
//			}
//			...
//		}
//	}
//
// Everything is safe for concurrent use. Advised is another file system, which notes advice and
// fails nothing.
package faultfs

import (
	"io/fs"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

var _ fileutil.FS = (*FS)(nil)

// maxTrace is how many of the newest operations are remembered.
const maxTrace = 1 << 12

// Fault says which operations fail, and how.
type Fault struct {
	Name string // for the names of tests
	// Kinds are the kinds that are counted and hit; empty means all.
	Kinds []tsdbtest.OpKind
	// Match, if set, must hold too, for example for a path.
	Match func(tsdbtest.Op) bool
	// Nth is the first operation that fails among those that match, counted from 1
	// since Inject; 0 means 1.
	Nth int64
	// Sticky: all that match from then on fail, until Lift. Else one does.
	Sticky bool
	// Err is what the operation returns. nil means EIO.
	Err error
	// Half lets the first half of a write through before it fails.
	Half bool
}

// Event is an operation and the fault that it met, if any.
type Event struct {
	Op    tsdbtest.Op
	Fault error
}

func (e Event) String() string {
	if e.Fault == nil {
		return e.Op.String()
	}
	return e.Op.String() + " FAILED: " + e.Fault.Error()
}

// FS wraps a file system. The faults of operations:
//
//   - a Write writes nothing, or half;
//   - a SyncDir that lacks descriptors or memory (EMFILE, ENFILE, ENOMEM) is
//     fileutil.ErrNotTried and changes nothing;
//   - a Sync, or any other SyncDir, does not sync. If the file system inside can model it
//     (tsdbtest.MemFS), what was dirty is marked clean: later syncs succeed without
//     writing it, and a power cut may take it;
//   - a Close closes the file, and marks clean as a Sync does;
//   - a Release of a lock releases it;
//   - all others do nothing.
type FS struct {
	inner fileutil.FS

	mu struct {
		sync.Mutex
		faults []*injected
		ops    int64
		counts map[tsdbtest.OpKind]int64
		trace  []Event // the newest, at most 2*maxTrace
		hits   []tsdbtest.Op
	}
}

type injected struct {
	Fault
	matched int64
}

// New returns a file system that does what inner does until Inject.
func New(inner fileutil.FS) *FS {
	f := &FS{inner: inner}
	f.mu.counts = map[tsdbtest.OpKind]int64{}
	return f
}

// Inner returns the wrapped file system.
func (f *FS) Inner() fileutil.FS { return f.inner }

// Inject adds a fault. Of several that match the first one decides; all count.
func (f *FS) Inject(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.faults = append(f.mu.faults, &injected{Fault: fault})
}

// Lift removes all faults: the disk is well again.
func (f *FS) Lift() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.faults = nil
}

// Ops returns how many operations of these kinds there were, of all kinds if none
// is given.
func (f *FS) Ops(kinds ...tsdbtest.OpKind) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(kinds) == 0 {
		return f.mu.ops
	}
	var n int64
	for _, k := range kinds {
		n += f.mu.counts[k]
	}
	return n
}

// Hits returns the operations that failed, in order.
func (f *FS) Hits() []tsdbtest.Op {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.mu.hits)
}

// Trace returns the newest operations, oldest first.
func (f *FS) Trace() []Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.mu.trace[max(0, len(f.mu.trace)-maxTrace):])
}

// TraceString is Trace, one operation a line: what to print when a test fails.
func (f *FS) TraceString() string {
	var b strings.Builder
	for _, e := range f.Trace() {
		b.WriteString(e.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// begin counts an operation and returns the fault that hits it, or nil.
func (f *FS) begin(op tsdbtest.Op) *injected {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.ops++
	f.mu.counts[op.Kind]++
	op.N = f.mu.ops
	var hit *injected
	for _, fault := range f.mu.faults {
		if fault.hits(op) && hit == nil {
			hit = fault
		}
	}
	event := Event{Op: op}
	if hit != nil {
		event.Fault = hit.err()
		f.mu.hits = append(f.mu.hits, op)
	}
	if len(f.mu.trace) == 2*maxTrace {
		f.mu.trace = append(f.mu.trace[:0], f.mu.trace[maxTrace:]...)
	}
	f.mu.trace = append(f.mu.trace, event)
	return hit
}

// hits counts op if it matches.
func (i *injected) hits(op tsdbtest.Op) bool {
	if len(i.Kinds) > 0 && !slices.Contains(i.Kinds, op.Kind) || i.Match != nil && !i.Match(op) {
		return false
	}
	i.matched++
	nth := max(1, i.Nth)
	return i.matched == nth || i.Sticky && i.matched > nth
}

// err is the error without the path.
func (i *injected) err() error {
	if i.Err == nil {
		return syscall.EIO
	}
	return i.Err
}

// fail is begin for operations that do nothing when they fail.
func (f *FS) fail(kind tsdbtest.OpKind, name, newName string) error {
	hit := f.begin(tsdbtest.Op{Kind: kind, Name: name, NewName: newName})
	return hit.at(kind, name)
}

func (i *injected) at(kind tsdbtest.OpKind, name string) error {
	if i == nil {
		return nil
	}
	return &fs.PathError{Op: kind.String(), Path: name, Err: i.err()}
}
