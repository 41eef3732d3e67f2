package ship

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// The state file has the name and the form of that of Thanos' own uploader, so that one may take
// over from the other. No reader of data directories looks at it.
const (
	stateName    = "thanos.shipper.json"
	stateVersion = 1
	maxStateSize = 64 << 20 // two million blocks
)

type state struct {
	Version  int      `json:"version"`
	Uploaded []string `json:"uploaded"`
}

// readState returns the blocks that were uploaded. unsure: the file is not there, or not to be
// used, so that the bucket has to be asked.
func readState(fsys tsdb.FS, dir string) (uploaded map[ulid.ULID]bool, unsure bool, _ error) {
	uploaded = map[ulid.ULID]bool{}
	text, err := fileutil.ReadFile(fsys, filepath.Join(dir, stateName), maxStateSize)
	if isGone(err) {
		return uploaded, true, nil
	}
	if err != nil {
		return nil, false, errors.WithMessage(err, "ship: read what was uploaded")
	}
	var st state
	if err := json.Unmarshal(text, &st); err != nil || st.Version != stateVersion {
		return uploaded, true, nil
	}
	for _, name := range st.Uploaded {
		id, err := ulid.ParseStrict(name)
		if err != nil {
			return map[ulid.ULID]bool{}, true, nil
		}
		uploaded[id] = true
	}
	return uploaded, false, nil
}

// namesOf returns the name of a block, and of what it was made of.
func namesOf(m *blockdir.Meta) []ulid.ULID {
	return append([]ulid.ULID{m.ULID}, m.Compaction.Sources...)
}

// addNames adds the names of blocks to a set, and of what they were made of.
func addNames(metas map[ulid.ULID]blockdir.Meta, set map[ulid.ULID]bool) {
	for _, m := range metas {
		for _, id := range namesOf(&m) {
			set[id] = true
		}
	}
}

// save writes the state file, durable on return. What no block is left of is forgotten, neither now
// nor when it was looked before: a directory that is listed while a merged block takes the place of
// others may show neither. While there is a block of which nobody knows what it was made of, nothing
// is forgotten.
func (s *Shipper) save() error {
	left := map[ulid.ULID]bool{}
	maps.Copy(left, s.before)
	addNames(s.metas, left)
	st := state{Version: stateVersion, Uploaded: []string{}}
	s.mu.Lock()
	for id := range s.mu.uploaded {
		if left[id] || s.before == nil || s.unread {
			st.Uploaded = append(st.Uploaded, id.String())
		} else {
			delete(s.mu.uploaded, id)
		}
	}
	maps.DeleteFunc(s.mu.unsuited, func(id ulid.ULID, _ string) bool { return !left[id] && !s.unread })
	maps.DeleteFunc(s.mu.lost, func(id ulid.ULID, _ bool) bool { return !left[id] && !s.unread })
	s.mu.Unlock()
	slices.Sort(st.Uploaded)
	text, err := json.MarshalIndent(st, "", "\t")
	if err != nil {
		return errors.Wrap(err, "encode what was uploaded")
	}
	name := filepath.Join(s.dir, stateName)
	err = fileutil.WriteFileAtomic(s.o.FS, name+".tmp", name, text)
	s.unsaved.Store(err != nil)
	return errors.WithMessage(err, "write down what was uploaded")
}
