package zstd

// output is where content goes: to buf[end:], which grows as content comes.
type output struct {
	buf      []byte
	end      int    // content so far ends here
	limit    int    // buf grows no further
	start    int    // of the frame's content
	window   uint64 // of the frame
	blockEnd int    // the block's content ends here at the latest
}

// room returns buf with room up to end. Content is in buf[:from].
func (o *output) room(from, end int) ([]byte, error) {
	if end > o.blockEnd {
		return nil, errBlock
	}
	if end <= len(o.buf) {
		return o.buf, nil
	}
	if end > o.limit {
		return nil, ErrTooLarge
	}
	// Four times as much, and all that is allowed when that is near: little is copied, and
	// all buffers together are not twice as large as the last.
	size := o.limit
	if end < o.limit/8 {
		size = 4 * end
	}
	bigger := make([]byte, size)
	copy(bigger, o.buf[:from])
	o.buf = bigger
	return bigger, nil
}

// append adds b to the content.
func (o *output) append(b []byte) error {
	buf, err := o.room(o.end, o.end+len(b))
	if err != nil {
		return err
	}
	o.end += copy(buf[o.end:], b)
	return nil
}

// appendRun adds n times c.
func (o *output) appendRun(c byte, n int) error {
	buf, err := o.room(o.end, o.end+n)
	if err != nil {
		return err
	}
	fill(buf[o.end:o.end+n], c)
	o.end += n
	return nil
}
