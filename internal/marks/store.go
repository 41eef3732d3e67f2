// Package marks remembers, over restarts and kills, up to which time each series was passed on to
// somebody else, so that no sample is passed on twice and none is left out.
//
// It knows keys and times; it does not know labels, samples, or who gets them. A Store keeps a file
// that it appends to, and writes anew now and then: docs/format/marks.md. Everything is for any
// number of goroutines at once.
package marks

import (
	"io/fs"
	"math"
	"path/filepath"
	"sync"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Key is what a series is known by: a part of a cryptographic sum over its labels.
type Key [16]byte

// None is the time of what never was.
const None = math.MinInt64

// Mark is how far a series was passed on. Times are milliseconds.
type Mark struct {
	Sent int64 // of the newest sample that is known to be there
	// Doubt is the time of the newest sample that was on its way when the last process ended, and
	// may be there: None, if none was.
	Doubt int64
	// Group is what the samples in doubt were on their way with: all of a group are there, or none.
	// 0: there is no doubt.
	Group uint32
}

// Entry is the newest sample of a series among those that are on their way.
type Entry struct {
	ID uint32
	T  int64
}

// Store has the marks of a receiver.
type Store struct {
	fs    fileutil.FS
	path  string
	claim claim

	mu struct {
		sync.Mutex
		keys     map[Key]uint32
		of       []known
		free     []uint32 // IDs that may be given out again
		onTheWay map[int][]Entry
		floor    int64
		position []byte

		file fileutil.File // nil: the next Rewrite makes one
		size int64
		base int64 // size behind the last Rewrite
		err  error // why the file lacks something
		buf  []byte
	}
}

type known struct {
	Mark
	key Key
}

// maxFileBytes bounds what is read: two hundred million series.
const maxFileBytes = 8 << 30

// Open reads the marks of a file. If there is none, the Store is empty. What cannot be read is as
// if it never was, and damaged says so. The file is written anew by the first Rewrite, and nothing
// before. Until Close no other Store of the process can have it: ErrInUse.
func Open(fsys fileutil.FS, path string) (_ *Store, damaged bool, err error) {
	s := &Store{fs: fsys, path: path}
	if s.claim, err = claimFile(fsys, path); err != nil {
		return nil, false, err
	}
	s.mu.keys, s.mu.onTheWay, s.mu.floor = map[Key]uint32{}, map[int][]Entry{}, None
	content, err := fileutil.ReadFile(fsys, path, maxFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err != nil {
		s.claim.release()
		return nil, false, errors.WithMessage(err, "read marks")
	}
	whole := s.load(content)
	s.doubt()
	return s, !whole, nil
}

// doubt makes groups of what was on its way.
func (s *Store) doubt() {
	group := uint32(0)
	for i := range s.mu.of {
		group = max(group, s.mu.of[i].Group)
	}
	for _, list := range s.mu.onTheWay {
		group++
		var torn []*known // a part of what is in doubt was on its way again
		for _, e := range list {
			switch k := s.at(e.ID); {
			case k == nil || e.T <= k.Sent:
			case e.T >= k.Doubt:
				k.Doubt, k.Group = e.T, group
			default:
				torn = append(torn, k)
			}
		}
		for _, k := range torn {
			group++
			k.Group = group
		}
	}
	clear(s.mu.onTheWay)
}

// at returns an entry that is in use, nil for others.
func (s *Store) at(id uint32) *known {
	if int64(id) >= int64(len(s.mu.of)) || s.mu.of[id].key == (Key{}) {
		return nil
	}
	return &s.mu.of[id]
}

// Position returns what was given to SetPosition last, nil if nothing was.
func (s *Store) Position() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.position
}

// Floor returns the time before which everything of all series was passed on, None if there is
// none.
func (s *Store) Floor() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.floor
}

// Newest returns the time of the newest sample that is known to be there, None if there is none.
func (s *Store) Newest() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	newest := int64(None)
	for i := range s.mu.of {
		if s.mu.of[i].key != (Key{}) {
			newest = max(newest, s.mu.of[i].Sent)
		}
	}
	return newest
}

// SetFloor notes a time before which everything of all series was passed on. It may be lower than
// before, if that was wrong.
func (s *Store) SetFloor(floor int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.floor != floor {
		s.mu.floor = floor
		s.append(func(b []byte) []byte { return appendFloor(b, floor) })
	}
}

// Of returns the ID of a series and its mark. Of one that was unknown nothing was passed on, but
// for what is before the floor.
func (s *Store) Of(key Key) (id uint32, m Mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id, ok := s.mu.keys[key]; ok {
		return id, s.mu.of[id].Mark
	}
	m = Mark{Sent: None, Doubt: None}
	if n := len(s.mu.free); n > 0 {
		id, s.mu.free = s.mu.free[n-1], s.mu.free[:n-1]
	} else {
		id = uint32(len(s.mu.of))
		s.mu.of = append(s.mu.of, known{})
	}
	s.mu.of[id], s.mu.keys[key] = known{m, key}, id
	s.append(func(b []byte) []byte { return appendSeries(b, id, &s.mu.of[id]) })
	return id, m
}

// OnTheWay notes what is being sent by one of several senders. If the process ends before Arrived,
// it may be there or not.
func (s *Store) OnTheWay(sender int, list []Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.onTheWay[sender] = append(s.mu.onTheWay[sender][:0], list...)
	s.append(func(b []byte) []byte { return appendOnTheWay(b, sender, list) })
}

// Arrived notes that what a sender has on the way is there, or never will be.
func (s *Store) Arrived(sender int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrived(sender)
	s.append(func(b []byte) []byte { return appendArrived(b, sender) })
}

func (s *Store) arrived(sender int) {
	for _, e := range s.mu.onTheWay[sender] {
		if k := s.at(e.ID); k != nil {
			if k.Sent = max(k.Sent, e.T); k.Sent >= k.Doubt {
				k.Doubt, k.Group = None, 0
			}
		}
	}
	s.mu.onTheWay[sender] = s.mu.onTheWay[sender][:0]
}

// SetPosition notes a place up to which everything was passed on.
func (s *Store) SetPosition(position []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.position = append(s.mu.position[:0], position...)
	s.append(func(b []byte) []byte { return appendPosition(b, position) })
}

// Err returns why the file lacks something, nil if it does not. The next Rewrite that succeeds
// makes it whole again.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.err
}

// append adds a record to the file. Small ones are written one by one: a kill loses nothing.
func (s *Store) append(record func([]byte) []byte) {
	if s.mu.file == nil {
		return
	}
	s.mu.buf = record(s.mu.buf[:0])
	n, err := s.mu.file.Write(s.mu.buf)
	s.mu.size += int64(n)
	if err != nil {
		s.giveUp(err)
	}
}

// giveUp leaves the file as it is: what could not be written may have been written in part.
func (s *Store) giveUp(err error) {
	if s.mu.file != nil {
		err = fileutil.JoinErrors(err, s.mu.file.Close())
		s.mu.file = nil
	}
	s.mu.err = errors.WithMessage(err, "write marks")
}

// IsLong reports whether a Rewrite would make the file much shorter, or whole.
func (s *Store) IsLong() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.file == nil || s.mu.size > 2*s.mu.base+1<<20
}

// Rewrite writes the file anew. Series whose marks are before the floor are forgotten, if mayGo
// says so of their IDs, which others get then. nil: none is forgotten.
func (s *Store) Rewrite(mayGo func(id uint32) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, id := range s.mu.keys {
		if k := &s.mu.of[id]; mayGo != nil && k.Sent < s.mu.floor && k.Doubt < s.mu.floor && mayGo(id) {
			*k = known{}
			delete(s.mu.keys, key)
			s.mu.free = append(s.mu.free, id)
		}
	}
	content := s.content()
	if s.mu.file != nil {
		old := s.mu.file
		s.mu.file = nil
		if err := old.Close(); err != nil {
			s.giveUp(err)
			return s.mu.err
		}
	}
	err := fileutil.MkdirSync(s.fs, filepath.Dir(s.path))
	if err == nil {
		err = fileutil.WriteFileAtomic(s.fs, s.path+".tmp", s.path, content)
	}
	if err == nil {
		s.mu.file, err = s.fs.OpenWrite(s.path)
	}
	if err != nil {
		s.giveUp(err)
		return s.mu.err
	}
	s.mu.size, s.mu.base, s.mu.err = int64(len(content)), int64(len(content)), nil
	return nil
}

// Close syncs and closes the file, and lets another Store have it. It is called once.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.claim.release()
	f := s.mu.file
	if s.mu.file = nil; f == nil {
		return s.mu.err
	}
	return errors.WithMessage(fileutil.JoinErrors(f.Sync(), f.Close()), "write marks")
}
