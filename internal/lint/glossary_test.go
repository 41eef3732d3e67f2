package lint

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// declared is what the code has by name, tests left out.
type declared struct {
	dirs     map[string]bool            // directories of packages
	packages map[string]map[string]bool // what packages of a name declare: functions, types, constants, variables, methods, fields
	types    map[string]map[string]bool // methods and fields of the types of a name, and of pkg.Type
	foreign  map[string]bool            // pkg.Name of other modules that some file uses
	local    map[string]bool            // variables, parameters and receivers
}

func declarations(all []*source) *declared {
	d := &declared{map[string]bool{}, map[string]map[string]bool{}, map[string]map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for _, s := range all {
		if s.test {
			continue
		}
		d.dirs[s.dir] = true
		for _, decl := range s.file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				of := ""
				if decl.Recv != nil {
					of = receiver(decl)
				}
				d.add(s, of, decl.Name)
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					d.addSpec(s, spec)
				}
			}
		}
		d.addUses(s)
	}
	return d
}

// add adds a name of a package, and of one of its types.
func (d *declared) add(s *source, of string, names ...*ast.Ident) {
	put := func(m map[string]map[string]bool, key, name string) {
		if m[key] == nil {
			m[key] = map[string]bool{}
		}
		m[key][name] = true
	}
	for _, id := range names {
		put(d.packages, s.pkg(), id.Name)
		if of != "" {
			put(d.types, of, id.Name)
			put(d.types, s.pkg()+"."+of, id.Name)
		}
	}
}

// pkg is the name that other packages use for that of a file, or would if it were no program.
func (s *source) pkg() string {
	if s.dir == "." {
		return path.Base(module)
	}
	return path.Base(s.dir)
}

func (d *declared) addSpec(s *source, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		d.add(s, "", spec.Names...)
	case *ast.TypeSpec:
		d.add(s, "", spec.Name)
		ast.Inspect(spec.Type, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.StructType:
				for _, f := range n.Fields.List {
					d.add(s, spec.Name.Name, f.Names...)
				}
			case *ast.InterfaceType:
				for _, f := range n.Methods.List {
					d.add(s, spec.Name.Name, f.Names...)
				}
			}
			return true
		})
	}
}

// addUses adds variables of functions, and what a file uses of other modules.
func (d *declared) addUses(s *source) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, id := range n.Names {
				d.local[id.Name] = true
			}
		case *ast.AssignStmt:
			for _, x := range n.Lhs {
				if id, ok := x.(*ast.Ident); ok && n.Tok == token.DEFINE {
					d.local[id.Name] = true
				}
			}
		}
		return true
	})
	for p, name := range s.imports() {
		if _, ours := local(p); !ours {
			s.selections(p, func(sel *ast.SelectorExpr) { d.foreign[name+"."+sel.Sel.Name] = true })
		}
	}
}

// has reports whether the code declares what a name of the glossary says: a directory, a name in a
// package, a member of a type, or of a type in a package.
func (d *declared) has(name string) bool {
	if strings.Contains(name, "/") {
		return d.dirs[name]
	}
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return false // anything may have it
	}
	of, last := name[:i], name[i+1:]
	return d.packages[of][last] || d.types[of][last] || d.foreign[name]
}

var (
	// goNames are the names that an entry of the glossary says the code has for its word.
	goNames = regexp.MustCompile("(?s)Go: (.*?)(\n\n|Not:|$)")
	// goName is one of them; variables are said to be such.
	goName = regexp.MustCompile("(?:(variable|receiver)s?\\s)?`([^`]+)`")
)

// A word of the glossary and its name in the code are one: whoever renames the code renames it
// there.
func TestGlossary_NamesWhatTheCodeHas(t *testing.T) {
	d := declarations(tree(t))
	entries := goNames.FindAllStringSubmatch(readPage(t, "docs/glossary.md"), -1)
	require.Greater(t, len(entries), 20)
	var wrong []string
	for _, entry := range entries {
		for _, m := range goName.FindAllStringSubmatch(entry[1], -1) {
			if m[1] == "" {
				if !d.has(m[2]) {
					wrong = append(wrong, m[2])
				}
				continue
			}
			for _, name := range strings.Split(m[2], ", ") {
				if !d.local[name] {
					wrong = append(wrong, m[1]+" "+name)
				}
			}
		}
	}
	require.Empty(t, wrong, "docs/glossary.md names what is not declared outside of tests")
}

func TestGlossary_DemandsDeclarations(t *testing.T) {
	d := declarations([]*source{
		parse(t, "deep/one/a.go", []byte("package one\nimport \"x.org/far/v2\"\ntype T struct{ f int; mu struct{ g int } }\nfunc (t *T) M() { x := far.F(); _ = x.Call() }\nconst C = 1\n")),
		parse(t, "two/b.go", []byte("package two\ntype I interface{ N() }\n")),
		parse(t, "deep/one/a_test.go", []byte("package one\nfunc Only() {}\n")),
	})
	for _, name := range []string{"deep/one", "T.f", "T.g", "one.T", "one.T.M", "one.M", "one.C", "two.I.N", "far.F"} {
		require.True(t, d.has(name), name)
	}
	for _, name := range []string{"one.Only", "T", "one.x", "one.Call", "two.T", "I.M", "far.G", "T.C", "two.T.M", "b/one"} {
		require.False(t, d.has(name), name)
	}
	require.True(t, d.local["x"] && d.local["t"])
}
