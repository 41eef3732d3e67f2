package prom

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
)

// boundedParser refuses expressions that would end the program when they are evaluated: the engine
// goes into them by recursion, and takes memory for each step of a subquery before it looks at any
// limit.
type boundedParser struct {
	parser.Parser
	subqueryStep time.Duration // of those that name none
	maxSteps     int
}

const (
	// maxDepth is how deep an expression may be nested; a sum of so many terms is, too.
	maxDepth = 5000
	// maxSubquerySteps is how many steps a subquery may have: a year in steps of 3 s. Each takes 16
	// bytes.
	maxSubquerySteps = 10_000_000
)

// ParseExpr implements parser.Parser.
func (p *boundedParser) ParseExpr(input string) (parser.Expr, error) {
	if at, many := tooManyOperators(input); many {
		err := fmt.Errorf("more than %d operators", maxDepth)
		return nil, parser.ParseErrors{{PositionRange: at, Err: err, Query: input}}
	}
	expr, err := p.Parser.ParseExpr(input)
	if err != nil {
		return nil, err
	}
	if wrong := p.tooMuch(expr); wrong != nil {
		wrong.Query = input
		return nil, parser.ParseErrors{*wrong}
	}
	return expr, nil
}

// tooManyOperators counts operators before anything is parsed, as the time that a chain of them
// takes to be parsed grows with its square.
func tooManyOperators(input string) (at posrange.PositionRange, many bool) {
	if len(input) <= maxDepth {
		return at, false
	}
	lexer, item, n := parser.Lex(input), parser.Item{}, 0
	for lexer.NextItem(&item); item.Typ != parser.EOF && item.Typ != parser.ERROR; lexer.NextItem(&item) {
		if item.Typ.IsOperator() {
			n++
		}
		if n > maxDepth {
			return item.PositionRange(), true
		}
	}
	return at, false
}

// tooMuch says what of an expression is too much; nil: nothing. It goes through it without
// recursion.
func (p *boundedParser) tooMuch(expr parser.Expr) *parser.ParseErr {
	type place struct {
		node  parser.Node
		depth int
	}
	left := []place{{expr, 1}}
	for len(left) > 0 {
		at := left[len(left)-1]
		left = left[:len(left)-1]
		if at.depth > maxDepth {
			return refused(expr, fmt.Errorf("it is nested more than %d deep", maxDepth))
		}
		if sub, ok := at.node.(*parser.SubqueryExpr); ok {
			if sub.Step > 0 && sub.Step < time.Millisecond { // the engine divides by milliseconds
				return refused(sub, errors.New("a subquery with a step below a millisecond"))
			}
			if steps := p.steps(sub); steps > float64(p.maxSteps) {
				return refused(sub, fmt.Errorf("a subquery of %.0f steps: at most %d", steps, p.maxSteps))
			}
		}
		for child := range parser.ChildrenIter(at.node) {
			left = append(left, place{child, at.depth + 1})
		}
	}
	return nil
}

func (p *boundedParser) steps(sub *parser.SubqueryExpr) float64 {
	step := sub.Step
	if step <= 0 {
		step = p.subqueryStep
	}
	return float64(sub.Range) / float64(step)
}

func refused(expr parser.Expr, err error) *parser.ParseErr {
	var at posrange.PositionRange
	if _, deep := expr.(*parser.SubqueryExpr); deep { // of others it would take recursion
		at.Start = expr.(*parser.SubqueryExpr).EndPos
		at.End = at.Start
	}
	return &parser.ParseErr{PositionRange: at, Err: err}
}
