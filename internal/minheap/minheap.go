// Package minheap gives out what is least first: how sorted streams are merged. It knows nothing of
// what it orders. A Heap belongs to one goroutine.
package minheap

// Heap has the least of its items in front, as Less says. What stands there may be changed in
// place: then Fix puts it where it belongs. With Less and no items, or Items in order, it is ready.
type Heap[T any] struct {
	Items []T
	Less  func(a, b T) bool
}

// Push adds an item.
func (h *Heap[T]) Push(x T) {
	h.Items = append(h.Items, x)
	for i := len(h.Items) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h.Less(h.Items[i], h.Items[parent]) {
			return
		}
		h.Items[i], h.Items[parent] = h.Items[parent], h.Items[i]
		i = parent
	}
}

// Fix puts a changed Items[0] where it belongs.
func (h *Heap[T]) Fix() {
	for i := 0; ; {
		least := 2*i + 1
		if least >= len(h.Items) {
			return
		}
		if other := least + 1; other < len(h.Items) && h.Less(h.Items[other], h.Items[least]) {
			least = other
		}
		if !h.Less(h.Items[least], h.Items[i]) {
			return
		}
		h.Items[i], h.Items[least] = h.Items[least], h.Items[i]
		i = least
	}
}

// Pop removes Items[0].
func (h *Heap[T]) Pop() {
	last := len(h.Items) - 1
	h.Items[0] = h.Items[last]
	h.Items = h.Items[:last]
	h.Fix()
}

// Advance is Fix behind a step of the stream in front; it is Pop if the stream is at its end.
func (h *Heap[T]) Advance(more bool) {
	if more {
		h.Fix()
	} else {
		h.Pop()
	}
}
