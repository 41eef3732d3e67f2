package lint

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// linked is every module outside the standard library that the library may link. It is
// what an importing program gets into its go.sum and has to trust, so it is short.
var linked = []string{
	"github.com/cespare/xxhash/v2",  // hash of label sets
	"github.com/golang/snappy",      // compression of the log
	"github.com/klauspost/compress", // the other compression of the log
	"github.com/oklog/ulid/v2",      // names of blocks
	"github.com/pkg/errors",         // context for errors that come from outside
	"golang.org/x/sys",              // mappings, locks, free space
	"google.golang.org/protobuf",    // fields of remote read's messages
}

// maxLinked leaves no room: one more is a decision.
const maxLinked = 7

// maxProgramBytes is what the smallest program that uses a database may weigh, stripped: the goal
// of the benchmarks, and what late samples brought beyond it (docs/adr/0017).
const maxProgramBytes = 5_215_000

func TestLibrary_LinksOnlyTheModulesOfTheList(t *testing.T) {
	require.LessOrEqual(t, len(linked), maxLinked)
	for _, goos := range []string{"linux", "darwin", "windows"} {
		for _, m := range linkedModules(t, goos) {
			require.Contains(t, linked, m, "on %s", goos)
		}
	}
}

// The same from the other side: a line of the list that nothing needs goes.
func TestLibrary_LinksEveryModuleOfTheList(t *testing.T) {
	used := linkedModules(t, runtime.GOOS)
	for _, m := range linked {
		require.Contains(t, used, m)
	}
}

// linkedModules asks the go command, which knows build constraints, what the library's
// packages need, tests apart.
func linkedModules(t *testing.T, goos string) []string {
	t.Helper()
	args := []string{"list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}"}
	for dir, l := range layers {
		if !slices.Contains(l.foreign, "*") { // those are of the tools
			args = append(args, "./"+dir)
		}
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = rootDir(t)
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	modules := strings.Fields(string(out))
	slices.Sort(modules)
	modules = slices.Compact(modules)
	require.Contains(t, modules, module)
	return slices.DeleteFunc(modules, func(m string) bool { return m == module })
}

// smallestProgram is that of the benchmarks, which appends a sample and reads it.
const smallestProgram = "prom/bench/cmd/minimal/ours/main.go"

func TestSmallestProgram_StaysSmall(t *testing.T) {
	dir, root := t.TempDir(), rootDir(t)
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(t, err)
	requires, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	mod := strings.Replace(string(requires), "module "+module, "module smallest", 1) +
		fmt.Sprintf("\nrequire %s v0.0.0\n\nreplace %s => %s\n", module, module, root)
	program, err := os.ReadFile(filepath.Join(root, smallestProgram))
	require.NoError(t, err)
	for name, text := range map[string]string{"main.go": string(program), "go.mod": mod, "go.sum": string(sums)} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	build := exec.Command("go", "build", "-mod=mod", "-trimpath", "-ldflags", "-s -w", "-o", "smallest", ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	info, err := os.Stat(filepath.Join(dir, "smallest"))
	require.NoError(t, err)
	t.Logf("%d bytes", info.Size())
	require.LessOrEqual(t, info.Size(), int64(maxProgramBytes))
}
