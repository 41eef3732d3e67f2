package histchunk

import "unsafe"

const wordBytes = 8 // of a span, a bound, a count

func (n *newest) memoryBytes() int {
	l := &n.layout
	return cap(n.cols)*int(unsafe.Sizeof(column{})) + (cap(l.spans[0])+cap(l.spans[1])+cap(l.custom))*wordBytes
}

func (o *another) memoryBytes() int {
	words := cap(o.past.custom)
	for side := range o.sides {
		f, p := &o.sides[side], &o.past
		words += cap(f.union.Spans) + cap(f.places) + cap(f.ints) + cap(f.floats)
		words += cap(p.spans[side]) + cap(p.ints[side]) + cap(p.floats[side])
	}
	return int(unsafe.Sizeof(*o)) + cap(o.spare) + o.dec.newest.memoryBytes() + words*wordBytes
}
