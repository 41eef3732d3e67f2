package tsdb_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/waytest"
)

// A block of the head is given up wherever the context ends: while series are looked for, while
// symbols and series are sorted, and while they are written.
func TestWriteBlock_EndsWithItsContext(t *testing.T) {
	f := newFixture(t, manual)
	base := testNow.UnixMilli()
	var rows []sample
	for i := range 6000 {
		rows = append(rows, sample{fmt.Sprintf(`{i="%d",j="%d"}`, i*7919%6000, i%7), base, 1})
	}
	f.commit(rows...)
	ends := 0
	for ; ; ends += fewer(5, 40) {
		err := tsdb.WriteHeadBlock(&waytest.EndingContext{Context: ctx, Left: ends}, f.db, base)
		if err == nil {
			break
		}
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Greater(t, ends, 400, "looks at the context, one in 16 series that are written among them")
}
