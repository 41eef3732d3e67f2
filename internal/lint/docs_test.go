package lint

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Whoever runs the library reads its events in docs/design/events.md, so that page has
// each of them, and no other.
func TestEvents_AreDocumented(t *testing.T) {
	page := readPage(t, "docs/design/events.md")
	listed := make(map[string]bool)
	for _, m := range regexp.MustCompile("(?m)^\\| [A-Z][^|]* \\| `([^`]+)` \\|").FindAllStringSubmatch(page, -1) {
		listed[m[1]] = true
	}
	logged := make(map[string]bool)
	for _, s := range tree(t) {
		if s.library() {
			for _, message := range events(s) {
				logged[message] = true
			}
		}
	}
	require.NotEmpty(t, logged)
	require.Equal(t, logged, listed)
}

// events returns the messages that a file logs: the first string given to a method of
// something that is called logger.
func events(s *source) (messages []string) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || last(sel.X) == nil || !strings.EqualFold(last(sel.X).Name, "logger") {
			return true
		}
		for _, arg := range call.Args {
			if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				message, err := strconv.Unquote(lit.Value)
				if err == nil {
					messages = append(messages, message)
				}
				break
			}
		}
		return true
	})
	return messages
}

func TestEvents_AreSeen(t *testing.T) {
	s := parse(t, "wal/a.go", []byte("package p\nfunc f() { db.opts.Logger.Log(ctx, level, `one`, `dir`, d); logger.Info(\"two\"); other.Info(`three`) }\n"))
	require.Equal(t, []string{"one", "two"}, events(s))
}

// A link that leads nowhere is worse than none.
func TestLinks_LeadSomewhere(t *testing.T) {
	root := rootDir(t)
	pages, err := filepath.Glob(filepath.Join(root, "*.md"))
	require.NoError(t, err)
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		more, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		require.NoError(t, err)
		pages = append(pages, more...)
	}
	require.Greater(t, len(pages), 10)
	link := regexp.MustCompile(`\]\(([^)\s#]+)(#[^)]*)?\)`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target := filepath.Join(filepath.Dir(page), filepath.FromSlash(m[1]))
			_, err := os.Stat(target)
			require.NoError(t, err, "%s links to %s", page, m[1])
		}
	}
}

func TestIndexOfDocuments_HasEveryPage(t *testing.T) {
	index := readPage(t, "docs/README.md")
	root := rootDir(t)
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		pages, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		require.NoError(t, err)
		require.NotEmpty(t, pages)
		for _, page := range pages {
			rel, err := filepath.Rel(filepath.Join(root, "docs"), page)
			require.NoError(t, err)
			if rel != "README.md" {
				require.Contains(t, index, "]("+filepath.ToSlash(rel)+")")
			}
		}
	}
}

// Files and directories that the design pages name exist: a page that speaks of what
// is gone misleads.
func TestDesignPages_NameFilesThatExist(t *testing.T) {
	root := rootDir(t)
	name := regexp.MustCompile("`([a-z_]+(?:/[a-z_]+)*\\.go)`")
	for _, dir := range []string{"docs/design", "docs/adr"} {
		pages, err := filepath.Glob(filepath.Join(root, dir, "*.md"))
		require.NoError(t, err)
		require.NotEmpty(t, pages)
		for _, page := range pages {
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			for _, m := range name.FindAllStringSubmatch(string(text), -1) {
				if !exists(root, m[1]) {
					t.Errorf("%s names %s, which does not exist", page, m[1])
				}
			}
		}
	}
}

// exists looks for a file as the pages name it: from the root, or from internal/.
func exists(root, name string) bool {
	for _, top := range []string{"", "internal"} {
		if _, err := os.Stat(filepath.Join(root, top, filepath.FromSlash(name))); err == nil {
			return true
		}
	}
	return false
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(rootDir(t), filepath.FromSlash(name)))
	require.NoError(t, err)
	return string(text)
}

// maxColumns is how long a line of text is at most, so that it is read at one look.
const maxColumns = 100

// A line of prose is short. Tables and code have the length that they need, as has a link.
func TestDocs_HaveShortLines(t *testing.T) {
	root := rootDir(t)
	pages, err := filepath.Glob(filepath.Join(root, "*.md"))
	require.NoError(t, err)
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		more, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		pages = append(pages, more...)
	}
	for _, page := range pages {
		if filepath.Base(page) == "bench.md" { // programs write most of it
			continue
		}
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		code, made := false, false // lines of code; lines that a program writes
		for n, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			if strings.HasPrefix(line, "<!-- ") {
				made = !made
			}
			if code || made || strings.HasPrefix(strings.TrimSpace(line), "|") || strings.Contains(line, "](http") {
				continue
			}
			require.LessOrEqual(t, utf8.RuneCountInString(line), maxColumns, "%s:%d", page, n+1)
		}
	}
}
