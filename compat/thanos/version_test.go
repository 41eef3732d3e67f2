package thanos

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page says which Thanos the tests run.
func TestPage_NamesTheVersion(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join("testdata", "thanos", "go.mod"))
	require.NoError(t, err)
	pinned := regexp.MustCompile(`github\.com/thanos-io/thanos (v[0-9.]+)`).FindSubmatch(mod)
	require.NotNil(t, pinned)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "thanos.md"))
	require.NoError(t, err)
	require.Contains(t, string(page), "Thanos "+string(pinned[1]))
}
