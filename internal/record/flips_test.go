package record_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/record"
)

// Of a record that is damaged the entries before the damage are what they were, and what follows
// is entries or an error. (The log has checksums, so such a record does not come from there.)

// entriesOf reads the entries of a record of any type, as text.
func entriesOf(rec []byte) (all []string, err error) {
	switch typ := record.TypeOf(rec); {
	case typ == record.TypeSamples || typ == record.TypeSamplesV2:
		samples, starts, err := decodeSamples(rec, 3)
		for i, s := range samples {
			all = append(all, fmt.Sprintf("%+v %d", s, starts[i]))
		}
		return all, err
	case typ.HoldsHistograms():
		return histogramsOf(rec)
	case typ == record.TypeExemplars:
		var d record.ExemplarDecoder
		for d.Reset(rec); d.Next(); {
			ls, err := d.Labels()
			all = append(all, fmt.Sprint(d.Ref(), d.T(), d.Value(), ls, err))
		}
		return all, d.Err()
	case typ == record.TypeMetadata:
		var d record.MetadataDecoder
		for d.Reset(rec); d.Next(); {
			all = append(all, fmt.Sprint(d.Ref(), d.Metadata()))
		}
		return all, d.Err()
	default:
		return nil, nil
	}
}

func histogramsOf(rec []byte) (all []string, err error) {
	var d record.HistogramDecoder
	for d.Reset(rec); d.Next(); {
		var ints histogram.Histogram
		var floats histogram.FloatHistogram
		if d.Floats() {
			err = d.DecodeFloat(&floats)
		} else {
			err = d.DecodeInt(&ints)
		}
		all = append(all, fmt.Sprint(d.Ref(), d.T(), d.ST(), ints, floats, err))
	}
	return all, d.Err()
}

// begins says that the first entries of all are those.
func begins(all, first []string) bool {
	return len(first) <= len(all) && slices.Equal(all[:len(first)], first)
}

func TestDecoders_EveryFlippedBitAndCut_LeavesWhatIsBeforeIt(t *testing.T) {
	types := append(slices.Clone(histogramTypes),
		record.TypeSamplesV2, record.TypeExemplars, record.TypeMetadata)
	for _, v := range loadVectors(t, types...) {
		rec := v.bytes(t)
		whole, err := entriesOf(rec)
		if err != nil {
			continue // a vector of damage
		}
		for at := 1; at < len(rec); at++ { // byte 0 is the type
			before, err := entriesOf(rec[:at:at])
			require.True(t, begins(whole, before), "%s cut to %d bytes", v.Name, at)
			if err != nil {
				requirePlace(t, rec, err)
			}
			for bit := range 8 {
				damaged := append([]byte(nil), rec...)
				damaged[at] ^= 1 << bit
				got, err := entriesOf(damaged)
				require.True(t, begins(got, before), "%s, bit %d of byte %d", v.Name, bit, at)
				if err != nil {
					requirePlace(t, rec, err)
				}
			}
		}
	}
}
