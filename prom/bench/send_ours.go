package bench

import (
	"context"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/remote"
)

func (o *ours) beginSending(url string) error {
	w, err := remote.NewWriter(o.db, &remote.WriterOptions{URL: url})
	if err != nil {
		return err
	}
	return w.Close()
}

func (o *ours) send(url string, version, samples int) error {
	protocol := remote.ProtocolV1
	if version > 0 {
		protocol = remote.ProtocolV2
	}
	w, err := remote.NewWriter(o.db, &remote.WriterOptions{URL: url, Protocol: protocol, MaxSamples: sendSamples, MaxShards: 1})
	if err != nil {
		return err
	}
	if err := w.Flush(context.Background()); err != nil {
		return err
	}
	if st := w.Stats(); st.Pending != 0 || st.Requests < uint64(samples/sendSamples) || st.DroppedRefused+st.DroppedLate > 0 {
		return errors.Errorf("not all %d samples are sent: %+v", samples, st)
	}
	return w.Close()
}
