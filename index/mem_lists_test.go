package index

import (
	"encoding/binary"
	"math/rand"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func newLists() *lists { return &lists{size: new(atomic.Int64)} }

// requireRefs asserts that all ways of reading a list agree.
func requireRefs(t require.TestingT, want []uint64, v refList) {
	require.Equal(t, len(want), v.count())
	require.Equal(t, append([]uint64{}, want...), v.appendTo([]uint64{}))
	c := v.cursor()
	for _, ref := range want {
		require.True(t, c.next())
		require.Equal(t, ref, c.ref)
	}
	require.False(t, c.next())
	if len(want) > 0 {
		require.Equal(t, want[0], v.first())
	}
}

func TestLists_HoldWhatWasAppended(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ls := newLists()
		many := make([]list, 4)
		want := make([][]uint64, len(many))
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				i := rapid.IntRange(0, len(many)-1).Draw(t, "list")
				step := rapid.SampledFrom([]uint64{1, 2, 100, 1 << 20}).Draw(t, "step")
				for range rapid.SampledFrom([]int{1, 1, 3, 500}).Draw(t, "n") {
					ref := many[i].last() + step
					if ref > MaxRef {
						return
					}
					ls.append(&many[i], ref)
					want[i] = append(want[i], ref)
				}
			},
			"replace": func(t *rapid.T) {
				i := rapid.IntRange(0, len(many)-1).Draw(t, "list")
				mod := rapid.Uint64Range(1, 7).Draw(t, "mod")
				want[i] = slices.DeleteFunc(want[i], func(ref uint64) bool { return ref%mod == 0 })
				ls.replace(&many[i], want[i])
			},
			"reserve": func(t *rapid.T) {
				i := rapid.IntRange(0, len(many)-1).Draw(t, "list")
				ls.room(&many[i], int(many[i].size)+rapid.IntRange(1, 3000).Draw(t, "bytes"))
			},
			"": func(t *rapid.T) {
				for i := range many {
					requireRefs(t, want[i], ls.refsOf(&many[i]))
				}
			},
		})
	})
}

func TestLists_GiveMemoryBack(t *testing.T) {
	ls := newLists()
	many := make([]list, 100)
	fill := func() {
		for i := range many {
			for ref := range uint64(i * i) {
				ls.append(&many[i], ref+1)
			}
		}
	}
	fill()
	first := ls.size.Load()
	for range 5 {
		for i := range many {
			ls.clear(&many[i])
		}
		fill()
	}
	require.Equal(t, first, ls.size.Load(), "cleared lists leave their memory to later ones")
}

func TestCursor_SeeksInBothKindsOfLists(t *testing.T) {
	rnd := rand.New(rand.NewSource(7))
	for _, n := range []int{0, 1, 2, 50, 20_000} {
		ls, l := newLists(), list{}
		var refs []uint64
		for ref := uint64(0); len(refs) < n; {
			ref += uint64(rnd.Intn(500) + 1)
			refs = append(refs, ref)
			ls.append(&l, ref)
		}
		v := ls.refsOf(&l)
		require.Equal(t, n > 1024, len(v.skips) > 0)
		for range 200 {
			c := v.cursor()
			at := 0
			for target := uint64(0); ; target += uint64(rnd.Intn(1 << uint(rnd.Intn(22)))) {
				for at < n && refs[at] < target {
					at++
				}
				if at == n || target == 0 {
					break
				}
				require.True(t, c.seek(target))
				require.Equal(t, refs[at], c.ref)
			}
		}
		c := v.cursor()
		require.False(t, c.seek(MaxRef))
	}
}

func TestBitmap_MarksOnlyTheRange(t *testing.T) {
	ls, l := newLists(), list{}
	for ref := uint64(3); ref < 30_000; ref += 3 {
		ls.append(&l, ref)
	}
	v := ls.refsOf(&l)
	for gap := range uint64(200) {
		ls, l := newLists(), list{}
		want := bitmap{words: make([]uint64, 1000), lo: 5, hi: 60_000}
		for ref := gap; ref < 60_000; ref++ {
			if ref%300 < gap || ref%7 == 0 && ref > 0 {
				ls.append(&l, ref+1)
				if ref+1 >= want.lo && ref+1 <= want.hi {
					want.words[(ref+1-want.lo)/64] |= 1 << ((ref + 1 - want.lo) % 64)
				}
			}
		}
		got := bitmap{words: make([]uint64, 1000), lo: 5, hi: 60_000}
		got.mark(ls.refsOf(&l))
		require.Equal(t, want, got, gap)
	}
	for _, r := range [][2]uint64{{3, 3}, {4, 5}, {9000, 9640}, {1, 29_999}, {29_998, 40_000}} {
		b := bitmap{words: make([]uint64, (r[1]-r[0])/64+1), lo: r[0], hi: r[1]}
		b.mark(v)
		for ref := r[0]; ref <= r[1]; ref++ {
			i := ref - r[0]
			require.Equal(t, ref%3 == 0 && ref < 30_000, b.words[i/64]&(1<<(i%64)) != 0, ref)
		}
	}
}

// A list whose refs begin before the bitmap and end behind it, next to each other or far apart.
func TestBitmap_AppendsWhatIsSetInTheRange(t *testing.T) {
	for _, step := range []uint64{1, 3, 100, 127, 128, 1000} {
		ls, l := newLists(), list{}
		for ref := step; ref < 60_000; ref += step {
			ls.append(&l, ref)
		}
		v := ls.refsOf(&l)
		ids := idList{}
		for _, ref := range v.appendTo(nil) {
			ids = binary.BigEndian.AppendUint32(ids, uint32(ref))
		}
		for _, r := range [][2]uint64{{3, 3}, {4, 5}, {9000, 9640}, {1, 59_999}, {20_001, 40_000}, {59_000, 70_000}, {70_000, 70_064}} {
			b := bitmap{words: make([]uint64, (r[1]-r[0])/64+1), lo: r[0], hi: r[1]}
			var want []uint64
			for ref := r[0]; ref <= r[1]; ref++ {
				if ref%5 < 2 || ref/200%2 == 0 {
					b.words[(ref-r[0])/64] |= 1 << ((ref - r[0]) % 64)
					if ref%step == 0 && ref < 60_000 {
						want = append(want, ref)
					}
				}
			}
			got := b.appendSet(make([]uint64, 0, len(want)+wordRefs+1), v)
			require.True(t, slices.Equal(want, got), "step %d in %v: %v", step, r, got)
			require.Equal(t, want, b.appendSet(nil, refList{ids: ids}))
		}
	}
}

// FuzzView reads any bytes as a list, and the refs that they can make as one.
func FuzzView(f *testing.F) {
	f.Add([]byte{1, 1, 1, 0x80, 1, 5}, uint64(3))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02}, uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, target uint64) {
		hostile := refList{b: b}
		require.LessOrEqual(t, len(hostile.appendTo(nil)), len(b))
		hostile.intersect([]uint64{target, target + 1})
		if target < MaxRef {
			b := bitmap{words: make([]uint64, 3), lo: target, hi: target + 100}
			b.mark(hostile)
		}

		ls, l := newLists(), list{}
		var refs []uint64
		for ref := uint64(0); len(b) > 0; b = b[1:] {
			var step [8]byte
			copy(step[:], b[:min(len(b), int(b[0]&3)+1)])
			if ref += binary.LittleEndian.Uint64(step[:]) + 1; ref > MaxRef {
				break
			}
			refs = append(refs, ref)
			ls.append(&l, ref)
		}
		v := ls.refsOf(&l)
		requireRefs(t, refs, v)
		if len(refs) > 1 {
			require.EqualValues(t, encodedBytes(refs), l.size)
		}
		i := searchRefs(refs, target)
		c := v.cursor()
		require.Equal(t, i < len(refs), c.seek(target))
		if i < len(refs) && target > 0 {
			require.Equal(t, refs[i], c.ref)
		}
	})
}

func TestPostings_IntersectAndSeekLikeSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ps []Postings
		counts := map[uint64]int{}
		n := rapid.IntRange(1, 4).Draw(t, "n")
		for range n {
			refs := rapid.SliceOfNDistinct(rapid.Uint64Range(1, 60), 0, 50, rapid.ID[uint64]).Draw(t, "refs")
			slices.Sort(refs)
			for _, ref := range refs {
				counts[ref]++
			}
			ps = append(ps, NewPostings(refs))
		}
		from := rapid.Uint64Range(1, 70).Draw(t, "from")
		want := []uint64{}
		for ref := from; ref <= 60; ref++ {
			if counts[ref] == n {
				want = append(want, ref)
			}
		}
		p := intersect(ps...)
		got := []uint64{}
		for ok := p.Seek(from); ok; ok = p.Next() {
			require.True(t, p.Seek(0), "a seek back stays")
			got = append(got, p.At())
		}
		require.Equal(t, want, got)
		require.NoError(t, p.Err())
	})
	require.False(t, intersect().Next())
}

// intersect returns the refs that all of ps have; the shortest should come first. No
// postings at all have no refs in common.
func intersect(ps ...Postings) Postings {
	switch len(ps) {
	case 0:
		return NewPostings(nil)
	case 1:
		return ps[0]
	default:
		return &intersection{ps: ps}
	}
}

type intersection struct {
	ps []Postings
}

func (x *intersection) Next() bool { return x.ps[0].Next() && x.meet() }

func (x *intersection) Seek(ref uint64) bool { return x.ps[0].Seek(ref) && x.meet() }

// meet moves all forward until they are at the same ref.
func (x *intersection) meet() bool {
	lead := x.ps[0]
	for i := 1; i < len(x.ps); {
		p := x.ps[i]
		if !p.Seek(lead.At()) {
			return false
		}
		if p.At() == lead.At() {
			i++
			continue
		}
		if !lead.Seek(p.At()) {
			return false
		}
		i = 1
	}
	return true
}

func (x *intersection) At() uint64 { return x.ps[0].At() }

func (x *intersection) Err() error {
	for _, p := range x.ps {
		if err := p.Err(); err != nil {
			return err
		}
	}
	return nil
}
