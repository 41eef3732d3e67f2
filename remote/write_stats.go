package remote

import (
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/labels"
)

// ReceiverStats are counters of a WriteHandler or an OTLPHandler since it was made, taken one after
// the other. The items of a request that failed as a whole do not count: they come again, or nobody
// knows them. docs/design/remote-write.md lists kinds and reasons.
type ReceiverStats struct {
	Protocol string         // "remote_write" or "otlp"
	Requests map[int]uint64 // that were answered, by status
	// Written are the items that are in the database, by kind, those included that were there
	// before they came.
	Written map[string]uint64
	// Refused are those that are not: refused, or left out without a word. What is to be expected
	// is there while it is 0, too.
	Refused map[Refusal]uint64
}

// Refusal is a kind of items, and why they are not stored.
type Refusal struct{ Kind, Reason string }

var kindNames = [countedKinds]string{
	itemSample: "sample", itemHistogram: "histogram", itemExemplar: "exemplar",
	itemMetadata: "metadata", itemSeries: "series", itemPoint: "point",
}

// refusalReason is why an item is not stored.
type refusalReason uint8

const (
	reasonOrder     refusalReason = iota // its series has a newer one
	reasonOld                            // behind the window for late samples
	reasonBounds                         // older than is taken at all
	reasonFuture                         // ahead of the clock
	reasonDuplicate                      // its series has another value at this time
	reasonLabels                         // they are not well formed
	reasonInvalid                        // nor is what it says
	reasonLimit                          // it is too large, or there are too many
	reasonOff                            // its kind is turned off
	reasonEmpty                          // the series has nothing
	reasonSample                         // all samples beside the exemplar were refused
	refusalReasons
)

var reasonNames = [refusalReasons]string{
	reasonOrder: "out_of_order", reasonOld: "too_old", reasonBounds: "out_of_bounds", reasonFuture: "future",
	reasonDuplicate: "duplicate", reasonLabels: "invalid_labels", reasonInvalid: "invalid",
	reasonLimit: "limit", reasonOff: "off", reasonEmpty: "empty", reasonSample: "sample_refused",
}

// reasonOf is why an error refuses an item. What has no other reason makes no sense.
func reasonOf(err error) refusalReason {
	var bounds *tsdb.BoundsError
	switch {
	case isAny(err, tsdb.ErrOutOfOrder, errDeltaOrder):
		return reasonOrder
	case isAny(err, tsdb.ErrDuplicateSample, errDeltaTwice):
		return reasonDuplicate
	case errors.Is(err, tsdb.ErrTooOld):
		return reasonOld
	case errors.Is(err, errFuture), errors.As(err, &bounds) && bounds.T > bounds.To:
		return reasonFuture
	case errors.Is(err, tsdb.ErrOutOfBounds):
		return reasonBounds
	case isAny(err, errNoHistograms, tsdb.ErrHistogramsOff, tsdb.ErrExemplarsOff, errDelta):
		return reasonOff
	case isAny(err, tsdb.ErrLimit, errSeriesLimit, exemplar.ErrLabelLength, histogram.ErrTooManyBuckets, errDeltaSeries, errPointSize, errValueDepth):
		return reasonLimit
	case isAny(err, tsdb.ErrInvalidLabels, labels.ErrEncoding, errNoMetricName, errReference, errOddLabels, errMalformed):
		return reasonLabels
	case errors.Is(err, errNoSamples):
		return reasonEmpty
	default:
		return reasonInvalid
	}
}

// receiverProtocol is what is known of a protocol beforehand.
type receiverProtocol struct {
	name    string // in ReceiverStats
	shown   string // in the log
	success int    // the status of what is stored
	written []itemKind
	expects [countedKinds][]refusalReason // why items may not be stored
}

var (
	// timeReasons are those that are about the time of a sample.
	timeReasons = []refusalReason{reasonOrder, reasonOld, reasonBounds, reasonFuture, reasonDuplicate}

	writeProtocol = receiverProtocol{
		name: "remote_write", shown: "remote write", success: http.StatusNoContent,
		written: []itemKind{itemSample, itemHistogram, itemExemplar},
		expects: [countedKinds][]refusalReason{
			itemSample:    append([]refusalReason{reasonLabels, reasonLimit}, timeReasons...),
			itemHistogram: append([]refusalReason{reasonLabels, reasonLimit, reasonInvalid, reasonOff}, timeReasons...),
			itemExemplar:  {reasonLabels, reasonLimit, reasonFuture, reasonOff, reasonSample},
			itemMetadata:  {reasonLimit, reasonInvalid, reasonOff},
			itemSeries:    {reasonLabels, reasonLimit, reasonEmpty},
		},
	}
	otlpProtocol = receiverProtocol{
		name: "otlp", shown: "OTLP", success: http.StatusOK,
		written: []itemKind{itemPoint, itemExemplar},
		expects: [countedKinds][]refusalReason{
			itemPoint:    append([]refusalReason{reasonLabels, reasonLimit, reasonInvalid, reasonOff}, timeReasons...),
			itemExemplar: {reasonLimit, reasonFuture, reasonOff},
			itemMetadata: {reasonLimit, reasonInvalid, reasonOff},
			itemSeries:   {reasonLabels, reasonLimit},
		},
	}
)

// refusingStatuses are all that requests are refused with.
var refusingStatuses = [...]int{
	http.StatusBadRequest, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge,
	http.StatusUnsupportedMediaType, http.StatusInternalServerError, http.StatusServiceUnavailable,
}

// receiverCounters are those of a handler.
type receiverCounters struct {
	taken   atomic.Uint64 // requests
	refusal [len(refusingStatuses)]atomic.Uint64
	written [countedKinds]atomic.Uint64
	refused [countedKinds][refusalReasons]atomic.Uint64
}

// answered counts a request.
func (c *receiverCounters) answered(status int) {
	if i := slices.Index(refusingStatuses[:], status); i >= 0 {
		c.refusal[i].Add(1)
	} else {
		c.taken.Add(1)
	}
}

// settled counts what became of the items of a request.
func (c *receiverCounters) settled(written []int, refused *refusals) {
	for kind, n := range written {
		c.written[kind].Add(uint64(n))
	}
	for kind := range refused.counts {
		for why, n := range refused.counts[kind] {
			if n > 0 {
				c.refused[kind][why].Add(uint64(n))
			}
		}
	}
}

func (c *receiverCounters) stats(p *receiverProtocol) ReceiverStats {
	s := ReceiverStats{Protocol: p.name, Requests: map[int]uint64{p.success: c.taken.Load()}, Written: map[string]uint64{}, Refused: map[Refusal]uint64{}}
	for i, status := range refusingStatuses {
		s.Requests[status] = c.refusal[i].Load()
	}
	for _, kind := range p.written {
		s.Written[kindNames[kind]] = c.written[kind].Load()
	}
	for kind := range c.refused {
		for why := range c.refused[kind] {
			n := c.refused[kind][why].Load()
			if n > 0 || slices.Contains(p.expects[kind], refusalReason(why)) {
				s.Refused[Refusal{kindNames[kind], reasonNames[why]}] = n
			}
		}
	}
	return s
}
