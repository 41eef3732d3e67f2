package main

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
)

// What a bar costs and shows.
const (
	progressAfter = time.Second            // what is quicker than this needs no bar
	progressEvery = 100 * time.Millisecond // redrawn
	progressWidth = 24                     // columns of the bar itself
)

// progress shows how far a command is, on standard error and only on a terminal. The
// work says so through set and add, from any goroutine and at the cost of an atomic
// store; a goroutine of its own draws. A nil progress is one that shows nothing.
type progress struct {
	text        string
	bytes       bool // the numbers are bytes
	done, total atomic.Int64
	stop        chan struct{}
	drawn       sync.WaitGroup
}

// startProgress begins. The total may be 0 and set later; as long as it is 0, what is done
// is counted behind the text, which then says what is counted. Call finish.
func (c *console) startProgress(text string, total int64, bytes bool) *progress {
	if !c.errTerminal {
		return nil
	}
	p := &progress{text: text, bytes: bytes, stop: make(chan struct{})}
	p.total.Store(total)
	p.drawn.Add(1)
	go p.draw(c, progressAfter)
	return p
}

func (p *progress) add(n int64) {
	if p != nil {
		p.done.Add(n)
	}
}

func (p *progress) set(done, total int64) {
	if p != nil {
		p.total.Store(total)
		p.done.Store(done)
	}
}

// finish clears the line. It returns when nothing is drawn any more; a second call
// does nothing.
func (p *progress) finish() {
	if p == nil || p.stop == nil {
		return
	}
	close(p.stop)
	p.drawn.Wait()
	p.stop = nil
}

func (p *progress) draw(c *console, after time.Duration) {
	defer p.drawn.Done()
	wait := time.NewTimer(after)
	defer wait.Stop()
	select {
	case <-p.stop:
		return
	case <-wait.C:
	}
	bar := newBar(c, p.text, p.total.Load(), p.bytes)
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		switch total := p.total.Load(); {
		case total > 0 && total != bar.GetMax64():
			bar.ChangeMax64(total)
		case total <= 0 && !p.bytes:
			bar.Describe(p.text + " " + count(p.done.Load()))
		}
		// The last step is left out: a full bar would end its line.
		_ = bar.Set64(min(p.done.Load(), bar.GetMax64()-1))
		select {
		case <-p.stop:
			_ = bar.Clear()
			return
		case <-tick.C:
		}
	}
}

// newBar counts towards a total, or, with a total of 0 or less, towards none known
// yet.
func newBar(c *console, text string, total int64, bytes bool) *progressbar.ProgressBar {
	if total <= 0 {
		total = -1
	}
	return progressbar.NewOptions64(total, append(barLook(c),
		progressbar.OptionSetDescription(text),
		progressbar.OptionShowBytes(bytes),
		progressbar.OptionUseIECUnits(true),
		progressbar.OptionShowTotalBytes(true),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetElapsedTime(false),
	)...)
}

// barLook is the one look that bars have.
func barLook(c *console) []progressbar.Option {
	return []progressbar.Option{
		progressbar.OptionSetWriter(c.err),
		progressbar.OptionSetWidth(progressWidth),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetTheme(progressbar.Theme{
			Saucer: "━", SaucerHead: "╸", SaucerPadding: " ", BarStart: "▕", BarEnd: "▏",
		}),
	}
}
