package mutants_test

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	plant = flag.Bool("plant", false, "plant every fault of the list and run the test that must fail; ten seconds each")
	by    = flag.String("by", "", "run the tests that this matches, in the place of the one that must fail")
	limit = flag.Duration("limit", 20*time.Second, "how long a test may take: one that waits for ever has noticed the fault")
)

// root returns the top of the repository.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	require.NoError(t, err)
	return dir
}

// The list fits the code: each fault can be planted, and names a test that there is.
func TestFaults_FitTheCode(t *testing.T) {
	list := readFaults(t)
	require.NotEmpty(t, list)
	names := map[string]bool{}
	for _, f := range list {
		require.False(t, names[f.name], "two faults are called %q", f.name)
		names[f.name] = true
		require.NotEmpty(t, f.what, f.name)
		require.NotEqual(t, f.from, f.to, f.name)
		f.planted(t, root(t))
		files, err := filepath.Glob(filepath.Join(root(t), f.pkg, "*_test.go"))
		require.NoError(t, err)
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			found = found || strings.Contains(string(text), "func "+f.test+"(t *testing.T)")
		}
		require.True(t, found, "%s: no test %s in %s", f.name, f.test, f.pkg)
	}
}

// Each fault of the list makes its test fail.
func TestFaults_AreNoticed(t *testing.T) {
	if !*plant {
		t.Skip("needs -plant: make mutants")
	}
	sound := map[string]bool{}
	for _, f := range readFaults(t) {
		t.Run(f.name, func(t *testing.T) {
			if *by != "" {
				f.test = *by
			}
			key := f.pkg + " " + f.test + " " + f.tags
			if !sound[key] {
				out, passed := run(t, &f, "")
				require.True(t, passed, "without a fault:\n%s", out)
				sound[key] = true
			}
			out, passed := run(t, &f, f.planted(t, root(t)))
			require.False(t, passed, "nobody noticed: %s (%s)", f.what, f.test)
			t.Log(firstFailure(out))
		})
	}
}

// run builds the package of a fault's test, with a changed text of the fault's file unless
// that is empty, and runs the test.
func run(t *testing.T, f *fault, text string) (out string, passed bool) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "test")
	args := []string{"test", "-c", "-o", program, "-tags", f.tags}
	if text != "" {
		args = append(args, "-overlay", overlay(t, dir, f.file, text))
	}
	build := exec.Command("go", append(args, f.pkg)...)
	build.Dir = root(t)
	built, err := build.CombinedOutput()
	require.NoError(t, err, "a fault must be one that a compiler lets pass:\n%s", built)
	begun := time.Now()
	test := exec.Command(program, "-test.run", "^("+f.test+")$", "-test.short", "-test.timeout", limit.String())
	test.Dir = filepath.Join(root(t), f.pkg)
	said, err := test.CombinedOutput()
	t.Logf("%s ran for %v", f.test, time.Since(begun).Round(time.Millisecond))
	return string(said), err == nil
}

// firstFailure returns the line that says which test failed, or why the program ended.
func firstFailure(out string) string {
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "--- FAIL") || strings.HasPrefix(line, "panic:") {
			return strings.TrimSpace(line)
		}
	}
	return "no test says so: " + out[:min(len(out), 200)]
}

// overlay writes a file's other text, and the list that says so to the compiler.
func overlay(t *testing.T, dir, file, text string) (list string) {
	t.Helper()
	other := filepath.Join(dir, filepath.Base(file))
	require.NoError(t, os.WriteFile(other, []byte(text), 0o600))
	replace := map[string]map[string]string{"Replace": {filepath.Join(root(t), filepath.FromSlash(file)): other}}
	data, err := json.Marshal(replace)
	require.NoError(t, err)
	list = filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(list, data, 0o600))
	return list
}
