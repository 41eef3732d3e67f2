package remote

import (
	"encoding/binary"
	"net/http"
	"strings"
	"sync"

	"github.com/golang/snappy"
)

// strictReceiver takes requests of 1.0 and 2.0 as the strictest receiver does: one with a sample
// that is not newer than its series is refused as a whole.
type strictReceiver struct {
	mu       sync.Mutex
	newest   map[string]int64
	taken    map[string]int
	away     bool
	mixed    int // refused requests that had something new
	requests [2]int
}

// strictItem is a sample of a series, which is the values of its labels, each with a | behind it.
type strictItem struct {
	series string
	t      int64
}

func (s *strictReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	message, err := snappy.Decode(nil, contentOf(r))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	version, items := writeV1, []strictItem(nil)
	if strings.Contains(r.Header.Get("Content-Type"), writeNameV2) {
		version, items = writeV2, itemsOfV2(message)
	} else {
		items = itemsOfV1(message)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		http.Error(w, "away", http.StatusServiceUnavailable)
		return
	}
	s.requests[version]++
	var written writtenCounts
	if s.takeLocked(items) {
		written[itemSample] = len(items)
	}
	if version == writeV2 {
		written.tell(w.Header())
	}
	if written[itemSample] < len(items) {
		http.Error(w, "out of order sample", http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// takeLocked takes all items, or none.
func (s *strictReceiver) takeLocked(items []strictItem) bool {
	old, newest := 0, map[string]int64{}
	for _, it := range items {
		last, seen := newest[it.series]
		if !seen {
			last = s.newest[it.series]
		}
		if it.t <= last {
			old++
		} else {
			newest[it.series] = it.t
		}
	}
	if old > 0 {
		if old < len(items) {
			s.mixed++
		}
		return false
	}
	for _, it := range items {
		s.newest[it.series] = it.t
		s.taken[it.series]++
	}
	return true
}

func itemsOfV1(message []byte) (items []strictItem) {
	for all := readFields(message); all.next(); {
		if all.num != 1 {
			continue
		}
		var series string
		for one := readFields(all.bytes()); one.next(); {
			switch one.num {
			case 1:
				_, value, _ := readPair(one.bytes())
				series += string(value) + "|"
			case 2:
				items = append(items, strictItem{series, timeOf(one.bytes())})
			}
		}
	}
	return items
}

func itemsOfV2(message []byte) (items []strictItem) {
	var symbols []string
	for all := readFields(message); all.next(); {
		switch all.num {
		case 4:
			symbols = append(symbols, string(all.bytes()))
		case 5:
			var series string
			for one := readFields(all.bytes()); one.next(); {
				switch one.num {
				case 1:
					series = valuesOf(one.bytes(), symbols)
				case 2:
					items = append(items, strictItem{series, timeOf(one.bytes())})
				}
			}
		}
	}
	return items
}

// valuesOf are those of labels that are given by numbers of symbols, names and values in turn.
func valuesOf(refs []byte, symbols []string) (series string) {
	for isValue := false; len(refs) > 0; isValue = !isValue {
		ref, n := binary.Uvarint(refs)
		if refs = refs[n:]; isValue {
			series += symbols[ref] + "|"
		}
	}
	return series
}

// timeOf is that of a Sample message.
func timeOf(message []byte) (t int64) {
	for f := readFields(message); f.next(); {
		if f.num == 2 {
			t = int64(f.varint())
		}
	}
	return t
}

func contentOf(r *http.Request) []byte {
	var b strings.Builder
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Body.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			return []byte(b.String())
		}
	}
}
