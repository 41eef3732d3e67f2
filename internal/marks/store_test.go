package marks

import (
	"encoding/binary"
	"fmt"
	"maps"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

const testPath = "data/remote-write/a.marks"

func keyOf(n int) (k Key) {
	binary.BigEndian.PutUint64(k[:], uint64(n)+1)
	return k
}

// open opens a Store as another process would, once this one was killed.
func open(t require.TestingT, fsys fileutil.FS) *Store {
	claims.Clear()
	s, damaged, err := Open(fsys, testPath)
	require.NoError(t, err)
	require.False(t, damaged)
	return s
}

// What was noted is there after any kill, and what was on its way is in doubt.
func TestStore_RemembersAfterAKill(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fsys := tsdbtest.NewMemFS()
		s := open(t, fsys)
		require.NoError(t, s.Rewrite(nil))
		want, way := map[int]Mark{}, map[int][]Entry{}
		wayOf := map[int]map[int]int64{} // by sender and series
		floor, position := int64(None), ""
		of := func(n int) uint32 {
			id, m := s.Of(keyOf(n))
			if _, known := want[n]; !known {
				want[n] = Mark{Sent: None, Doubt: None}
			}
			require.Equal(t, m.Doubt != None, m.Group != 0)
			m.Group = 0
			require.Equal(t, want[n], m, n)
			return id
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			sender := rapid.IntRange(0, 3).Draw(t, "sender")
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				list, times := []Entry(nil), map[int]int64{}
				for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, 20), 1, 6, rapid.ID[int]).Draw(t, "series") {
					at := rapid.Int64Range(-1000, 1000).Draw(t, "time")
					list, times[n] = append(list, Entry{of(n), at}), at
				}
				s.OnTheWay(sender, list)
				way[sender], wayOf[sender] = list, times
			case 1:
				s.Arrived(sender)
				for n, at := range wayOf[sender] {
					m := want[n]
					if m.Sent = max(m.Sent, at); m.Sent >= m.Doubt {
						m.Doubt = None
					}
					want[n] = m
				}
				delete(way, sender)
				delete(wayOf, sender)
			case 2:
				position = rapid.String().Draw(t, "position")
				s.SetPosition([]byte(position))
			case 3: // killed
				s = open(t, fsys)
				for sender, times := range wayOf {
					for n, at := range times {
						m := want[n]
						if at > m.Sent {
							m.Doubt = max(m.Doubt, at)
						}
						want[n] = m
					}
					delete(wayOf, sender)
				}
				clear(way)
				require.NoError(t, s.Rewrite(nil))
			case 4:
				floor = max(floor, rapid.Int64Range(-1000, 1000).Draw(t, "floor"))
				busy := map[uint32]bool{}
				for _, list := range way {
					for _, e := range list {
						busy[e.ID] = true
					}
				}
				s.SetFloor(floor)
				require.NoError(t, s.Rewrite(func(id uint32) bool { return !busy[id] }))
				maps.DeleteFunc(want, func(n int, m Mark) bool {
					for _, times := range wayOf {
						if _, is := times[n]; is {
							return false
						}
					}
					return m.Sent < floor && m.Doubt < floor
				})
			}
			require.NoError(t, s.Err())
			require.Equal(t, floor, s.Floor())
			require.Equal(t, position, string(s.Position()))
		}
		for n := range want {
			of(n)
		}
	})
}

// A file that is cut anywhere says what it said up to there, and takes up again.
func TestStore_CutAnywhere_KeepsWhatIsBefore(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	s := open(t, fsys)
	s.SetFloor(5)
	require.NoError(t, s.Rewrite(nil))
	ids := []Entry{}
	for n := range 5 {
		id, _ := s.Of(keyOf(n))
		ids = append(ids, Entry{id, int64(100 + n)})
	}
	s.OnTheWay(1, ids)
	s.Arrived(1)
	s.SetPosition([]byte("here"))
	require.NoError(t, s.Close())
	whole, err := fileutil.ReadFile(fsys, testPath, 1<<20)
	require.NoError(t, err)
	for n := range len(whole) {
		cut := tsdbtest.NewMemFS()
		require.NoError(t, fileutil.MkdirSync(cut, "data/remote-write"))
		require.NoError(t, fileutil.WriteFileAtomic(cut, testPath+".tmp", testPath, whole[:n]))
		s, _, err := Open(cut, testPath)
		require.NoError(t, err)
		_, m := s.Of(keyOf(0))
		require.Contains(t, []Mark{{None, None, 0}, {None, 100, 1}, {100, None, 0}}, m, n)
		require.NoError(t, s.Rewrite(func(uint32) bool { return true }))
		require.NoError(t, s.Close())
		again := open(t, cut)
		_, m2 := again.Of(keyOf(0))
		require.Equal(t, m, m2)
	}
}

func TestStore_WithoutRoom_IsWholeAgainAfterARewrite(t *testing.T) {
	fsys := faultfs.New(tsdbtest.NewMemFS())
	s := open(t, fsys)
	require.True(t, s.IsLong())
	require.NoError(t, s.Rewrite(nil))
	require.False(t, s.IsLong())
	fsys.Inject(faultfs.Fault{Kinds: []tsdbtest.OpKind{tsdbtest.OpWrite}, Half: true, Err: syscall.ENOSPC})
	id, _ := s.Of(keyOf(1))
	require.ErrorIs(t, s.Err(), syscall.ENOSPC)
	require.True(t, s.IsLong())
	s.OnTheWay(0, []Entry{{id, 7}})
	s.Arrived(0)
	require.NoError(t, s.Rewrite(nil))
	require.NoError(t, s.Err())
	_, m := open(t, fsys).Of(keyOf(1))
	require.Equal(t, Mark{7, None, 0}, m)
	require.NoError(t, s.Close())
}

// What was on its way together is in doubt together, over any number of kills.
func TestStore_GroupsWhatIsInDoubt(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	s := open(t, fsys)
	require.NoError(t, s.Rewrite(nil))
	var ids []uint32
	for n := range 4 {
		id, _ := s.Of(keyOf(n))
		ids = append(ids, id)
	}
	s.OnTheWay(0, []Entry{{ids[0], 1}, {ids[1], 2}})
	s.OnTheWay(1, []Entry{{ids[2], 1}})
	groups := func() (g [4]uint32) {
		for n := range g {
			_, m := s.Of(keyOf(n))
			g[n] = m.Group
		}
		return g
	}
	s = open(t, fsys)
	first := groups()
	require.Equal(t, first[0], first[1])
	require.NotEqual(t, first[0], first[2])
	require.Zero(t, first[3])
	require.NoError(t, s.Rewrite(nil))
	s.OnTheWay(0, []Entry{{ids[1], 2}}) // a part of the first is sent again
	s.OnTheWay(1, []Entry{{ids[3], 7}})
	s = open(t, fsys)
	again := groups()
	require.Equal(t, first[0], again[0])
	require.NotEqual(t, again[0], again[1])
	require.NotContains(t, again[:3], again[3])
	require.Equal(t, first[2], again[2])
	require.NoError(t, s.Rewrite(nil))
	s.OnTheWay(0, []Entry{{ids[1], 1}, {ids[0], 1}}) // of the second a part
	s = open(t, fsys)
	torn := groups()
	require.NotEqual(t, torn[0], torn[1])
	require.NotContains(t, again[:], torn[1])
	require.Equal(t, int64(None), s.Newest())
}

func TestStore_GivesIDsOutAgain(t *testing.T) {
	s := open(t, tsdbtest.NewMemFS())
	require.NoError(t, s.Rewrite(nil))
	for n := range 10 {
		id, _ := s.Of(keyOf(n))
		require.EqualValues(t, n, id)
	}
	s.SetFloor(10)
	require.NoError(t, s.Rewrite(func(id uint32) bool { return id == 3 }))
	id, m := s.Of(keyOf(100))
	require.EqualValues(t, 3, id)
	require.Equal(t, Mark{None, None, 0}, m)
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte(magic + "\x01"))
	s := &Store{}
	s.mu.of = []known{{Mark{1, None, 0}, keyOf(1)}}
	s.mu.onTheWay = map[int][]Entry{1: {{0, 3}}}
	s.mu.floor, s.mu.position = 7, []byte("x")
	f.Add(s.content())
	f.Fuzz(func(t *testing.T, content []byte) {
		fsys := tsdbtest.NewMemFS()
		require.NoError(t, fileutil.MkdirSync(fsys, "data/remote-write"))
		require.NoError(t, fileutil.WriteFileAtomic(fsys, testPath+".tmp", testPath, content))
		s, _, err := Open(fsys, testPath)
		require.NoError(t, err)
		seen := map[uint32]string{}
		for n := range 3 {
			id, m := s.Of(keyOf(n))
			require.Empty(t, seen[id])
			seen[id] = fmt.Sprint(m)
		}
		require.NoError(t, s.Rewrite(nil))
		require.NoError(t, s.Close())
		again := open(t, fsys)
		for n := range 3 {
			id, m := again.Of(keyOf(n))
			require.Equal(t, seen[id], fmt.Sprint(m))
		}
	})
}
