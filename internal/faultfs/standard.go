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

// Standard returns the faults that every workload has to survive, each once as a
// single failure and once as one that stays: a dying disk (EIO), a full one, a
// write that is cut in half, syncs and closes that lose data, and what a process
// runs out of (files, memory for mappings). Set Nth to sweep.
func Standard() []Fault {
	single := []Fault{
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
	}
	all := slices.Clone(single)
	for _, f := range single {
		f.Name += "-sticky"
		f.Sticky = true
		all = append(all, f)
	}
	return all
}
