package remote

import "time"

// shardPace decides how many shards there are: more while the reader waits for them, fewer when it
// has not for long.
type shardPace struct {
	blocked time.Duration // for which the reader waited in the present window
	since   time.Time     // when that began
	calm    int           // windows without waiting
}

const (
	paceWindow  = 5 * time.Second
	calmWindows = 60
)

// shards returns how many there should be where there are n.
func (p *shardPace) shards(n, most int, now time.Time) int {
	if p.since.IsZero() {
		p.since = now
	}
	window := now.Sub(p.since)
	if window < paceWindow {
		return n
	}
	blocked := p.blocked
	p.blocked, p.since = 0, now
	if blocked > 0 {
		p.calm = 0
		if blocked > window/2 {
			return min(2*n, most)
		}
		return n
	}
	if p.calm++; p.calm >= calmWindows && n > 1 {
		p.calm = 0
		return n / 2
	}
	return n
}
