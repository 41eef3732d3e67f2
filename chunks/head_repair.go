package chunks

import (
	"io/fs"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// repairPlan is what Repair has to do. Steps that are done are taken out, so that a
// Repair that failed can be called again.
type repairPlan struct {
	damaged *headFile     // to be rewritten with its good bytes; may be nil
	good    int64         // of damaged, at least a header
	dropped []droppedFile // to be taken out of the directory, by number
	// saved says that copies of all of them are in the quarantine.
	saved bool
}

type droppedFile struct {
	path string
	size int64
}

// Repair removes what Load found damaged: it first puts a copy of every file concerned into
// the directory quarantine (which it makes if needed, and where nothing is replaced),
// then removes the files behind the damage, last one first, so that no crash leaves a gap
// in the numbers, and then replaces the damaged file by its good part, through a
// temporary file at the top of the data directory. Everything is synced on return.
//
// It returns the paths of the copies. It does nothing if nothing needs repair. After an
// error it can be called again, and nothing is written before it succeeds.
func (h *HeadFiles) Repair(quarantine string) (copies []string, err error) {
	h.w.Lock()
	defer h.w.Unlock()
	if h.w.closed {
		return nil, ErrClosed
	}
	if !h.w.loaded {
		return nil, ErrNotLoaded
	}
	p := h.w.repair
	if p == nil {
		return nil, nil
	}
	if !p.saved {
		if copies, err = h.saveLocked(p, quarantine); err != nil {
			return copies, err
		}
		p.saved = true
	}
	if err := h.dropFilesLocked(p); err != nil {
		return copies, err
	}
	if err := h.rewriteLocked(p); err != nil {
		return copies, err
	}
	h.w.repair = nil
	return copies, nil
}

// saveLocked copies the files of the plan into the quarantine.
func (h *HeadFiles) saveLocked(p *repairPlan, quarantine string) (copies []string, err error) {
	var paths []string
	if p.damaged != nil {
		paths = append(paths, p.damaged.path)
	}
	for _, d := range p.dropped {
		if d.size > 0 {
			paths = append(paths, d.path)
		}
	}
	if len(paths) == 0 {
		return nil, nil
	}
	if err := fileutil.MkdirSync(h.fs, quarantine); err != nil {
		return nil, err
	}
	for _, path := range paths {
		dst, err := fileutil.FreeName(h.fs, filepath.Join(quarantine, filepath.Base(path)))
		if err != nil {
			return copies, err
		}
		if err := h.save(path, dst); err != nil {
			return copies, err
		}
		copies = append(copies, dst)
	}
	return copies, h.fs.SyncDir(quarantine)
}

// Quarantine keeps a copy of a file in a directory, which is made if there is none; the copy is on
// stable storage. The file stays as it is. It may run beside everything.
func (h *HeadFiles) Quarantine(number uint32, dir string) error {
	h.w.Lock()
	defer h.w.Unlock()
	h.mu.RLock()
	f := h.mu.byNum[number]
	h.mu.RUnlock()
	if f == nil {
		return ErrUnknownRef
	}
	if err := fileutil.MkdirSync(h.fs, dir); err != nil {
		return err
	}
	dst, err := fileutil.FreeName(h.fs, filepath.Join(dir, filepath.Base(f.path)))
	if err != nil {
		return err
	}
	if f == h.w.cur { // it grows, and a link would grow with it
		err = fileutil.CopyFile(h.fs, f.path, dst)
	} else {
		err = h.save(f.path, dst)
	}
	if err != nil {
		return err
	}
	return h.fs.SyncDir(dir)
}

// save links or copies a file. A link costs no space and reads nothing, which helps
// when the disk is full or bad; head-chunk files are never changed in place once
// they are finished, so it is as good as a copy.
func (h *HeadFiles) save(path, dst string) error {
	if h.fs.Link(path, dst) == nil {
		return nil
	}
	return fileutil.CopyFile(h.fs, path, dst)
}

// dropFilesLocked removes the files behind the damage, last one first.
func (h *HeadFiles) dropFilesLocked(p *repairPlan) error {
	for n := len(p.dropped); n > 0; n = len(p.dropped) {
		if err := h.fs.Remove(p.dropped[n-1].path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := h.syncDirLocked(h.dir); err != nil {
			return err
		}
		p.dropped = p.dropped[:n-1]
	}
	return nil
}

// rewriteLocked replaces the damaged file by its good part.
func (h *HeadFiles) rewriteLocked(p *repairPlan) error {
	old := p.damaged
	if old == nil {
		return nil
	}
	tmp := filepath.Join(filepath.Dir(h.dir), "tmp-chunks_head-"+fileName(old.number))
	if err := h.fs.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := h.copyGood(old, tmp, p.good); err != nil {
		return fileutil.JoinErrors(err, h.fs.Remove(tmp))
	}
	if err := h.fs.Rename(tmp, old.path); err != nil {
		return fileutil.JoinErrors(err, h.fs.Remove(tmp))
	}
	for _, dir := range []string{h.dir, filepath.Dir(h.dir)} {
		if err := h.syncDirLocked(dir); err != nil {
			return err
		}
	}
	p.damaged = nil
	// The old mapping shows the file that is now in the quarantine alone.
	repaired := newHeadFile(h.fs, old.path, old.number, p.good, p.good)
	h.mu.Lock()
	h.mu.live[len(h.mu.live)-1] = repaired
	h.mu.byNum[repaired.number] = repaired
	h.mu.Unlock()
	return old.release()
}

// copyGood writes the first good bytes of a file to tmp and syncs it.
func (h *HeadFiles) copyGood(from *headFile, tmp string, good int64) error {
	m, err := from.open()
	if err != nil {
		return err
	}
	b, err := m.At(0, int(good))
	if err != nil {
		return err
	}
	f, err := h.fs.Create(tmp)
	if err != nil {
		return err
	}
	// A fault inside the write is an error of the operating system, not a signal;
	// an FS of memory may copy itself, hence the guard.
	err = fileutil.GuardFaults(func() error {
		_, err := f.Write(b)
		return err
	})
	if err == nil {
		err = f.Sync()
	}
	return fileutil.JoinErrors(err, f.Close())
}
