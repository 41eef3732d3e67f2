package zstd

// How a table of sequences is given (3.1.1.3.2.1).
const (
	predefinedMode = 0
	rleMode        = 1
	compressedMode = 2
	repeatMode     = 3
)

// How a word of bits is divided among the parts of a sequence.
const (
	wordBits    = 64
	stateBits   = 9 + 8 + 9 // what the three states take at most
	commonExtra = 30        // extra bits up to which one refill, of 57 bits, is enough for a sequence
)

// sequences decodes the sequences in src[lo:hi], which end the block, and carries them out.
func (d *Decoder) sequences(o *output, src []byte, lo, hi int) error {
	n, lo, ok := parseSequenceCount(src, lo, hi)
	if !ok {
		return errSequences
	}
	if n == 0 {
		if lo != hi {
			return errSequences
		}
		return o.append(d.lit[:d.nlit])
	}
	if lo == hi {
		return errSequences
	}
	modes := src[lo]
	lo++
	if modes&3 != 0 {
		return errReserved
	}
	for k := range d.tables {
		size, err := d.readTable(k, modes>>(6-2*k)&3, src[lo:hi])
		if err != nil {
			return err
		}
		lo += size
	}
	r, ok := newReader(src, lo, hi)
	if !ok {
		return errSequences
	}
	return d.carryOut(o, r, n)
}

// parseSequenceCount reads how many sequences there are (3.1.1.3.2.1) and returns where the
// count ends.
func parseSequenceCount(src []byte, lo, hi int) (n, end int, ok bool) {
	b := src[lo:hi]
	switch {
	case len(b) >= 1 && b[0] < 128:
		return int(b[0]), lo + 1, true
	case len(b) >= 2 && b[0] < 255:
		return int(b[0]-128)<<8 + int(b[1]), lo + 2, true
	case len(b) >= 3:
		return int(b[1]) + int(b[2])<<8 + 0x7f00, lo + 3, true
	default:
		return 0, 0, false
	}
}

// readTable makes the table of kind k the one that mode and the start of b say, and returns
// how many bytes that took.
func (d *Decoder) readTable(k int, mode byte, b []byte) (size int, err error) {
	kind := &d.kinds[k]
	switch mode {
	case predefinedMode:
		d.tables[k] = &d.predefined[k]
	case rleMode:
		if len(b) == 0 || int(b[0]) >= len(kind.codes) {
			return 0, errSequences
		}
		d.tables[k] = &d.own[k]
		d.own[k].constant(kind.codes[b[0]])
		return 1, nil
	case compressedMode:
		symbols, accuracy, size, err := d.counts.readCounts(b, kind.maxAccuracy, len(kind.codes))
		if err != nil {
			return 0, err
		}
		d.tables[k] = &d.own[k]
		d.own[k].build(&d.counts, symbols, accuracy, kind.codes)
		return size, nil
	case repeatMode:
		if d.tables[k] == nil {
			return 0, errSequences
		}
	}
	return 0, nil
}

// carryOut decodes n sequences and does what each says: so many literals, then so many
// bytes from so far back. It is one piece, as it is where the time goes: the fields of the
// reader, the states and the offsets stay in registers or near them.
func (d *Decoder) carryOut(o *output, r reader, n int) error {
	llT, ofT, mlT := d.tables[literalLengths], d.tables[offsets], d.tables[matchLengths]
	r.refill()
	llS, ofS, mlS := llT.at(r.take(llT.accuracy)), ofT.at(r.take(ofT.accuracy)), mlT.at(r.take(mlT.accuracy))
	b, ptr, used := r.b, r.ptr, r.used
	lit, nlit, p := d.lit, d.nlit, 0
	buf, t := o.buf, o.end
	back0, back1, back2 := d.back[0], d.back[1], d.back[2]
	for {
		k := min(used>>3, uint(ptr)) // refill
		ptr -= int(k)
		used -= k << 3
		word := load(b, ptr)

		offset := int(ofS.base + peek(word, used, ofS.extra))
		used += uint(ofS.extra)
		if ofS.extra+mlS.extra+llS.extra > commonExtra {
			k = min(used>>3, uint(ptr))
			ptr -= int(k)
			used -= k << 3
			word = load(b, ptr)
		}
		match := int(mlS.base + peek(word, used, mlS.extra))
		used += uint(mlS.extra)
		ll := int(llS.base + peek(word, used, llS.extra))
		used += uint(llS.extra)

		if ofS.extra > 1 {
			offset -= 3
			back2, back1, back0 = back1, back0, offset
		} else if ll > 0 && offset == 1 {
			offset = back0
		} else {
			d.back = [3]int{back0, back1, back2}
			if offset = d.repeated(offset, ll == 0); offset == 0 {
				return errZeroOffset
			}
			back0, back1, back2 = d.back[0], d.back[1], d.back[2]
		}
		if used > uint(ptr)*8 || ll > nlit-p {
			return errSequences
		}
		end := t + ll + match
		if end > len(buf) || end > o.blockEnd {
			var err error
			if buf, err = o.room(t, end); err != nil {
				return err
			}
		}

		// Both copies go in words of 16 bytes where there is room, and may then write more
		// than they should: what comes next is written over it.
		if ll <= 16 && t+16 <= len(buf) && p+16 <= len(lit) {
			*(*[16]byte)(buf[t:]) = *(*[16]byte)(lit[p:])
		} else {
			copy(buf[t:t+ll], lit[p:])
		}
		p, t = p+ll, t+ll
		if offset > t-o.start || uint64(offset) > o.window {
			return errOffset
		}
		switch {
		case match > 64 || offset < 8 || end+16 > len(buf):
			copyMatch(buf, t, end, offset)
		case offset >= 16:
			for ; t < end; t += 16 {
				*(*[16]byte)(buf[t:]) = *(*[16]byte)(buf[t-offset:])
			}
		default:
			for ; t < end; t += 8 {
				*(*[8]byte)(buf[t:]) = *(*[8]byte)(buf[t-offset:])
			}
		}
		t = end

		if n--; n == 0 {
			break
		}
		if used > wordBits-stateBits {
			k = min(used>>3, uint(ptr))
			ptr -= int(k)
			used -= k << 3
			word = load(b, ptr)
		}
		next := uint32(llS.next) + peek(word, used, llS.bits)
		used += uint(llS.bits)
		llS = llT.at(next)
		next = uint32(mlS.next) + peek(word, used, mlS.bits)
		used += uint(mlS.bits)
		mlS = mlT.at(next)
		next = uint32(ofS.next) + peek(word, used, ofS.bits)
		used += uint(ofS.bits)
		ofS = ofT.at(next)
	}
	if used != uint(ptr)*8 {
		return errSequences
	}
	o.buf, o.end, d.back = buf, t, [3]int{back0, back1, back2}
	return o.append(lit[p:nlit])
}

// repeated returns the offset that a value of 1 to 3 stands for, 0 if there is none, and
// puts it in front of the last three (3.1.1.5). Without literals the values mean one more,
// as the last offset would only make the match before it longer.
func (d *Decoder) repeated(value int, noLiterals bool) (offset int) {
	if noLiterals {
		value++
	}
	switch value {
	case 1:
		return d.back[0]
	case 2:
		d.back = [3]int{d.back[1], d.back[0], d.back[2]}
	case 3:
		d.back = [3]int{d.back[2], d.back[0], d.back[1]}
	default:
		d.back = [3]int{d.back[0] - 1, d.back[0], d.back[1]}
	}
	return d.back[0]
}

// copyMatch fills buf[t:end] with what is offset bytes before it. A match that is longer
// than its offset repeats itself: each copy doubles what there is to copy from.
func copyMatch(buf []byte, t, end, offset int) {
	from := t - offset
	for t < end {
		t += copy(buf[t:end], buf[from:t])
	}
}
