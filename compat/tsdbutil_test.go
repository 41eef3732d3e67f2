package compat

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tsdbutilBinary builds our tool, which is of the module beside this one.
func tsdbutilBinary(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tsdbutil")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/tsdbutil")
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "build tsdbutil: %s", out)
	return path
}

// ourNaN is a NaN with its bits, which promtool does not tell apart.
var ourNaN = regexp.MustCompile(`NaN\(0x[0-9a-f]+\)`)

// Of floats and of histograms of every kind our tool writes what promtool writes.
func TestTsdbutilDump_OfHistograms_IsWhatPromtoolWrites(t *testing.T) {
	t.Parallel()
	w := histogramWorld(t, 3820, withStarts)
	w.appendHistograms()
	w.e.flush()
	w.e.close()
	theirs := promtool(t, w.dir, "dump", "--sandbox-dir-root="+t.TempDir(), w.dir)
	require.Contains(t, theirs, `{__name__="float_custom"} {count:`)
	tool := tsdbutilBinary(t)
	ours, err := exec.Command(tool, "dump", w.dir).Output()
	require.NoError(t, err)
	require.Equal(t, theirs, ourNaN.ReplaceAllString(string(ours), "NaN"))

	// In OpenMetrics promtool leaves histograms out, and says nothing of it.
	theirs = promtool(t, w.dir, "dump-openmetrics", "--sandbox-dir-root="+t.TempDir(), w.dir)
	require.NotContains(t, theirs, "count:")
	ours, err = exec.Command(tool, "dump-openmetrics", w.dir).Output()
	require.NoError(t, err)
	require.Equal(t, 5*60, strings.Count(string(ours), " {count:"), "five series of histograms")
	require.Positive(t, strings.Count(string(ours), " st@"))
}
