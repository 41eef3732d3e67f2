package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"
)

// allRows reads a table, and what is wrong with its rows.
func allRows(t *testing.T, text string, comma rune) (rows [][]string, lines []int, wrong []string) {
	t.Helper()
	r := newRowReader(bufio.NewReader(strings.NewReader(text)), comma, 0)
	for {
		row, err := r.next()
		var damage *rowError
		switch {
		case errors.Is(err, io.EOF):
			return rows, lines, wrong
		case errors.As(err, &damage):
			wrong = append(wrong, damage.text)
		default:
			require.NoError(t, err)
			rows, lines = append(rows, append([]string(nil), row...)), append(lines, r.line)
		}
	}
}

func TestRowReader_GivesCellsAsTheyStand(t *testing.T) {
	rows, lines, wrong := allRows(t, "a,b\r\n\r\n\"x\r\ny\",\"\"\"q\"\"\"\n , \n\n,\n\"\",\"z\"", ',')
	require.Empty(t, wrong)
	require.Equal(t, [][]string{{"a", "b"}, {"x\r\ny", `"q"`}, {" ", " "}, {"", ""}, {"", "z"}}, rows)
	require.Equal(t, []int{1, 3, 5, 7, 8}, lines)
	rows, _, wrong = allRows(t, "\ufeff\"a\",b\n\ufeff\n\ufeffc,\"\n\ufeff\"\n", ',')
	require.Empty(t, wrong)
	require.Equal(t, [][]string{{"a", "b"}, {"c", "\n\ufeff"}}, rows)
	rows, _, _ = allRows(t, "a\tb\n\t\n", '\t')
	require.Equal(t, [][]string{{"a", "b"}, {"", ""}}, rows)
	rows, _, _ = allRows(t, "a→b,c\n", '→')
	require.Equal(t, [][]string{{"a", "b,c"}}, rows)
}

func TestRowReader_GoesOnBehindABadRow(t *testing.T) {
	rows, lines, wrong := allRows(t, "a,b\nx\"y,z\n\"x\"y,z\nc,d\n\"e,f\n", ',')
	require.Equal(t, [][]string{{"a", "b"}, {"c", "d"}}, rows)
	require.Equal(t, []int{1, 4}, lines)
	require.Equal(t, []string{`bare " in a cell without quotes`, `something follows a text in quotes: "y,z"`, "a quote is not closed"}, wrong)
}

// Any table is read, or its rows are refused; what was read is written and read as the same.
func FuzzRowReader(f *testing.F) {
	for _, seed := range []string{"a,b\n1,2\n", "\ufeff\"a\",b\n\ufeff\n\"\ufeff\"\n", "\"a\r\nb\",\"\"\"\"\r\n", "a;b,c\n\n,\n", "\"", "a\"b,c", "\"a\"b"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		rows, _, _ := allRows(t, string(text), ',')
		rows = slices.DeleteFunc(rows, func(row []string) bool { return strings.HasPrefix(row[0], markUTF8) }) // the writer does not quote it
		var out bytes.Buffer
		w := csv.NewWriter(&out)
		require.NoError(t, w.WriteAll(rows))
		again, _, wrong := allRows(t, out.String(), ',')
		require.Empty(t, wrong)
		var want [][]string
		for _, row := range rows { // a row of one empty cell is an empty line
			if len(row) > 1 || row[0] != "" {
				want = append(want, row)
			}
		}
		require.Equal(t, len(want), len(again))
		for i := range want {
			require.Equal(t, want[i], again[i])
		}
	})
}
