package httpapi

import (
	"net/http"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// parseQuery answers with the tree of an expression.
func (a *API) parseQuery(r *http.Request) answer {
	expr, ans := a.expression(r)
	if ans != nil {
		return *ans
	}
	return answer{data: tree(expr)}
}

type node map[string]any

// tree returns an expression as data. Durations and times are milliseconds.
func tree(expr parser.Expr) any {
	switch n := expr.(type) {
	case *parser.AggregateExpr:
		return node{"type": "aggregation", "op": n.Op.String(), "expr": tree(n.Expr), "param": tree(n.Param), "grouping": list(n.Grouping), "without": n.Without}
	case *parser.BinaryExpr:
		return node{"type": "binaryExpr", "op": n.Op.String(), "lhs": tree(n.LHS), "rhs": tree(n.RHS), "matching": matching(n.VectorMatching), "bool": n.ReturnBool}
	case *parser.Call:
		args := []any{}
		for _, arg := range n.Args {
			args = append(args, tree(arg))
		}
		return node{"type": "call", "func": function(n.Func), "args": args}
	case *parser.MatrixSelector:
		vs := n.VectorSelector.(*parser.VectorSelector)
		out := selector(vs, "matrixSelector")
		out["range"], out["rangeExpr"] = n.Range.Milliseconds(), durationTree(n.RangeExpr)
		return out
	case *parser.SubqueryExpr:
		return node{
			"type": "subquery", "expr": tree(n.Expr), "range": n.Range.Milliseconds(), "rangeExpr": durationTree(n.RangeExpr),
			"offset": n.OriginalOffset.Milliseconds(), "offsetExpr": durationTree(n.OriginalOffsetExpr),
			"step": n.Step.Milliseconds(), "stepExpr": durationTree(n.StepExpr),
			"timestamp": n.Timestamp, "startOrEnd": startOrEnd(n.StartOrEnd),
		}
	case *parser.VectorSelector:
		return selector(n, "vectorSelector")
	case *parser.NumberLiteral:
		return node{"type": "numberLiteral", "val": strconv.FormatFloat(n.Val, 'f', -1, 64)}
	case *parser.StringLiteral:
		return node{"type": "stringLiteral", "val": n.Val}
	case *parser.ParenExpr:
		return node{"type": "parenExpr", "expr": tree(n.Expr)}
	case *parser.UnaryExpr:
		return node{"type": "unaryExpr", "op": n.Op.String(), "expr": tree(n.Expr)}
	case *parser.StepInvariantExpr:
		return tree(n.Expr)
	case *parser.DurationExpr:
		return durationTree(n)
	default:
		return nil
	}
}

func selector(n *parser.VectorSelector, typ string) node {
	return node{
		"type": typ, "name": n.Name, "matchers": matchers(n.LabelMatchers),
		"offset": n.OriginalOffset.Milliseconds(), "offsetExpr": durationTree(n.OriginalOffsetExpr),
		"timestamp": n.Timestamp, "startOrEnd": startOrEnd(n.StartOrEnd), "anchored": n.Anchored, "smoothed": n.Smoothed,
	}
}

func durationTree(n *parser.DurationExpr) any {
	if n == nil {
		return nil
	}
	return node{"type": "durationExpr", "op": n.Op.String(), "lhs": tree(n.LHS), "rhs": tree(n.RHS), "wrapped": n.Wrapped}
}

func matchers(ms []*labels.Matcher) []node {
	out := []node{}
	for _, m := range ms {
		out = append(out, node{"name": m.Name, "value": m.Value, "type": m.Type.String()})
	}
	return out
}

func matching(m *parser.VectorMatching) any {
	if m == nil {
		return nil
	}
	return node{"card": m.Card.String(), "labels": list(m.MatchingLabels), "on": m.On, "include": list(m.Include)}
}

func function(f *parser.Function) node {
	types := []string{}
	for _, t := range f.ArgTypes {
		types = append(types, string(t))
	}
	return node{"name": f.Name, "argTypes": types, "variadic": f.Variadic, "returnType": string(f.ReturnType)}
}

func startOrEnd(t parser.ItemType) any {
	if t == 0 {
		return nil
	}
	return t.String()
}

func list(s []string) []string {
	if s == nil {
		return empty
	}
	return s
}
