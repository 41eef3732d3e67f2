package ship

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// block is one that is in the data directory, or held.
type block struct {
	id   ulid.ULID
	meta blockdir.Meta
	held bool
	verdict
	over bool // it needs no more work
}

// verdict is what becomes of a block: it is to be uploaded, or not for a reason that somebody
// should know of, or simply not.
type verdict struct {
	due    bool
	reason string
}

// judgeLocked says what becomes of a block. s.mu is held.
func (s *Shipper) judgeLocked(m *blockdir.Meta) verdict {
	if reason := s.mu.unsuited[m.ULID]; reason != "" {
		return verdict{reason: reason}
	}
	return judge(m, s.o.Compacted, func(id ulid.ULID) bool { return s.mu.uploaded[id] })
}

// judge says what becomes of a block, given what was uploaded.
func judge(m *blockdir.Meta, compacted bool, uploaded func(ulid.ULID) bool) verdict {
	if uploaded(m.ULID) || m.Stats.NumSamples == 0 {
		return verdict{}
	}
	var missing []string
	in := 0
	for _, id := range m.Compaction.Sources {
		switch {
		case id == m.ULID:
		case uploaded(id):
			in++
		default:
			missing = append(missing, id.String())
		}
	}
	switch {
	case in > 0 && len(missing) > 0:
		return verdict{reason: fmt.Sprintf("it was merged of %d blocks that are uploaded and of others that are not: %s", in, strings.Join(missing, ", "))}
	case in > 0:
		return verdict{}
	case m.Compaction.Level > 1 && !writtenAnew(m) && !compacted:
		return verdict{reason: "it was merged before what it was made of was uploaded; Options.Compacted, of tsdbserve --shipper.upload-compacted, would upload it"}
	}
	return verdict{due: true}
}

// writtenAnew tells whether a block is another one, without what was deleted in it.
func writtenAnew(m *blockdir.Meta) bool {
	return m.Compaction.Level > 1 && len(m.Compaction.Sources) == 1
}

// found is what there is to look at in one Sync.
type found struct {
	blocks  []*block // in the order of their times
	damages []error
}

// due lists what is to be uploaded.
func (f *found) due() (list []*block) {
	for _, b := range f.blocks {
		if b.due {
			list = append(list, b)
		}
	}
	return list
}

// look finds the blocks of the data directory, and those that are held and may be there no more.
func (s *Shipper) look() (*found, error) {
	held, others, err := s.heldBlocks()
	if err != nil {
		return nil, err
	}
	ids, err := blockdir.List(s.o.FS, s.dir)
	if err != nil {
		return nil, err
	}
	for _, id := range others {
		s.doubted[id] = true
	}
	s.unread = false
	f, metas := &found{}, map[ulid.ULID]blockdir.Meta{}
	for id, m := range held {
		metas[id] = m
		f.blocks = append(f.blocks, &block{id: id, meta: m, held: true})
	}
	for _, id := range ids {
		if _, there := metas[id]; there {
			continue
		}
		m, known := s.metas[id]
		if !known {
			if m, err = blockdir.ReadMeta(s.o.FS, blockdir.Path(s.dir, id)); err != nil {
				s.unreadable(f, id, err)
				continue
			}
		}
		metas[id] = m
		f.blocks = append(f.blocks, &block{id: id, meta: m})
	}
	if s.metas != nil {
		s.before = map[ulid.ULID]bool{}
		addNames(s.metas, s.before)
	}
	s.metas = metas
	slices.SortFunc(f.blocks, func(a, b *block) int {
		return cmp.Or(cmp.Compare(a.meta.MinTime, b.meta.MinTime), a.id.Compare(b.id))
	})
	return f, nil
}

// unreadable notes a block whose meta file cannot be read. That it is damaged is told once.
func (s *Shipper) unreadable(f *found, id ulid.ULID, err error) {
	err = s.damaged(id, blockdir.Path(s.dir, id), err)
	if errors.Is(err, errGone) {
		return
	}
	s.unread = true
	b := &block{id: id, verdict: verdict{reason: err.Error()}}
	f.blocks = append(f.blocks, b)
	s.mu.Lock()
	told := s.mu.unsuited[id] != ""
	s.mu.Unlock()
	if !told {
		f.damages = append(f.damages, errors.WithMessagef(err, "ship block %s", id))
	}
	if errors.Is(err, tsdb.ErrCorrupt) {
		s.skip(b, err.Error())
	}
}

// damaged returns what to make of an error of the files of a block: errGone if it was removed
// meanwhile; errLocal if what is held of it lacks a file, so that it will be held anew.
func (s *Shipper) damaged(id ulid.ULID, dir string, err error) error {
	if dir != blockdir.Path(s.dir, id) {
		if _, there := s.o.FS.Stat(filepath.Join(dir, metaFile)); isGone(err) || isGone(there) {
			return errors.WithMessagef(errLocal, "%s: %v", dir, err) // it is not that the block is corrupt
		}
		return err
	}
	if _, there := s.o.FS.Stat(dir); isGone(there) {
		return errGone
	}
	if isGone(err) { // a file of it is missing
		return fileutil.Meaning(tsdb.ErrCorrupt, errors.WithMessage(err, dir))
	}
	return err
}

// judgeAll judges each block by itself. A list that others wrote may name a block, and not what it
// was made of.
func (s *Shipper) judgeAll(f *found) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range f.blocks {
		if s.mu.uploaded[b.id] {
			for _, id := range b.meta.Compaction.Sources {
				s.mu.uploaded[id] = true
			}
		}
	}
	for _, b := range f.blocks {
		if b.meta.Version != 0 {
			b.verdict = s.judgeLocked(&b.meta)
		}
	}
}

// decide judges all blocks. Of two that are due and of which one has all that the other was made
// of, only that one is uploaded.
func (s *Shipper) decide(f *found) {
	s.judgeAll(f)
	due := f.due()
	for _, b := range due {
		for _, m := range due {
			if m.due && m != b && contains(m, b) {
				b.due = false
			}
		}
	}
}

// contains tells whether a block was made of another one, or of all that the other was made of, and
// more.
func contains(m, b *block) bool {
	in := func(id ulid.ULID) bool { return slices.Contains(m.meta.Compaction.Sources, id) }
	if in(b.id) {
		return true
	}
	all := len(b.meta.Compaction.Sources) > 0
	for _, id := range b.meta.Compaction.Sources {
		all = all && in(id)
	}
	return all && (len(m.meta.Compaction.Sources) > len(b.meta.Compaction.Sources) || m.id.Compare(b.id) > 0)
}
