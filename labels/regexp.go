package labels

import (
	"regexp"

	"github.com/pkg/errors"
)

// MaxRegexpBytes bounds the text of a regular expression.
const MaxRegexpBytes = 4 << 10

type pattern struct {
	prefix string
	re     *regexp.Regexp
}

func compilePattern(expr string) (*pattern, error) {
	re, err := regexp.Compile("^(?s:" + expr + ")$")
	if err != nil {
		return nil, errors.WithMessage(ErrSyntax, err.Error())
	}
	return &pattern{re: re}, nil
}

func (p *pattern) match(s string) bool { return p.re.MatchString(s) }
func (p *pattern) set() []string       { return nil }
