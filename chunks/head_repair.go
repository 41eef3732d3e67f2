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
	w       *headWriter   // which writes nothing meanwhile
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

// planRepair makes a plan of what Load found: files that are not used go, and the last of
// those that are kept is rewritten if it is the damaged one. The report gets what that drops.
func planRepair(w *headWriter, rep *LoadReport, kept, dropped []*headFile) *repairPlan {
	p := &repairPlan{w: w}
	if rep.GoodBytes > 0 {
		p.damaged, p.good = kept[len(kept)-1], rep.GoodBytes
		rep.DroppedBytes = p.damaged.mapLen - p.good
	}
	for _, f := range dropped {
		p.dropped = append(p.dropped, droppedFile{path: f.path, size: f.mapLen})
		rep.DroppedBytes += f.mapLen
		if f.path != rep.Unwritten {
			rep.DroppedFiles = append(rep.DroppedFiles, f.path)
		}
	}
	return p
}

// Repair removes what Load found damaged. First it puts a copy of every file concerned into the
// directory quarantine, which it makes if needed and where nothing is replaced. Then it removes the
// files behind the damage, last one first, so that no crash leaves a gap in the numbers. Then it
// replaces the damaged file by its good part, through a temporary file at the top of the data
// directory. Everything is synced on return.
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
	if copies, err = p.run(quarantine); err == nil {
		h.w.repair = nil
	}
	return copies, err
}

// Quarantine keeps a copy of a file in a directory, which is made if there is none; the copy is on
// stable storage. The file stays as it is. It may run beside everything.
func (h *HeadFiles) Quarantine(number uint32, dir string) error {
	h.w.Lock()
	defer h.w.Unlock()
	f, out := h.table.file(number), &h.w.out
	if f == nil {
		return ErrUnknownRef
	}
	if err := fileutil.MkdirSync(out.fs, dir); err != nil {
		return err
	}
	// The one being written grows, and a link would grow with it.
	if _, err := setAside(out.fs, f.path, dir, f != out.cur.file); err != nil {
		return err
	}
	return out.fs.SyncDir(dir)
}

// setAside links or copies a file into a directory, under a name of its own. A link costs no
// space and reads nothing, which helps when the disk is full or bad; head-chunk files are never
// changed in place once they are finished, so it is as good as a copy.
func setAside(fsys fileutil.FS, path, dir string, link bool) (dst string, err error) {
	if dst, err = fileutil.FreeName(fsys, filepath.Join(dir, filepath.Base(path))); err != nil {
		return "", err
	}
	if link && fsys.Link(path, dst) == nil {
		return dst, nil
	}
	return dst, fileutil.CopyFile(fsys, path, dst)
}

// run does what is left to do. It returns the paths of copies that it made.
func (p *repairPlan) run(quarantine string) (copies []string, err error) {
	if !p.saved {
		if copies, err = p.save(quarantine); err != nil {
			return copies, err
		}
		p.saved = true
	}
	if err := p.dropFiles(); err != nil {
		return copies, err
	}
	return copies, p.rewrite()
}

// save copies the files of the plan into the quarantine.
func (p *repairPlan) save(quarantine string) (copies []string, err error) {
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
	if err := fileutil.MkdirSync(p.w.fs, quarantine); err != nil {
		return nil, err
	}
	for _, path := range paths {
		dst, err := setAside(p.w.fs, path, quarantine, true)
		if err != nil {
			return copies, err
		}
		copies = append(copies, dst)
	}
	return copies, p.w.fs.SyncDir(quarantine)
}

// dropFiles removes the files behind the damage, last one first.
func (p *repairPlan) dropFiles() error {
	for n := len(p.dropped); n > 0; n = len(p.dropped) {
		if err := p.w.fs.Remove(p.dropped[n-1].path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := p.w.syncDir(p.w.dir); err != nil {
			return err
		}
		p.dropped = p.dropped[:n-1]
	}
	return nil
}

// rewrite replaces the damaged file by its good part.
func (p *repairPlan) rewrite() error {
	old := p.damaged
	if old == nil {
		return nil
	}
	tmp := filepath.Join(filepath.Dir(p.w.dir), "tmp-chunks_head-"+fileName(old.number))
	if err := p.w.fs.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := p.copyGood(tmp); err != nil {
		return fileutil.JoinErrors(err, p.w.fs.Remove(tmp))
	}
	if err := p.w.fs.Rename(tmp, old.path); err != nil {
		return fileutil.JoinErrors(err, p.w.fs.Remove(tmp))
	}
	for _, dir := range []string{p.w.dir, filepath.Dir(p.w.dir)} {
		if err := p.w.syncDir(dir); err != nil {
			return err
		}
	}
	p.damaged = nil
	// The old mapping shows the file that is now in the quarantine alone.
	repaired := newHeadFile(p.w.fs, old.path, old.number, p.good, p.good)
	repaired.synced = p.good
	p.w.table.replaceLast(repaired)
	return old.release()
}

// copyGood writes the good bytes of the damaged file to tmp and syncs it.
func (p *repairPlan) copyGood(tmp string) error {
	m, err := p.damaged.open()
	if err != nil {
		return err
	}
	b, err := m.At(0, int(p.good))
	if err != nil {
		return err
	}
	f, err := p.w.fs.Create(tmp)
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
