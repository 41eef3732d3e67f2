package lint

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

func TestFiles_AreTouchedThroughTheSeamOnly(t *testing.T) {
	check(t, filesThroughSeam)
}

// notFiles is what is taken from packages os and syscall although it is no file of a database: who
// is asking for the lock of a directory; the priority of a thread, and what it has used; how much
// memory there may be.
var notFiles = map[string][]string{
	"internal/datadir/held.go":            {"Hostname", "Getpid", "Args"},
	"internal/memlimit/cgroup_linux.go":   {"ReadFile"},
	"internal/background/thread_linux.go": {"Gettid", "Getpid", "Setpriority", "PRIO_PROCESS", "ReadFile"},
}

// beside is what single packages have a use for: remote serves and asks over the network, and a
// program that does not import it links none of that; the flags are those of test binaries.
var beside = map[string][]string{
	"remote":         {"net", "net/http"},
	"internal/sweep": {"flag"},
}

// filesThroughSeam: only internal/fileutil talks to the operating system. What went past
// it would be invisible to the tests that cut the power or fill the disk. Error numbers
// of package syscall are values, not calls.
func filesThroughSeam(s *source) []string {
	if !s.library() || s.dir == "internal/fileutil" {
		return nil
	}
	var wrong []string
	banned := func(pkg string, allowed func(name string) bool) {
		s.selections(pkg, func(sel *ast.SelectorExpr) {
			if !allowed(sel.Sel.Name) {
				wrong = append(wrong, s.at(sel, "%s.%s: go through fileutil.FS", pkg, sel.Sel.Name))
			}
		})
	}
	noFile := func(name string) bool { return slices.Contains(notFiles[s.path], name) }
	banned("os", noFile)
	banned("syscall", func(name string) bool {
		return name == "Errno" || strings.ToUpper(name) == name && name[0] == 'E' || noFile(name)
	})
	banned("path/filepath", func(name string) bool {
		return !slices.Contains([]string{"Walk", "WalkDir", "Glob", "EvalSymlinks", "Abs"}, name)
	})
	for _, p := range []string{"io/ioutil", "os/exec", "os/signal", "os/user", "plugin", "net", "net/http", "flag", "log", "expvar"} {
		if _, ok := s.imports()[p]; ok && !slices.Contains(beside[s.dir], p) {
			wrong = append(wrong, s.path+": imports "+p+", which an embedded library has no use for")
		}
	}
	return wrong
}

func TestLibrary_NeitherPrintsNorExits(t *testing.T) {
	check(t, quiet)
}

// quiet: what an application prints, and when it ends, is its own affair. (Package os,
// with Exit and Stdout, is banned by filesThroughSeam.)
func quiet(s *source) (wrong []string) {
	if !s.library() {
		return nil
	}
	s.selections("fmt", func(sel *ast.SelectorExpr) {
		if strings.HasPrefix(sel.Sel.Name, "Print") || strings.HasPrefix(sel.Sel.Name, "Scan") {
			wrong = append(wrong, s.at(sel, "fmt.%s: log through Options.Logger, or return it", sel.Sel.Name))
		}
	})
	s.selections("log/slog", func(sel *ast.SelectorExpr) {
		if slices.Contains([]string{"Default", "SetDefault", "Debug", "Info", "Warn", "Error", "Log"}, sel.Sel.Name) {
			wrong = append(wrong, s.at(sel, "slog.%s: use Options.Logger", sel.Sel.Name))
		}
	})
	ast.Inspect(s.file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && isIdent(call.Fun, "print", "println") {
			wrong = append(wrong, s.at(call, "a forgotten print"))
		}
		return true
	})
	return wrong
}

func TestLog_GetsErrorsOnOneLine(t *testing.T) {
	check(t, errorsLoggedOnOneLine)
}

// errorsLoggedOnOneLine: an error goes to a Logger through fileutil.Logged, or logged, or a handler
// for text would write its call stack, and several lines. Attributes of the name "error" are
// errors.
func errorsLoggedOnOneLine(s *source) (wrong []string) {
	if !s.library() {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || !isLogging(call) {
			return true
		}
		for i, arg := range call.Args {
			name, ok := arg.(*ast.BasicLit)
			if !ok || name.Value != `"error"` || i+1 == len(call.Args) {
				continue
			}
			if v, ok := call.Args[i+1].(*ast.CallExpr); !ok || !isIdent(v.Fun, "logged") && !isLogged(v.Fun) {
				wrong = append(wrong, s.at(name, "an error is logged as it is: use fileutil.Logged"))
			}
		}
		return true
	})
	return wrong
}

func isLogged(fun ast.Expr) bool {
	sel, ok := fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Logged"
}

// isLogging reports whether a call is one of a method that a slog.Logger has.
func isLogging(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"Debug", "Info", "Warn", "Error", "Log", "With"}, sel.Sel.Name)
}

func TestUnsafeAndC_AreNotUsed(t *testing.T) {
	check(t, memorySafe)
}

// unsafeFiles may use all of package unsafe, each for its reason. The size of a type is
// a number, and free for all.
var unsafeFiles = map[string]string{
	"labels/encoding.go":            "recovery looks at sets of labels where they lie in the log; a new set is not copied from where it was put together",
	"internal/prefetch/prefetch.go": "assembly takes addresses of any type",
	"internal/prefetch/asm.go":      "the same",
	"internal/prefetch/other.go":    "the same",
}

func memorySafe(s *source) (wrong []string) {
	if _, ok := s.imports()["C"]; ok {
		wrong = append(wrong, s.path+": cgo")
	}
	if unsafeFiles[s.path] == "" {
		s.selections("unsafe", func(sel *ast.SelectorExpr) {
			if sel.Sel.Name != "Sizeof" {
				wrong = append(wrong, s.at(sel, "unsafe.%s: unsafeFiles gives no reason for it", sel.Sel.Name))
			}
		})
	}
	return wrong
}
