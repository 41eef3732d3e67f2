package labels_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/labels"
)

// target is a set of ordinary size: 10 labels, 180 bytes.
var target = labels.FromStrings(
	"__name__", "http_request_duration_seconds_bucket", "cluster", "eu-west-1", "code", "200", "handler", "/api/v1/query_range",
	"instance", "10.32.11.107:9090", "job", "prometheus", "le", "0.25", "method", "get", "namespace", "monitoring", "pod", "prometheus-k8s-0",
)

var (
	sinkString string
	sinkInt    int
	sinkUint   uint64
	sinkBool   bool
	sinkLabels labels.Labels
	sinkDst    []labels.Label
)

func TestHotPaths_AllocateNothing(t *testing.T) {
	other := labels.FromStrings(strings.Split(strings.Repeat("a,b,", 3), ",")[:6]...)
	same := labels.New(target.AppendTo(nil)...)
	prefix, set := mustRegexp(t, "prom.*"), mustRegexp(t, "a|b|c|d|e|f|g|h|i|j|k|l|m|n|o")
	var b labels.Builder
	b.Reset(target)
	sinkDst = target.AppendTo(sinkDst[:0])
	for name, f := range map[string]func(){
		"Get":       func() { sinkString = target.Get("pod") },
		"Len":       func() { sinkInt = target.Len() },
		"Hash":      func() { sinkUint = target.Hash() },
		"Equal":     func() { sinkBool = target.Equal(same) },
		"Compare":   func() { sinkInt = labels.Compare(target, other) },
		"Validate":  func() { sinkBool = target.Validate() == nil },
		"AppendTo":  func() { sinkDst = target.AppendTo(sinkDst[:0]) },
		"Matches":   func() { sinkBool = prefix.Matches("prometheus") && set.Matches("n") },
		"unchanged": func() { b.Reset(target); b.Set("pod", "x"); b.Set("pod", "prometheus-k8s-0"); sinkLabels = b.Labels() },
		"All": func() {
			for l := range target.All() {
				sinkInt += len(l.Value)
			}
		},
	} {
		require.Zero(t, testing.AllocsPerRun(100, f), name)
	}
	for name, f := range map[string]func(){
		"Builder":     func() { b.Reset(target); b.Set("pod", "x"); b.Set("zone", "a"); b.Del("job"); sinkLabels = b.Labels() },
		"New":         func() { sinkLabels = labels.New(sinkDst...) },
		"FromEncoded": func() { sinkLabels, _ = labels.FromEncoded([]byte("\x01a\x011\x01b\x012")) },
	} {
		require.LessOrEqual(t, testing.AllocsPerRun(100, f), 1.0, name)
	}
}

func BenchmarkHash(b *testing.B) {
	for b.Loop() {
		sinkUint = target.Hash()
	}
}

func BenchmarkGet(b *testing.B) {
	for name, label := range map[string]string{"first": "__name__", "middle": "job", "last": "pod", "absent": "kind", "absent last": "zone"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				sinkString = target.Get(label)
			}
		})
	}
}

func BenchmarkAll(b *testing.B) {
	b.Run("All", func(b *testing.B) {
		for b.Loop() {
			for l := range target.All() {
				sinkInt += len(l.Value)
			}
		}
	})
	b.Run("Decode", func(b *testing.B) {
		for b.Loop() {
			var value string
			for pos := 0; pos < target.SizeBytes(); {
				_, value, pos = target.Decode(pos)
				sinkInt += len(value)
			}
		}
	})
}

func BenchmarkEqual(b *testing.B) {
	same := labels.New(target.AppendTo(nil)...)
	for b.Loop() {
		sinkBool = target.Equal(same)
	}
}

func BenchmarkCompare(b *testing.B) {
	var builder labels.Builder
	builder.Reset(target)
	builder.Set("pod", "prometheus-k8s-1")
	other := builder.Labels()
	for b.Loop() {
		sinkInt = labels.Compare(target, other)
	}
}

func BenchmarkNew(b *testing.B) {
	ls := target.AppendTo(nil)
	b.ReportAllocs()
	for b.Loop() {
		sinkLabels = labels.New(ls...)
	}
}

func BenchmarkBuilder(b *testing.B) {
	var builder labels.Builder
	b.ReportAllocs()
	for b.Loop() {
		builder.Reset(target)
		builder.Set("pod", "prometheus-k8s-1")
		sinkLabels = builder.Labels()
	}
}

func BenchmarkMatches(b *testing.B) {
	const value = "prometheus-k8s-0.monitoring"
	set := func(n int) string { // n-1 neighbours of the value, then itself
		expr := ""
		for i := range n - 1 {
			expr += strings.Replace(value, "0.", string(rune('A'+i))+"[.]", 1) + "|"
		}
		return expr + "prometheus-k8s-0[.]monitoring"
	}
	for name, expr := range map[string]string{
		"literal": "prometheus-k8s-0[.]monitoring", "prefix": "prometheus-.*", "suffix": ".*monitoring", "contains": ".*k8s.*",
		"set of 4": set(4), "set of 8": set(8), "set of 12": set(12), "set of 16": set(16), "set of 50": set(50), "fold": "(?i)PROMETHEUS-K8S-0[.]MONITORING", "any": ".+",
		"regexp": "prometheus-k8s-[0-9]+[.]monitoring", "regexp refused by prefix": "loki-[0-9]+",
	} {
		m := mustRegexp(b, expr)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				sinkBool = m.Matches(value)
			}
		})
	}
}

func BenchmarkFromEncoded(b *testing.B) {
	encoded := target.AppendEncoded(nil)
	for name, decode := range map[string]func([]byte) (labels.Labels, error){"copy": labels.FromEncoded, "unsafe": labels.UnsafeFromEncoded} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				sinkLabels, _ = decode(encoded)
			}
		})
	}
}
