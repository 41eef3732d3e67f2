package replay

import "github.com/seed347100a3/tsdb/internal/record"

// addMetadata notes the newest metadata of series, and returns how many entries are of none. The
// error is an *encbuf.CorruptError; what stands before the damage counts.
func (rep *Report) addMetadata(r *replay, rec []byte) (unknown uint64, err error) {
	var dec record.MetadataDecoder
	for dec.Reset(rec); dec.Next(); {
		ref := dec.Ref()
		if first, ok := r.dups[ref]; ok {
			ref = first
		}
		if r.to.Series.ByRef(ref) == nil {
			unknown++
			continue
		}
		rep.Metadata.Set(ref, string(dec.Value()))
	}
	return unknown, dec.Err()
}
