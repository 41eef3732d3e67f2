package tsdb_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/wal"
)

// A small directory is damaged in every way there is, one at a time, and opened. What
// comes out is never anything that was not committed, and what is missing was reported.

// uncovered lists the bits of a file that nothing checks, with the reason why that does
// no harm. docs/format-coverage.md has the same list.
func (sp *specimen) uncovered(file string) map[int]string {
	bits := map[int]string{}
	data := sp.files[file]
	if !strings.HasPrefix(file, "wal/") {
		for i := range 24 {
			bits[5*8+i] = "the three spare bytes of a head-chunk file's header"
		}
		return bits
	}
	r := wal.NewReader(bytes.NewReader(data), int64(len(data)), file, 0)
	for r.Next() {
		typ := int(r.Offset()) * 8
		for bit := 5; bit < 8; bit++ {
			bits[typ+bit] = "a reserved bit of a fragment's type byte"
		}
		if r.Compression() == wal.CompressionSnappy {
			bits[typ+4] = "the bit for zstd beside that for snappy, which wins"
		}
	}
	return bits
}

// mayLoseBehind: of what is known to be synced the commits hit, of the rest what follows
// them, too. What is in head-chunk files is in the log as well.
func (sp *specimen) mayLoseBehind(hit func(i int) bool) func(i int) bool {
	return func(i int) bool {
		if i < sp.synced {
			return hit(i)
		}
		for k := sp.synced; k <= i; k++ {
			if hit(k) {
				return true
			}
		}
		return false
	}
}

// try examines one case and counts it. It returns the class.
func (sp *specimen) try(c *census, kind, what string, files map[string][]byte, mayLose func(i int) bool) string {
	v, err := examine(files)
	return sp.count(c, kind, what, v, err, mayLose)
}

func (sp *specimen) count(c *census, kind, what string, v verdict, err error, mayLose func(i int) bool) string {
	class := "wrong"
	if err == nil {
		class, err = sp.judge(v, mayLose)
	}
	if err != nil {
		c.fail("%s: %v", what, err)
		class = "wrong"
	}
	c.add(kind, class)
	return class
}

func (sp *specimen) names() []string { return slices.Sorted(maps.Keys(sp.files)) }

func TestDamage_NoFlippedBitIsSilent(t *testing.T) {
	for name, sp := range specimens(t) {
		t.Run(name, func(t *testing.T) { sp.tryFlips(t, sweep.Of(t, 1, 23)) })
	}
}

// tryFlips flips single bits of all files.
func (sp *specimen) tryFlips(t *testing.T, places sweep.Places) {
	var c census
	for _, file := range sp.names() {
		spare := sp.uncovered(file)
		bits := places.Below(8 * len(sp.files[file]))
		inParallel(len(bits), func(n int) {
			bit := bits[n]
			data := bytes.Clone(sp.files[file])
			data[bit/8] ^= 1 << (bit % 8)
			what := fmt.Sprintf("bit %d of %s", bit, file)
			examine := examine
			if bit%3 > 0 { // a second open each time would take twice as long
				examine = func(files map[string][]byte) (verdict, error) {
					v, _, err := examineOnce(files)
					return v, err
				}
			}
			v, err := examine(sp.without(file, data))
			class := sp.count(&c, "flip in "+file, what, v, err, sp.mayLoseBehind(sp.touched(file, bit/8, bit/8+1)))
			if class == harmless && spare[bit] == "" {
				c.fail("%s changes nothing and shows nowhere", what)
			}
			if class != harmless && spare[bit] != "" {
				c.fail("%s is listed as not covered, and shows", what)
			}
		})
	}
	c.report(t)
}

func TestDamage_NoCutFileIsSilent(t *testing.T) {
	for name, sp := range specimens(t) {
		t.Run(name, func(t *testing.T) { sp.tryCuts(t, sweep.Of(t, 1, 7)) })
	}
}

// tryCuts ends each file early.
func (sp *specimen) tryCuts(t *testing.T, places sweep.Places) {
	var c census
	for _, file := range sp.names() {
		size := len(sp.files[file])
		ends := places.Below(size)
		inParallel(len(ends), func(i int) {
			n := ends[i]
			files, what := sp.without(file, sp.files[file][:n:n]), fmt.Sprintf("%s cut to %d bytes", file, n)
			lost := sp.mayLoseBehind(sp.touched(file, n, size))
			if sp.endsAt(file, n) {
				sp.tryEnd(&c, "cut of "+file, what, files, lost)
				return
			}
			sp.try(&c, "cut of "+file, what, files, lost)
		})
	}
	c.report(t)
}

// endsAt says that the log may as well end there: in its last segment, behind a whole
// commit or the header, or before everything.
func (sp *specimen) endsAt(file string, n int) bool {
	return file == lastSegment &&
		(n == 0 || slices.ContainsFunc(sp.spans, func(s span) bool { return s.file == file && (n == s.off || n == s.end) }))
}

// tryEnd is try where nothing can tell that there was more, of which nothing had been
// promised: a crash before those commits leaves the same files.
func (sp *specimen) tryEnd(c *census, kind, what string, files map[string][]byte, lost func(i int) bool) {
	v, err := examine(files)
	if err != nil || v.refused != nil || !sameData(v.got, sp.content(lost)) {
		c.fail("%s: %v %v; got %v", what, err, v.refused, v.got)
	}
	c.add(kind, "as before its unsynced commits")
}

func TestDamage_NoZeroedOrLostPieceIsSilent(t *testing.T) {
	for name, sp := range specimens(t) {
		t.Run(name, sp.tryPieces)
	}
}

// tryPieces loses pieces of all files.
func (sp *specimen) tryPieces(t *testing.T) {
	const piece = 64 // an eighth of a disk's sector, so that a small file has many
	var c census
	for _, file := range sp.names() {
		whole := sp.files[file]
		for from := 0; from < len(whole); from += piece {
			to := min(from+piece, len(whole))
			for _, count := range []int{1, 8} { // 8: a sector
				end := min(from+count*piece, len(whole))
				data := bytes.Clone(whole)
				clear(data[from:end])
				// Zeros are padding up to the end of the page, and hide what is behind.
				lost := sp.mayLoseBehind(sp.touched(file, from, len(whole)))
				files, what := sp.without(file, data), fmt.Sprintf("%s zeroed from %d to %d", file, from, end)
				if sp.endsAt(file, from) && end == len(whole) {
					sp.tryEnd(&c, "zeros in "+file, what, files, lost)
					continue
				}
				sp.try(&c, "zeros in "+file, what, files, lost)
			}
			data := slices.Concat(whole[:from], whole[to:])
			lost := sp.mayLoseBehind(sp.touched(file, from, len(whole)))
			sp.try(&c, "hole in "+file, fmt.Sprintf("%s without bytes %d to %d", file, from, to), sp.without(file, data), lost)
		}
	}
	c.report(t)
}

func TestDamage_AMissingFileIsNamedOrMadeGood(t *testing.T) {
	sp := newSpecimen(t)
	complete := sp.content(func(int) bool { return false })
	for _, file := range sp.names() {
		v, err := examine(sp.without(file, nil))
		require.NoError(t, err)
		switch {
		case file == lastSegment:
			// As if the process had died before its first commit: nothing of it was promised.
			require.NoError(t, v.refused)
			require.True(t, v.report.Clean())
			require.Equal(t, sp.content(func(i int) bool { return i >= sp.synced }), v.got)
		case strings.HasPrefix(file, "wal/"):
			require.ErrorIs(t, v.refused, wal.ErrSegments, file)
			require.ErrorContains(t, v.refused, "segment "+strings.TrimPrefix(file, "wal/")+" is missing")
		default:
			require.NoError(t, v.refused)
			require.True(t, v.report.Clean(), "the log has it all")
			require.Equal(t, complete, v.got)
		}
	}
}

func TestDamage_AMixedCommitCutAnywhereIsThereWholeOrNotAtAll(t *testing.T) {
	f := newFixture(t, nil)
	f.commit(sample{`{a="old"}`, 1, 1}, sample{`{a="older"}`, 1, 1})
	before := f.all()
	size := len(mustRead(t, f, "wal/00000000"))
	var mixed []sample
	for i := range 5 {
		mixed = append(mixed, sample{`{a="old"}`, int64(10 + i), float64(i)}, sample{fmt.Sprintf(`{a="new", i="%d"}`, i), 10, float64(i)})
	}
	f.commit(mixed...)
	after := f.all()
	whole := mustRead(t, f, "wal/00000000")
	require.Greater(t, len(whole), size)
	for cut := size; cut <= len(whole); cut++ {
		for _, behind := range []int{0, 1, 500, 40_000} { // zeros that a file system may leave there
			data := append(bytes.Clone(whole[:cut]), make([]byte, behind)...)
			v, err := examine(map[string][]byte{"wal/00000000": data})
			require.NoError(t, err, "cut at %d, %d zeros", cut, behind)
			require.NoError(t, v.refused)
			// A file is read as if zeros followed, so what ends in zeros is whole without them.
			complete := len(bytes.TrimRight(whole[cut:], "\x00")) == 0
			want := before
			if complete {
				want = after
			}
			require.Equal(t, want, v.got, "cut at %d, %d zeros", cut, behind)
			require.True(t, v.report.Clean())
			require.Equal(t, cut > size && !complete, v.report.TornTail, "cut at %d, %d zeros", cut, behind)
		}
	}
}

func mustRead(t *testing.T, f *fixture, name string) []byte {
	t.Helper()
	data, err := f.fs.ReadFile(fixtureDir + "/" + name)
	require.NoError(t, err)
	return data
}
