package remote

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/seed347100a3/tsdb/labels"
)

// itemKind is what is counted.
type itemKind uint8

// What a client is told the number of.
const (
	itemSample itemKind = iota
	itemHistogram
	itemExemplar
	itemKinds
)

// What ReceiverStats count beside.
const (
	itemMetadata = itemKinds + iota
	itemSeries   // with all that it has
	itemPoint    // of OTLP
	countedKinds
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
	counts  [countedKinds][refusalReasons]int // also of what is left out and not told
}

func (r *refusals) reset() {
	r.n = 0
	r.text.Reset()
	r.counts = [countedKinds][refusalReasons]int{}
}

// count counts an item that is not stored.
func (r *refusals) count(kind itemKind, why refusalReason) { r.counts[kind][why]++ }

// line begins to tell of a refusal, unless enough were told of.
func (r *refusals) line(err error) bool {
	if r.n++; r.n > maxRefusals {
		return false
	}
	r.text.WriteString(cutText(err.Error(), maxReasonText))
	return true
}

// add refuses an item of a series.
func (r *refusals) add(err error, of writeMessage, number int, series []byte) {
	if !r.line(err) {
		return
	}
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

// message is the answer's body, but for the end of the last line; empty if nothing was refused.
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
