package backfill

// heap gives out what is least first. What stands on top may be changed in place and
// then put where it belongs, which is how streams are merged.
type heap[T any] struct {
	items []T
	less  func(a, b T) bool
}

func (h *heap[T]) push(x T) {
	h.items = append(h.items, x)
	for i := len(h.items) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h.less(h.items[i], h.items[parent]) {
			return
		}
		h.items[i], h.items[parent] = h.items[parent], h.items[i]
		i = parent
	}
}

// fix puts a changed top where it belongs.
func (h *heap[T]) fix() {
	for i := 0; ; {
		least := 2*i + 1
		if least >= len(h.items) {
			return
		}
		if other := least + 1; other < len(h.items) && h.less(h.items[other], h.items[least]) {
			least = other
		}
		if !h.less(h.items[least], h.items[i]) {
			return
		}
		h.items[i], h.items[least] = h.items[least], h.items[i]
		i = least
	}
}

// pop removes the top.
func (h *heap[T]) pop() {
	last := len(h.items) - 1
	h.items[0] = h.items[last]
	h.items = h.items[:last]
	h.fix()
}
