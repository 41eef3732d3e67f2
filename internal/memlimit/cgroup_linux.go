package memlimit

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	groupsFile = "/proc/self/cgroup"
	groupsRoot = "/sys/fs/cgroup"
)

// groupLimit returns the lowest limit of the control groups that this process is in, None if there
// is none or it cannot be read.
func groupLimit() int64 {
	groups, err := os.ReadFile(groupsFile)
	if err != nil {
		return None
	}
	return lowestLimit(string(groups), groupsRoot)
}

// lowestLimit reads limits of the groups that /proc/self/cgroup names, and of those around them,
// for both versions of control groups. In a container the names may be those of outside: then the
// root is the container's own group.
func lowestLimit(groups, root string) int64 {
	lowest := int64(None)
	for line := range strings.Lines(groups) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		kind, path, ok := strings.Cut(rest, ":")
		if !ok {
			continue
		}
		base, file := "", ""
		switch {
		case id == "0" && kind == "":
			base, file = root, "memory.max"
		case kind == "memory":
			base, file = filepath.Join(root, "memory"), "memory.limit_in_bytes"
		default:
			continue
		}
		for path = filepath.Clean("/" + path); ; path = filepath.Dir(path) {
			lowest = min(lowest, readLimit(filepath.Join(base, path, file)))
			if path == "/" {
				break
			}
		}
	}
	return lowest
}

// readLimit reads one limit. "max", and numbers that no machine has, are none.
func readLimit(name string) int64 {
	const absurd = 1 << 60
	text, err := os.ReadFile(name)
	if err != nil {
		return None
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n <= 0 || n >= absurd {
		return None
	}
	return n
}
