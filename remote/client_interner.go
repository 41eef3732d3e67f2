package remote

import "github.com/seed347100a3/tsdb/labels"

// interner gives equal strings the same memory: most names and many values of the labels
// of an answer come again and again. The zero value is ready.
type interner struct {
	known map[string]string
	bytes int
}

// maxInterned is what an interner keeps, in bytes of strings and of what the map needs for
// each, before it starts anew.
const (
	maxInterned   = 64 << 10
	internedExtra = 48
)

func (in *interner) string(b []byte) string {
	if s, ok := in.known[string(b)]; ok {
		return s
	}
	if in.known == nil || in.bytes+len(b)+internedExtra > maxInterned {
		in.known, in.bytes = make(map[string]string), 0
	}
	s := string(b)
	in.known[s] = s
	in.bytes += len(s) + internedExtra
	return s
}

// label decodes a Label message.
func (in *interner) label(message []byte) (l labels.Label, err error) {
	r := readFields(message)
	for r.next() {
		switch r.num {
		case 1:
			l.Name = in.string(r.bytes())
		case 2:
			l.Value = in.string(r.bytes())
		}
	}
	return l, r.err
}
