//go:build unix

// Links, and directories that are renamed, are those of Unix.

package tsdb_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

var (
	oddSets = flag.Int("oddities.sets", 100, "how many sets of more than two oddities are tried")
	oddSeed = flag.Uint64("oddities.seed", 1, "which ones")
)

// oddDir is a data directory on a real disk that something odd is done to.
type oddDir struct {
	path   string
	blocks []string // names in the order of their times; samples of the first one are deleted
	other  string   // a block that is not in the directory: of the future
	over   string   // and one with samples of the times of the third one
}

func (d oddDir) at(parts ...string) string {
	return filepath.Join(append([]string{d.path}, parts...)...)
}

// write makes a file, with the directories that it needs.
func (d oddDir) write(text string, parts ...string) error {
	name := d.at(parts...)
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o666)
}

// WriteFile is write for blocks.
func (d oddDir) WriteFile(name string, data []byte) error { return d.write(string(data), name) }

// change writes a file anew.
func (d oddDir) change(fn func(b []byte) []byte, parts ...string) error {
	b, err := os.ReadFile(d.at(parts...))
	if err != nil {
		return err
	}
	return os.WriteFile(d.at(parts...), fn(b), 0o666)
}

// numbers returns the names in a directory that are numbers, ascending.
func (d oddDir) numbers(dir string) (names []string) {
	entries, _ := os.ReadDir(d.at(dir))
	for _, e := range entries {
		if e.Name()[0] == '0' {
			names = append(names, e.Name())
		}
	}
	return names
}

// last returns the last one of numbers.
func (d oddDir) last(dir string) string {
	names := d.numbers(dir)
	return names[len(names)-1]
}

func (d oddDir) headSnapshot() string {
	found, _ := filepath.Glob(d.at("head_snapshot.*"))
	return filepath.Base(found[0])
}

// away moves something out of the directory, and returns where it is.
func (d oddDir) away(name string) (string, error) {
	to := d.path + "-" + name
	return to, os.Rename(d.at(name), to)
}

func half(b []byte) []byte { return b[:len(b)/2] }

func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte { b[at] ^= 1; return b }
}

func flipMiddle(b []byte) []byte { return flip(len(b) / 2)(b) }

// oddity is one thing that may be odd about a data directory. Its row in docs/design/repair.md says
// what each way into the directory makes of it.
type oddity struct {
	name string
	do   func(d oddDir, block string) error // block is one that no other oddity has
}

const strangeBlock = "01HF7Q8ZK0000000000000TES9"

var oddities = []oddity{
	{"nothing odd", func(oddDir, string) error { return nil }},
	{"a stranger", func(d oddDir, _ string) error { return d.write("x", "notes.txt") }},
	{"a stranger called tmp-", func(d oddDir, _ string) error { return d.write("x", "tmp-notes", "1") }},
	{"a leftover of a block", func(d oddDir, _ string) error { return d.write("x", "tmp-block-"+strangeBlock, "index") }},
	{"a leftover of a removal", func(d oddDir, _ string) error { return d.write("x", "tmp-deleted-"+strangeBlock, "chunks", "000001") }},
	{"a leftover of a checkpoint", func(d oddDir, _ string) error { return d.write("x", "tmp-checkpoint", "00000000") }},
	{"a leftover of a copy", func(d oddDir, _ string) error { return d.write("x", "copy.tmp-snapshot", "wal", "00000000") }},
	{"a leftover of Prometheus", func(d oddDir, _ string) error { return d.write("x", strangeBlock+".tmp-for-deletion", "index") }},
	{"a stale lock file", func(d oddDir, _ string) error { return d.write("", "lock") }},
	{"a head snapshot of Prometheus", func(d oddDir, _ string) error {
		return d.write("x", "chunk_snapshot.000001.0000000000", "00000000")
	}},
	{"originals in quarantine", func(d oddDir, _ string) error { return d.write("x", "quarantine", "00000003") }},

	{"no list of blocks", func(d oddDir, _ string) error { return os.Remove(d.at("blocks.tsdb")) }},
	{"an empty list of blocks", func(d oddDir, _ string) error { return d.write("", "blocks.tsdb") }},
	{"a list of blocks that is damaged", func(d oddDir, _ string) error { return d.change(flip(30), "blocks.tsdb") }},

	{"a block vanished", func(d oddDir, block string) error { _, err := d.away(block); return err }},
	{"a block without files", func(d oddDir, block string) error {
		if err := os.RemoveAll(d.at(block)); err != nil {
			return err
		}
		return os.Mkdir(d.at(block), 0o777)
	}},
	{"an empty meta file", func(d oddDir, block string) error { return d.write("", block, "meta.json") }},
	{"a meta file of {}", func(d oddDir, block string) error {
		if err := os.Remove(d.at(block, "meta.json.crc")); err != nil {
			return err
		}
		return d.write("{}", block, "meta.json")
	}},
	{"a block of a newer version", func(d oddDir, block string) error {
		if err := os.Remove(d.at(block, "meta.json.crc")); err != nil {
			return err
		}
		return d.change(func(b []byte) []byte {
			return []byte(strings.Replace(string(b), `"version": 1`, `"version": 7`, 1))
		}, block, "meta.json")
	}},
	{"a block without an index", func(d oddDir, block string) error { return os.Remove(d.at(block, "index")) }},
	{"a flipped bit in an index", func(d oddDir, block string) error { return d.change(flip(200), block, "index") }},
	{"a flipped bit in chunks", func(d oddDir, block string) error { return d.change(flip(100), block, "chunks", "000001") }},
	{"chunks cut in half", func(d oddDir, block string) error { return d.change(half, block, "chunks", "000001") }},
	{"a block without chunks", func(d oddDir, block string) error { return os.RemoveAll(d.at(block, "chunks")) }},
	{"a block without its tombstones", func(d oddDir, _ string) error { return os.Remove(d.at(d.blocks[0], "tombstones")) }},
	{"a block in lower case", func(d oddDir, block string) error { return os.Rename(d.at(block), d.at(strings.ToLower(block))) }},
	{"a block under another name", func(d oddDir, block string) error { return os.Rename(d.at(block), d.at(strangeBlock)) }},
	{"a link to a block", func(d oddDir, block string) error {
		to, err := d.away(block)
		if err != nil {
			return err
		}
		return os.Symlink(to, d.at(block))
	}},
	{"a link to nothing", func(d oddDir, block string) error {
		if err := os.RemoveAll(d.at(block)); err != nil {
			return err
		}
		return os.Symlink(d.path+"-nowhere", d.at(block))
	}},
	{"a file called like a block", func(d oddDir, _ string) error { return d.write("x", strangeBlock) }},
	{"a database called like a block", func(d oddDir, _ string) error { return d.write("", strangeBlock, "wal", "00000000") }},
	{"a block without its checksum", func(d oddDir, block string) error { return os.Remove(d.at(block, "meta.json.crc")) }},
	{"a leftover in a block", func(d oddDir, block string) error { return d.write("{", block, "meta.json.tmp") }},
	{"a stranger in a block", func(d oddDir, block string) error { return d.write("{}", block, "no-compact-mark.json") }},
	{"a stranger among chunks", func(d oddDir, block string) error { return d.write("x", block, "chunks", "notes") }},
	{"a block set aside", func(d oddDir, block string) error {
		if err := os.MkdirAll(d.at("quarantine"), 0o777); err != nil {
			return err
		}
		return os.Rename(d.at(block), d.at("quarantine", block))
	}},
	{"a copy of a block in quarantine", func(d oddDir, block string) error {
		return os.CopyFS(d.at("quarantine", block+".1"), os.DirFS(d.at(block)))
	}},
	{"a block of the future", func(d oddDir, _ string) error { return os.CopyFS(d.at(filepath.Base(d.other)), os.DirFS(d.other)) }},
	{"a block that overlaps", func(d oddDir, _ string) error { return os.CopyFS(d.at(filepath.Base(d.over)), os.DirFS(d.over)) }},
	{"a block that is not in order", func(d oddDir, _ string) error { return oddBlocks(1)[0].write(d, ".") }},
	{"a block with chunks over its end", func(d oddDir, _ string) error {
		b := oddBlocks(2)[1]
		slices.Reverse(b.series)
		return b.write(d, ".")
	}},

	{"a link to the log", func(d oddDir, _ string) error {
		to, err := d.away("wal")
		if err != nil {
			return err
		}
		return os.Symlink(to, d.at("wal"))
	}},
	{"a file for the log", func(d oddDir, _ string) error {
		if err := os.RemoveAll(d.at("wal")); err != nil {
			return err
		}
		return d.write("x", "wal")
	}},
	{"a torn end of the log", func(d oddDir, _ string) error {
		return d.change(func(b []byte) []byte { return append(b, 2, 0, 40, 1, 2, 3, 4, 'x') }, "wal", d.last("wal"))
	}},
	{"a hole in the log", func(d oddDir, _ string) error { return os.Remove(d.at("wal", d.numbers("wal")[1])) }},
	{"a stranger in the log", func(d oddDir, _ string) error { return d.write("x", "wal", "notes") }},
	{"a directory for a log segment", func(d oddDir, _ string) error { return os.Mkdir(d.at("wal", "00000099"), 0o777) }},
	{"a torn out-of-order log", func(d oddDir, _ string) error { return d.write("x", "wbl", "00000000") }},
	{"an empty out-of-order log", func(d oddDir, _ string) error { return d.write("", "wbl", "00000000") }},

	{"no head chunks", func(d oddDir, _ string) error { return os.RemoveAll(d.at("chunks_head")) }},
	{"a link to the head chunks", func(d oddDir, _ string) error {
		to, err := d.away("chunks_head")
		if err != nil {
			return err
		}
		return os.Symlink(to, d.at("chunks_head"))
	}},
	{"a file for the head chunks", func(d oddDir, _ string) error {
		if err := os.RemoveAll(d.at("chunks_head")); err != nil {
			return err
		}
		return d.write("x", "chunks_head")
	}},
	{"head chunks cut in half", func(d oddDir, _ string) error { return d.change(half, "chunks_head", d.last("chunks_head")) }},
	{"a head snapshot with a flipped bit", func(d oddDir, _ string) error { return d.change(flipMiddle, d.headSnapshot(), "00000000") }},
	{"a head snapshot without its sidecar", func(d oddDir, _ string) error { return os.Remove(d.at(d.headSnapshot(), "sidecar")) }},
	{"a head snapshot under another name", func(d oddDir, _ string) error {
		return os.Rename(d.at(d.headSnapshot()), d.at("head_snapshot.00000099"))
	}},
	{"an empty head snapshot", func(d oddDir, _ string) error { return os.Mkdir(d.at("head_snapshot.00000077"), 0o777) }},
}

// answers are what the ways into a directory say of it, by the columns of the page.
type answers [5]string

// grades are the answers that there are, the best first: two oddities together give the worse one
// of each column.
var grades = []string{"-", "clean", "note", "told", "warning", "damage", "lost", "refused"}

func (a answers) worse(b answers) answers {
	for i := range a {
		if slices.Index(grades, a[i]) < slices.Index(grades, b[i]) {
			a[i] = b[i]
		}
	}
	if a[3] == "refused" {
		a[4] = "-"
	}
	return a
}

// oddTable reads a table of docs/design/repair.md, by what its first column is called.
func oddTable(t *testing.T, first string) map[string]answers {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("docs", "design", "repair.md"))
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "\n| "+first+" | Open | OpenReadOnly | Verify | Repair | Verify afterwards | what becomes of it |\n")
	require.True(t, found, "the table is not on the page")
	rows := map[string]answers{}
	for _, line := range strings.Split(table, "\n")[1:] {
		cells := regexp.MustCompile(` *\| *`).Split(strings.Trim(line, "| "), -1)
		if len(cells) < 6 {
			break
		}
		row := answers(cells[1:6])
		for _, a := range row {
			require.Contains(t, grades, a, "row %s", cells[0])
		}
		require.NotContains(t, rows, cells[0])
		rows[cells[0]] = row
	}
	return rows
}

func oddOptions() *tsdb.Options {
	o := &tsdb.Options{Clock: tsdbtest.NewClock(testNow)}
	o.Blocks.Manual = true
	o.WAL.SegmentSize, o.Head.SamplesPerChunk = 32<<10, 16
	return o
}

// memoryDir returns a directory that goes with the test: in memory, where there is such a file
// system, as nothing here is about power.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "tsdb-oddities-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// newOddDir makes a database with something of everything: blocks, deleted samples in the first
// one, a log of several segments, head chunks, a snapshot of the head.
func newOddDir(t *testing.T, blocks int) oddDir {
	t.Helper()
	root := memoryDir(t)
	d := oddDir{path: filepath.Join(root, "data")}
	db, err := tsdb.Open(d.path, oddOptions())
	require.NoError(t, err)
	base := testNow.UnixMilli() / (2 * hour) * (2 * hour)
	fill := func(from, to int64) {
		for ts := from; ts < to; ts += minute {
			app := db.Appender()
			for i := range 3 {
				_, err := app.Append(0, labels.FromStrings("i", fmt.Sprint(i)), ts, float64(ts))
				require.NoError(t, err)
			}
			_, err := app.Commit(ctx)
			require.NoError(t, err)
		}
	}
	start := base - 2*hour*int64(blocks)
	fill(start, base)
	require.NoError(t, db.Flush(ctx))
	require.NoError(t, db.Delete(ctx, start, start+hour, labels.Equal("i", "1")))
	for range 3 { // each Open begins a segment
		fill(base, base+10*minute)
		base += 10 * minute
		require.NoError(t, tsdb.WriteHeadChunks(db))
		require.NoError(t, db.Close())
		db, err = tsdb.Open(d.path, oddOptions())
		require.NoError(t, err)
	}
	require.NoError(t, tsdb.TakeHeadSnapshot(db))
	fill(base, base+10*minute)
	for _, b := range db.Blocks() {
		d.blocks = append(d.blocks, b.ULID.String())
	}
	require.Len(t, d.blocks, blocks)
	require.NoError(t, db.Close())
	foreign := func(name string, at int64) string {
		w, err := tsdb.NewBlockWriter(filepath.Join(root, name), &tsdb.BlockWriterOptions{Clock: tsdbtest.NewClock(testNow)})
		require.NoError(t, err)
		require.NoError(t, w.Append(labels.FromStrings("i", name), at, 1))
		ms, err := w.Flush(ctx)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return filepath.Join(root, name, ms[0].ULID.String())
	}
	d.other = foreign("future", testNow.UnixMilli()+100*24*hour)
	d.over = foreign("over", testNow.UnixMilli()/(2*hour)*(2*hour)-3*hour)
	return d
}

// with returns a copy to which something odd is done.
func (d oddDir) with(t *testing.T, odd ...oddity) oddDir {
	t.Helper()
	c := d
	c.path = filepath.Join(memoryDir(t), "data")
	require.NoError(t, os.CopyFS(c.path, os.DirFS(d.path)))
	for i, o := range odd {
		require.NoError(t, o.do(c, d.blocks[1+i]), o.name)
	}
	return c
}

// open says how Open, or OpenReadOnly, answers.
func gradeOpen(r *tsdb.OpenReport, err error) string {
	switch {
	case err != nil:
		return "refused"
	case !r.Clean():
		return "damage"
	case len(r.Damages)+len(r.SnapshotsIgnored) > 0 || r.TornTail:
		return "told"
	}
	return "clean"
}

func gradeVerify(r *tsdb.VerifyReport, err error) string {
	if err != nil {
		return "refused"
	}
	if len(r.Findings) == 0 {
		return "clean"
	}
	return r.Findings[0].Severity.String()
}

// ask asks all ways into a directory, each on a copy of its own.
func (d oddDir) ask(t *testing.T, odd ...oddity) (got answers) {
	t.Helper()
	read := d.with(t, odd...)
	r, err := tsdb.OpenReadOnly(read.path, oddOptions())
	report := tsdb.OpenReport{}
	if err == nil {
		report = r.OpenReport()
		require.NoError(t, r.Close())
	}
	got[1] = gradeOpen(&report, err)
	got[2] = gradeVerify(tsdb.Verify(ctx, read.path, &tsdb.VerifyOptions{Clock: tsdbtest.NewClock(testNow)}))
	db, err := tsdb.Open(read.path, oddOptions())
	if err == nil {
		report = db.OpenReport()
		require.NoError(t, db.Health())
		require.NoError(t, db.Close())
	}
	got[0] = gradeOpen(&report, err)

	mended := d.with(t, odd...)
	repaired, err := tsdb.Repair(ctx, mended.path, &tsdb.RepairOptions{Options: oddOptions()})
	switch {
	case err != nil:
		got[3], got[4] = "refused", "-"
		return got
	case !repaired.Clean():
		got[3] = "lost"
	default:
		got[3] = "clean"
	}
	got[4] = gradeVerify(tsdb.Verify(ctx, mended.path, &tsdb.VerifyOptions{Clock: tsdbtest.NewClock(testNow)}))
	return got
}

// The page says of every oddity what Open, OpenReadOnly, Verify and Repair make of it, and that is
// what they do.
func TestOddities_AnswersAreThoseOfThePage(t *testing.T) {
	table, base := oddTable(t, "oddity"), newOddDir(t, 4)
	require.Len(t, table, len(oddities), "each oddity has a row, and each row an oddity")
	require.GreaterOrEqual(t, len(oddities), 40)
	for _, odd := range oddities {
		t.Run(odd.name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, table, odd.name)
			require.Equal(t, table[odd.name], base.ask(t, odd))
		})
	}
}

// Two oddities together give the worse answer of each, unless the page says of the two what they
// give. All pairs are tried that there can be.
func TestOddities_OfTwoTheWorseAnswerCounts(t *testing.T) {
	table, twos, base := oddTable(t, "oddity"), oddTable(t, "two oddities"), newOddDir(t, 4)
	require.NotEmpty(t, twos)
	var pairs [][2]oddity
	for i, a := range oddities {
		for _, b := range oddities[i+1:] {
			if canMeet(a, b) {
				pairs = append(pairs, [2]oddity{a, b})
			}
		}
	}
	met := 0
	for _, p := range pairs {
		if _, ok := twos[twoNames(p[0], p[1])]; ok {
			met++
		}
	}
	require.Equal(t, len(twos), met, "a row for two that never meet")
	if !sweep.Whole() { // some of them, and others for each seed
		rng := rand.New(rand.NewPCG(*oddSeed, 0))
		rng.Shuffle(len(pairs), func(i, k int) { pairs[i], pairs[k] = pairs[k], pairs[i] })
		pairs = pairs[:40]
	}
	for _, p := range pairs {
		t.Run(twoNames(p[0], p[1]), func(t *testing.T) {
			t.Parallel()
			want, ok := twos[twoNames(p[0], p[1])]
			if !ok {
				want = table[p[0].name].worse(table[p[1].name])
			}
			require.Equal(t, want, base.ask(t, p[0], p[1]))
		})
	}
}

// Sets of many oddities give the worst answer of each: what is wrong in one place hides nothing
// elsewhere.
func TestOddities_OfManyTheWorstAnswerCounts(t *testing.T) {
	const most = 10
	table, twos, base := oddTable(t, "oddity"), oddTable(t, "two oddities"), newOddDir(t, 1+most)
	n := *oddSets
	if !sweep.Whole() {
		n /= 10
	}
	for seed := range uint64(n) {
		rng := rand.New(rand.NewPCG(*oddSeed, seed))
		var set []oddity
		want := table[oddities[0].name]
		for size := 3 + rng.IntN(most-2); len(set) < size; {
			odd := oddities[rng.IntN(len(oddities))]
			// What is refused hides the rest, so that few sets have it.
			row := table[odd.name]
			refused := slices.Contains(row[:], "refused") && rng.IntN(8) > 0
			alone := slices.ContainsFunc(set, func(other oddity) bool {
				return other.name == odd.name || !canMeet(other, odd) || twos[twoNames(other, odd)] != answers{} || twos[twoNames(odd, other)] != answers{}
			})
			if refused || alone {
				continue
			}
			set = append(set, odd)
			want = want.worse(table[odd.name])
		}
		slices.SortFunc(set, func(a, b oddity) int { return oddIndex(a) - oddIndex(b) })
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			require.Equal(t, want, base.ask(t, set...), "%s", set)
		})
	}
}

// String returns the name.
func (o oddity) String() string { return o.name }

func oddIndex(o oddity) int {
	return slices.IndexFunc(oddities, func(other oddity) bool { return other.name == o.name })
}

// twoNames is what two oddities, in the order of the list, are called together.
func twoNames(a, b oddity) string { return a.name + " and " + b.name }

// never are oddities that cannot be in one directory, as both are about one name.
var never = [][]string{
	{"no list of blocks", "a list of blocks that is damaged", "an empty list of blocks"},
	{"a block under another name", "a file called like a block", "a database called like a block"},
	{"a file for the log", "a link to the log"},
	{"a file for the log", "a torn end of the log"},
	{"a file for the log", "a hole in the log"},
	{"a file for the log", "a stranger in the log"},
	{"a file for the log", "a directory for a log segment"},
	{"a torn out-of-order log", "an empty out-of-order log"},
	{"no head chunks", "a link to the head chunks", "a file for the head chunks"},
	{"no head chunks", "head chunks cut in half"},
	{"a file for the head chunks", "head chunks cut in half"},
}

// canMeet reports whether two oddities may be in one directory.
func canMeet(a, b oddity) bool {
	return !slices.ContainsFunc(never, func(names []string) bool {
		return slices.Contains(names, a.name) && slices.Contains(names, b.name)
	})
}
