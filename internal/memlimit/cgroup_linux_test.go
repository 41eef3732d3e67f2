package memlimit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLowestLimit_OfBothVersionsAndAllGroupsAround(t *testing.T) {
	for name, tc := range map[string]struct {
		groups string
		files  map[string]string
		want   int64
	}{
		"no groups":           {"", nil, None},
		"version 2":           {"0::/a/b\n", map[string]string{"a/b/memory.max": "1000\n"}, 1000},
		"version 2, no limit": {"0::/a/b\n", map[string]string{"a/b/memory.max": "max\n", "memory.max": "max\n"}, None},
		"a group around it":   {"0::/a/b\n", map[string]string{"a/b/memory.max": "max\n", "a/memory.max": "500\n"}, 500},
		"the lowest":          {"0::/a\n", map[string]string{"a/memory.max": "700\n", "memory.max": "600\n"}, 600},
		"names from outside":  {"0::/docker/123\n", map[string]string{"memory.max": "400\n"}, 400},
		"version 1":           {"5:cpu:/x\n4:memory:/m\n", map[string]string{"memory/m/memory.limit_in_bytes": "300\n"}, 300},
		"version 1, no limit": {"4:memory:/m\n", map[string]string{"memory/m/memory.limit_in_bytes": "9223372036854771712\n"}, None},
		"not a number":        {"0::/a\n", map[string]string{"a/memory.max": "much\n"}, None},
		"another controller":  {"4:cpu:/m\n", map[string]string{"memory/m/memory.limit_in_bytes": "300\n"}, None},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range tc.files {
				path := filepath.Join(root, file)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			}
			require.Equal(t, tc.want, lowestLimit(tc.groups, root))
		})
	}
}
