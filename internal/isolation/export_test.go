package isolation

// Settled returns what tells whether everybody who reads now has closed.
func Settled(c *Commits) func() bool {
	next := c.nextNumber()
	return func() bool { return c.oldest.Load() >= next }
}
