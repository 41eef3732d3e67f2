// Package hostmetrics reads numbers of the machine and of its processes, for programs that show a
// database at work. It knows systems, and nothing of a database.
package hostmetrics

import (
	"context"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/load"
	"github.com/shirou/gopsutil/v4/mem"
	"github.com/shirou/gopsutil/v4/net"
)

// Doc describes a metric.
type Doc struct{ Name, Labels, Help string }

// Docs lists what Reader reads. What a system does not tell is left out there.
var Docs = []Doc{
	{"host_cpu_seconds_total", "cpu,mode", "time that a CPU spent in a mode"},
	{"host_load_average", "window", "processes that run or want to"},
	{"host_memory_bytes", "state", "memory; total = used + available"},
	{"host_swap_bytes", "state", "swap space"},
	{"host_disk_bytes_total", "device,direction", "read and written"},
	{"host_disk_operations_total", "device,direction", "reads and writes"},
	{"host_disk_busy_seconds_total", "device", "time with I/O under way"},
	{"host_filesystem_bytes", "device,mountpoint,state", "space"},
	{"host_network_bytes_total", "interface,direction", "received and sent"},
	{"host_network_packets_total", "interface,direction", "received and sent"},
	{"host_network_errors_total", "interface,direction", "packets with errors"},
	{"host_network_drops_total", "interface,direction", "packets dropped"},
	{"host_processes", "state", "processes; total, running, blocked"},
	{"host_context_switches_total", "", "of all CPUs"},
	{"host_uptime_seconds", "", "since the machine started"},
	{"process_resident_bytes", "pid,command", "memory of the largest processes"},
	{"process_cpu_seconds_total", "pid,command", "CPU time of the busiest"},
	{"process_threads", "pid,command", "threads of both"},
	{"go_*", "", "the Go runtime's own, of this program"},
}

// About returns the kind of a metric, counter or gauge, and its help text, empty if there is none.
func About(metric string) (kind, help string) {
	kind = "gauge"
	if strings.HasSuffix(metric, "_total") {
		kind = "counter"
	}
	for _, d := range Docs {
		if d.Name == metric {
			return kind, d.Help
		}
	}
	return kind, ""
}

// Add takes one value: the name of the metric, labels as names and values.
type Add func(metric string, v float64, nameValuePairs ...string)

// slowly is how often what costs much is looked up: the lists of processes and file
// systems.
const slowly = 2 * time.Second

// Reader reads this machine. It is for one goroutine.
type Reader struct {
	runtime    runtimeMetrics
	processes  processMetrics
	partitions []disk.PartitionStat
	listed     time.Time // when partitions were
}

// NewReader returns a reader that has read nothing yet.
func NewReader() *Reader { return &Reader{runtime: newRuntimeMetrics()} }

// Read passes every metric to add, once. An error of the system means that it does
// not have a metric, or not for us: those are left out.
func (h *Reader) Read(ctx context.Context, now time.Time, add Add) {
	readCPU(ctx, add)
	readMemory(ctx, add)
	h.readDisks(ctx, now, add)
	readNetwork(ctx, add)
	readSystem(ctx, add)
	h.processes.read(ctx, now, add)
	h.runtime.read(add)
}

func readCPU(ctx context.Context, add Add) {
	times, err := cpu.TimesWithContext(ctx, true)
	if err != nil {
		return
	}
	for _, t := range times {
		name := strings.TrimPrefix(t.CPU, "cpu")
		for _, mode := range []struct {
			name    string
			seconds float64
		}{
			{"user", t.User}, {"system", t.System}, {"idle", t.Idle}, {"nice", t.Nice}, {"iowait", t.Iowait},
			{"irq", t.Irq}, {"softirq", t.Softirq}, {"steal", t.Steal},
		} {
			add("host_cpu_seconds_total", mode.seconds, "cpu", name, "mode", mode.name)
		}
	}
}

func readMemory(ctx context.Context, add Add) {
	if m, err := mem.VirtualMemoryWithContext(ctx); err == nil {
		add("host_memory_bytes", float64(m.Total), "state", "total")
		add("host_memory_bytes", float64(m.Available), "state", "available")
		add("host_memory_bytes", float64(m.Total-m.Available), "state", "used")
		add("host_memory_bytes", float64(m.Free), "state", "free")
		add("host_memory_bytes", float64(m.Cached), "state", "cached")
		add("host_memory_bytes", float64(m.Dirty), "state", "dirty")
	}
	if s, err := mem.SwapMemoryWithContext(ctx); err == nil {
		add("host_swap_bytes", float64(s.Total), "state", "total")
		add("host_swap_bytes", float64(s.Used), "state", "used")
	}
}

func (h *Reader) readDisks(ctx context.Context, now time.Time, add Add) {
	if disks, err := disk.IOCountersWithContext(ctx); err == nil {
		for name, d := range disks {
			add("host_disk_bytes_total", float64(d.ReadBytes), "device", name, "direction", "read")
			add("host_disk_bytes_total", float64(d.WriteBytes), "device", name, "direction", "write")
			add("host_disk_operations_total", float64(d.ReadCount), "device", name, "direction", "read")
			add("host_disk_operations_total", float64(d.WriteCount), "device", name, "direction", "write")
			add("host_disk_busy_seconds_total", float64(d.IoTime)/1000, "device", name)
		}
	}
	if now.Sub(h.listed) < slowly {
		return
	}
	h.listed = now
	// Only file systems of physical devices: one over a network may not answer.
	if partitions, err := disk.PartitionsWithContext(ctx, false); err == nil {
		h.partitions = partitions
	}
	for _, p := range h.partitions {
		u, err := disk.UsageWithContext(ctx, p.Mountpoint)
		if err != nil || u.Total == 0 {
			continue
		}
		add("host_filesystem_bytes", float64(u.Total), "device", p.Device, "mountpoint", p.Mountpoint, "state", "total")
		add("host_filesystem_bytes", float64(u.Used), "device", p.Device, "mountpoint", p.Mountpoint, "state", "used")
		add("host_filesystem_bytes", float64(u.Free), "device", p.Device, "mountpoint", p.Mountpoint, "state", "free")
	}
}

func readNetwork(ctx context.Context, add Add) {
	interfaces, err := net.IOCountersWithContext(ctx, true)
	if err != nil {
		return
	}
	for _, i := range interfaces {
		for _, m := range []struct {
			name     string
			in, sent uint64
		}{
			{"host_network_bytes_total", i.BytesRecv, i.BytesSent},
			{"host_network_packets_total", i.PacketsRecv, i.PacketsSent},
			{"host_network_errors_total", i.Errin, i.Errout},
			{"host_network_drops_total", i.Dropin, i.Dropout},
		} {
			add(m.name, float64(m.in), "interface", i.Name, "direction", "receive")
			add(m.name, float64(m.sent), "interface", i.Name, "direction", "transmit")
		}
	}
}

func readSystem(ctx context.Context, add Add) {
	if l, err := load.AvgWithContext(ctx); err == nil {
		add("host_load_average", l.Load1, "window", "1m")
		add("host_load_average", l.Load5, "window", "5m")
		add("host_load_average", l.Load15, "window", "15m")
	}
	if m, err := load.MiscWithContext(ctx); err == nil {
		add("host_processes", float64(m.ProcsTotal), "state", "total")
		add("host_processes", float64(m.ProcsRunning), "state", "running")
		add("host_processes", float64(m.ProcsBlocked), "state", "blocked")
		if m.Ctxt > 0 {
			add("host_context_switches_total", float64(m.Ctxt))
		}
	}
	if s, err := host.UptimeWithContext(ctx); err == nil {
		add("host_uptime_seconds", float64(s))
	}
}
