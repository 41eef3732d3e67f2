package sweep

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Which tests sweep is read off the source, by names alone: rather one test too many than one too
// few. A test sweeps if it asks package sweep for something, or if what it uses does.

var sweptFile = flag.String("swept", "",
	"write the arguments with which go test runs the tests that sweep, from the root, to a file")

const sweepPath = `"github.com/seed347100a3/tsdb/internal/sweep"`

// swept is what was found.
type swept struct{ tests, dirs []string }

// arguments are those of go test.
func (s swept) arguments() []string {
	names := slices.Clone(s.tests)
	slices.Sort(names)
	pattern := "^(" + strings.Join(slices.Compact(names), "|") + ")$"
	return append([]string{"-run", pattern}, s.dirs...)
}

// find looks into each directory of the module that is in root.
func find(root string) (all swept, err error) {
	err = filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if skipped(root, dir) {
			return fs.SkipDir
		}
		tests, err := testsOf(dir)
		if err != nil || len(tests) == 0 {
			return err
		}
		rel, err := filepath.Rel(root, dir)
		all.tests = append(all.tests, tests...)
		all.dirs = append(all.dirs, strings.TrimSuffix("./"+filepath.ToSlash(rel), "/."))
		return err
	})
	return all, err
}

// skipped says that a directory has no packages of the module: data, or another module.
func skipped(root, dir string) bool {
	name := filepath.Base(dir)
	if dir == root {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil || name == "testdata" || strings.HasPrefix(name, ".")
}

// testsOf returns the tests of a directory that sweep.
func testsOf(dir string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	swept := false
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
		swept = swept || slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool {
			return i.Path.Value == sweepPath
		})
	}
	if !swept {
		return nil, nil
	}
	return sweeping(files), nil
}

// use is a name that some code uses: that of a method or field, behind a dot, or another one.
type use struct {
	name  string
	ofDot bool
}

// declared is a top-level declaration: by which names others use it, and what it uses.
type declared struct {
	test string // its name if it is a test
	as   []use
	uses []use
}

// sweeping returns the tests of a package's files that use package sweep, however indirectly.
func sweeping(files []*ast.File) (tests []string) {
	var rest []declared
	for _, f := range files {
		for _, d := range f.Decls {
			rest = append(rest, declarationOf(d)...)
		}
	}
	known := map[use]bool{{name: "sweep"}: true}
	for found := true; found; {
		found = false
		rest = slices.DeleteFunc(rest, func(d declared) bool {
			if !slices.ContainsFunc(d.uses, func(u use) bool { return known[u] }) {
				return false
			}
			for _, u := range d.as {
				known[u] = true
			}
			if d.test != "" {
				tests = append(tests, d.test)
			}
			found = true
			return true
		})
	}
	return tests
}

// declarationOf takes a declaration apart.
func declarationOf(d ast.Decl) []declared {
	if f, ok := d.(*ast.FuncDecl); ok {
		return []declared{functionOf(f)}
	}
	var all []declared
	for _, spec := range d.(*ast.GenDecl).Specs {
		switch s := spec.(type) {
		case *ast.ValueSpec:
			v := declared{uses: usesOf(s)}
			for _, name := range s.Names {
				v.as = append(v.as, use{name: name.Name})
			}
			all = append(all, v)
		case *ast.TypeSpec:
			all = append(all, declared{as: []use{{name: s.Name.Name}}, uses: usesOf(s.Type)})
		}
	}
	return all
}

// functionOf describes a function. Who uses a type may call its methods by reflection.
func functionOf(f *ast.FuncDecl) declared {
	d := declared{uses: usesOf(f)}
	switch {
	case f.Recv != nil:
		d.as = []use{{f.Name.Name, true}}
		for _, u := range usesOf(f.Recv.List[0].Type) {
			if ast.IsExported(f.Name.Name) {
				d.as = append(d.as, u)
			}
		}
	case strings.HasPrefix(f.Name.Name, "Test") || strings.HasPrefix(f.Name.Name, "Fuzz"):
		d.test = f.Name.Name
	case f.Name.Name != "init" && f.Name.Name != "_":
		d.as = []use{{name: f.Name.Name}}
	}
	return d
}

// usesOf returns the names in a piece of code.
func usesOf(node ast.Node) (all []use) {
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			all = append(append(all, usesOf(n.X)...), use{n.Sel.Name, true})
			return false
		case *ast.FuncDecl:
			all = append(all, usesOf(n.Type)...)
			if n.Recv != nil {
				all = append(all, usesOf(n.Recv)...)
			}
			if n.Body != nil {
				all = append(all, usesOf(n.Body)...)
			}
			return false
		case *ast.Ident:
			all = append(all, use{name: n.Name})
		}
		return true
	})
	return all
}

const imports = `package p

import "github.com/seed347100a3/tsdb/internal/sweep"

`

func TestSwept_ThisModule(t *testing.T) {
	found, err := find(filepath.Join("..", ".."))
	require.NoError(t, err)
	require.Contains(t, found.dirs, ".")
	require.Contains(t, found.tests,
		"TestPowerLoss_EveryStateAfterEveryOperationOpensWithAPrefix", "it asks in a method")
	require.Less(t, len(found.tests), 120,
		"a method by which tests sweep is named as something else is")
	if *sweptFile != "" {
		require.NoError(t, os.WriteFile(*sweptFile, []byte(strings.Join(found.arguments(), " ")), 0o666))
	}
}

func TestSwept_TestsThatSweepHoweverIndirectly(t *testing.T) {
	for name, c := range map[string]struct {
		code string
		want []string
	}{
		"nothing":     {`func TestA(t *testing.T) {}`, nil},
		"itself":      {`func TestA(t *testing.T) { sweep.Whole() }; func TestB(t *testing.T) {}`, []string{"TestA"}},
		"a function":  {`func TestA(t *testing.T) { f() }; func f() { g() }; func g() { sweep.Whole() }; func TestB(t *testing.T) { h() }; func h() {}`, []string{"TestA"}},
		"a method":    {`func TestA(t *testing.T) { x.f() }; func (x) f() { sweep.Whole() }; func TestB(t *testing.T) { f := 1 }`, []string{"TestA"}},
		"a parameter": {`func TestA(t *testing.T) { f(p) }; func f(p sweep.Places) {}`, []string{"TestA"}},
		"a variable":  {`func TestA(t *testing.T) { all["f"]() }; var all = map[string]func(){"f": f}; func f() { sweep.Whole() }`, []string{"TestA"}},
		"a type":      {`func TestA(t *testing.T) { var v S }; type S struct { p sweep.Places }`, []string{"TestA"}},
		"reflection":  {`func TestA(t *testing.T) { call(M{}) }; type M struct {}; func (m M) Do() { sweep.Whole() }`, []string{"TestA"}},
		"a fuzz test": {`func FuzzA(f *testing.F) { f.Fuzz(func() { sweep.Whole() }) }; func BenchmarkA(b *testing.B) { sweep.Whole() }`, []string{"FuzzA"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root, "a/a_test.go", imports+c.code)
			write(t, root, "other/go.mod", "")
			write(t, root, "other/a_test.go", imports+`func TestOther(t *testing.T) { sweep.Whole() }`)
			write(t, root, "testdata/a_test.go", imports+`func TestData(t *testing.T) { sweep.Whole() }`)
			got, err := find(root)
			require.NoError(t, err)
			require.ElementsMatch(t, c.want, got.tests)
			require.Equal(t, len(c.want) > 0, len(got.dirs) == 1)
		})
	}
}

func TestSwept_ThroughTheFilesOfADirectory(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a_test.go", imports+`func f() { sweep.Whole() }`)
	write(t, root, "b_test.go", "package p\nfunc TestB(t *testing.T) { f() }")
	write(t, root, "in/c/c_test.go", imports+`func TestC(t *testing.T) { sweep.Whole() }`)
	write(t, root, "in/d/d_test.go", "package p\nfunc TestD(t *testing.T) { f() }")
	got, err := find(root)
	require.NoError(t, err)
	require.Equal(t, []string{"-run", "^(TestB|TestC)$", ".", "./in/c"}, got.arguments())
}

func TestSwept_WhatIsNoCode_IsAnError(t *testing.T) {
	root := t.TempDir()
	write(t, root, "a_test.go", "no code")
	_, err := find(root)
	require.Error(t, err)
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
}
