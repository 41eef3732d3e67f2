package lint

import (
	"go/ast"
	"slices"
	"testing"
)

func TestTime_IsAskedOfTheClock(t *testing.T) {
	check(t, timeFromClock)
}

// deadlines is the files that limit how long the other end of a connection may take, each
// with its reason: a connection knows the system's clock and no other.
var deadlines = map[string]string{
	"remote/paced.go":         "a client that stops reading is dropped",
	"remote/client_answer.go": "a server that stops sending is left",
}

// timeFromClock: the time of day and every wait come from clock.Clock, so that a test
// decides when time passes. time.Now is left for stopwatches: what it returned may only
// be subtracted, or kept in order to be.
func timeFromClock(s *source) (wrong []string) {
	if !s.library() || s.dir == "internal/clock" || deadlines[s.path] != "" {
		return nil
	}
	watches := stopwatches(s)
	s.selections("time", func(sel *ast.SelectorExpr) {
		switch {
		case slices.Contains([]string{"Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}, sel.Sel.Name):
			wrong = append(wrong, s.at(sel, "time.%s: wait with clock.Clock", sel.Sel.Name))
		case sel.Sel.Name == "Now" && !watches.reads[sel]:
			wrong = append(wrong, s.at(sel, "time.Now: ask clock.Clock, unless its result goes into a variable and is only subtracted"))
		}
	})
	for _, use := range watches.misuses {
		wrong = append(wrong, s.at(use, "%s holds a time.Now, which may only be subtracted: ask clock.Clock", use.Name))
	}
	return wrong
}

// watch is what one file does with time.Now.
type watch struct {
	reads   map[*ast.SelectorExpr]bool // calls whose result goes into a variable
	misuses []*ast.Ident               // uses of such a variable that are no subtraction
}

// stopwatches goes by the names of variables and fields within one file: coarse, and
// enough.
func stopwatches(s *source) watch {
	w := watch{reads: make(map[*ast.SelectorExpr]bool)}
	names := make(map[string]bool)
	fine := make(map[*ast.Ident]bool)
	for known := -1; known < len(names); { // until no variable takes over from another
		known = len(names)
		ast.Inspect(s.file, func(n ast.Node) bool {
			if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == len(a.Rhs) {
				for i, rhs := range a.Rhs {
					w.assigned(a.Lhs[i], rhs, names)
				}
			}
			return true
		})
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		markFine(n, names, fine)
		return true
	})
	ast.Inspect(s.file, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && names[id.Name] && !fine[id] {
			w.misuses = append(w.misuses, id)
		}
		return true
	})
	return w
}

// assigned notes what an assignment makes a stopwatch.
func (w *watch) assigned(lhs, rhs ast.Expr, names map[string]bool) {
	to := last(lhs)
	if to == nil {
		return
	}
	if sel := nowCall(rhs); sel != nil {
		w.reads[sel] = true
		names[to.Name] = true
	} else if from := last(rhs); from != nil && names[from.Name] {
		names[to.Name] = true
	}
}

// markFine marks uses of stopwatches that measure, keep or declare.
func markFine(n ast.Node, names map[string]bool, fine map[*ast.Ident]bool) {
	mark := func(e ast.Expr) {
		if id := last(e); id != nil {
			fine[id] = true
		}
	}
	switch n := n.(type) {
	case *ast.AssignStmt:
		for i, lhs := range n.Lhs {
			mark(lhs)
			if len(n.Lhs) == len(n.Rhs) && last(lhs) != nil && names[last(lhs).Name] {
				mark(n.Rhs[i])
			}
		}
	case *ast.CallExpr:
		sel, ok := n.Fun.(*ast.SelectorExpr)
		if ok && (sel.Sel.Name == "Since" && isIdent(sel.X, "time") || sel.Sel.Name == "Sub") {
			mark(sel.X)
			for _, arg := range n.Args {
				mark(arg)
			}
		}
	case *ast.Field:
		for _, id := range n.Names {
			fine[id] = true
		}
	case *ast.ValueSpec:
		for _, id := range n.Names {
			fine[id] = true
		}
	case *ast.FuncDecl:
		fine[n.Name] = true
	case *ast.SelectorExpr:
		if isIdent(n.X, "time") || n.Sel.Name == "Now" {
			fine[n.Sel] = true
		}
	case *ast.KeyValueExpr:
		mark(n.Key)
	}
}

// nowCall returns the selector of a call of time.Now.
func nowCall(e ast.Expr) *ast.SelectorExpr {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return nil
	}
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Now" && isIdent(sel.X, "time") {
		return sel
	}
	return nil
}

// last returns the name of a variable or of the field that is selected.
func last(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.Ident:
		return e
	case *ast.SelectorExpr:
		return e.Sel
	default:
		return nil
	}
}

func TestTests_DoNotSleep(t *testing.T) {
	check(t, wideAwake)
}

// wideAwake: a sleep is either too short, and the test fails now and then, or too long.
// In a bubble of testing/synctest no time passes outside, so there it is a tool.
func wideAwake(s *source) (wrong []string) {
	if _, bubble := s.imports()["testing/synctest"]; bubble || !s.test {
		return nil
	}
	s.selections("time", func(sel *ast.SelectorExpr) {
		if sel.Sel.Name == "Sleep" {
			wrong = append(wrong, s.at(sel, "time.Sleep in a test: wait for what must happen, or use a bubble of testing/synctest"))
		}
	})
	return wrong
}
