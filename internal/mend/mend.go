// Package mend sets full chunks of the head aside whose file is damaged, or was cut while it was in
// use. A copy of the file goes to quarantine. The samples are read from the log again, which has
// them until a block does. From then on readers, and the flush, get the chunk that was made of
// those, from memory. What the log has not is lost, and told: it is counted, and queries of its
// time warn of it (docs/design/recovery.md).
//
// Nothing is written into head-chunk files for it: they would have a chunk behind newer ones of its
// series, which other engines take for damage.
//
// The package knows how a chunk is made anew and who gets it. When that is done, and what a damaged
// file keeps from being done, is for its caller.
package mend

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/foreground"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/read"
	"github.com/seed347100a3/tsdb/internal/replay"
)

// Config is what a Mender works with.
type Config struct {
	FS     fileutil.FS
	Dir    string // the data directory
	Logger *slog.Logger
}

// Mender has the full chunks that took the place of damaged ones. It implements read.Mender, and is
// safe for concurrent use, but for Mend and Forget: one of them at a time.
type Mender struct {
	Config

	damage       atomic.Bool   // a chunk could not be read from its file
	mended, lost atomic.Uint64 // chunks; samples of them that the log does not have

	mu struct {
		sync.RWMutex
		noted  map[uint32]bool // files with damage that nobody has looked through yet
		chunks map[chunks.Ref]chunk
		losses []loss
	}
	copied []uint32 // files that are in quarantine
}

// chunk is what the log has of a damaged chunk.
type chunk struct {
	read.MendedChunk
	loss int  // number of the loss that tells of it, from 1 on; 0: nothing is lost
	gone bool // its file is removed
}

// loss is the closed time of a damaged chunk of which the log has not all samples.
type loss struct{ mint, maxt int64 }

// NoteDamage tells once of a full chunk that is damaged in its file, and has Mend look
// after it. The next Open makes it anew from the log, unless it begins with a snapshot.
func (m *Mender) NoteDamage(ref chunks.Ref, err error) {
	if !errors.Is(err, encbuf.ErrCorrupt) {
		return
	}
	m.note(ref)
	if !m.damage.Swap(true) {
		m.Logger.Error("a head chunk is damaged; its samples are read from the log again", "error", fileutil.Logged(err))
	}
}

// note remembers that a chunk could not be read from its file.
func (m *Mender) note(ref chunks.Ref) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.noted == nil {
		m.mu.noted = map[uint32]bool{}
	}
	m.mu.noted[ref.File()] = true
}

// pending returns the numbers of the files that are to be looked through.
func (m *Mender) pending() (files []uint32) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for file := range m.mu.noted {
		files = append(files, file)
	}
	return files
}

// Damaged reports whether a file that is there has, or had, a chunk that cannot be read.
func (m *Mender) Damaged() bool { return m.damage.Load() }

// Counts returns how many damaged chunks were set aside, and how many of their samples the log did
// not have either.
func (m *Mender) Counts() (chunks, lostSamples uint64) { return m.mended.Load(), m.lost.Load() }

// Losses is how many losses there are. A reader knows of those that there were when it began.
func (m *Mender) Losses() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.mu.losses)
}

// Mended returns what took the place of a damaged chunk, for a reader that knows of so many losses.
func (m *Mender) Mended(ref chunks.Ref, losses int) (read.MendedChunk, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c, ok := m.mu.chunks[ref]
	return c.MendedChunk, ok && c.loss <= losses
}

// Warnings tells of what is lost in a closed range.
func (m *Mender) Warnings(mint, maxt int64) []error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n := 0
	for _, l := range m.mu.losses {
		if l.mint <= maxt && l.maxt >= mint {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return []error{errors.WithMessagef(read.ErrMissing, "%d damaged chunks of the head, which the log does not have", n)}
}

// Health is nil if the files of damaged chunks are gone and nothing is lost, else what there is to
// say. It has not the name of a method of an interface: then each program would have it, whether it
// asks for it or not.
func (m *Mender) Health() error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	there := 0
	for _, c := range m.mu.chunks {
		if !c.gone {
			there++
		}
	}
	switch {
	case len(m.mu.losses) > 0:
		return errors.WithMessagef(read.ErrMissing, "%d damaged chunks of the head have samples that the log does not have; copies are in %s",
			len(m.mu.losses), datadir.QuarantineDir)
	case len(m.mu.noted) > 0:
		return errors.WithMessagef(encbuf.ErrCorrupt, "%d head-chunk files have damage, and are to be set aside", len(m.mu.noted))
	case there > 0:
		return errors.WithMessagef(encbuf.ErrCorrupt, "%d chunks of the head are damaged in their files; they were made anew from the log, and copies are in %s",
			there, datadir.QuarantineDir)
	default:
		return nil
	}
}

// Forget lets go of chunks whose files are removed, as nothing below a place is wanted any more:
// those that were removed the last time, since a reader may have been there then. When no file with
// damage is left, Damaged is false again.
func (m *Mender) Forget(lowest chunks.Ref) {
	if !m.damage.Load() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	left := len(m.mu.noted) > 0
	for ref, c := range m.mu.chunks {
		switch {
		case ref >= lowest:
			left = true
		case c.gone:
			delete(m.mu.chunks, ref)
		default:
			c.gone = true
			m.mu.chunks[ref] = c
		}
	}
	if !left {
		m.damage.Store(false)
	}
}

// Mend sets damaged chunks aside that readers have come upon, with all others in their
// files, and returns how many these are. start is where the head begins by the blocks. On an
// error everything is as it was, and it is tried again. Neither log nor chunk files are truncated
// meanwhile.
func (m *Mender) Mend(ctx context.Context, series *memseries.Directory, from *chunks.HeadFiles, start int64) (n int, err error) {
	files := m.pending()
	if len(files) == 0 {
		return 0, nil
	}
	damaged, err := m.findDamaged(ctx, series, from, files)
	var made []replay.Remade
	whole := true
	if err == nil && len(damaged) > 0 {
		if err = m.quarantine(from, damaged); err == nil {
			made, whole, err = replay.Search(ctx, m.FS, filepath.Join(m.Dir, datadir.WALDir), series, damaged)
		}
	}
	if err != nil {
		return 0, errors.WithMessage(err, "mend head chunks")
	}
	lost := m.put(damaged, made, files, start, whole)
	m.mended.Add(uint64(len(damaged)))
	m.lost.Add(uint64(lost))
	if len(damaged) > 0 {
		m.Logger.Warn("damaged head chunks were set aside", "chunks", len(damaged), "lost_samples", lost, "files", len(files))
	}
	return len(damaged), nil
}

// findDamaged reads all chunks in some files, and returns those that cannot be read and that
// nothing took the place of. They are in the order of time for each series.
func (m *Mender) findDamaged(ctx context.Context, series *memseries.Directory, from *chunks.HeadFiles, files []uint32) (damaged []memseries.Located, err error) {
	const wayEvery = 16 // chunks, which take about a hundred microseconds
	var buf []byte
	way := foreground.NewPoll(ctx)
	for _, l := range series.Shelf.InFiles(func(n uint32) bool { return slices.Contains(files, n) }) {
		if !way.Step(wayEvery) {
			return nil, way.Err()
		}
		_, data, err := from.Read(l.Ref, buf)
		if err == nil {
			buf = data[:0]
			continue
		}
		if !errors.Is(err, encbuf.ErrCorrupt) {
			return nil, err
		}
		if _, ok := m.Mended(l.Ref, m.Losses()); !ok {
			damaged = append(damaged, l)
		}
	}
	return damaged, nil
}

// quarantine keeps the files of damaged chunks, each once.
func (m *Mender) quarantine(from *chunks.HeadFiles, damaged []memseries.Located) error {
	for _, d := range damaged {
		file := d.Ref.File()
		if slices.Contains(m.copied, file) {
			continue
		}
		if err := from.Quarantine(file, filepath.Join(m.Dir, datadir.QuarantineDir)); err != nil {
			return errors.WithMessagef(err, "keep head-chunk file %d", file)
		}
		m.copied = append(m.copied, file)
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
func (m *Mender) put(damaged []memseries.Located, made []replay.Remade, files []uint32, start int64, whole bool) (lost int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.chunks == nil {
		m.mu.chunks = map[chunks.Ref]chunk{}
	}
	for i, d := range damaged {
		c := chunk{MendedChunk: read.MendedChunk{MinT: made[i].MinT, MaxT: made[i].MaxT, Encoding: made[i].Enc, Data: made[i].Data}}
		if n := lostSamples(d, &made[i], start, whole); n > 0 {
			lost += n
			m.mu.losses = append(m.mu.losses, loss{d.MinT, d.MaxT})
			c.loss = len(m.mu.losses)
		}
		m.mu.chunks[d.Ref] = c
	}
	for _, file := range files {
		delete(m.mu.noted, file)
	}
	return lost
}
