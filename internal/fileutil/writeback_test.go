package fileutil_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

func TestWriteBehind_BeginsWholePagesOnce(t *testing.T) {
	var w fileutil.WriteBehind
	f := &faultfs.AdvisedFile{}
	for _, end := range []int64{1, 9999, 10_000, 16_383, 20_000, 20_001, 1 << 20} {
		w.Grown(f, end, 10_000)
	}
	require.Equal(t, [][2]int64{{0, 12_288}, {12_288, 1<<20 - 12_288}}, f.Begun)
}
