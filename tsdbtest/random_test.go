package tsdbtest_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// player does random operations on a few names and handles. Two players with equal
// seeds do the same.
type player struct {
	fsys    fileutil.FS
	dir     string
	rng     *rand.Rand
	handles []fileutil.File
}

var playNames = []string{"a", "b", "d/a", "d/b", "d/e/a", "d", "d/e", "f"}

func (p *player) name() string {
	return filepath.Join(p.dir, filepath.FromSlash(playNames[p.rng.IntN(len(playNames))]))
}

// step returns what was done and seen, without paths of the machine.
func (p *player) step() string {
	name, other, size := p.name(), p.name(), p.rng.IntN(2000)
	switch kind := p.rng.IntN(14); {
	case kind < 2:
		f, err := p.fsys.Create(name)
		return p.opened("create", name, f, err)
	case kind == 2:
		f, err := p.fsys.OpenWrite(name)
		return p.opened("openwrite", name, f, err)
	case kind == 3:
		return p.did("mkdir "+name, p.fsys.MkdirAll(name))
	case kind == 4:
		return p.did("rename "+name+" "+other, p.fsys.Rename(name, other))
	case kind == 5:
		return p.did("link "+name+" "+other, p.fsys.Link(name, other))
	case kind == 6:
		return p.did("remove "+name, p.fsys.Remove(name))
	case len(p.handles) == 0:
		return "nothing"
	case kind == 7 && len(p.handles) > 3:
		f := p.handles[0]
		p.handles = p.handles[1:]
		return p.did("close", f.Close())
	case kind == 8:
		return p.did(fmt.Sprint("truncate ", size), p.handle().Truncate(int64(size)))
	case kind == 9:
		buf := make([]byte, size)
		n, err := p.handle().ReadAt(buf, int64(p.rng.IntN(1000)))
		return p.did(fmt.Sprintf("read %d %x", n, buf[:n]), err)
	default:
		n, err := p.handle().Write(bytes.Repeat([]byte{byte(size)}, size))
		return p.did(fmt.Sprint("write ", n), err)
	}
}

func (p *player) handle() fileutil.File { return p.handles[p.rng.IntN(len(p.handles))] }

func (p *player) opened(op, name string, f fileutil.File, err error) string {
	if err == nil {
		p.handles = append(p.handles, f)
	}
	return p.did(op+" "+name, err)
}

func (p *player) did(what string, err error) string {
	return fmt.Sprint(strings.ReplaceAll(what, p.dir, ""), " ok=", err == nil)
}

func (p *player) dump(t *testing.T) string {
	var b strings.Builder
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := p.fsys.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if e.IsDir() {
				fmt.Fprintln(&b, strings.TrimPrefix(path, p.dir), "dir")
				walk(path)
				continue
			}
			fmt.Fprintf(&b, "%s %x\n", strings.TrimPrefix(path, p.dir), read(t, p.fsys, path))
		}
	}
	walk(p.dir)
	return b.String()
}

func (p *player) close(t *testing.T) {
	for _, f := range p.handles {
		require.NoError(t, f.Close())
	}
}

func TestMemFS_RandomOperationsGoAsOnTheRealDisk(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("MemFS behaves as Unix does")
	}
	for seed := range uint64(40) {
		m := tsdbtest.NewMemFS()
		require.NoError(t, m.MkdirAll("data"))
		mem := &player{fsys: m, dir: "data", rng: rand.New(rand.NewPCG(seed, 1))}
		real := &player{fsys: fileutil.OS, dir: t.TempDir(), rng: rand.New(rand.NewPCG(seed, 1))}
		for i := range 150 {
			want := real.step()
			require.Equal(t, want, mem.step(), "seed %d, step %d", seed, i)
		}
		require.Equal(t, real.dump(t), mem.dump(t))
		mem.close(t)
		real.close(t)
		require.Empty(t, m.OpenHandles())
		for _, name := range m.Files() {
			require.NoError(t, fileutil.RemoveAll(m, strings.TrimSuffix(name, "/")))
		}
		require.Zero(t, m.Used(), "everything that was taken is given back")
	}
}

// What was synced, content and all names above it, is there after every power cut,
// whatever happens to its neighbours; and what comes back of the rest was once
// written, is zero, or garbage in whole sectors.
func TestCrash_RandomWorkloadsNeverLoseWhatWasSynced(t *testing.T) {
	states := 0
	for seed := range uint64(15) {
		rng := rand.New(rand.NewPCG(seed, 2))
		m := tsdbtest.NewMemFS()
		require.NoError(t, fileutil.MkdirSync(m, "d/e"))
		safe := map[string]string{}
		for i := range 40 {
			name := fmt.Sprintf("%s/%d", []string{"d", "d/e"}[rng.IntN(2)], rng.IntN(4))
			fresh := strings.Repeat(string(rune('a'+i)), rng.IntN(3000))
			switch rng.IntN(4) {
			case 0: // durable replacement
				require.NoError(t, fileutil.WriteFileAtomic(m, name+".tmp", name, []byte(fresh)))
				safe[name] = fresh
			case 1: // careless replacement of something else
				_ = fileutil.RemoveAll(m, name+".x")
				create(t, m, name+".x", fresh)
			case 2: // append without sync: what is there stays
				if f, err := m.OpenWrite(name); err == nil {
					_, err = f.Write([]byte(fresh))
					require.NoError(t, err)
				}
			case 3:
				m = m.KillClone()
			}
			for disk := range m.CrashStates(8) {
				states++
				for name, want := range safe {
					data, err := disk.ReadFile(name)
					require.NoError(t, err, disk.FateString())
					require.True(t, strings.HasPrefix(string(data), want), "%s: %s", name, disk.FateString())
				}
			}
		}
	}
	require.Greater(t, states, 2000)
}

func TestErrors_AreThoseOfTheOperatingSystem(t *testing.T) {
	m := tsdbtest.NewMemFS()
	_, err := m.Open("missing")
	var pathErr *fs.PathError
	require.ErrorAs(t, err, &pathErr)
	require.Equal(t, "missing", pathErr.Path)
}
