// Package memlimit knows how much memory this process may have: by GOMEMLIMIT, or by the control
// group that it is in, as containers are. It is safe for concurrent use.
package memlimit

import (
	"math"
	"runtime/debug"
	"sync"
)

// None is the limit where there is none.
const None = math.MaxInt64

// reserve is which part of a control group's limit is left to what the runtime does not count: the
// program itself, what the kernel keeps for it, others in the group.
const reserve = 10

// Bytes returns how much memory the runtime may take: its own limit, or most of that of the control
// group. None: as much as there is.
func Bytes() int64 {
	if own := debug.SetMemoryLimit(-1); own < None {
		return own
	}
	return ofGroup(groupLimit())
}

func ofGroup(limit int64) int64 {
	if limit <= 0 || limit == None {
		return None
	}
	return limit - limit/reserve
}

// holds are those that keep the runtime within the limit of the control group.
var holds struct {
	sync.Mutex
	n   int
	set int64 // the limit that the first of them gave the runtime; 0: none
}

// Hold makes the runtime collect garbage as if GOMEMLIMIT were what the control group allows, until
// release is called: without, a heap may double before it is collected, and the process is killed
// for garbage. It does nothing where there is no group with a limit, or the program has a limit of
// its own.
func Hold() (release func()) { return hold(Bytes()) }

func hold(limit int64) (release func()) {
	holds.Lock()
	defer holds.Unlock()
	if holds.n++; holds.n == 1 && limit < None && debug.SetMemoryLimit(-1) == None {
		debug.SetMemoryLimit(limit)
		holds.set = limit
	}
	return sync.OnceFunc(func() {
		holds.Lock()
		defer holds.Unlock()
		if holds.n--; holds.n > 0 || holds.set == 0 {
			return
		}
		if debug.SetMemoryLimit(-1) == holds.set { // the program may have set one meanwhile
			debug.SetMemoryLimit(None)
		}
		holds.set = 0
	})
}

// Workers returns how many of n goroutines are to work if each needs some bytes: an eighth of the
// limit is theirs. It is never less than two, or n.
func Workers(n int, each, limit int64) int {
	const share, least = 8, 2
	if limit == None {
		return n
	}
	return int(min(int64(n), max(least, limit/share/each)))
}
