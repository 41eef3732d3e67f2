package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	stderrors "errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/schollz/progressbar/v3"
)

// recording is what the parent knows of the recorder's life.
type recording struct {
	PID     int           `json:"pid"`
	Seconds float64       `json:"seconds"`
	Scrapes int           `json:"scrapes"` // acknowledged
	Samples int           `json:"samples"` // in them
	Series  int           `json:"series"`
	Killed  bool          `json:"killed"`
	Found   recorderHello `json:"found"` // in the directory, before
	acks    []scrapeAck
}

// unacknowledged is how much later than the last acknowledged scrape one may be that
// the recorder committed and did not live to acknowledge, in milliseconds.
const unacknowledged = 60_000

// maxT is the newest time that the recording can have.
func (r *recording) maxT() int64 { return r.acks[len(r.acks)-1].T + unacknowledged }

// record starts the recorder, lets it work, and kills it.
func (d *demoCommand) record(ctx context.Context, c *console) (*recording, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, errors.Wrap(err, "find this program")
	}
	var complaint bytes.Buffer
	child := &exec.Cmd{
		Path:   exe,
		Args:   []string{os.Args[0], "demo-record", d.dir, "--interval", d.interval.String()},
		Stderr: &complaint,
	}
	lines, err := child.StdoutPipe()
	if err != nil {
		return nil, errors.Wrap(err, "make a pipe")
	}
	if err := child.Start(); err != nil {
		return nil, errors.Wrap(err, "start recorder")
	}
	r := &recording{PID: child.Process.Pid}
	err = d.follow(ctx, c, r, child.Process, lines)
	ended := child.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !r.Killed: // it ended by itself, which only an error makes it do
		return nil, stderrors.Join(recorderError(complaint.String(), ended), err)
	case err != nil:
		return nil, err
	default:
		return r, nil
	}
}

// recorderError is what the recorder said before it ended.
func recorderError(complaint string, ended error) error {
	complaint = strings.TrimSpace(complaint)
	complaint = strings.TrimPrefix(complaint, "tsdbutil: error: ")
	if complaint == "" {
		return errors.Errorf("the recorder ended: %v", ended)
	}
	return errors.New("record: " + complaint)
}

// follow reads the recorder's lines until its time is over, kills it, and reads what
// is still in the pipe: the recorder had said that before it died. Time begins with
// the first scrape, as recovery of a large directory may take its own.
func (d *demoCommand) follow(ctx context.Context, c *console, r *recording, child *os.Process, lines io.Reader) error {
	acks := make(chan scrapeAck)
	read := make(chan error, 1)
	go func() {
		read <- readAcks(lines, &r.Found, acks)
		close(acks)
	}()
	var begin time.Time
	var over <-chan time.Time
	redraw := time.NewTicker(progressEvery)
	defer redraw.Stop()
	bar := newRecordingBar(c, d.duration)
	defer bar.clear()
	done := ctx.Done()
	for {
		select {
		case ack, ok := <-acks:
			if !ok {
				return <-read
			}
			if over == nil {
				begin, over = time.Now(), time.After(d.duration)
			}
			r.acks = append(r.acks, ack)
			r.Scrapes, r.Samples, r.Series = len(r.acks), r.Samples+ack.Samples, ack.Series
		case <-over:
			r.Seconds = time.Since(begin).Seconds()
			r.Killed = child.Kill() == nil
		case <-done:
			done = nil
			_ = child.Kill() // it may be dead already
		case <-redraw.C:
			if over != nil {
				bar.draw(time.Since(begin), r)
			}
		}
	}
}

// maxAckLine bounds a line of the recorder, in bytes.
const maxAckLine = 1 << 12

// readAcks passes the lines of the recorder on. A line that the kill cut short is no
// acknowledgement.
func readAcks(lines io.Reader, hello *recorderHello, acks chan<- scrapeAck) error {
	scanner := bufio.NewScanner(lines)
	scanner.Buffer(nil, maxAckLine)
	scanner.Split(wholeLines)
	for n := 0; scanner.Scan(); n++ {
		if n == 0 {
			if err := json.Unmarshal(scanner.Bytes(), hello); err != nil {
				return errors.Wrap(err, "read what the recorder said")
			}
			continue
		}
		var ack scrapeAck
		if err := json.Unmarshal(scanner.Bytes(), &ack); err != nil {
			return errors.Wrap(err, "read what the recorder said")
		}
		acks <- ack
	}
	return errors.Wrap(scanner.Err(), "read what the recorder said")
}

// wholeLines is bufio.ScanLines without a last line that has no end.
func wholeLines(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF {
		return len(data), nil, nil
	}
	return 0, nil, nil
}

// recordingBar shows how much of the time has passed. It is nil off a terminal.
type recordingBar struct {
	bar   *progressbar.ProgressBar
	total time.Duration
}

func newRecordingBar(c *console, total time.Duration) *recordingBar {
	if !c.errTerminal {
		return nil
	}
	bar := progressbar.NewOptions64(total.Milliseconds(), append(barLook(c),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false))...)
	return &recordingBar{bar: bar, total: total}
}

func (b *recordingBar) draw(passed time.Duration, r *recording) {
	if b == nil {
		return
	}
	left := max(b.total-passed, 0)
	b.bar.Describe(fmt.Sprintf("Recording, %2.0f s left, %s scrapes, %s samples", left.Seconds(), count(r.Scrapes), count(r.Samples)))
	_ = b.bar.Set64(min(passed, b.total-time.Millisecond).Milliseconds())
}

func (b *recordingBar) clear() {
	if b != nil {
		_ = b.bar.Clear()
	}
}
