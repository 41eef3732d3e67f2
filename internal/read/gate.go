package read

import "sync"

// Gate keeps files from going away while they are read. Any number of readers hold it, each for one
// step and not for an iteration, so who closes it waits for a moment. The zero value is open.
type Gate struct {
	use    sync.RWMutex
	closed bool // guarded by use
}

// begin reports whether the gate is open, and keeps it so until end.
func (g *Gate) begin() bool {
	g.use.RLock()
	if g.closed {
		g.use.RUnlock()
		return false
	}
	return true
}

func (g *Gate) end() { g.use.RUnlock() }

// IsOpen reports whether nobody has closed the gate.
func (g *Gate) IsOpen() bool {
	open := g.begin()
	if open {
		g.end()
	}
	return open
}

// Close reports whether the gate was open. When it returns nobody reads any more.
func (g *Gate) Close() (was bool) {
	g.use.Lock()
	defer g.use.Unlock()
	was = !g.closed
	g.closed = true
	return was
}
