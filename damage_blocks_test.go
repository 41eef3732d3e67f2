package tsdb_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// The files of blocks are damaged in every way there is, one at a time, and the directory
// is opened, read, verified and repaired. What comes out is never anything that was not
// there, and what is missing was told: by Open, by the query, or at least by Verify.

// blockSpecimen is a directory with two blocks, of which the first one has deleted samples,
// and a head. One of their series has samples of every kind.
type blockSpecimen struct {
	files map[string][]byte // by path in the data directory
	whole map[string][]point
}

func newBlockSpecimen(t *testing.T) *blockSpecimen {
	t.Helper()
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Head.SamplesPerChunk = 16
	})
	base := testNow.UnixMilli() / (2 * hour) * (2 * hour)
	for i := range int64(4 * hour / (5 * minute)) {
		ts := base - 4*hour + i*5*minute
		mixed := kindRuns[i/5](i)
		if mixed.T = ts; mixed.ST != 0 {
			mixed.ST = ts - minute
		}
		rows := []row{rowOf(series(t, `{__name__="mixed"}`), mixed)}
		for _, s := range []string{`{__name__="up", job="a"}`, `{__name__="up", job="b"}`} {
			rows = append(rows, floatRow(series(t, s), ts, math.Sqrt(float64(ts+int64(len(s))))))
		}
		commitAny(t, f.db, rows)
	}
	require.NoError(t, f.db.Flush(ctx))
	require.NoError(t, f.db.Delete(ctx, base-4*hour, base-3*hour, labels.Equal("job", "a")))
	f.commit(sample{`{__name__="up", job="a"}`, base, 1})
	sp := &blockSpecimen{whole: f.all()}
	require.Len(t, f.db.Blocks(), 2)
	require.NoError(t, f.db.Close())
	f.db = nil
	sp.files = dataFiles(t, f.fs)
	return sp
}

// names returns the files of blocks.
func (sp *blockSpecimen) names() (names []string) {
	for name := range sp.files {
		if strings.HasPrefix(name, "01") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// uncovered says why a changed bit of a file shows nowhere, if it may. docs/format-coverage.md
// has the same list.
func (sp *blockSpecimen) uncovered(file string, bit int) string {
	data := sp.files[file]
	switch {
	case path.Base(path.Dir(file)) == "chunks" && bit/8 >= 5 && bit/8 < 8:
		return "a spare byte of a chunk segment's header"
	case path.Base(file) == "index" && bit/8 == 4 && bit%8 == 0:
		return "version 3 of an index is the same as 2"
	case path.Base(file) == "meta.json":
		for _, span := range mutableMeta.FindAllIndex(data, -1) {
			if bit/8 >= span[0] && bit/8 < span[1] {
				return "what other programs may change, or white space"
			}
		}
	}
	return ""
}

// mutableMeta is what of a meta file may change without being damage.
var mutableMeta = regexp.MustCompile(`"numTombstones": \d+|"deletable"|"failed"|[\t\n ]+`)

// look is what a program sees of a directory.
type look struct {
	report   tsdb.OpenReport
	warnings tsdb.Warnings
	got      map[string][]point
	failed   error // of the query: damage
}

func lookAt(disk *tsdbtest.MemFS) (l look, err error) {
	options := &tsdb.Options{FS: disk, Clock: tsdbtest.NewClock(testNow)}
	manual(options)
	db, err := tsdb.Open("data", options)
	if err != nil {
		return l, errors.WithMessage(err, "open")
	}
	defer func() { err = firstOf(err, db.Close()) }()
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return l, err
	}
	defer func() { err = firstOf(err, q.Close()) }()
	l.report = db.OpenReport()
	l.got, err = readAll(q)
	_, warnings, namesErr := q.LabelNames(ctx, nil)
	set := q.Select(ctx, nil)
	for set.Next() {
	}
	if l.warnings = set.Warnings(); set.Err() != nil {
		l.warnings = warnings
	}
	for _, err := range []error{err, namesErr} {
		if err != nil && !errors.Is(err, tsdb.ErrCorrupt) {
			return l, errors.WithMessage(err, "query")
		}
		l.failed = firstOf(l.failed, err)
	}
	return l, nil
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// try damages a directory and counts the case. It returns the class.
func (sp *blockSpecimen) try(c *census, kind, what string, files map[string][]byte, repair bool) string {
	class, err := sp.examine(files, repair)
	if err != nil {
		c.fail("%s: %v", what, err)
		class = "wrong"
	}
	c.add(kind, class)
	return class
}

// examine verifies, opens, reads and repairs a directory, each a copy of its own.
func (sp *blockSpecimen) examine(files map[string][]byte, repair bool) (class string, err error) {
	disk, err := diskOf(files)
	if err != nil {
		return "", err
	}
	verified, err := tsdb.Verify(ctx, "data", &tsdb.VerifyOptions{FS: disk})
	if err != nil {
		return "", errors.WithMessage(err, "verify")
	}
	opened := disk.KillClone()
	l, err := lookAt(opened)
	if err != nil {
		return "", err
	}
	if class, err = sp.judge(l); err != nil {
		return "", err
	}
	switch {
	case class == harmless && len(verified.Findings) > 0:
		class = "complete, and Verify tells"
	case class != harmless && len(verified.Findings) == 0:
		return "", errors.Errorf("%s, and Verify finds nothing", class)
	}
	if !repair {
		return class, nil
	}
	// What Open has set aside is repaired as what it has not.
	return class, firstOf(errors.WithMessage(sp.repair(disk), "not opened before"), errors.WithMessage(sp.repair(opened), "opened before"))
}

// judge holds what a program sees against what there was, and returns the class.
func (sp *blockSpecimen) judge(l look) (class string, err error) {
	if text := atLeast(sp.whole, l.got); text != "" {
		return "", errors.Errorf("there is what was not there: %s", text)
	}
	aside := l.report.BlocksSetAside > 0
	switch {
	case aside && (len(l.warnings) == 0 || l.report.Clean()):
		return "", errors.Errorf("a block was set aside, and nobody tells: %+v", l.report)
	case aside:
		return "set aside, queries warn", nil
	case l.failed != nil:
		return "queries fail", nil
	case len(l.warnings) > 0:
		return "left out, queries warn", nil
	case !sameData(l.got, sp.whole):
		return "", errors.Errorf("silent loss: %+v", l.report)
	}
	return harmless, nil
}

// repair repairs a directory. Then nothing is missing but what the report says, and the
// originals are there.
func (sp *blockSpecimen) repair(disk *tsdbtest.MemFS) error {
	before := disk.KillClone()
	r, err := tsdb.Repair(ctx, "data", &tsdb.RepairOptions{Options: &tsdb.Options{FS: disk, Clock: tsdbtest.NewClock(testNow)}})
	if err != nil {
		return errors.WithMessage(err, "repair")
	}
	if lost := lostOriginal(before, disk); lost != "" {
		return errors.Errorf("repair lost the original of %s: %+v", lost, r.Blocks)
	}
	l, err := lookAt(disk)
	if err != nil {
		return errors.WithMessage(err, "after repair")
	}
	missing, unsaved := 0, 0
	for series, ps := range sp.whole {
		missing += len(ps) - len(l.got[series])
	}
	for _, b := range r.Blocks {
		if b.Saved == nil {
			unsaved++
		}
	}
	switch text := atLeast(sp.whole, l.got); {
	case text != "":
		return errors.Errorf("after repair there is what was not there: %s", text)
	case l.failed != nil:
		return errors.WithMessage(l.failed, "after repair")
	case len(l.warnings) != unsaved:
		return errors.Errorf("after repair: %v, %+v", l.warnings, r.Blocks)
	case r.Clean() && missing > 0:
		return errors.Errorf("repair said that nothing was lost: %+v", r.Blocks)
	}
	verified, err := tsdb.Verify(ctx, "data", &tsdb.VerifyOptions{FS: disk})
	if err == nil && unsaved == 0 && !verified.Clean() {
		err = errors.Errorf("after repair Verify finds %+v", verified.Findings[0])
	}
	return err
}

// lostOriginal returns a file of a block that is nowhere as it was, if there is one.
func lostOriginal(before, after *tsdbtest.MemFS) string {
	kept := map[string]bool{}
	for _, name := range namesUnder(after, "") {
		data, _ := after.ReadFile("data/" + name)
		kept[path.Base(name)+string(data)] = true
	}
	for _, part := range []string{"01", "quarantine/"} {
		for _, name := range namesUnder(before, part) {
			data, _ := before.ReadFile("data/" + name)
			if !kept[path.Base(name)+string(data)] && path.Base(name) != "meta.json.crc" {
				return name
			}
		}
	}
	return ""
}

func (sp *blockSpecimen) with(file string, data []byte) map[string][]byte {
	files := maps.Clone(sp.files)
	if files[file] = data; data == nil {
		delete(files, file)
	}
	return files
}

func TestDamage_NoFlippedBitOfABlockIsSilent(t *testing.T) {
	sp := newBlockSpecimen(t)
	var c census
	places, repairEvery := sweep.Of(t, 1, 23), 16
	if !sweep.Whole() {
		repairEvery = 5
	}
	for _, file := range sp.names() {
		_, short, _ := strings.Cut(file, "/")
		bits := places.Below(8 * len(sp.files[file]))
		inParallel(len(bits), func(n int) {
			bit := bits[n]
			data := bytes.Clone(sp.files[file])
			data[bit/8] ^= 1 << (bit % 8)
			what := fmt.Sprintf("bit %d of %s", bit, file)
			class := sp.try(&c, "flip in "+short, what, sp.with(file, data), n%repairEvery == 0)
			why := sp.uncovered(file, bit)
			if class == harmless && why == "" {
				c.fail("%s changes nothing and shows nowhere: %q", what, data[max(0, bit/8-10):min(len(data), bit/8+10)])
			}
		})
	}
	c.report(t)
}

func TestDamage_NoCutFileOfABlockIsSilent(t *testing.T) {
	sp := newBlockSpecimen(t)
	var c census
	places := sweep.Of(t, 1, 13)
	for _, file := range sp.names() {
		_, short, _ := strings.Cut(file, "/")
		ends := places.Below(len(sp.files[file]))
		inParallel(len(ends), func(n int) {
			at := ends[n]
			what := fmt.Sprintf("%s cut to %d bytes", file, at)
			if sp.try(&c, "cut of "+short, what, sp.with(file, sp.files[file][:at:at]), n%8 == 0) == harmless {
				c.fail("%s changes nothing and shows nowhere", what)
			}
		})
	}
	c.report(t)
}

func TestDamage_NoZeroedOrLostPieceOfABlockIsSilent(t *testing.T) {
	sp := newBlockSpecimen(t)
	var c census
	for _, file := range sp.names() {
		_, short, _ := strings.Cut(file, "/")
		whole := sp.files[file]
		for _, size := range []int{16, 64, 512} {
			for from := 0; from < len(whole); from += size {
				to := min(from+size, len(whole))
				data := bytes.Clone(whole)
				clear(data[from:to])
				sp.try(&c, "zeros in "+short, fmt.Sprintf("%s zeroed from %d to %d", file, from, to), sp.with(file, data), size > 16)
				data = slices.Concat(whole[:from], whole[to:])
				sp.try(&c, "hole in "+short, fmt.Sprintf("%s without bytes %d to %d", file, from, to), sp.with(file, data), size > 16)
				data = slices.Concat(whole[:to], whole[from:])
				sp.try(&c, "repeat in "+short, fmt.Sprintf("%s with bytes %d to %d twice", file, from, to), sp.with(file, data), size > 16)
			}
		}
	}
	c.report(t)
}

// Files and directories that are missing, empty, foreign, or the one in the place of the
// other.
func TestDamage_NothingStrangeInADataDirectoryIsSilentOrStopsTheRest(t *testing.T) {
	sp := newBlockSpecimen(t)
	var c census
	names := sp.names()
	inParallel(len(names), func(i int) {
		file := names[i]
		_, short, _ := strings.Cut(file, "/")
		sp.try(&c, "no "+short, "no "+file, sp.with(file, nil), true)
		sp.try(&c, "empty "+short, "empty "+file, sp.with(file, []byte{}), true)
		sp.try(&c, "foreign "+short, "foreign "+file, sp.with(file, bytes.Repeat([]byte("not what it was "), 100)), true)
		files := sp.with(file, nil)
		files[file+"/stray"] = []byte("x")
		sp.try(&c, "directory for "+short, "directory in the place of "+file, files, true)
	})
	block, _, _ := strings.Cut(names[0], "/")
	for what, name := range map[string]string{
		"a file beside the blocks":           "readme.txt",
		"a file in a block":                  block + "/no-compact-mark.json",
		"a file among chunks":                block + "/chunks/readme",
		"a file in the log":                  "wal/readme",
		"a file among head chunks":           "chunks_head/readme",
		"an empty block":                     "01HF7Q8ZK0000000000000TES9/readme",
		"a block that was being written":     "tmp-block-01HF7Q8ZK0000000000000TES9/index",
		"one that the reference was writing": "01HF7Q8ZK0000000000000TES9.tmp-for-creation/meta.json",
		"one that it was removing":           "01HF7Q8ZK0000000000000TES9.tmp-for-deletion/index",
		"something in quarantine":            "quarantine/00000001",
		"a block in quarantine":              "quarantine/01HF7Q8ZK0000000000000TES9/index",
		"a file with the name of a block":    "01HF7Q8ZK0000000000000TES9",
		"a block in lower case":              "01hf7q8zk0000000000000tes9/index",
		"a directory of strangers":           "lost+found/a/b",
	} {
		files := sp.with(name, []byte("x"))
		disk, err := diskOf(files)
		require.NoError(t, err)
		l, err := lookAt(disk)
		require.NoError(t, err, what)
		require.NoError(t, l.failed, what)
		require.True(t, sameData(sp.whole, l.got), what)
		missing := strings.Contains(name, "01HF7Q8ZK0000000000000TES9/") && !strings.HasPrefix(name, "tmp-") || strings.HasPrefix(name, "01hf")
		require.Equal(t, missing, len(l.warnings) > 0, "%s: %v", what, l.warnings)
		before := disk.KillClone()
		r, err := tsdb.Repair(ctx, "data", &tsdb.RepairOptions{Options: &tsdb.Options{FS: disk, Clock: tsdbtest.NewClock(testNow)}})
		require.NoError(t, err, what)
		require.Equal(t, missing, !r.Clean(), "%s: %+v", what, r)
		require.Empty(t, lostOriginal(before, disk), what)
	}
	c.report(t)
}

// The log and the head chunks beside blocks: a checkpoint, segments that were cut behind
// it, samples that blocks have as well.
func TestDamage_NoFlippedBitBesideBlocksIsSilent(t *testing.T) {
	sp := newBlockSpecimen(t)
	var c census
	places := sweep.Of(t, 3, 31)
	for _, file := range slices.Sorted(maps.Keys(sp.files)) {
		if strings.HasPrefix(file, "01") {
			continue
		}
		bits := places.Below(8 * len(sp.files[file]))
		inParallel(len(bits), func(n int) {
			bit := bits[n]
			data := bytes.Clone(sp.files[file])
			data[bit/8] ^= 1 << (bit % 8)
			what := fmt.Sprintf("bit %d of %s", bit, file)
			class, err := sp.examineLog(sp.with(file, data))
			if err != nil {
				c.fail("%s: %v", what, err)
			}
			c.add("flip in "+file, class)
		})
	}
	c.report(t)
}

// examineLog verifies, opens and repairs a directory whose log or head chunks are damaged.
func (sp *blockSpecimen) examineLog(files map[string][]byte) (class string, err error) {
	disk, err := diskOf(files)
	if err != nil {
		return "wrong", err
	}
	verified, err := tsdb.Verify(ctx, "data", &tsdb.VerifyOptions{FS: disk})
	if err != nil {
		return "wrong", errors.WithMessage(err, "verify")
	}
	opened := disk.KillClone()
	l, err := lookAt(opened)
	if err != nil {
		return "wrong", err
	}
	complete := sameData(l.got, sp.whole)
	switch text := atLeast(sp.whole, l.got); {
	case text != "":
		return "wrong", errors.Errorf("there is what was not there: %s", text)
	case l.failed != nil || len(l.warnings) > 0:
		return "wrong", errors.Errorf("no block is damaged: %v %v", l.failed, l.warnings)
	case !complete && l.report.Clean():
		return "wrong", errors.Errorf("silent loss: %+v", l.report)
	case !complete && verified.Clean():
		return "wrong", errors.Errorf("loss that Verify does not find: %+v, %+v", l.report, verified.Findings)
	}
	r, err := tsdb.Repair(ctx, "data", &tsdb.RepairOptions{Options: &tsdb.Options{FS: disk, Clock: tsdbtest.NewClock(testNow)}})
	if err != nil {
		return "wrong", errors.WithMessage(err, "repair")
	}
	if r.Clean() != l.report.Clean() || len(r.Blocks) > 0 {
		return "wrong", errors.Errorf("repair tells %+v, open %+v", r, l.report)
	}
	again, err := lookAt(disk)
	if err == nil && !sameData(again.got, l.got) {
		err = errors.New("after repair there is something else than after open")
	}
	switch {
	case err != nil:
		return "wrong", err
	case !complete:
		return "reported, what was hit is lost", nil
	case len(verified.Findings) > 0:
		return "complete, and Verify tells", nil
	}
	return harmless, nil
}
