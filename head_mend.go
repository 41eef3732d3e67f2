package tsdb

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/foreground"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/read"
	"github.com/seed347100a3/tsdb/internal/replay"
)

// A full chunk of the head whose file is damaged, or was cut while it was in use, is set aside. A
// copy of the file goes to quarantine. The samples are read from the log again, which has them
// until a block does. From then on readers, and the flush, get the chunk that was made of those,
// from memory. What the log has not is lost, and told: Stats counts it, queries of its time warn of
// it (docs/design/recovery.md).
//
// Nothing is written into head-chunk files for it: they would have a chunk behind newer ones of
// its series, which other engines take for damage.

// mender has the full chunks that took the place of damaged ones. It implements read.Mender.
type mender struct {
	h *head

	damage               atomic.Bool   // a chunk could not be read from its file
	damaged, lostSamples atomic.Uint64 // chunks; samples of them that the log does not have

	sync.RWMutex
	noted  map[uint32]bool // files with damage that nobody has looked through yet
	copied map[uint32]bool // files that are in quarantine
	chunks map[chunks.Ref]mendedChunk
	lost   []lostTime
}

// mendedChunk is what the log has of a damaged chunk.
type mendedChunk struct {
	minT, maxT int64 // of its samples
	enc        chunkenc.Encoding
	data       []byte // nil: no sample is left
	lost       int    // number of the entry of mender.lost that tells of it, from 1 on; 0: none
	gone       bool   // its file is removed
}

// lostTime is the closed time of a damaged chunk of which the log has not all samples.
type lostTime struct{ mint, maxt int64 }

// note remembers that a chunk could not be read from its file.
func (m *mender) note(ref chunks.Ref) {
	m.Lock()
	defer m.Unlock()
	if m.noted == nil {
		m.noted = map[uint32]bool{}
	}
	m.noted[ref.File()] = true
}

// NoteDamage tells once of a full chunk that is damaged in its file, and has mend look
// after it. The next Open makes it anew from the log, unless it begins with a snapshot.
func (m *mender) NoteDamage(ref chunks.Ref, err error) {
	if !errors.Is(err, ErrCorrupt) {
		return
	}
	m.note(ref)
	if !m.damage.Swap(true) {
		m.h.opts.Logger.Error("a head chunk is damaged; its samples are read from the log again", "error", logged(err))
	}
}

// pending returns the numbers of the files that are to be looked through.
func (m *mender) pending() (files []uint32) {
	m.RLock()
	defer m.RUnlock()
	var sorted []uint64
	for file := range m.noted {
		sorted = append(sorted, uint64(file))
	}
	slices.Sort(sorted)
	for _, file := range sorted {
		files = append(files, uint32(file))
	}
	return files
}

// seen is how many losses there are. A reader knows of those that there were when it began.
func (m *mender) seen() int {
	m.RLock()
	defer m.RUnlock()
	return len(m.lost)
}

// find returns what took the place of a damaged chunk, for a reader that knows of so many losses.
func (m *mender) find(ref chunks.Ref, seen int) (mendedChunk, bool) {
	m.RLock()
	defer m.RUnlock()
	c, ok := m.chunks[ref]
	return c, ok && c.lost <= seen
}

// Mended is find for a reader of package read.
func (m *mender) Mended(ref chunks.Ref, losses int) (read.MendedChunk, bool) {
	c, ok := m.find(ref, losses)
	return read.MendedChunk{MinT: c.minT, MaxT: c.maxT, Encoding: c.enc, Data: c.data}, ok
}

// warnings tells of what is lost in a closed range.
func (m *mender) warnings(mint, maxt int64) Warnings {
	m.RLock()
	defer m.RUnlock()
	n := 0
	for _, l := range m.lost {
		if l.mint <= maxt && l.maxt >= mint {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return Warnings{errors.WithMessagef(ErrMissing, "%d damaged chunks of the head, which the log does not have", n)}
}

// err is what DB.Health says of damaged chunks: nil if their files are gone and nothing is lost.
func (m *mender) err() error {
	m.RLock()
	defer m.RUnlock()
	there := 0
	for _, c := range m.chunks {
		if !c.gone {
			there++
		}
	}
	switch {
	case len(m.lost) > 0:
		return errors.WithMessagef(ErrMissing, "%d damaged chunks of the head have samples that the log does not have; copies are in %s",
			len(m.lost), datadir.QuarantineDir)
	case len(m.noted) > 0:
		return errors.WithMessagef(ErrCorrupt, "%d head-chunk files have damage, and are to be set aside", len(m.noted))
	case there > 0:
		return errors.WithMessagef(ErrCorrupt, "%d chunks of the head are damaged in their files; they were made anew from the log, and copies are in %s",
			there, datadir.QuarantineDir)
	default:
		return nil
	}
}

// forget lets go of chunks whose files are removed, as nothing below a place is wanted any more:
// those that were removed the last time, since a reader may have been there then. It reports
// whether there is still a chunk in a file that is there.
func (m *mender) forget(lowest chunks.Ref) (left bool) {
	m.Lock()
	defer m.Unlock()
	for ref, c := range m.chunks {
		switch {
		case ref >= lowest:
			left = true
		case c.gone:
			delete(m.chunks, ref)
		default:
			c.gone = true
			m.chunks[ref] = c
		}
	}
	return left || len(m.noted) > 0
}

// mend sets damaged chunks aside that readers have come upon, with all others in their
// files, and returns how many these are. start is where the head begins by the blocks. On an
// error everything is as it was, and it is tried again. The caller holds flushing, so neither log
// nor chunk files are truncated meanwhile.
func (m *mender) mend(ctx context.Context, start int64) (n int, err error) {
	h := m.h
	files := m.pending()
	if len(files) == 0 {
		return 0, nil
	}
	damaged, err := m.findDamaged(ctx, files)
	var made []replay.Remade
	whole := true
	if err == nil && len(damaged) > 0 {
		if err = m.quarantine(damaged); err == nil {
			made, whole, err = replay.Search(ctx, h.opts.FS, h.walDir(), h.series, damaged)
		}
	}
	if err != nil {
		return 0, errors.WithMessage(refuse(err), "mend head chunks")
	}
	lost := m.put(damaged, made, files, start, whole)
	m.damaged.Add(uint64(len(damaged)))
	m.lostSamples.Add(uint64(lost))
	if len(damaged) > 0 {
		h.opts.Logger.Warn("damaged head chunks were set aside", "chunks", len(damaged), "lost_samples", lost, "files", len(files))
	}
	return len(damaged), nil
}

// findDamaged reads all chunks in some files, and returns those that cannot be read and that
// nothing took the place of. They are in the order of time for each series.
func (m *mender) findDamaged(ctx context.Context, files []uint32) (damaged []memseries.Located, err error) {
	const wayEvery = 16 // chunks, which take about a hundred microseconds
	var buf []byte
	way := foreground.NewPoll(ctx)
	for _, l := range m.h.series.Shelf.InFiles(func(n uint32) bool { return slices.Contains(files, n) }) {
		if !way.Step(wayEvery) {
			return nil, way.Err()
		}
		_, data, err := m.h.chunks.Read(l.Ref, buf)
		if err == nil {
			buf = data[:0]
			continue
		}
		if !errors.Is(err, ErrCorrupt) {
			return nil, err
		}
		if _, ok := m.find(l.Ref, m.seen()); !ok {
			damaged = append(damaged, l)
		}
	}
	return damaged, nil
}

// quarantine keeps the files of damaged chunks, each once.
func (m *mender) quarantine(damaged []memseries.Located) error {
	for _, d := range damaged {
		file := d.Ref.File()
		if m.copied[file] { // nobody else writes it
			continue
		}
		if err := m.h.chunks.Quarantine(file, filepath.Join(m.h.path, datadir.QuarantineDir)); err != nil {
			return errors.WithMessagef(err, "keep head-chunk file %d", file)
		}
		if m.copied == nil {
			m.copied = map[uint32]bool{}
		}
		m.copied[file] = true
	}
	return nil
}

// lostSamples is how many samples of a damaged chunk the log does not have. Those before start,
// which blocks have, it need not have; how many these are is not known, so a log that lacks
// nothing is believed.
func lostSamples(d memseries.Located, c *replay.Remade, start int64, whole bool) int {
	if d.MinT < start && whole {
		return 0
	}
	return max(0, int(d.Num)-c.Samples)
}

// put makes what was found take the place of damaged chunks, and returns how many samples are
// lost. The files were looked through.
func (m *mender) put(damaged []memseries.Located, made []replay.Remade, files []uint32, start int64, whole bool) (lost int) {
	m.Lock()
	defer m.Unlock()
	if m.chunks == nil {
		m.chunks = map[chunks.Ref]mendedChunk{}
	}
	for i, d := range damaged {
		c := mendedChunk{minT: made[i].MinT, maxT: made[i].MaxT, enc: made[i].Enc, data: made[i].Data}
		if n := lostSamples(d, &made[i], start, whole); n > 0 {
			lost += n
			m.lost = append(m.lost, lostTime{d.MinT, d.MaxT})
			c.lost = len(m.lost)
		}
		m.chunks[d.Ref] = c
	}
	for _, file := range files {
		delete(m.noted, file)
	}
	return lost
}
