package chunks

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// What Load has read of a file does not count as memory of the process afterwards.
func TestLoad_WhatWasReadIsGivenBack(t *testing.T) {
	h, _, _ := openLoaded(t, fileutil.OS, headDir(t), HeadOptions{})
	const size, data = 8 << 20, 1000
	var batch []Full
	for i := range size / data {
		batch = append(batch, Full{Series: 1, MinT: int64(i), MaxT: int64(i), Encoding: chunkenc.EncXOR, Data: bytes.Repeat([]byte{0, 1, byte(i)}, data/3)})
	}
	refs := write(t, h, batch)
	require.NoError(t, h.Close())
	// How much is resident is the system's affair: it maps around a place that is read, and takes
	// away when memory is short. One look of several is enough: a loader that gives nothing back
	// has as much behind it as one that has just read all chunks, whenever one looks.
	var seen []string
	for range 10 {
		again, _, rep := openLoaded(t, fileutil.OS, h.w.out.dir, HeadOptions{})
		require.Equal(t, len(batch), rep.Chunks)
		path := again.table.mu.live[0].path
		loaded := residentBytes(t, path)
		requireChunks(t, again, refs, batch)
		read := residentBytes(t, path)
		require.NoError(t, again.Close())
		if read > size/2 && loaded < read/4 {
			return
		}
		seen = append(seen, fmt.Sprintf("%d of %d", loaded, read))
	}
	t.Fatalf("resident bytes behind a load, and when all of it is read again: %v", seen)
}

// residentBytes returns how much of a mapped file counts as memory of this process.
func residentBytes(t *testing.T, path string) int64 {
	text, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	found, mapped := int64(0), false
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) > 5:
			mapped = fields[5] == path
		case mapped && fields[0] == "Rss:":
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			require.NoError(t, err)
			found += kib << 10
		}
	}
	return found
}
