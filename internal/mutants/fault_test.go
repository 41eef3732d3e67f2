package mutants_test

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fault is one entry of the list.
type fault struct {
	name string
	what string // in words
	file string // from the root of the repository, slashes
	from string // lines of the file, the last one perhaps in part, which are there once
	to   string // the same with the fault
	pkg  string // of the test: "." or "./wal"
	test string // which must fail
	tags string // that the test is built with; may be empty
}

// readFaults reads the list. An entry is
//
//	fault NAME
//	what  SENTENCE
//	file  PATH
//	test  PACKAGE TEST [TAGS]
//	from
//	...
//	to
//	...
//	end
//
// Empty lines and those with # in front may stand between entries.
func readFaults(t *testing.T) (list []fault) {
	t.Helper()
	f, err := os.Open("testdata/faults.txt")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	var one fault
	var into *string // where lines go
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		key, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		switch {
		case key == "to" && into == &one.from:
			into = &one.to
		case key == "end" && into == &one.to:
			one.from, one.to = strings.TrimSuffix(one.from, "\n"), strings.TrimSuffix(one.to, "\n")
			list = append(list, one)
			one, into = fault{}, nil
		case into != nil:
			require.NotEqual(t, "fault", key, "%q has no end", one.name)
			*into += line + "\n"
		case line == "" || line[0] == '#':
		case key == "fault":
			one.name = rest
		case key == "what":
			one.what = rest
		case key == "file":
			one.file = rest
		case key == "test":
			words := append(strings.Fields(rest), "", "", "")
			one.pkg, one.test, one.tags = words[0], words[1], words[2]
		case key == "from":
			into = &one.from
		default:
			require.Failf(t, "testdata/faults.txt", "behind fault %q: no meaning: %q", one.name, line)
		}
	}
	require.Nil(t, into, "the last entry has no end")
	return list
}

// planted returns the text of the fault's file with the fault in it.
func (f *fault) planted(t *testing.T, root string) string {
	t.Helper()
	text, err := os.ReadFile(root + "/" + f.file)
	require.NoError(t, err, f.name)
	n := strings.Count(string(text), f.from)
	require.Equal(t, 1, n, "%s: its lines must be in %s once; were they changed, change them here, too:\n%s", f.name, f.file, f.from)
	return strings.Replace(string(text), f.from, f.to, 1)
}
