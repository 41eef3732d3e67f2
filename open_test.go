package tsdb_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

const holdEnv = "TSDB_TEST_HOLD"

func init() { children["hold"] = holdChild }

// holdChild has a directory open until its standard input ends.
func holdChild() error {
	db, err := tsdb.Open(os.Getenv(holdEnv), nil)
	if err != nil {
		return err
	}
	fmt.Println("open")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return db.Close()
}

func TestOpen_ASecondOpenerIsToldWhoHasIt(t *testing.T) {
	dir := t.TempDir()
	db, err := tsdb.Open(dir, nil)
	require.NoError(t, err)
	_, err = tsdb.Open(dir, nil)
	require.ErrorIs(t, err, tsdb.ErrLocked)
	require.ErrorContains(t, err, fmt.Sprintf("pid %d of %s", os.Getpid(), filepath.Base(os.Args[0])))
	require.NoError(t, db.Close())
	db, err = tsdb.Open(dir, nil)
	require.NoError(t, err, "Close gave it up")
	require.NoError(t, db.Close())
}

func TestOpen_AnotherProcessKeepsUsOut(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=hold", holdEnv+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	said := make([]byte, 5)
	_, err = io.ReadFull(out, said)
	require.NoError(t, err)
	require.Equal(t, "open\n", string(said))

	_, err = tsdb.Open(dir, nil)
	require.ErrorIs(t, err, tsdb.ErrLocked)
	require.ErrorContains(t, err, fmt.Sprintf("pid %d of %s", cmd.Process.Pid, filepath.Base(os.Args[0])))
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
	db, err := tsdb.Open(dir, nil)
	require.NoError(t, err)
	require.NoError(t, db.Close())
}

// allFiles returns all files below the data directory but those of the lock.
func allFiles(t *testing.T, fs *tsdbtest.MemFS) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, name := range fs.Files() {
		if strings.HasPrefix(name, "data/lock") {
			continue
		}
		if strings.HasSuffix(name, "/") {
			files[name] = nil
			continue
		}
		data, err := fs.ReadFile(name)
		require.NoError(t, err)
		files[name] = data
	}
	return files
}

// writtenFixture has a little of everything on its disk, and is closed.
func writtenFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, func(o *tsdb.Options) { o.Head.SamplesPerChunk = 16 })
	for k := range 50 {
		f.commit(sample{`{a="b"}`, int64(k), float64(k)}, sample{`{a="c"}`, int64(k), 1})
	}
	require.NoError(t, f.db.Close())
	return f
}

func putFiles(t *testing.T, fs *tsdbtest.MemFS, files map[string][]byte) {
	t.Helper()
	for name, data := range files {
		require.NoError(t, fs.WriteFile(name, data))
	}
}

func TestOpen_WhatItCannotReadIsNamedAndNothingChanged(t *testing.T) {
	newer := newerHeader()
	for _, c := range []struct {
		name string
		file string
		data []byte
		is   error
		says []string
	}{
		{"newer out-of-order log", "wbl/00000000", newer, tsdb.ErrUnsupported, []string{"wbl/00000000", "version 2", "up to 1"}},
		{"stranger in the out-of-order log", "wbl/-1", []byte("x"), tsdb.ErrCorrupt, []string{"wbl/-1 has the name of a log segment but is none"}},
		{"newer version", "wal/00000001", newer, tsdb.ErrUnsupported, []string{"wal/00000001", "version 2", "up to 1"}},
		{"hole in the log", "wal/00000005", []byte("x"), tsdb.ErrCorrupt, []string{"segment 00000001 is missing", "00000005"}},
		{"stranger in the log", "wal/-1", []byte("x"), tsdb.ErrCorrupt, []string{"wal/-1 has the name of a log segment but is none"}},
		{"directory in the log", "wal/100/x", []byte("x"), tsdb.ErrCorrupt, []string{"wal/100 has the name of a log segment but is none"}},
		{"odd number in the log", "wal/+19", []byte("x"), tsdb.ErrCorrupt, []string{"segment 00000001 is missing", "+19"}},
		{"the same number twice", "wal/0", []byte("x"), tsdb.ErrCorrupt, []string{"wal/0", "wal/00000000 are the same segment"}},
		{"directory among chunk files", "chunks_head/000007/x", []byte("x"), tsdb.ErrCorrupt, []string{"chunks_head/000007", "a directory"}},
		{"huge number among chunk files", "chunks_head/99999999999", []byte("x"), tsdb.ErrCorrupt, []string{"chunks_head/99999999999", "too large"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := writtenFixture(t)
			want := f.data()
			require.NoError(t, f.fs.WriteFile("data/"+c.file, c.data))
			before := allFiles(t, f.fs)
			for range 2 { // a refusal leaves nothing behind, the lock neither
				_, err := tsdb.Open(fixtureDir, f.opts)
				require.ErrorIs(t, err, c.is)
				for _, text := range c.says {
					require.ErrorContains(t, err, text)
				}
				require.Equal(t, before, allFiles(t, f.fs))
			}
			top, _, _ := strings.Cut(c.file, "/")
			if top != "wal" && top != "chunks_head" {
				f.remove(top)
			} else {
				f.remove(strings.Join(strings.Split(c.file, "/")[:2], "/"))
			}
			f.open()
			require.Equal(t, want, f.all(), "without it, all is there")
		})
	}
}

// data reads the directory of a closed fixture, from a copy.
func (f *fixture) data() map[string][]point {
	f.t.Helper()
	db, err := tsdb.Open(fixtureDir, &tsdb.Options{FS: f.fs.KillClone(), Clock: f.clock})
	require.NoError(f.t, err)
	defer db.Close()
	all, err := everything(db)
	require.NoError(f.t, err)
	return all
}

// remove removes a file or directory below the data directory.
func (f *fixture) remove(name string) {
	f.t.Helper()
	path := filepath.Join(fixtureDir, filepath.FromSlash(name))
	info, err := f.fs.Stat(path)
	require.NoError(f.t, err)
	if info.IsDir() {
		entries, err := f.fs.ReadDir(path)
		require.NoError(f.t, err)
		for _, e := range entries {
			f.remove(name + "/" + e.Name())
		}
	}
	require.NoError(f.t, f.fs.Remove(path))
}

// newerHeader is a log segment that begins with a header of the next version.
func newerHeader() []byte {
	rec := []byte{0x80, 2, 1, 1, 1, 1}
	crc := crc32.MakeTable(crc32.Castagnoli)
	rec = binary.BigEndian.AppendUint32(rec, crc32.Checksum(rec, crc))
	seg := append([]byte{1, 0, byte(len(rec))}, binary.BigEndian.AppendUint32(nil, crc32.Checksum(rec, crc))...)
	return append(seg, rec...)
}

func TestOpen_EmptyOutOfOrderLogsAndFilesNamedLikeBlocksAreNoReason(t *testing.T) {
	f := writtenFixture(t)
	want := f.data()
	files := map[string][]byte{
		"data/01ARZ3NDEKTSV4RRFFQ69G5FAV": []byte("a file is no block"),
		"data/wbl/00000000":               {},
	}
	putFiles(t, f.fs, files)
	f.open()
	require.Equal(t, want, f.all())
	for name, data := range files {
		kept, err := f.fs.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, len(data), len(kept))
	}
}

func TestOpen_LeftoversGoBeforeTheFirstCommitAndForeignThingsStay(t *testing.T) {
	f := writtenFixture(t)
	want := f.data()
	block := "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	ours := []string{
		"tmp-wal-00000000", "tmp-chunks_head-000001", "tmp-blocks.tsdb", "tmp-checkpoint/00000000", "tmp-head-snapshot/00000000",
		"tmp-head-snapshot/sidecar", "tmp-block-" + block + "/index", "tmp-block-" + block + "/chunks/000001", "tmp-block-" + block + "/meta.json.crc.tmp",
		"tmp-deleted-" + block + "/chunks/000001", "tmp-deleted-" + block + "/no-compact-mark.json",
		"tmp-backfill-" + block + "/run-000000-series", "tmp-backfill-" + block + "/lock.owner",
		"tmp-backfill-" + block + "/blocks/" + block + "/meta.json", "tmp-backfill-" + block + "/blocks/tmp-block-" + block + "/chunks/000001",
		"copy.tmp-snapshot/wal/00000000", "copy.tmp-snapshot/wal/checkpoint.00000001/00000000", "copy.tmp-snapshot/chunks_head/000001",
		"copy.tmp-snapshot/" + block + "/meta.json",
		"chunk_snapshot.000001.0000000000/00000000", "chunk_snapshot.000001.0000000000.tmp/00000000", "wal/series_state.json",
		"head_snapshot.00000005/00000000",
	}
	foreign := map[string][]byte{}
	for _, name := range []string{
		"quarantine/wal-00000007", "quarantine/" + block + ".tmp-for-creation/index", "cold/" + block + "/meta.json",
		"snapshots/20260101/" + block + "/meta.json", "x.tmp/y", "head_snapshot.000005/00000000", "head_snapshot.x/y", "head_snapshot.00000004.bak/sidecar", block + ".cold/index",
		block + ".quarantine/index", "q-" + block + "/index", "tsdb.json", "OPEN_REPORT.json", "snapshots.json", "thanos.shipper.json",
		block + ".tmp-for-deletion/index", "queries.active", "tmpx", "chunks_head.bak/000001",
		"tmp-x", "tmp-dir/a/b", "tmp-wal-x", "tmp-wal-0000000x", "tmp-chunks_head-000001.bak", "tmp-block-" + strings.ToLower(block) + "/index",
		"tmp-block-notes/index", "tmp-block-01ARZ3NDEKTSV4RRFFQ69G5FAW/thesis", "tmp-block-01ARZ3NDEKTSV4RRFFQ69G5FAX/chunks/thesis", "tmp-deleted-notes",
		"tmp-deleted-01ARZ3NDEKTSV4RRFFQ69G5FAW/wal/00000000", "tmp-backfill-01ARZ3NDEKTSV4RRFFQ69G5FAW/photos/1", "tmp-checkpoint.old/00000000",
		"tmp-head-snapshot-old/sidecar", "photos.tmp-snapshot/1", "chunk_snapshot.notes/00000000", "chunk_snapshot.000001/00000000", "tmp-blocks.tsdb.bak",
		"wal/index.json", "wal/00000000.idx", "wal/00000000.bad", "wal/00000000.repair", "wal/quarantine/00000000",
		"wal/checkpoint.00000003.bad/00000000", "wal/checkpoint.00000003.tmp/00000000", "wal/checkpoint.json",
		"chunks_head/x.tmp", "chunks_head/000001.idx", "chunks_head/quarantine/000001",
	} {
		foreign["data/"+name] = []byte("not ours: " + name)
	}
	putFiles(t, f.fs, foreign)
	for _, name := range ours {
		require.NoError(t, f.fs.WriteFile("data/"+name, []byte("left over")))
	}
	f.open()
	r := f.db.OpenReport()
	require.True(t, r.Clean())
	require.Empty(t, r.Damages)
	require.Empty(t, r.Quarantined)
	require.Equal(t, want, f.all())
	check := func() {
		t.Helper()
		now := allFiles(t, f.fs)
		for _, name := range ours {
			require.NotContains(t, now, "data/"+name)
		}
		for name, data := range foreign {
			require.Equal(t, string(data), string(now[name]), name)
		}
	}
	check()
	f.commit(sample{`{a="b"}`, 1000, 1})
	f.reopen()
	check()
}

// What stands where something temporary is made goes out of the way, and nothing of it is lost.
func TestOpen_AStrangerUnderATemporaryNameGoesIntoQuarantine(t *testing.T) {
	f := writtenFixture(t)
	want := f.data()
	for _, name := range []string{"tmp-wal-00000001/thesis", "tmp-checkpoint/thesis", "tmp-checkpoint/00000000", "tmp-head-snapshot/chapter/1", "tmp-blocks.tsdb/thesis"} {
		require.NoError(t, f.fs.WriteFile("data/"+name, []byte("not ours: "+name)))
	}
	f.open()
	require.Equal(t, want, f.all())
	now := allFiles(t, f.fs)
	for _, name := range []string{"tmp-wal-00000001/thesis", "tmp-checkpoint/thesis", "tmp-checkpoint/00000000", "tmp-head-snapshot/chapter/1", "tmp-blocks.tsdb/thesis"} {
		require.Equal(t, "not ours: "+name, string(now["data/quarantine/"+name]))
		require.NotContains(t, now, "data/"+name)
	}
}

func TestOpen_AStrangeFileAmongTheChunkFilesIsSetAside(t *testing.T) {
	for _, data := range []string{"", "abc", "abcdef", strings.Repeat("not a chunk file ", 10)} {
		f := writtenFixture(t)
		want := f.data()
		require.NoError(t, f.fs.WriteFile("data/chunks_head/000002", []byte(data)))
		f.open()
		r := f.db.OpenReport()
		require.True(t, r.Clean(), "the log has it all")
		require.Equal(t, want, f.all())
		if len(data) >= 8 {
			require.Len(t, r.Damages, 1)
			require.Equal(t, filepath.Join("data", "chunks_head", "000002"), r.Damages[0].File)
		}
		if data != "" {
			require.Len(t, r.Quarantined, 1)
			kept, err := f.fs.ReadFile("data/" + filepath.ToSlash(r.Quarantined[0]))
			require.NoError(t, err)
			require.Equal(t, data, string(kept))
		}
	}
}

func TestOpen_ChunksOfASeriesThatTheLogLostAreNotLentToANewOne(t *testing.T) {
	f := writtenFixture(t)
	f.remove("wal")
	f.open()
	require.Empty(t, f.all())
	want := map[string][]point{}
	for k := range 10 {
		name := fmt.Sprintf(`{new="%d"}`, k)
		f.commit(sample{name, 100, 1})
		want[name] = points(100, 1)
	}
	require.Equal(t, want, f.all())
	f.reopen()
	require.Equal(t, want, f.all())
}

func TestOpen_WhatIsNoDirectoryIsAnError(t *testing.T) {
	fs := tsdbtest.NewMemFS()
	opts := &tsdb.Options{FS: fs, Clock: tsdbtest.NewClock(testNow)}
	require.NoError(t, fs.WriteFile("file", []byte("x")))
	_, err := tsdb.Open("file", opts)
	require.ErrorContains(t, err, "create data directory file")
	for _, sub := range []string{"wal", "chunks_head"} {
		dir := "with-a-file-" + sub
		require.NoError(t, fs.WriteFile(dir+"/"+sub, []byte("x")))
		before := maps.Clone(allFiles(t, fs))
		_, err = tsdb.Open(dir, opts)
		require.ErrorContains(t, err, filepath.Join(dir, sub))
		now, err := fs.ReadFile(dir + "/" + sub)
		require.NoError(t, err)
		require.True(t, bytes.Equal(before[dir+"/"+sub], now))
	}
	require.Empty(t, fs.OpenHandles(), "a failed Open leaves nothing open")
}

func TestOpen_MakesMissingDirectories(t *testing.T) {
	fs := tsdbtest.NewMemFS()
	dir := filepath.Join("a", "b", "c")
	db, err := tsdb.Open(dir, &tsdb.Options{FS: fs, Clock: tsdbtest.NewClock(testNow)})
	require.NoError(t, err)
	require.Equal(t, dir, db.Dir())
	require.NoError(t, db.Close())
	cut := fs.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll})
	_, err = cut.Stat(filepath.Join(dir, "wal", "00000000"))
	require.NoError(t, err, "and makes them last")
}
