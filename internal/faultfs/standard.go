package faultfs

import (
	"slices"
	"syscall"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// changes are the kinds that need space or write metadata.
var changes = []tsdbtest.OpKind{
	tsdbtest.OpCreate, tsdbtest.OpMkdirAll, tsdbtest.OpWrite, tsdbtest.OpTruncate,
	tsdbtest.OpRename, tsdbtest.OpLink, tsdbtest.OpRemove,
}

// reads are the kinds that change nothing.
var reads = []tsdbtest.OpKind{
	tsdbtest.OpOpen, tsdbtest.OpOpenWrite, tsdbtest.OpReadDir, tsdbtest.OpStat,
	tsdbtest.OpReadAt, tsdbtest.OpSize,
}

// opens are the kinds that need a descriptor, be it for a moment.
var opens = []tsdbtest.OpKind{
	tsdbtest.OpOpen, tsdbtest.OpOpenWrite, tsdbtest.OpCreate, tsdbtest.OpReadDir, tsdbtest.OpSyncDir,
}

// Shortages returns the faults of a process or a machine that runs short of descriptors and
// memory, and of calls that a signal interrupts, as Standard does: whatever may need one may
// fail so. None of them has failed to sync anything, but for an interrupted sync that no
// implementation of a file system should let through.
func Shortages() []Fault {
	return both([]Fault{
		{Name: "shortage-EMFILE", Kinds: opens, Err: syscall.EMFILE},
		{Name: "shortage-ENFILE", Kinds: opens, Err: syscall.ENFILE},
		{Name: "shortage-ENOMEM", Kinds: slices.Concat(changes, reads, []tsdbtest.OpKind{tsdbtest.OpSyncDir, tsdbtest.OpMmap}), Err: syscall.ENOMEM},
		{Name: "interrupted-EINTR", Kinds: slices.Concat(changes, reads, []tsdbtest.OpKind{tsdbtest.OpSync, tsdbtest.OpSyncDir, tsdbtest.OpClose, tsdbtest.OpMmap}), Err: syscall.EINTR},
	})
}

// both returns each fault as a single one and as one that stays.
func both(single []Fault) []Fault {
	all := slices.Clone(single)
	for _, f := range single {
		f.Name += "-sticky"
		f.Sticky = true
		all = append(all, f)
	}
	return all
}

// Standard returns the faults that every workload has to survive, each once as a
// single failure and once as one that stays: a dying disk (EIO), a full one, a
// write that is cut in half, syncs and closes that lose data, and what a process
// runs out of (files, memory for mappings). Set Nth to sweep.
func Standard() []Fault {
	return both([]Fault{
		{Name: "change-EIO", Kinds: changes, Err: syscall.EIO},
		{Name: "change-ENOSPC", Kinds: changes, Err: syscall.ENOSPC},
		{Name: "half-write-EIO", Kinds: []tsdbtest.OpKind{tsdbtest.OpWrite}, Err: syscall.EIO, Half: true},
		{Name: "half-write-ENOSPC", Kinds: []tsdbtest.OpKind{tsdbtest.OpWrite}, Err: syscall.ENOSPC, Half: true},
		{Name: "sync-EIO", Kinds: []tsdbtest.OpKind{tsdbtest.OpSync}, Err: syscall.EIO},
		{Name: "syncdir-EIO", Kinds: []tsdbtest.OpKind{tsdbtest.OpSyncDir}, Err: syscall.EIO},
		{Name: "close-EIO", Kinds: []tsdbtest.OpKind{tsdbtest.OpClose}, Err: syscall.EIO},
		{Name: "read-EIO", Kinds: reads, Err: syscall.EIO},
		{Name: "open-EMFILE", Kinds: []tsdbtest.OpKind{tsdbtest.OpOpen, tsdbtest.OpOpenWrite, tsdbtest.OpCreate}, Err: syscall.EMFILE},
		{Name: "mmap-ENOMEM", Kinds: []tsdbtest.OpKind{tsdbtest.OpMmap}, Err: syscall.ENOMEM},
		{Name: "mapread-fault", Kinds: []tsdbtest.OpKind{tsdbtest.OpMapRead}, Err: fileutil.ErrMemoryFault},
	})
}
