package histchunk

// BeginWithStarts makes the chunk that begins next one with room for start timestamps, even
// if none comes.
func (e *Encoder) BeginWithStarts() { e.st = true }
