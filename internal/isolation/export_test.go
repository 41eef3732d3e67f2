package isolation

// Settled returns what tells whether everybody who reads now has closed.
func Settled(c *Commits) func() bool {
	reading := c.reading()
	return func() bool {
		for _, sn := range reading {
			select {
			case <-sn.gone:
			default:
				return false
			}
		}
		return true
	}
}
