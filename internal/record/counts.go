package record

// Counts counts records by type. The zero value has none.
type Counts map[Type]int

// Add counts one more record of a type.
//
//go:noinline
func (c *Counts) Add(typ Type) {
	if *c == nil {
		*c = Counts{}
	}
	(*c)[typ]++
}

// Names returns the counts by the names of the types, as reports have them; nil for none.
func (c Counts) Names() map[string]int {
	if len(c) == 0 {
		return nil
	}
	named := make(map[string]int, len(c))
	for typ, n := range c {
		named[typ.String()] += n
	}
	return named
}

// Total returns how many records there are of all types.
func (c Counts) Total() (n int) {
	for _, of := range c {
		n += of
	}
	return n
}
