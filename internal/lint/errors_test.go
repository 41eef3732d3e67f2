package lint

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

func TestErrors_AreMadeOneWay(t *testing.T) {
	check(t, errorsOneWay)
}

// errorsOneWay: errors.go makes sentinels with the standard package, whose New does not
// record the stack of package initialisation; every other file uses pkg/errors, and the
// standard one only as stderrors, for its Join. fmt.Errorf makes an error without
// saying where it came from, Cause stops at the first foreign wrapper, and %w does
// nothing in pkg/errors.
func errorsOneWay(s *source) []string {
	if s.test {
		return nil
	}
	var wrong []string
	imports := s.imports()
	name, standard := imports["errors"]
	if strings.HasSuffix("/"+s.path, "/errors.go") {
		if _, ok := imports[pkgErrors]; ok {
			wrong = append(wrong, s.path+": errors.go uses the standard errors package only")
		}
	} else if standard && name != "stderrors" {
		wrong = append(wrong, s.path+": use "+pkgErrors+"; the standard errors is for errors.go, or imported as stderrors for Join")
	} else if standard {
		s.selections("errors", func(sel *ast.SelectorExpr) {
			if sel.Sel.Name != "Join" {
				wrong = append(wrong, s.at(sel, "stderrors.%s: only Join is taken from the standard package here", sel.Sel.Name))
			}
		})
	}
	s.selections("fmt", func(sel *ast.SelectorExpr) {
		if sel.Sel.Name == "Errorf" {
			wrong = append(wrong, s.at(sel, "fmt.Errorf: use "+pkgErrors))
		}
	})
	s.selections(pkgErrors, func(sel *ast.SelectorExpr) {
		if sel.Sel.Name == "Cause" {
			wrong = append(wrong, s.at(sel, "errors.Cause: ask with Is or As"))
		}
	})
	return append(append(wrong, wrappedVerbs(s)...), looseSentinels(s)...)
}

// wrappedVerbs finds %w where it does nothing.
func wrappedVerbs(s *source) (wrong []string) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && strings.Contains(lit.Value, "%w") {
			wrong = append(wrong, s.at(lit, "%%w: wrap with %s", pkgErrors))
		}
		return true
	})
	return wrong
}

// looseSentinels finds errors in package variables outside errors.go.
func looseSentinels(s *source) (wrong []string) {
	if strings.HasSuffix("/"+s.path, "/errors.go") {
		return nil
	}
	for _, d := range s.file.Decls {
		gen, ok := d.(*ast.GenDecl)
		if !ok || gen.Tok != token.VAR {
			continue
		}
		for _, spec := range gen.Specs {
			for _, v := range spec.(*ast.ValueSpec).Values {
				call, ok := v.(*ast.CallExpr)
				if !ok {
					continue
				}
				if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "New" && isIdent(sel.X, "errors", "stderrors") {
					wrong = append(wrong, s.at(v, "a sentinel belongs into errors.go"))
				}
			}
		}
	}
	return wrong
}

func isIdent(e ast.Expr, names ...string) bool {
	id, ok := e.(*ast.Ident)
	if !ok {
		return false
	}
	for _, n := range names {
		if id.Name == n {
			return true
		}
	}
	return false
}
