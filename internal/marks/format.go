package marks

import (
	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// magic begins the file, with its version behind it.
const (
	magic   = "tsdbmark"
	version = 1
)

// Kinds of records.
const (
	kindPosition byte = iota + 1
	kindFloor
	kindSeries
	kindOnTheWay
	kindArrived
)

// appendRecord appends a record:
//
//	| kind (byte) | length (uvarint) | body | CRC-32C of all before (be32) |
func appendRecord(dst []byte, kind byte, body []byte) []byte {
	start := len(dst)
	dst = encbuf.AppendString(append(dst, kind), body)
	return encbuf.AppendBE32(dst, encbuf.Checksum(dst[start:]))
}

func appendPosition(dst, position []byte) []byte { return appendRecord(dst, kindPosition, position) }

func appendFloor(dst []byte, floor int64) []byte {
	return appendRecord(dst, kindFloor, encbuf.AppendVarint(nil, floor))
}

// appendSeries appends: ID (uvarint), key, sent, doubt (varints), group (uvarint).
func appendSeries(dst []byte, id uint32, k *known) []byte {
	var room [4*10 + len(Key{})]byte
	body := append(encbuf.AppendUvarint(room[:0], uint64(id)), k.key[:]...)
	body = encbuf.AppendVarint(encbuf.AppendVarint(body, k.Sent), k.Doubt)
	return appendRecord(dst, kindSeries, encbuf.AppendUvarint(body, uint64(k.Group)))
}

// appendOnTheWay appends: sender, entries (uvarints), and of each entry how far its ID and its time
// are from those of the one before (varints).
func appendOnTheWay(dst []byte, sender int, list []Entry) []byte {
	body := encbuf.AppendUvarint(encbuf.AppendUvarint(nil, uint64(sender)), uint64(len(list)))
	var last Entry
	for _, e := range list {
		body = encbuf.AppendVarint(body, int64(e.ID)-int64(last.ID))
		body = encbuf.AppendVarint(body, e.T-last.T)
		last = e
	}
	return appendRecord(dst, kindOnTheWay, body)
}

func appendArrived(dst []byte, sender int) []byte {
	return appendRecord(dst, kindArrived, encbuf.AppendUvarint(nil, uint64(sender)))
}

// content is the whole file.
func (s *Store) content() []byte {
	b := append([]byte(magic), version)
	if s.mu.floor != None {
		b = appendFloor(b, s.mu.floor)
	}
	for id := range s.mu.of {
		if k := s.at(uint32(id)); k != nil {
			b = appendSeries(b, uint32(id), k)
		}
	}
	for sender, list := range s.mu.onTheWay {
		if len(list) > 0 {
			b = appendOnTheWay(b, sender, list)
		}
	}
	if s.mu.position != nil {
		b = appendPosition(b, s.mu.position)
	}
	return b
}

// load takes over what a file says, up to the first record that is not whole.
func (s *Store) load(content []byte) (whole bool) {
	defer s.findFree()
	d := encbuf.NewDec(content)
	if head := d.Bytes(len(magic) + 1); d.Err() != nil || string(head) != magic+string(rune(version)) {
		return false
	}
	for d.Len() > 0 {
		start := d.Offset()
		kind, body := d.Byte(), d.Str()
		sum := encbuf.Checksum(d.Since(start))
		if d.BE32() != sum || d.Err() != nil || !s.take(kind, body) {
			return false
		}
	}
	return true
}

func (s *Store) findFree() {
	for id := range s.mu.of {
		if s.at(uint32(id)) == nil {
			s.mu.free = append(s.mu.free, uint32(id))
		}
	}
}

// take takes over a record. One of a kind that nobody knows says nothing.
func (s *Store) take(kind byte, body []byte) bool {
	d := encbuf.NewDec(body)
	switch kind {
	case kindPosition:
		s.mu.position = append([]byte(nil), body...)
		return true
	case kindFloor:
		s.mu.floor = d.Varint()
	case kindSeries:
		return s.takeSeries(&d)
	case kindOnTheWay:
		return s.takeOnTheWay(&d)
	case kindArrived:
		s.arrived(int(d.Uvarint()))
	}
	return d.Err() == nil
}

// maxID bounds IDs: those of a file that lies would take memory for all below.
const maxID = maxFileBytes / 32

func (s *Store) takeSeries(d *encbuf.Dec) bool {
	id := d.Uvarint()
	var k known
	copy(k.key[:], d.Bytes(len(k.key)))
	k.Sent, k.Doubt, k.Group = d.Varint(), d.Varint(), uint32(d.Uvarint())
	if d.Err() != nil || k.key == (Key{}) || id > uint64(len(s.mu.of))+maxGap || id > maxID {
		return false
	}
	for uint64(len(s.mu.of)) <= id {
		s.mu.of = append(s.mu.of, known{})
	}
	if old := s.at(uint32(id)); old != nil {
		delete(s.mu.keys, old.key)
	}
	s.mu.of[id], s.mu.keys[k.key] = k, uint32(id)
	return true
}

// maxGap is how many free IDs may stand side by side.
const maxGap = 1 << 24

func (s *Store) takeOnTheWay(d *encbuf.Dec) bool {
	sender := int(d.Uvarint())
	var list []Entry
	var last Entry
	for range d.Count(2) {
		last = Entry{uint32(int64(last.ID) + d.Varint()), last.T + d.Varint()}
		list = append(list, last)
	}
	s.mu.onTheWay[sender] = list
	return d.Err() == nil
}
