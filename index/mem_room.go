package index

// Room tells whether another series with so many labels fits, even if nobody has one of them
// yet. What ends first, after some GiB of memory, is the text: 8 GiB of names or values, or
// 524,288 of them that are longer than 2 KiB. Intern must not be called without room.
func (m *MemPostings) Room(labels int) bool {
	m.create.Lock()
	defer m.create.Unlock()
	return m.names.room(labels) && m.values.room(labels) && int64(m.names.next)+int64(labels) <= maxGroups
}

func (s *symbols) room(n int) bool { return s.text.room(n) }

// room tells whether so many strings fit if each takes a block.
func (t *text) room(n int) bool { return textMaxBlocks-len(t.owned)+len(t.free) >= n }
