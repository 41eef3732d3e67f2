package tsdbtest_test

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

const many = 100_000

func create(t *testing.T, m *tsdbtest.MemFS, name, data string) fileutil.File {
	t.Helper()
	f, err := m.Create(name)
	require.NoError(t, err)
	_, err = f.Write([]byte(data))
	require.NoError(t, err)
	return f
}

// contents returns the set of what name may hold after a power cut; "-" is a
// missing file.
func contents(t *testing.T, m *tsdbtest.MemFS, name string) map[string]bool {
	t.Helper()
	set := map[string]bool{}
	for disk := range m.CrashStates(many) {
		data, err := disk.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			data, err = []byte("-"), nil
		}
		require.NoError(t, err)
		set[string(data)] = true
	}
	return set
}

// trees returns the set of file lists after a power cut.
func trees(t *testing.T, m *tsdbtest.MemFS) []string {
	t.Helper()
	var list []string
	for disk := range m.CrashStates(many) {
		if s := strings.Join(disk.Files(), " "); !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	slices.Sort(list)
	return list
}

func lost(m *tsdbtest.MemFS) *tsdbtest.MemFS {
	return m.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll})
}

func kept(m *tsdbtest.MemFS) *tsdbtest.MemFS {
	return m.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.KeepAll})
}

func TestCrash_OnlySyncedBytesUnderSyncedNamesAreSafe(t *testing.T) {
	for _, c := range []struct {
		name              string
		syncFile, syncDir bool
		want              string
	}{
		{"nothing synced", false, false, "-"},
		{"name only", false, true, ""},
		{"content only", true, false, "-"},
		{"both", true, true, "data"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := tsdbtest.NewMemFS()
			f := create(t, m, "a", "data")
			if c.syncFile {
				require.NoError(t, f.Sync())
			}
			if c.syncDir {
				require.NoError(t, m.SyncDir("/"))
			}
			set := contents(t, m, "a")
			require.True(t, set["data"])
			require.True(t, set[c.want], "%q", set)
			if c.syncFile && c.syncDir {
				require.Len(t, set, 1)
				require.Zero(t, m.PendingCount())
			}
			data, err := kept(m).ReadFile("a")
			require.NoError(t, err)
			require.Equal(t, "data", string(data))
		})
	}
}

func TestCrash_SizeAndSectorsAreIndependent(t *testing.T) {
	m := tsdbtest.NewMemFS()
	f := create(t, m, "a", "")
	require.NoError(t, m.SyncDir("/"))
	one, two := strings.Repeat("1", 512), strings.Repeat("2", 512)
	_, err := f.Write([]byte(one + two))
	require.NoError(t, err)
	hole := strings.Repeat("\x00", 512)
	set := contents(t, m, "a")
	for _, want := range []string{"", one + two, one + hole, hole + two, hole + hole, one, hole} {
		require.True(t, set[want], "%q...", want[:min(len(want), 3)])
	}
	garbage := 0
	for s := range set {
		require.Contains(t, []int{0, 512, 1024}, len(s))
		if len(s) == 1024 && s[:512] != one && s[:512] != hole {
			garbage++
		}
	}
	require.Equal(t, 3, garbage, "the first sector is garbage, the second anything")
	require.Len(t, set, 1+3+9, "none; the first sector; both")
}

func TestCrash_SyncedBytesSurviveTheSectorThatTheyShare(t *testing.T) {
	m := tsdbtest.NewMemFS()
	f := create(t, m, "a", "safe ")
	require.NoError(t, f.Sync())
	require.NoError(t, m.SyncDir("/"))
	_, err := f.Write([]byte("lost"))
	require.NoError(t, err)
	set := contents(t, m, "a")
	require.True(t, set["safe "] && set["safe lost"] && set["safe lo"] && set["safe \x00\x00\x00\x00"], "%q", set)
	for s := range set {
		require.True(t, strings.HasPrefix(s, "safe "), "%q", s)
	}
}

func TestCrash_CutTailMayComeBack(t *testing.T) {
	m := tsdbtest.NewMemFS()
	f := create(t, m, "a", "0123456789")
	require.NoError(t, f.Sync())
	require.NoError(t, m.SyncDir("/"))
	require.NoError(t, f.Truncate(4))
	set := contents(t, m, "a")
	require.True(t, set["0123"] && set["0123456789"], "%q", set)

	_, err := f.Write([]byte("ab"))
	require.NoError(t, err)
	set = contents(t, m, "a")
	require.True(t, set["0123ab"] && set["0123456789"] && set["0123ab\x00\x00\x00\x00"] && set["0123"], "%q", set)
	require.NoError(t, f.Sync())
	require.Equal(t, map[string]bool{"0123ab": true}, contents(t, m, "a"))
}

func TestCrash_OverwrittenBytesMayComeBack(t *testing.T) {
	m := tsdbtest.NewMemFS()
	require.NoError(t, m.MkdirAll("d"))
	first := create(t, m, "d/a", "")
	second, err := m.OpenWrite("d/a")
	require.NoError(t, err)
	_, err = first.Write([]byte("0123456789"))
	require.NoError(t, err)
	require.NoError(t, first.Sync())
	require.NoError(t, m.SyncDir("d"))
	require.NoError(t, m.SyncDir("/"))
	_, err = second.Write([]byte("ab"))
	require.NoError(t, err)
	require.Equal(t, "ab23456789", read(t, m, "d/a"))
	set := contents(t, m, "d/a")
	require.True(t, set["0123456789"] && set["ab23456789"], "%q", set)
}

func TestCrash_ContentFromBeforeACutMayComeBack(t *testing.T) {
	m := tsdbtest.NewMemFS()
	f := create(t, m, "a", "")
	require.NoError(t, m.SyncDir("/"))
	_, err := f.Write([]byte("failed commit"))
	require.NoError(t, err)
	require.NoError(t, f.Truncate(0))
	_, err = f.Write([]byte("good"))
	require.NoError(t, err)
	set := contents(t, m, "a")
	require.True(t, set["failed commit"] && set["good"] && set["fail"] && set[""], "%q", set)
}

func TestCrash_RenameOfUnsyncedFileMayLeaveItEmpty(t *testing.T) {
	m := tsdbtest.NewMemFS()
	require.NoError(t, m.WriteFile("final", []byte("old")))
	f := create(t, m, "tmp", "new")
	require.NoError(t, m.Rename("tmp", "final"))
	require.NoError(t, m.SyncDir("/"))
	set := contents(t, m, "final")
	require.True(t, set[""] && set["new"] && set["n"] && set["\x00\x00\x00"], "%q", set)
	require.False(t, set["old"], "the name is durable")
	require.NoError(t, f.Close(), "closing is not syncing")
	require.True(t, contents(t, m, "final")[""])
}

func TestCrash_RenameIsAtomic(t *testing.T) {
	m := tsdbtest.NewMemFS()
	require.NoError(t, m.WriteFile("d/a", []byte("new")))
	require.NoError(t, m.WriteFile("d/b", []byte("old")))
	require.NoError(t, m.Rename("d/a", "d/b"))
	require.Equal(t, []string{"d/a d/b", "d/b"}, trees(t, m))
	require.Equal(t, map[string]bool{"old": true, "new": true}, contents(t, m, "d/b"))
	require.NoError(t, m.SyncDir("d"))
	require.Equal(t, []string{"d/b"}, trees(t, m))
}

func TestCrash_RenameAcrossDirectoriesNeedsBothSyncs(t *testing.T) {
	start := func() *tsdbtest.MemFS {
		m := tsdbtest.NewMemFS()
		require.NoError(t, m.WriteFile("from/a", []byte("x")))
		require.NoError(t, m.WriteFile("to/z", nil))
		require.NoError(t, m.Rename("from/a", "to/a"))
		require.Equal(t, []string{"from/ to/a to/z", "from/a to/z"}, trees(t, m))
		return m
	}
	m := start()
	require.NoError(t, m.SyncDir("to"))
	require.Equal(t, []string{"from/ to/a to/z", "from/a to/a to/z"}, trees(t, m), "never lost, maybe twice")
	require.NoError(t, m.SyncDir("from"))
	require.Equal(t, []string{"from/ to/a to/z"}, trees(t, m))

	m = start()
	require.NoError(t, m.SyncDir("from"))
	require.Equal(t, []string{"from/ to/a to/z", "from/a to/z"}, trees(t, m), "the target decides")
	require.NoError(t, m.SyncDir("to"))
	require.Equal(t, []string{"from/ to/a to/z"}, trees(t, m))
}

func TestCrash_LateSyncOfARenameSparesTheNextFileOfThatName(t *testing.T) {
	m := tsdbtest.NewMemFS()
	require.NoError(t, m.WriteFile("from/a", []byte("x")))
	require.NoError(t, m.WriteFile("to/z", nil))
	require.NoError(t, m.Rename("from/a", "to/a"))
	create(t, m, "from/a", "")
	require.NoError(t, m.SyncDir("from"))
	require.NoError(t, m.SyncDir("to"))
	require.Equal(t, []string{"from/a to/a to/z"}, trees(t, m))
}

func TestCrash_RemovedFileMayComeBackWithItsSyncedContent(t *testing.T) {
	m := tsdbtest.NewMemFS()
	require.NoError(t, m.WriteFile("d/a", []byte("x")))
	require.NoError(t, m.Remove("d/a"))
	require.NoError(t, m.Remove("d"))
	require.Equal(t, []string{"", "d/", "d/a"}, trees(t, m))
	require.NoError(t, m.SyncDir("/"))
	require.Equal(t, []string{""}, trees(t, m))
}

func TestCrash_DirectoryThatIsLostTakesItsFiles(t *testing.T) {
	m := tsdbtest.NewMemFS()
	require.NoError(t, m.MkdirAll("d/e"))
	f := create(t, m, "d/e/a", "x")
	require.NoError(t, f.Sync())
	require.NoError(t, m.SyncDir("d/e"))
	require.Equal(t, []string{"", "d/", "d/e/a"}, trees(t, m))
	require.NoError(t, m.SyncDir("d"))
	require.Equal(t, []string{"", "d/e/a"}, trees(t, m))
	require.NoError(t, m.SyncDir("/"))
	require.Equal(t, []string{"d/e/a"}, trees(t, m))
}

func TestCrash_OrderedLosesOnlyTheNewestNames(t *testing.T) {
	m := tsdbtest.NewMemFS()
	for _, name := range []string{"a", "b", "c"} {
		create(t, m, name, "")
	}
	require.Len(t, trees(t, m), 8, "any subset")
	var ordered []string
	for seed := range uint64(500) {
		disk := m.CrashClone(tsdbtest.CrashOptions{Seed: seed, Ordered: true})
		if s := strings.Join(disk.Files(), " "); !slices.Contains(ordered, s) {
			ordered = append(ordered, s)
		}
	}
	slices.Sort(ordered)
	require.Equal(t, []string{"", "a", "a b", "a b c"}, ordered)
}

func TestCrash_SwappedDirectoriesNeverMakeALoop(t *testing.T) {
	m := tsdbtest.NewMemFS()
	require.NoError(t, m.WriteFile("a/b/f", nil))
	require.NoError(t, m.Rename("a/b", "b"))
	require.NoError(t, m.SyncDir("/")) // the addition is durable, the removal from a is not
	require.NoError(t, m.Rename("a", "b/a"))
	require.NotEmpty(t, trees(t, m))
}

func TestCrashClone_IsIndependentOfTheOriginal(t *testing.T) {
	m := tsdbtest.NewMemFS()
	f := create(t, m, "a", "com")
	_, err := f.Write([]byte("mon ")) // leaves room behind the bytes that are shared
	require.NoError(t, err)
	clone := kept(m)
	killed := m.KillClone()
	_, err = f.Write([]byte("o"))
	require.NoError(t, err)
	for _, c := range []*tsdbtest.MemFS{clone, killed} {
		g, err := c.OpenWrite("a")
		require.NoError(t, err)
		for _, c := range []byte("copy") {
			_, err = g.Write([]byte{c})
			require.NoError(t, err)
		}
		require.NoError(t, g.Close())
		require.Equal(t, "common copy", read(t, c, "a"))
		require.EqualValues(t, 11, c.Used())
	}
	require.Equal(t, "common o", read(t, m, "a"))
}

func TestCrashClone_HasNothingPendingAndCanCrashAgain(t *testing.T) {
	m := tsdbtest.NewMemFS()
	create(t, m, "a", "x")
	clone := kept(m)
	require.Zero(t, clone.PendingCount())
	require.Equal(t, []string{"a"}, lost(clone).Files())
	g, err := clone.OpenWrite("a")
	require.NoError(t, err)
	_, err = g.Write([]byte("y"))
	require.NoError(t, err)
	require.True(t, contents(t, clone, "a")["x"])
	require.True(t, contents(t, clone, "a")["xy"])
}

func TestCrashClone_KeepsHardLinksTogether(t *testing.T) {
	m := tsdbtest.NewMemFS()
	require.NoError(t, m.WriteFile("a", []byte("x")))
	require.NoError(t, m.Link("a", "b"))
	for _, c := range []*tsdbtest.MemFS{kept(m), m.KillClone()} {
		g, err := c.OpenWrite("a")
		require.NoError(t, err)
		_, err = g.Write([]byte("y"))
		require.NoError(t, err)
		require.Equal(t, "xy", read(t, c, "b"))
		require.EqualValues(t, 2, c.Used(), "counted once")
	}
}

func TestKillClone_KeepsTheBytesButNotTheirSafety(t *testing.T) {
	m := tsdbtest.NewMemFS()
	require.NoError(t, m.MkdirAll("d"))
	_, err := m.LockDir("d", "first")
	require.NoError(t, err)
	create(t, m, "d/a", "written")

	killed := m.KillClone()
	require.Equal(t, "written", read(t, killed, "d/a"))
	require.Empty(t, killed.OpenHandles())
	l, err := killed.LockDir("d", "second")
	require.NoError(t, err, "the lock died with the process")
	require.NoError(t, l.Release())
	require.Equal(t, m.PendingCount(), killed.PendingCount())
	require.True(t, contents(t, killed, "d/a")["-"])

	g, err := killed.OpenWrite("d/a")
	require.NoError(t, err)
	require.NoError(t, g.Sync())
	require.NoError(t, killed.SyncDir("d"))
	require.NoError(t, killed.SyncDir("/"))
	require.Equal(t, map[string]bool{"written": true}, contents(t, killed, "d/a"))
	require.True(t, contents(t, m, "d/a")["-"], "the original did not sync")
}

func TestFailSync_LaterSyncLies(t *testing.T) {
	m := tsdbtest.NewMemFS()
	f := create(t, m, "a", "good ")
	require.NoError(t, f.Sync())
	require.NoError(t, m.SyncDir("/"))
	_, err := f.Write([]byte("bad"))
	require.NoError(t, err)
	require.NoError(t, m.FailSync("a"))
	require.Equal(t, "good bad", read(t, m, "a"), "the page cache has it")
	require.NoError(t, f.Sync())
	set := contents(t, m, "a")
	require.True(t, set["good \x00\x00\x00"] && set["good bad"], "%q", set)

	data, err := lost(m).ReadFile("a")
	require.NoError(t, err)
	require.Equal(t, "good \x00\x00\x00", string(data))
	_, err = f.Write(bytes.Repeat([]byte("."), 512))
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.Len(t, contents(t, m, "a"), 1, "written again, and then safe")
}

func TestFailSync_OfADirectoryLosesItsNames(t *testing.T) {
	m := tsdbtest.NewMemFS()
	require.NoError(t, m.WriteFile("d/x", nil))
	create(t, m, "d/a", "")
	require.NoError(t, m.FailSync("d"))
	create(t, m, "d/b", "")
	require.NoError(t, m.SyncDir("d"))
	require.Equal(t, []string{"d/a d/b d/x", "d/b d/x"}, trees(t, m))
	require.ErrorIs(t, m.FailSync("missing"), fs.ErrNotExist)
}

func TestCrashStates_OfNothingPendingIsOneState(t *testing.T) {
	m := tsdbtest.NewMemFS()
	require.NoError(t, m.WriteFile("a", []byte("x")))
	n := 0
	for disk := range m.CrashStates(100) {
		n++
		require.Equal(t, "x", read(t, disk, "a"))
	}
	require.Equal(t, 1, n)
}

func TestCrashStates_EnumeratesEverySubsetOfNames(t *testing.T) {
	m := tsdbtest.NewMemFS()
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		create(t, m, name, "")
	}
	require.Equal(t, 5, m.PendingCount())
	n := 0
	for range m.CrashStates(32) {
		n++
	}
	require.Equal(t, 32, n)
	require.Len(t, trees(t, m), 32)
}

// Too many to enumerate with garbage and sizes in between, few enough without.
func TestCrashStates_PlainSubsetsComeFirst(t *testing.T) {
	m := tsdbtest.NewMemFS()
	f := create(t, m, "a", "")
	require.NoError(t, m.SyncDir("/"))
	_, err := f.Write(bytes.Repeat([]byte("x"), 4*512))
	require.NoError(t, err)
	plain, odd := map[string]bool{}, 0
	for disk := range m.CrashStates(60) {
		data := read(t, disk, "a")
		if strings.Trim(data, "x\x00") == "" && (len(data) == 0 || len(data) == 4*512) {
			plain[data] = true
		} else {
			odd++
		}
	}
	require.Len(t, plain, 1+16)
	require.Greater(t, odd, 30)

	n := 0
	for range m.CrashStates(100) {
		n++
	}
	require.Equal(t, 1+9+81, n, "empty; half; whole, each sector in three states")
}

func TestCrashStates_SamplesHaveTheExtremesAndComeAgain(t *testing.T) {
	m := tsdbtest.NewMemFS()
	for i := range 30 {
		create(t, m, "f"+string(rune('a'+i)), strings.Repeat("data", 500))
	}
	digest := func() []string {
		var list []string
		for disk := range m.CrashStates(200) {
			list = append(list, disk.FateString())
		}
		return list
	}
	states := digest()
	require.Len(t, states, 200)
	require.Equal(t, states, digest())
	require.Contains(t, states, lost(m).FateString())
	require.Contains(t, states, kept(m).FateString())
	slices.Sort(states)
	require.Len(t, slices.Compact(states), 200)
}

func TestCrashStates_StopsWhenTheLoopDoes(t *testing.T) {
	m := tsdbtest.NewMemFS()
	create(t, m, "a", "x")
	n := 0
	for range m.CrashStates(many) {
		if n++; n == 2 {
			break
		}
	}
	require.Equal(t, 2, n)
	for range m.CrashStates(0) {
		t.Fatal("a state too many")
	}
}

func TestFate_TellsWhatHappened(t *testing.T) {
	m := tsdbtest.NewMemFS()
	create(t, m, "a", "12345")
	disk := m.CrashClone(tsdbtest.CrashOptions{Choose: func(p tsdbtest.Pending) tsdbtest.Outcome {
		if p.Kind == tsdbtest.PendingSector {
			return tsdbtest.Garbage
		}
		return tsdbtest.Kept
	}})
	require.Len(t, disk.Fate(), 3)
	require.Equal(t, "garbage: bytes 0+5 of /a\nkept: 2 more\n", disk.FateString())
	require.Empty(t, m.Fate())
}

func TestHook_CanCrashBeforeEveryOperation(t *testing.T) {
	m := tsdbtest.NewMemFS()
	var seen []string
	var clones []*tsdbtest.MemFS
	m.SetHook(func(op tsdbtest.Op) error {
		seen = append(seen, op.Kind.String())
		if op.Kind.Mutates() {
			clones = append(clones, kept(m))
		}
		return nil
	})
	require.NoError(t, fileutil.WriteFileAtomic(m, "tmp", "a", []byte("x")))
	m.SetHook(nil)
	require.Equal(t, "remove create write sync close rename syncdir", strings.Join(seen, " "))
	require.EqualValues(t, 7, m.Ops())
	require.Len(t, clones, 6)
	require.Equal(t, []string{"tmp"}, clones[2].Files())
	require.Equal(t, []string{"a"}, clones[5].Files())
}

func TestHook_ErrorsHappenBeforeAnyEffect(t *testing.T) {
	m := tsdbtest.NewMemFS()
	require.NoError(t, m.WriteFile("d/a", []byte("data")))
	f, err := m.OpenWrite("d/a")
	require.NoError(t, err)
	mapping, err := f.Mmap(4)
	require.NoError(t, err)
	m.SetHook(func(tsdbtest.Op) error { return syscall.EIO })

	_, err = m.Create("b")
	require.ErrorIs(t, err, syscall.EIO)
	_, err = m.Open("d/a")
	require.ErrorIs(t, err, syscall.EIO)
	_, err = m.ReadDir("d")
	require.ErrorIs(t, err, syscall.EIO)
	_, err = m.Stat("d")
	require.ErrorIs(t, err, syscall.EIO)
	_, err = m.LockDir("d", "me")
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorIs(t, m.Rename("d/a", "b"), syscall.EIO)
	require.ErrorIs(t, m.Link("d/a", "b"), syscall.EIO)
	require.ErrorIs(t, m.Remove("d/a"), syscall.EIO)
	require.ErrorIs(t, m.MkdirAll("e"), syscall.EIO)
	require.ErrorIs(t, m.SyncDir("d"), syscall.EIO)
	_, err = f.Write([]byte("more"))
	require.ErrorIs(t, err, syscall.EIO)
	_, err = f.ReadAt(make([]byte, 1), 0)
	require.ErrorIs(t, err, syscall.EIO)
	_, err = f.Size()
	require.ErrorIs(t, err, syscall.EIO)
	_, err = f.Mmap(1)
	require.ErrorIs(t, err, syscall.EIO)
	_, err = mapping.At(0, 1)
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorIs(t, f.Truncate(0), syscall.EIO)
	require.ErrorIs(t, f.Sync(), syscall.EIO)
	require.ErrorIs(t, f.Close(), syscall.EIO)

	m.SetHook(nil)
	require.NoError(t, mapping.Close())
	require.Equal(t, []string{"d/a"}, m.Files())
	require.Equal(t, "data", read(t, m, "d/a"))
	require.Empty(t, m.OpenHandles(), "a failed close closes")
}

func TestHook_ShortWriteLetsAPartThrough(t *testing.T) {
	m := tsdbtest.NewMemFS()
	f := create(t, m, "a", "")
	m.SetHook(func(op tsdbtest.Op) error {
		return &tsdbtest.ShortWriteError{Written: 3, Err: syscall.EIO}
	})
	n, err := f.Write([]byte("12345"))
	require.Equal(t, 3, n)
	require.ErrorIs(t, err, syscall.EIO)
	m.SetHook(nil)
	_, err = f.Write([]byte("6"))
	require.NoError(t, err)
	require.Equal(t, "1236", read(t, m, "a"))
}

func TestCapacity_FullDiskTakesWhatFitsAndHeals(t *testing.T) {
	m := tsdbtest.NewMemFS()
	require.NoError(t, m.WriteFile("old", make([]byte, 600)))
	m.SetCapacity(1000)
	free, total, err := m.DiskSpace("/")
	require.NoError(t, err)
	require.EqualValues(t, 400, free)
	require.EqualValues(t, 1000, total)

	f := create(t, m, "a", "")
	n, err := f.Write(make([]byte, 500))
	require.Equal(t, 400, n)
	require.True(t, fileutil.IsDiskFull(err))
	n, err = f.Write([]byte("x"))
	require.Zero(t, n)
	require.True(t, fileutil.IsDiskFull(err))
	require.True(t, fileutil.IsDiskFull(f.Truncate(401)))
	require.NoError(t, f.Truncate(100))
	_, err = f.Write(make([]byte, 300))
	require.NoError(t, err, "what was cut is free again")

	old, err := m.Open("old")
	require.NoError(t, err)
	require.NoError(t, m.Remove("old"))
	_, err = f.Write([]byte("x"))
	require.True(t, fileutil.IsDiskFull(err), "an open file keeps its bytes")
	require.NoError(t, old.Close())
	_, err = f.Write(make([]byte, 600))
	require.NoError(t, err)
	require.EqualValues(t, 1000, m.Used())

	m.SetCapacity(0)
	_, err = f.Write(make([]byte, 600))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, m.Rename("a", "b"))
	require.EqualValues(t, 1600, m.Used())
	require.NoError(t, m.Remove("b"))
	require.Zero(t, m.Used())
}

func TestWriteFile_ReplacesDurably(t *testing.T) {
	m := tsdbtest.NewMemFS()
	require.NoError(t, m.WriteFile("d/e/a", []byte("one")))
	require.NoError(t, m.WriteFile("d/e/a", []byte("two")))
	require.Equal(t, map[string]bool{"two": true}, contents(t, m, "d/e/a"))
	require.Error(t, m.WriteFile("d", nil))
	require.Error(t, m.WriteFile("d/e/a/b", nil))
	require.Error(t, m.WriteFile("/", nil))
	_, err := m.ReadFile("d")
	require.Error(t, err)
	require.EqualValues(t, 3, m.Used())
}

func TestExport_WritesTheTree(t *testing.T) {
	m := tsdbtest.NewMemFS()
	require.NoError(t, m.WriteFile("d/e/a", []byte("one")))
	require.NoError(t, m.MkdirAll("empty"))
	dir := filepath.Join(t.TempDir(), "out")
	require.NoError(t, m.Export(dir))
	require.Equal(t, "one", read(t, fileutil.OS, filepath.Join(dir, "d", "e", "a")))
	info, err := fileutil.OS.Stat(filepath.Join(dir, "empty"))
	require.NoError(t, err)
	require.True(t, info.IsDir())
	require.Error(t, m.Export(dir), "nothing is overwritten")
}

func TestCrashStates_BesideRunningWritersIsSafe(t *testing.T) {
	m := tsdbtest.NewMemFS()
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			name := string(rune('a' + i))
			for range 50 {
				if err := fileutil.WriteFileAtomic(m, name+".tmp", name, []byte(name)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		for disk := range m.CrashStates(10) {
			for _, name := range disk.Files() {
				data, err := disk.ReadFile(name)
				require.NoError(t, err)
				if !strings.HasSuffix(name, ".tmp") {
					require.Equal(t, name, string(data))
				}
			}
		}
	}
	wg.Wait()
}

func BenchmarkCrashStates(b *testing.B) {
	m := tsdbtest.NewMemFS()
	for i := range 20 {
		f, err := m.Create("f" + string(rune('a'+i)))
		require.NoError(b, err)
		_, err = f.Write(bytes.Repeat([]byte("data"), 1000))
		require.NoError(b, err)
	}
	for b.Loop() {
		for range m.CrashStates(100) {
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/state")
}
