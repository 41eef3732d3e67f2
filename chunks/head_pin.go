package chunks

// Pin keeps every file that was there when it was acquired readable, also if it is
// truncated or HeadFiles is closed. Holders share Pin values; each Acquire needs
// exactly one Release.
//
// TruncateBefore ends the newest pin's time and hangs what it removed on it. Since a
// later holder may still find a removed file through an earlier one's chunk list,
// files are let go in the order of the pins only.
type Pin struct {
	t       *headTable
	holders int         // guarded by t.mu, as is all below
	retired []*headFile // removed during its time
	next    *Pin
}

// Release gives one Acquire back. An error of unmapping a file that nobody
// reads any more is all that it can return.
func (p *Pin) Release() error {
	t := p.t
	t.mu.Lock()
	if p.holders == 0 {
		t.mu.Unlock()
		panic("BUG: pin of head chunk files released twice")
	}
	p.holders--
	unused := t.takeUnusedLocked()
	t.mu.Unlock()
	return releaseAll(unused)
}
