package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// A file longer than this holds more than one noun.
const (
	maxLines     = 800
	maxTestLines = 1000
)

func TestFiles_HoldOneNoun(t *testing.T) {
	check(t, fileLength)
}

func fileLength(s *source) []string {
	limit := maxLines
	if s.test {
		limit = maxTestLines
	}
	if s.lines < limit {
		return nil
	}
	return []string{fmt.Sprintf("%s: %d lines, the limit is %d", s.path, s.lines, limit)}
}

// A comment is read at one look, too. Its tabs count as four columns; code in it has the length
// that it needs, as has a comment behind code.
func TestComments_HaveShortLines(t *testing.T) {
	check(t, commentWidth)
}

func commentWidth(s *source) (wrong []string) {
	const deepest = 6 // tabs in front of a comment that begins its line
	for _, group := range s.file.Comments {
		for _, c := range group.List {
			tabs := s.fset.Position(c.Pos()).Column - 1
			if tabs > deepest || strings.HasPrefix(c.Text, "//\t") || strings.HasPrefix(c.Text, "//go:") {
				continue
			}
			if n := 4*tabs + utf8.RuneCountInString(c.Text); n > maxColumns {
				wrong = append(wrong, s.at(c, "comment of %d columns, the limit is %d", n, maxColumns))
			}
		}
	}
	return wrong
}

func TestPackages_HaveOneComment(t *testing.T) {
	comments := make(map[string][]string)
	for _, s := range tree(t) {
		if s.test {
			continue
		}
		if _, ok := comments[s.dir]; !ok {
			comments[s.dir] = nil
		}
		if s.file.Doc != nil && strings.TrimSpace(s.file.Doc.Text()) != "" {
			comments[s.dir] = append(comments[s.dir], s.path)
		}
	}
	for dir, files := range comments {
		require.Len(t, files, 1, "package comments of %s", dir)
	}
}

func TestExportedNames_AreDocumented(t *testing.T) {
	check(t, documented)
}

// documented: whoever reads only the documentation must learn what each exported name
// is. Constants and variables may share the comment of their group. Methods with names
// that everybody knows need none, nor do those of internal types: an interface explains
// most of them.
func documented(s *source) (wrong []string) {
	if s.test || within(s.dir, "cmd") {
		return nil
	}
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) && !wellKnown(s, d) {
				wrong = append(wrong, s.at(d, "%s has no comment", d.Name.Name))
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if name := undocumented(d, spec); name != "" {
					wrong = append(wrong, s.at(spec, "%s has no comment", name))
				}
			}
		}
	}
	return wrong
}

// undocumented returns the first exported name of a declaration without a comment.
func undocumented(d *ast.GenDecl, spec ast.Spec) string {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if spec.Name.IsExported() && spec.Doc == nil && d.Doc == nil {
			return spec.Name.Name
		}
	case *ast.ValueSpec:
		if spec.Doc == nil && spec.Comment == nil && d.Doc == nil && (d.Tok == token.CONST || d.Tok == token.VAR) {
			for _, n := range spec.Names {
				if n.IsExported() {
					return n.Name
				}
			}
		}
	}
	return ""
}

// exportedReceiver is true for functions, and for methods of exported types.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

// wellKnown is true for methods that need no comment.
func wellKnown(s *source, d *ast.FuncDecl) bool {
	return d.Recv != nil && (within(s.dir, "internal") || slices.Contains([]string{"Error", "Unwrap", "Is", "As", "String", "Len", "Less", "Swap", "Close"}, d.Name.Name))
}

// The go directive names a minor version: a patch version would lock out everyone who
// has an older patch.
func TestGoDirective_NamesNoPatch(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(rootDir(t), "go.mod"))
	require.NoError(t, err)
	require.Contains(t, string(text), "\ngo 1.26.0\n")
	require.NotContains(t, string(text), "\ntoolchain ")
	require.NotContains(t, string(text), "\nreplace ")
}
