package hostmetrics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/hostmetrics"
	"github.com/seed347100a3/tsdb/labels"
)

func TestHostMetrics_AreDocumentedAndValid(t *testing.T) {
	documented := map[string]string{}
	for _, m := range hostmetrics.Docs {
		documented[m.Name] = m.Labels
	}
	seen := map[string]bool{}
	h := hostmetrics.NewReader()
	h.Read(t.Context(), time.Now(), func(metric string, _ float64, pairs ...string) {
		var names []string
		all := []labels.Label{{Name: labels.MetricName, Value: metric}}
		for i := 0; i < len(pairs); i += 2 {
			names = append(names, pairs[i])
			all = append(all, labels.Label{Name: pairs[i], Value: pairs[i+1]})
		}
		ls := labels.New(all...)
		require.NoError(t, ls.Validate(), metric)
		require.False(t, seen[ls.String()], "%s comes twice", ls)
		seen[ls.String()] = true
		if strings.HasPrefix(metric, "go_") {
			require.Empty(t, names)
			return
		}
		want, ok := documented[metric]
		require.True(t, ok, "%s is not documented", metric)
		require.Equal(t, want, strings.Join(names, ","), metric)
	})
	kind, help := hostmetrics.About("host_cpu_seconds_total")
	require.Equal(t, []string{"counter", "time that a CPU spent in a mode"}, []string{kind, help})
	require.Greater(t, len(seen), 50)
	for _, name := range []string{`{__name__="go_gc_heap_live_bytes"}`, `{__name__="go_gc_heap_allocs_bytes_total"}`, `{__name__="host_memory_bytes", state="used"}`} {
		require.True(t, seen[name], "the demo shows %s", name)
	}
}
