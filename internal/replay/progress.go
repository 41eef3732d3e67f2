package replay

import (
	"log/slog"
	"time"
)

// Progress is told this often at most.
const (
	progressEvery    = 200 * time.Millisecond // to the callback
	progressLogEvery = 5 * time.Second
)

// progress thins the progress of a replay out for a callback and a logger.
type progress struct {
	report        func(done, total int64) // may be nil
	logger        *slog.Logger
	begun         time.Time
	shown, logged time.Duration // when report and logger were called last
	total         int64
}

func newProgress(report func(done, total int64), logger *slog.Logger) *progress {
	p := &progress{report: report, logger: logger, shown: -progressEvery}
	p.begun = time.Now()
	return p
}

func (p *progress) tell(done, total int64) {
	elapsed := time.Since(p.begun)
	p.total = total
	if p.report != nil && done < total && elapsed-p.shown >= progressEvery {
		p.shown = elapsed
		p.report(done, total)
	}
	if elapsed-p.logged >= progressLogEvery {
		p.logged = elapsed
		p.logger.Info("replaying log", "done_bytes", done, "total_bytes", total, "elapsed", elapsed)
	}
}

// end tells that all is done: also when there is no log, or it ended early.
func (p *progress) end() {
	if p.report != nil {
		p.report(p.total, p.total)
	}
}
