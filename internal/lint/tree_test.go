package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// module is the path of the root module.
const module = "github.com/seed347100a3/tsdb"

// source is one Go file of the root module, whatever its build constraints say.
type source struct {
	path  string // slashes, from the root of the repository
	dir   string // of path; "." is the root package
	test  bool
	file  *ast.File
	fset  *token.FileSet
	lines int
}

// rule says what is wrong with a file, one text each.
type rule func(*source) []string

// at starts the text about a node.
func (s *source) at(n ast.Node, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: ", s.path, s.fset.Position(n.Pos()).Line) + fmt.Sprintf(format, args...)
}

// library is true for the files that importing programs may link.
func (s *source) library() bool { return !s.test && !within(s.dir, "cmd") }

// within is true for dir itself and what is below it.
func within(dir, top string) bool { return dir == top || strings.HasPrefix(dir, top+"/") }

// majorVersion is the last part of a path that does not name its package.
var majorVersion = regexp.MustCompile(`^v\d+$`)

// imports returns the imported paths, each with the name the file uses for it.
func (s *source) imports() map[string]string {
	names := make(map[string]string)
	for _, spec := range s.file.Imports {
		p := importPath(spec)
		names[p] = path.Base(p)
		if majorVersion.MatchString(names[p]) {
			names[p] = path.Base(path.Dir(p))
		}
		if spec.Name != nil {
			names[p] = spec.Name.Name
		}
	}
	return names
}

func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		panic("BUG: parsed import without a string: " + spec.Path.Value)
	}
	return p
}

// selections calls f for each name.sel in the file where name is the package that is
// imported from p.
func (s *source) selections(p string, f func(sel *ast.SelectorExpr)) {
	name, ok := s.imports()[p]
	if !ok {
		return
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == name && x.Obj == nil {
				f(sel)
			}
		}
		return true
	})
}

// parse makes a source of text.
func parse(t *testing.T, path string, text []byte) *source {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.ParseComments)
	require.NoError(t, err)
	dir := "."
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		dir = path[:i]
	}
	return &source{
		path: path, dir: dir, test: strings.HasSuffix(path, "_test.go"),
		file: file, fset: fset, lines: strings.Count(string(text), "\n"),
	}
}

// rootDir is the root of the repository.
func rootDir(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(root, "go.mod"))
	return root
}

// tree parses every Go file of the root module: nested modules have rules of their own.
func tree(t *testing.T) []*source {
	t.Helper()
	root := rootDir(t)
	var all []*source
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != root && skipped(name, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		all = append(all, parse(t, filepath.ToSlash(rel), text))
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, len(all), 100, "the tree was not found")
	return all
}

// skipped is true for directories that the go command passes over too.
func skipped(dir, base string) bool {
	if base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// check applies a rule to the whole tree.
func check(t *testing.T, r rule) {
	t.Helper()
	var wrong []string
	for _, s := range tree(t) {
		wrong = append(wrong, r(s)...)
	}
	require.Empty(t, wrong, "%s", strings.Join(wrong, "\n"))
}
