// Package peer finds programs of the system that tests have read what we write: another version of
// Prometheus, and what others have made.
package peer

import (
	"os"
	"os/exec"
	"testing"
)

// Path is where a program is, anywhere in the path. The test is skipped if it is missing, or fails
// where TSDB_REQUIRE_ROOT_TESTS is set.
func Path(t testing.TB, name, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	text := "no " + name + ": install Debian's " + debianPackage
	if os.Getenv("TSDB_REQUIRE_ROOT_TESTS") != "" {
		t.Fatal(text)
	}
	t.Skip(text)
	return ""
}
