package wal

import (
	"context"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

const (
	// tmpPrefix begins the names of files that are being written; no reader knows it.
	tmpPrefix = "tmp-wal-"
	// stateFile is a hint that the reference leaves in the log's directory; it does not
	// hold any more once somebody else writes there.
	stateFile = "series_state.json"
	// maxQuarantineNames bounds the search for a free name.
	maxQuarantineNames = 1000
)

// Repair makes a log directory whole after Replay and before the first new commit, so
// that any reader opens it with nothing to repair, and another crash cannot make a
// hole in what Replay gave:
//
//   - A checkpoint that is not whole, beside all that it should have replaced, moves to
//     quarantineDir.
//   - A damaged or torn segment is copied to quarantineDir and written again under its
//     own number, with the records that count and nothing else.
//   - Segments wholly behind the end of the log move to quarantineDir, highest first.
//   - A segment with commits above the watermark is written again and synced: nobody
//     knows what an earlier failed sync left of it.
//   - All other segments are synced, and the directory.
//
// New files are made in tmpDir, synced and renamed, so a crash at any point leaves a
// directory that Replay reads the same. All directories are on one file system.
//
// It returns where to Open the log. After an error call it again with the same report,
// or replay again; nothing is lost meanwhile. A full disk is ErrDiskFull. ErrPoisoned
// says that a sync failed: what it should have covered is in doubt until the process
// has let go of the directory, so do not try again before.
func Repair(ctx context.Context, fsys fileutil.FS, dir, quarantineDir, tmpDir string, r *ReplayReport) (Position, error) {
	m := &mender{ctx: ctx, fs: fsys, dir: dir, quarantineDir: quarantineDir, tmpDir: tmpDir, report: r}
	if err := m.run(); err != nil {
		return Position{}, diskFull(err)
	}
	return Position{Segment: m.next(), NextSeq: r.LastSeq + 1, Synced: r.LastSeq}, nil
}

// mender is one run of Repair. It notes in the report what is done, so that a second
// run goes on where the first one stopped.
type mender struct {
	ctx           context.Context
	fs            fileutil.FS
	dir           string
	quarantineDir string
	tmpDir        string
	report        *ReplayReport
}

// run does everything in an order that keeps each state readable: what knows the
// watermark is written before what else knew it moves away.
func (m *mender) run() error {
	if _, err := m.fs.Stat(m.dir); errors.Is(err, fs.ErrNotExist) && len(m.report.segments) == 0 {
		return m.removeTmp() // Open makes the directory
	}
	for _, step := range []func() error{m.prepare, m.moveAllDoubted, m.mendCheckpoint, m.mendSegments, m.moveRest, m.removeCovered, m.syncAll} {
		if err := step(); err != nil {
			return err
		}
		if err := m.ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// next returns the number of the segment to create.
func (m *mender) next() int {
	if m.report.ended {
		return m.report.segments[m.report.endSeg].file.Number + 1
	}
	return m.report.listing.Next()
}

// prepare makes the directory, and removes leftovers of an earlier repair and the hint
// of the reference.
func (m *mender) prepare() error {
	if m.report.Commits == 0 { // or Open has synced the name of the directory before
		if err := m.syncDir(filepath.Dir(m.dir)); err != nil { // whoever made it may not have
			return err
		}
	}
	if err := m.remove(filepath.Join(m.dir, stateFile)); err != nil {
		return err
	}
	return m.removeTmp()
}

// removeTmp removes files that a Repair before left unfinished.
func (m *mender) removeTmp() error {
	entries, err := m.fs.ReadDir(m.tmpDir)
	if err != nil {
		return fileutil.IgnoreNotExist(err)
	}
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), tmpPrefix)
		if _, err := strconv.Atoi(number); ok && err == nil && e.Type().IsRegular() {
			if err := m.remove(filepath.Join(m.tmpDir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *mender) moveAllDoubted() error { return m.moveDoubted(m.report.listing) }

// moveDoubted moves checkpoints that are not believed to quarantine.
func (m *mender) moveDoubted(list *Listing) error {
	for i := range list.doubted {
		d := &list.doubted[i]
		if d.moved {
			continue
		}
		base := filepath.Base(filepath.Dir(d.dir)) + "-" + filepath.Base(d.dir)
		_, synced, err := fileutil.MoveInto(m.fs, d.dir, m.quarantineDir, base)
		if !synced {
			return Poisoned(err)
		}
		if err != nil {
			return err
		}
		d.moved = true
	}
	return nil
}

func (m *mender) remove(name string) error {
	if err := m.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// mendSegments writes the log's segments again that need it.
func (m *mender) mendSegments() error {
	for i := m.report.cpNumber; i < len(m.report.segments); i++ {
		seg := &m.report.segments[i]
		if seg.done || m.report.ended && i > m.report.endSeg {
			continue
		}
		var err error
		switch {
		case seg.dirty:
			if err = m.quarantine(seg.file.Path); err == nil {
				err = m.rewrite(seg, m.mendedHeader(seg))
			}
		case seg.owner == ownerUs && seg.maxSeq > m.report.Watermark:
			err = m.rewrite(seg, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mendedHeader gives a segment of ours that lost commits a header which knows the
// watermark: if more is lost there one day, it counts as damage and not as the end of
// the log.
func (m *mender) mendedHeader(seg *segmentState) func(header, bool) header {
	if seg.owner != ownerUs {
		return nil
	}
	return func(h header, found bool) header {
		if !found {
			h = header{segment: uint64(seg.file.Number)}
		}
		h.synced = max(h.synced, m.report.Watermark)
		h.nextRef = max(h.nextRef, m.report.NextRef)
		if len(seg.gaps) > 0 { // a bare frame may come first now
			h.nextSeq = min(h.nextSeq, seg.gaps[0].first)
		}
		return h
	}
}

// moveRest moves the segments behind the end of the log to quarantine, highest first
// and each one for good before the next, so that no hole shows.
func (m *mender) moveRest() error {
	if !m.report.ended {
		return nil
	}
	for i := len(m.report.segments) - 1; i > m.report.endSeg; i-- {
		seg := &m.report.segments[i]
		if seg.done {
			continue
		}
		if err := m.moveAway(seg); err != nil {
			return err
		}
	}
	return nil
}

func (m *mender) moveAway(seg *segmentState) error {
	if !seg.gone {
		if err := m.quarantine(seg.file.Path); err != nil {
			return err
		}
		if err := m.remove(seg.file.Path); err != nil {
			return err
		}
		seg.gone = true
	}
	if err := m.syncDir(m.dir); err != nil {
		return err
	}
	seg.done = true
	return nil
}

// removeCovered removes segments that a checkpoint made superfluous, if they do not
// lead up to the next one: the reference takes that for a hole. If the checkpoint is not whole
// they may have what it has not, and are kept in quarantine.
func (m *mender) removeCovered() error {
	covered := m.report.listing.Covered
	n := len(covered)
	if n == 0 || covered[n-1].Number == m.report.Checkpoint && covered[n-1].Number-covered[0].Number == n-1 {
		return nil
	}
	for _, f := range covered {
		if !m.report.cpWhole {
			if err := m.quarantine(f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if err := m.remove(f.Path); err != nil {
			return err
		}
	}
	return nil
}

// syncAll syncs what was not written anew, and the directory.
func (m *mender) syncAll() error {
	for i := range m.report.segments {
		seg := &m.report.segments[i]
		if seg.done {
			continue
		}
		if err := m.syncFile(seg.file.Path); err != nil {
			return err
		}
	}
	return m.syncDir(m.dir)
}

func (m *mender) syncFile(path string) error {
	f, err := m.fs.OpenWrite(path)
	if err != nil {
		return err
	}
	if err := fileutil.JoinErrors(f.Sync(), f.Close()); err != nil {
		return Poisoned(err)
	}
	return nil
}

func (m *mender) syncDir(dir string) error {
	if err := m.fs.SyncDir(dir); err != nil {
		return dirNotSynced(err)
	}
	return nil
}

// quarantine keeps the content of a file under a free name in the quarantine: a link
// to it, since the file itself is replaced or removed, never changed; a copy where
// there are no links. A name that has the same content already, from an attempt that
// was cut short, will do.
func (m *mender) quarantine(path string) error {
	if err := fileutil.MkdirSync(m.fs, m.quarantineDir); err != nil {
		return err
	}
	base := filepath.Base(filepath.Dir(path)) + "-" + filepath.Base(path)
	for i := range maxQuarantineNames {
		name := filepath.Join(m.quarantineDir, base)
		if i > 0 {
			name += "." + segmentName(i)
		}
		err := m.fs.Link(path, name)
		if err != nil && !errors.Is(err, fs.ErrExist) && !fileutil.IsDiskFull(err) {
			err = fileutil.CopyFile(m.fs, path, name)
		}
		if err == nil {
			return m.syncDir(m.quarantineDir)
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		if same, err := sameContent(m.fs, path, name); same || err != nil {
			return fileutil.JoinErrors(err, m.syncDir(m.quarantineDir))
		}
	}
	return errors.Errorf("no free name for %s in %s: clear it out", base, m.quarantineDir)
}

// sameContent compares two files.
func sameContent(fsys fileutil.FS, a, b string) (same bool, err error) {
	fa, err := fsys.Open(a)
	if err != nil {
		return false, err
	}
	defer func() { err = fileutil.JoinErrors(err, fa.Close()) }()
	fb, err := fsys.Open(b)
	if err != nil {
		return false, err
	}
	defer func() { err = fileutil.JoinErrors(err, fb.Close()) }()
	return equalFiles(fa, fb)
}

func equalFiles(a, b fileutil.File) (bool, error) {
	size, err := a.Size()
	if err != nil {
		return false, err
	}
	if other, err := b.Size(); err != nil || other != size {
		return false, err
	}
	var bufs [2][]byte
	for i := range bufs {
		bufs[i] = make([]byte, min(size, readBufferSize))
	}
	for off := int64(0); off < size; off += readBufferSize {
		n := min(size-off, readBufferSize)
		for i, f := range []fileutil.File{a, b} {
			if got, err := f.ReadAt(bufs[i][:n], off); int64(got) < n {
				return false, err
			}
		}
		if string(bufs[0][:n]) != string(bufs[1][:n]) {
			return false, nil
		}
	}
	return true, nil
}
