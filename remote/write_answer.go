package remote

import (
	"fmt"
	"net/http"
	"sort"
	"strconv"
	"strings"

	"github.com/seed347100a3/tsdb/labels"
)

// itemKind is what a client is told the number of.
type itemKind uint8

const (
	itemSample itemKind = iota
	itemHistogram
	itemExemplar
	itemKinds
)

// writtenCounts are the items of a request that are in the database, those included that were
// there before.
type writtenCounts [itemKinds]int

// writtenHeaders are those of an answer to 2.0.
var writtenHeaders = [itemKinds]string{
	itemSample:    "X-Prometheus-Remote-Write-Samples-Written",
	itemHistogram: "X-Prometheus-Remote-Write-Histograms-Written",
	itemExemplar:  "X-Prometheus-Remote-Write-Exemplars-Written",
}

func (c *writtenCounts) tell(header http.Header) {
	for kind, name := range writtenHeaders {
		header.Set(name, strconv.Itoa(c[kind]))
	}
}

// place is a part of the content.
type place struct{ at, size uint32 }

// stagedRun is samples of one kind and one series that were appended one after the other.
type stagedRun struct {
	first  int // of them, among all that were
	number int // of the series
	series place
	kind   itemKind
}

// stagedItems are the samples that an Appender took, in their order.
type stagedItems struct {
	runs []stagedRun
	n    int
}

func (s *stagedItems) reset() { s.runs, s.n = s.runs[:0], 0 }

func (s *stagedItems) add(kind itemKind, number int, series place) {
	if last := len(s.runs) - 1; last < 0 || s.runs[last].number != number || s.runs[last].kind != kind {
		s.runs = append(s.runs, stagedRun{s.n, number, series, kind})
	}
	s.n++
}

// of returns the run that has sample i.
func (s *stagedItems) of(i int) stagedRun {
	return s.runs[sort.Search(len(s.runs), func(k int) bool { return s.runs[k].first > i })-1]
}

// Bounds of what a client is told. Senders show some hundred bytes of it.
const (
	maxRefusals   = 20  // that are told of, one a line
	maxReasonText = 300 // bytes
	maxSeriesText = 400 // bytes, about
	maxLabelText  = 100 // bytes of a name or a value
)

// refusals are the items that are not stored, of which the first ones are told of.
type refusals struct {
	n       int
	text    strings.Builder
	encoded []byte
}

func (r *refusals) reset() {
	r.n = 0
	r.text.Reset()
}

// add refuses an item of a series.
func (r *refusals) add(err error, of writeMessage, number int, series []byte) {
	if r.n++; r.n > maxRefusals {
		return
	}
	r.text.WriteString(cutText(err.Error(), maxReasonText))
	r.text.WriteString(" for series ")
	var broken error
	if r.encoded, broken = of.appendLabels(r.encoded[:0], series); broken == nil {
		var ls labels.Labels
		if ls, broken = labels.UnsafeFromEncoded(r.encoded); broken == nil {
			writeSeries(&r.text, ls)
		}
	}
	if broken != nil {
		fmt.Fprintf(&r.text, "%d of the request", number)
	}
	r.text.WriteByte('\n')
}

// message is the answer's body, but for the end of the last line.
func (r *refusals) message() string {
	if more := r.n - maxRefusals; more > 0 {
		return fmt.Sprintf("%sand %d more", r.text.String(), more)
	}
	return strings.TrimSuffix(r.text.String(), "\n")
}

// cutText shortens a text that may be of any length.
func cutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}

// writeSeries writes labels as a selector, as many as there is room for.
func writeSeries(b *strings.Builder, ls labels.Labels) {
	start, separator := b.Len(), ""
	b.WriteByte('{')
	for l := range ls.All() {
		b.WriteString(separator)
		separator = ", "
		if b.Len()-start > maxSeriesText {
			b.WriteString("...")
			break
		}
		if isIdentifier(l.Name) {
			b.WriteString(cutText(l.Name, maxLabelText))
		} else {
			b.WriteString(strconv.Quote(cutText(l.Name, maxLabelText)))
		}
		b.WriteByte('=')
		b.WriteString(strconv.Quote(cutText(l.Value, maxLabelText)))
	}
	b.WriteByte('}')
}

func isIdentifier(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return s != ""
}
