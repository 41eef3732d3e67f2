package lint

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The shape of functions and types, so that each stays one noun.
const (
	maxFuncLines = 80 // a screen
	maxParams    = 6
	maxFields    = 15
	maxMethods   = 25
	maxTypeFiles = 3
)

// The root decides, and packages know how: so it is small. Files that are tests do not count.
const (
	maxRootLines = 7000
	maxRootFiles = 40
)

// shape is what is counted of a function or a type.
type shape struct{ lines, params, fields, methods, files int }

// outgrown is what is larger than it should be, as large as it is today, and why. It may become
// smaller, and then leaves the list; it may not grow.
var outgrown = map[string]struct {
	shape
	why string
}{
	"internal/xorchunk/run":  {shape{lines: 93}, "one state machine, whose variables stay in registers"},
	"internal/zstd/carryOut": {shape{lines: 100}, "one loop over sequences, whose variables stay in registers"},
	"DB":                     {shape{methods: 51, files: 13}, "the public API"},
	"internal/replay/replay": {shape{files: 5}, "the steps of one recovery"},
}

func TestTypesAndFunctions_KeepTheirShape(t *testing.T) {
	all := map[string]*shape{}
	for _, s := range tree(t) {
		if s.library() && !layers[s.dir].support && s.dir != "internal/fileutil" { // which has a file for each system
			s.measure(all)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		got, allowed := all[name].beyond(), outgrown[name].shape
		require.LessOrEqual(t, got.lines, allowed.lines, "%s: lines of a function", name)
		require.LessOrEqual(t, got.params, allowed.params, "%s: parameters", name)
		require.LessOrEqual(t, got.fields, allowed.fields, "%s: fields", name)
		require.LessOrEqual(t, got.methods, allowed.methods, "%s: methods", name)
		require.LessOrEqual(t, got.files, allowed.files, "%s: files with its methods", name)
	}
	for name, was := range outgrown {
		require.Contains(t, all, name)
		require.NotEqual(t, shape{}, all[name].beyond(), "%s has its shape again: take it off the list", name)
		require.NotEmpty(t, was.why, name)
	}
}

// beyond returns what is over its limit, 0 for what is not.
func (c shape) beyond() shape {
	over := func(n, limit int) int {
		if n > limit {
			return n
		}
		return 0
	}
	return shape{over(c.lines, maxFuncLines), over(c.params, maxParams), over(c.fields, maxFields), over(c.methods, maxMethods), over(c.files, maxTypeFiles)}
}

// measure adds what a file has to the shapes of all, by package and name.
func (s *source) measure(all map[string]*shape) {
	of := func(name string) *shape {
		if s.dir != "." {
			name = s.dir + "/" + name
		}
		if all[name] == nil {
			all[name] = &shape{}
		}
		return all[name]
	}
	methods := map[string]bool{} // types with methods in this file
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			f := of(d.Name.Name)
			f.lines = max(f.lines, s.fset.Position(d.End()).Line-s.fset.Position(d.Pos()).Line+1)
			f.params = max(f.params, d.Type.Params.NumFields())
			if d.Recv != nil {
				name := receiver(d)
				of(name).methods++
				methods[name] = true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if ts, ok := spec.(*ast.TypeSpec); ok {
					if st, ok := ts.Type.(*ast.StructType); ok && !isReport(st) {
						of(ts.Name.Name).fields = st.Fields.NumFields()
					}
				}
			}
		}
	}
	for name := range methods {
		of(name).files++
	}
}

// receiver returns the name of the type that a method is of.
func receiver(d *ast.FuncDecl) string {
	x := d.Recv.List[0].Type
	for {
		switch y := x.(type) {
		case *ast.StarExpr:
			x = y.X
		case *ast.IndexExpr:
			x = y.X
		default:
			return x.(*ast.Ident).Name
		}
	}
}

// isReport is true for options and reports, of which each field is a fact that a caller reads or
// says: most are exported.
func isReport(st *ast.StructType) bool {
	exported := 0
	for _, f := range st.Fields.List {
		for _, name := range f.Names {
			if name.IsExported() {
				exported++
			}
		}
	}
	return 2*exported > st.Fields.NumFields()
}

func TestRoot_IsSmall(t *testing.T) {
	lines, files := 0, 0
	for _, s := range tree(t) {
		if s.dir == "." && !s.test {
			lines += s.lines
			files++
		}
	}
	require.LessOrEqual(t, lines, maxRootLines, "move how something is done into a package")
	require.LessOrEqual(t, files, maxRootFiles, "put together what is one noun")
	for _, name := range strings.Fields("db.go head.go compact.go querier.go tsdb_bench_test.go") {
		require.FileExists(t, rootDir(t)+"/"+name)
	}
}
