package hostmetrics

import (
	"cmp"
	"context"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/process"
)

// topProcesses is how many processes are recorded by memory, and as many by CPU time.
const topProcesses = 6

// processMetrics reads the processes that use most. Which they are is looked up now
// and then, as it means asking all of them.
type processMetrics struct {
	top    []watchedProcess
	listed time.Time
}

type watchedProcess struct {
	*process.Process
	command       string
	resident, cpu float64
}

func (m *processMetrics) read(ctx context.Context, now time.Time, add Add) {
	if now.Sub(m.listed) >= slowly {
		m.listed = now
		m.list(ctx)
	}
	for i := range m.top {
		p := &m.top[i]
		if !p.measure(ctx) {
			continue // it is gone
		}
		pid := strconv.Itoa(int(p.Pid))
		add("process_resident_bytes", p.resident, "pid", pid, "command", p.command)
		add("process_cpu_seconds_total", p.cpu, "pid", pid, "command", p.command)
		if n, err := p.NumThreadsWithContext(ctx); err == nil {
			add("process_threads", float64(n), "pid", pid, "command", p.command)
		}
	}
}

// measure asks a process what it uses; false if it does not tell.
func (p *watchedProcess) measure(ctx context.Context) bool {
	t, err := p.TimesWithContext(ctx)
	if err != nil {
		return false
	}
	m, err := p.MemoryInfoWithContext(ctx)
	if err != nil {
		return false
	}
	p.cpu, p.resident = t.User+t.System, float64(m.RSS)
	return true
}

// list finds the processes that use most memory and most CPU time.
func (m *processMetrics) list(ctx context.Context) {
	all, err := process.ProcessesWithContext(ctx)
	if err != nil {
		return
	}
	known := make(map[int32]string, len(m.top))
	for _, p := range m.top {
		known[p.Pid] = p.command
	}
	candidates := make([]watchedProcess, 0, len(all))
	for _, p := range all {
		c := watchedProcess{Process: p}
		if c.measure(ctx) && c.resident > 0 {
			candidates = append(candidates, c)
		}
	}
	n := min(topProcesses, len(candidates))
	m.top = m.top[:0]
	slices.SortFunc(candidates, func(a, b watchedProcess) int { return cmp.Compare(b.resident, a.resident) })
	m.top = append(m.top, candidates[:n]...)
	slices.SortFunc(candidates, func(a, b watchedProcess) int { return cmp.Compare(b.cpu, a.cpu) })
	for _, c := range candidates[:n] {
		if !slices.ContainsFunc(m.top, func(p watchedProcess) bool { return p.Pid == c.Pid }) {
			m.top = append(m.top, c)
		}
	}
	for i := range m.top {
		p := &m.top[i]
		if p.command = known[p.Pid]; p.command == "" {
			p.command = commandName(ctx, p.Process)
		}
	}
}

// commandName is never empty and always UTF-8.
func commandName(ctx context.Context, p *process.Process) string {
	name, err := p.NameWithContext(ctx)
	if err != nil || name == "" {
		return "unknown"
	}
	return strings.ToValidUTF8(name, "?")
}

// runtimeMetrics reads the metrics of package runtime/metrics that are single
// numbers.
type runtimeMetrics struct {
	samples []metrics.Sample
	names   []string
}

func newRuntimeMetrics() runtimeMetrics {
	var r runtimeMetrics
	for _, d := range metrics.All() {
		// Settings of GODEBUG that nobody uses count nothing.
		if d.Kind == metrics.KindFloat64Histogram || strings.HasPrefix(d.Name, "/godebug/") {
			continue
		}
		r.samples = append(r.samples, metrics.Sample{Name: d.Name})
		r.names = append(r.names, runtimeMetricName(d))
	}
	return r
}

func (r *runtimeMetrics) read(add Add) {
	metrics.Read(r.samples)
	for i := range r.samples {
		switch v := r.samples[i].Value; v.Kind() {
		case metrics.KindUint64:
			add(r.names[i], float64(v.Uint64()))
		case metrics.KindFloat64:
			add(r.names[i], v.Float64())
		}
	}
}

// runtimeMetricName turns /gc/heap/allocs:bytes into go_gc_heap_allocs_bytes_total.
func runtimeMetricName(d metrics.Description) string {
	name := "go" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, d.Name)
	if d.Cumulative {
		name += "_total"
	}
	return name
}
