package remote

import (
	"net/http"
	"time"

	"github.com/pkg/errors"
)

// pacedPiece is how much is handed to the connection at a time, with a deadline each.
const pacedPiece = 256 << 10

// framesPiece is how many bytes of frames are handed over at least, from where they are built: with
// the frame that completes it a piece has 512 KiB, as a rule. The server writes each in two, 4 KiB
// with the head of an HTTP chunk and the rest, and either wakes the client: half of this takes
// more of the processor, twice as much no less (docs/bench/diary.md, remote read).
const framesPiece = 480 << 10

// pacedWriter writes the body of an answer. The status goes out with the first piece, so
// an error before that can still be answered as one.
type pacedWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration     // for a piece; 0 or less: none
	until   time.Time         // for the answer; zero: any time
	buf     []byte            // a piece, as far as Write has filled it
	header  map[string]string // of the answer, as long as it is not out
	broken  []byte            // what no client takes for the end of a whole answer
	out     bool              // the status is out
	err     error             // what ended writing
}

func newPacedWriter(w http.ResponseWriter, timeout time.Duration) *pacedWriter {
	return &pacedWriter{w: w, control: http.NewResponseController(w), timeout: timeout}
}

// Write implements io.Writer.
func (p *pacedWriter) Write(b []byte) (int, error) {
	if p.buf == nil {
		p.buf = make([]byte, 0, pacedPiece)
	}
	for rest := b; len(rest) > 0 && p.err == nil; {
		n := min(len(rest), cap(p.buf)-len(p.buf))
		p.buf = append(p.buf, rest[:n]...)
		rest = rest[n:]
		if len(p.buf) == cap(p.buf) {
			p.send(p.buf)
			p.buf = p.buf[:0]
		}
	}
	return len(b), p.err
}

// sendFrames sends whole frames without a copy of them, long ones in pieces of less than twice
// framesPiece. Nothing waits in the buffer: an answer in frames does not call Write, but to spoil
// it.
func (p *pacedWriter) sendFrames(b []byte) error {
	for len(b) > 0 && p.err == nil {
		n := len(b)
		if n >= 2*framesPiece {
			n = framesPiece
		}
		p.send(b[:n])
		b = b[n:]
	}
	return p.err
}

// finish writes what is left, and rest behind it. The deadline stays for what the server still
// has to write.
func (p *pacedWriter) finish(rest []byte) error {
	if p.err == nil && len(p.buf) > 0 {
		p.send(p.buf)
		p.buf = p.buf[:0]
	}
	if p.err == nil && (len(rest) > 0 || !p.out) {
		p.send(rest)
	}
	if p.err == nil {
		p.deadline()
	}
	return p.err
}

// spoil ends an answer that cannot be finished. Cutting the connection is enough, unless
// something between the handler and the client turns that into an ordinary end.
func (p *pacedWriter) spoil() {
	if len(p.broken) > 0 && p.err == nil {
		_, _ = p.Write(p.broken)
		_ = p.finish(nil)
	}
}

// send hands one piece to the connection. The deadline is lifted again, as it is not the
// client's fault when the next piece takes long to make.
func (p *pacedWriter) send(b []byte) {
	if !p.out {
		for name, value := range p.header {
			p.w.Header().Set(name, value)
		}
		p.out = true
	}
	p.deadline()
	if _, err := p.w.Write(b); err != nil {
		p.err = errors.Wrap(err, "write answer")
		return
	}
	if p.timeout > 0 {
		_ = p.control.SetWriteDeadline(p.until)
	}
}

// deadline gives the connection until then to accept what is written next. A writer that
// has no deadlines (a recorder, a wrapper without Unwrap) has none.
func (p *pacedWriter) deadline() {
	until := p.until
	if p.timeout > 0 {
		if piece := deadline(p.timeout); until.IsZero() || piece.Before(until) {
			until = piece
		}
	}
	if !until.IsZero() && p.control.SetWriteDeadline(until) != nil {
		p.timeout, p.until = 0, time.Time{}
	}
}

// deadline is a time for a connection, which knows no clock but the system's.
func deadline(timeout time.Duration) time.Time { return time.Now().Add(timeout) }
