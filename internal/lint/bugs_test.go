package lint

import (
	"go/ast"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page of bugs that others had names tests that are there.
func TestKnownBugs_NameTestsThatExist(t *testing.T) {
	there := map[string]bool{}
	for _, s := range tree(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test {
				there[f.Name.Name] = true
			}
		}
	}
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(readPage(t, "docs/design/known-bugs.md"), -1)
	require.NotEmpty(t, named)
	for _, m := range named {
		require.True(t, there[m[1]], "%s is on the page and nowhere else", m[1])
	}
}
