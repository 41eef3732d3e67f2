package lint

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every rule is shown what it must reject. want is part of what it says; empty: nothing
// is wrong.
func TestRules_SeeWhatTheyAreFor(t *testing.T) {
	long := strings.Repeat("// one line more\n", maxLines)
	cases := []struct {
		name string
		rule rule
		path string
		text string
		want string
	}{
		{"import from below", importsFall, "wal/a.go", `import "` + module + `/internal/encbuf"`, ""},
		{"import from above", importsFall, "chunkenc/a.go", `import "` + module + `/internal/memseries"`, "lower level"},
		{"import from the side", importsFall, "wal/a.go", `import "` + module + `/chunkenc"`, "lower level"},
		{"import of the root", importsFall, "wal/a.go", `import "` + module + `"`, "lower level"},
		{"import of test support", importsFall, "wal/a.go", `import "` + module + `/tsdbtest"`, "for tests"},
		{"test with test support", importsFall, "wal/a_test.go", `import "` + module + `/internal/faultfs"`, ""},
		{"test from above", importsFall, "wal/a_test.go", `import "` + module + `/index"`, "lower level"},
		{"test of itself", importsFall, "wal/a_test.go", `import "` + module + `/wal"`, ""},
		{"new package", importsFall, "fresh/a.go", ``, "no row"},
		{"import of a new package", importsFall, "db.go", `import "` + module + `/fresh"`, "no row"},
		{"foreign and listed", importsFall, "wal/a.go", `import "github.com/golang/snappy"`, ""},
		{"foreign elsewhere", importsFall, "labels/a.go", `import "github.com/golang/snappy"`, "does not list"},
		{"testify outside tests", importsFall, "labels/a.go", `import "github.com/stretchr/testify/require"`, "does not list"},
		{"testify in tests", importsFall, "labels/a_test.go", `import "github.com/stretchr/testify/require"`, ""},
		{"tool with internals", importsFall, "cmd/tsdbutil/a.go", `import "` + module + `/internal/record"`, "public"},
		{"tool with the root", importsFall, "cmd/tsdbutil/a.go", `import "` + module + `"`, ""},

		{"file opened aside", filesThroughSeam, "wal/a.go", "import \"os\"\nvar f, _ = os.Open(``)", "os.Open"},
		{"renamed import", filesThroughSeam, "wal/a.go", "import sys \"os\"\nvar f = sys.Exit", "os.Exit"},
		{"host name for a lock", filesThroughSeam, "internal/datadir/held.go", "import \"os\"\nvar f, _ = os.Hostname()", ""},
		{"host name elsewhere", filesThroughSeam, "head.go", "import \"os\"\nvar f, _ = os.Hostname()", "os.Hostname"},
		{"system call", filesThroughSeam, "wal/a.go", "import \"syscall\"\nvar e = syscall.Fsync(1)", "syscall.Fsync"},
		{"error number", filesThroughSeam, "wal/a.go", "import \"syscall\"\nvar e = syscall.ENOSPC", ""},
		{"walk", filesThroughSeam, "wal/a.go", "import \"path/filepath\"\nvar e = filepath.WalkDir", "filepath.WalkDir"},
		{"join", filesThroughSeam, "wal/a.go", "import \"path/filepath\"\nvar e = filepath.Join(`a`)", ""},
		{"network", filesThroughSeam, "wal/a.go", `import "net/http"`, "no use"},
		{"the seam itself", filesThroughSeam, "internal/fileutil/a.go", "import \"os\"\nvar f, _ = os.Open(``)", ""},

		{"print", quiet, "wal/a.go", "import \"fmt\"\nfunc f() { fmt.Println() }", "fmt.Println"},
		{"built-in print", quiet, "wal/a.go", "func f() { println() }", "forgotten"},
		{"format", quiet, "wal/a.go", "import \"fmt\"\nvar s = fmt.Sprint()", ""},
		{"global logger", quiet, "wal/a.go", "import \"log/slog\"\nfunc f() { slog.Info(``) }", "slog.Info"},

		{"error logged as it is", errorsLoggedOnOneLine, "wal/a.go", "func f() { l.Warn(`x`, \"n\", 1, \"error\", err) }", "use fileutil.Logged"},
		{"error logged on one line", errorsLoggedOnOneLine, "wal/a.go", "func f() { o.Logger.Warn(`x`, \"error\", logged(err)) }", ""},
		{"error of something else", errorsLoggedOnOneLine, "wal/a.go", "func f() { put(\"error\", err) }", ""},

		{"unsafe", memorySafe, "wal/a.go", "import \"unsafe\"\nvar p unsafe.Pointer", "unsafe.Pointer"},
		{"size of a type", memorySafe, "wal/a.go", "import \"unsafe\"\nvar n = unsafe.Sizeof(1)", ""},
		{"cgo", memorySafe, "cmd/tsdbutil/a.go", `import "C"`, "cgo"},

		{"stopwatch", timeFromClock, "wal/a.go", "import \"time\"\nfunc f() time.Duration { start := time.Now(); return time.Since(start) }", ""},
		{"stopwatch kept", timeFromClock, "wal/a.go", "import \"time\"\ntype T struct{ since time.Time }\nfunc (t *T) f() { t.since = time.Now() }\nfunc (t *T) g() { _ = time.Since(t.since) }", ""},
		{"stopwatch handed on", timeFromClock, "wal/a.go", "import \"time\"\nfunc f() { last := time.Now(); now := time.Now(); if now.Sub(last) > 0 { last = now } }", ""},
		{"stopwatch set later", timeFromClock, "wal/a.go", "import \"time\"\nfunc f() { last := time.Time{}; if now := time.Now(); now.Sub(last) > 0 { last = now } }", ""},
		{"time of day handed on", timeFromClock, "wal/a.go", "import \"time\"\nfunc f() time.Time { now := time.Now(); t := now; return t }", "t holds"},
		{"time of day", timeFromClock, "wal/a.go", "import \"time\"\nfunc f() int64 { now := time.Now(); return now.UnixMilli() }", "now holds"},
		{"time of day at once", timeFromClock, "wal/a.go", "import \"time\"\nfunc f() int64 { return time.Now().UnixMilli() }", "time.Now"},
		{"time of day returned", timeFromClock, "wal/a.go", "import \"time\"\nfunc f() time.Time { now := time.Now(); return now }", "now holds"},
		{"time as a function", timeFromClock, "wal/a.go", "import \"time\"\nvar now = time.Now", "time.Now"},
		{"deadline", timeFromClock, "remote/paced.go", "import \"time\"\nfunc f() time.Time { return time.Now().Add(1) }", ""},
		{"deadline elsewhere", timeFromClock, "remote/samples.go", "import \"time\"\nfunc f() time.Time { return time.Now().Add(1) }", "time.Now"},
		{"network", filesThroughSeam, "remote/a.go", "import _ \"net/http\"", ""},
		{"network elsewhere", filesThroughSeam, "wal/a.go", "import _ \"net/http\"", "no use for"},
		{"sleep", timeFromClock, "wal/a.go", "import \"time\"\nfunc f() { time.Sleep(1) }", "time.Sleep"},
		{"clock", timeFromClock, "internal/clock/a.go", "import \"time\"\nfunc f() time.Time { return time.Now() }", ""},
		{"sleeping test", wideAwake, "wal/a_test.go", "import \"time\"\nfunc f() { time.Sleep(1) }", "time.Sleep"},
		{"sleep in a bubble", wideAwake, "wal/a_test.go", "import (\n\"time\"\n\"testing/synctest\")\nvar _ = synctest.Test\nfunc f() { time.Sleep(1) }", ""},

		{"standard errors", errorsOneWay, "wal/a.go", `import "errors"`, "use github.com"},
		{"standard errors in errors.go", errorsOneWay, "wal/errors.go", "import \"errors\"\nvar ErrX = errors.New(`x`)", ""},
		{"standard errors in a name like it", errorsOneWay, "wal/more_errors.go", `import "errors"`, "use github.com"},
		{"pkg/errors in errors.go", errorsOneWay, "wal/errors.go", `import "` + pkgErrors + `"`, "standard errors package only"},
		{"join", errorsOneWay, "wal/a.go", "import stderrors \"errors\"\nvar e = stderrors.Join()", ""},
		{"more than join", errorsOneWay, "wal/a.go", "import stderrors \"errors\"\nfunc f() { _ = stderrors.New(`x`) }", "only Join"},
		{"fmt.Errorf", errorsOneWay, "wal/a.go", "import \"fmt\"\nvar f = fmt.Errorf", "fmt.Errorf"},
		{"cause", errorsOneWay, "wal/a.go", "import \"" + pkgErrors + "\"\nvar f = errors.Cause", "errors.Cause"},
		{"%w", errorsOneWay, "wal/a.go", "import \"" + pkgErrors + "\"\nfunc f() error { return errors.Errorf(`a: %w`, nil) }", "%w"},
		{"loose sentinel", errorsOneWay, "wal/a.go", "import \"" + pkgErrors + "\"\nvar ErrX = errors.New(`x`)", "belongs into errors.go"},

		{"long file", fileLength, "wal/a.go", long, "the limit is"},
		{"long test", fileLength, "wal/a_test.go", long, ""},
		{"long comment", commentWidth, "wal/a.go", "// " + strings.Repeat("x", 98) + "\nvar a int", "comment of 101 columns"},
		{"short comment", commentWidth, "wal/a.go", "// " + strings.Repeat("x", 97) + "\nvar a int", ""},
		{"tabs in front of a comment", commentWidth, "wal/a.go", "func f() {\n\t// " + strings.Repeat("x", 94) + "\n}", "comment of 101 columns"},
		{"undocumented type", documented, "wal/a.go", "type T int", "T has no comment"},
		{"undocumented method", documented, "wal/a.go", "// T is.\ntype T int\nfunc (t *T) M() {}", "M has no comment"},
		{"undocumented internal method", documented, "internal/record/a.go", "// T is.\ntype T int\nfunc (t *T) M() {}", ""},
		{"undocumented internal function", documented, "internal/record/a.go", "func F() {}", "F has no comment"},
		{"method of a hidden type", documented, "wal/a.go", "type t int\nfunc (t *t) M() {}", ""},
		{"undocumented constant", documented, "wal/a.go", "const C = 1", "C has no comment"},
		{"group of constants", documented, "wal/a.go", "// Of one kind.\nconst (\nC = 1\nD = 2\n)", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			wrong := c.rule(parse(t, c.path, []byte("package p\n"+c.text+"\n")))
			if c.want == "" {
				require.Empty(t, wrong)
				return
			}
			require.NotEmpty(t, wrong)
			require.Contains(t, strings.Join(wrong, "\n"), c.want)
		})
	}
}
